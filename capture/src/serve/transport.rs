//! Sockets, plain or with TLS, to one server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use super::url::Url;

/// How long a server may take to accept a connection before the test, or to answer for its metrics.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The way to a server.
pub(super) struct Connector {
    pub(super) address: SocketAddr,
    /// The server is on this machine.
    pub(super) is_local: bool,
    tls: Option<tls::Client>,
}

impl Connector {
    /// Resolves the name and tries its addresses. Errors say what to do.
    pub(super) fn to(url: &Url) -> Result<Self, String> {
        let (host, port) = (url.host.as_str(), url.port);
        let addresses = (host, port)
            .to_socket_addrs()
            .map_err(|error| format!("{url}: {error}"))?;
        let mut reason = "the name has no address".to_owned();
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(socket) => {
                    let own = socket.local_addr().map(|own| own.ip()).ok();
                    return Ok(Self {
                        address,
                        is_local: own == Some(address.ip()),
                        tls: url.is_tls.then(|| tls::Client::of(url)).transpose()?,
                    });
                }
                Err(error) => reason = error.to_string(),
            }
        }
        Err(format!(
            "cannot connect to {url}: {reason}: start the server, or correct --url"
        ))
    }

    /// Speaks TLS on the socket if the address says so.
    pub(super) fn wrap<S: Read + Write>(&self, socket: S) -> io::Result<Transport<S>> {
        if let Some(tls) = &self.tls {
            return tls
                .wrap(socket)
                .map(|stream| Transport::Tls(Box::new(stream)));
        }
        Ok(Transport::Plain(socket))
    }

    /// A connection that waits.
    pub(super) fn connect(&self) -> io::Result<Transport<TcpStream>> {
        let socket = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        self.wrap(socket)
    }
}

/// A connection.
pub(super) enum Transport<S: Read + Write> {
    Plain(S),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, S>>),
}

impl<S: Read + Write> Transport<S> {
    pub(super) fn socket(&self) -> &S {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.sock,
        }
    }

    /// Whether a read that fills less than the buffer has emptied the socket (epoll(7), question 9).
    pub(super) fn short_read_is_last(&self) -> bool {
        matches!(self, Self::Plain(_))
    }
}

impl<S: Read + Write> Read for Transport<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => match stream.read(buffer) {
                // Many servers do not say goodbye; whether the answer is whole, HTTP tells.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl<S: Read + Write> Write for Transport<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

mod tls {
    use std::io::{self, Read, Write};
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

    use super::Url;

    /// Trusts what the system trusts, or the file that `SSL_CERT_FILE` names.
    pub(super) struct Client {
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    }

    impl Client {
        pub(super) fn of(url: &Url) -> Result<Self, String> {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err(
                    "no certificates of authorities: name a file by SSL_CERT_FILE".to_owned(),
                );
            }
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| error.to_string())?
                .with_root_certificates(roots)
                .with_no_client_auth();
            let name = ServerName::try_from(url.host.clone()).map_err(|error| error.to_string())?;
            Ok(Self {
                config: Arc::new(config),
                name,
            })
        }

        pub(super) fn wrap<S: Read + Write>(
            &self,
            socket: S,
        ) -> io::Result<StreamOwned<ClientConnection, S>> {
            let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
            Ok(StreamOwned::new(
                connection.map_err(io::Error::other)?,
                socket,
            ))
        }
    }
}
