//! Addresses of servers.

use std::fmt;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) is_tls: bool,
    /// Name or address, as it is resolved and checked: without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    /// Begins with a slash, does not end with one unless it is one.
    pub(super) path: String,
    /// Host and port as they are written.
    pub(super) authority: String,
}

impl Url {
    /// Errors say what to write instead.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text
            .split_once("://")
            .ok_or("expected http://HOST:PORT/v1 or https://…")?;
        let is_tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(format!("{scheme}: only http and https are known")),
        };
        if rest.contains(['@', '?', '#']) || rest.contains(|c: char| c <= ' ' || !c.is_ascii()) {
            let how = "give a key by --api-key-env, and nothing but host, port and path here";
            return Err(format!(
                "the address has a login, a query or a blank: {how}"
            ));
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let default = if is_tls { 443 } else { 80 };
        // A colon inside of brackets is one of an IPv6 address.
        let (host, port) = match authority
            .rsplit_once(':')
            .filter(|(_, port)| !port.contains(']'))
        {
            Some((host, port)) => (
                host,
                port.parse().map_err(|_| format!("{port} is no port"))?,
            ),
            None => (authority, default),
        };
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        if host.is_empty() {
            return Err("the address has no host".to_owned());
        }
        let path = format!("/{}", path.trim_matches('/'));
        Ok(Self {
            is_tls,
            host,
            port,
            path,
            authority: authority.to_owned(),
        })
    }

    /// The same server, at another path below this one.
    pub(super) fn below(&self, path: &str) -> String {
        format!("{}/{path}", self.path.trim_end_matches('/'))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (text, host, port, path) in [
            ("http://localhost:8000/v1", "localhost", 8000, "/v1"),
            ("http://10.0.0.1/", "10.0.0.1", 80, "/"),
            ("https://[::1]:8443/a/v1/", "::1", 8443, "/a/v1"),
            ("https://[fe80::1]", "fe80::1", 443, "/"),
        ] {
            let url = Url::parse(text).expect(text);
            assert_eq!(
                (&*url.host, url.port, &*url.path),
                (host, port, path),
                "{text}"
            );
        }
        let url = Url::parse("http://[::1]:1/v1/").expect("valid");
        assert_eq!(
            (url.to_string(), url.below("x")),
            ("http://[::1]:1/v1".into(), "/v1/x".into())
        );
        assert_eq!(
            Url::parse("http://h").expect("valid").below("metrics"),
            "/metrics"
        );
    }

    #[test]
    fn addresses_with_secrets_or_without_sense_are_refused() {
        for text in [
            "localhost:8000",
            "ftp://h/",
            "http://",
            "http://u:pw@h/v1",
            "http://h/v1?key=pw",
            "http://h:99999/",
            "http://h:/",
            "http://h/a\r\nX: y",
        ] {
            let refused = Url::parse(text).expect_err(text);
            assert!(!refused.contains("pw"), "{refused}");
        }
    }
}
