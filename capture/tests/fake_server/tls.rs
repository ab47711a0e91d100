//! TLS in front of a server, with a certificate for 127.0.0.1 that no authority signed.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::Server;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificate")
}

/// The file that a client must trust.
pub(crate) fn certificate() -> PathBuf {
    folder().join("certificate.pem")
}

/// Starts the front and returns its address.
pub(crate) fn front(server: &Server) -> String {
    let certificate = CertificateDer::from_pem_file(certificate()).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(folder().join("key.pem")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .expect("the key is that of the certificate");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://{}/v1", listener.local_addr().expect("bound"));
    let address = server.address;
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.expect("accepted");
            let plain = TcpStream::connect(address).expect("the server runs");
            let connection = ServerConnection::new(Arc::clone(&config)).expect("configured");
            let tls = StreamOwned::new(connection, client);
            thread::spawn(move || relay(tls, plain));
        }
    });
    url
}

/// Copies both ways until one side ends.
fn relay(
    mut tls: StreamOwned<ServerConnection, TcpStream>,
    mut plain: TcpStream,
) -> io::Result<()> {
    let patience = Some(Duration::from_millis(1));
    tls.sock.set_read_timeout(patience)?;
    plain.set_read_timeout(patience)?;
    while copy(&mut tls, &mut plain)? && copy(&mut plain, &mut tls)? {}
    Ok(())
}

/// Copies what is there; false at the end.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<bool> {
    let mut buffer = [0; 16 << 10];
    match from.read(&mut buffer) {
        Ok(0) => Ok(false),
        Ok(length) => to.write_all(&buffer[..length]).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}
