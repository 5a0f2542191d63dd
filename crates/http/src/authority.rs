//! Which server a request is for: what its `Host` says, and what its target says.

use http::header::HOST;
use http::{HeaderMap, Uri};

use crate::Rejection;

/// The name of a host, without its port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host(String);

impl Host {
    /// The host called `name`, in any case.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.trim_matches(['[', ']']).to_ascii_lowercase())
    }

    /// Whether this is a name of the machine itself.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.0 == "localhost" || self.0.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// A server, as a request names it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    host: Host,
    port: Option<u16>,
}

impl Authority {
    /// The name on which `Host` and target of a request agree; `None` if they name no server. HTTP/2 clients name it in
    /// the target.
    pub(crate) fn of_request(uri: &Uri, headers: &HeaderMap) -> Result<Option<Self>, Rejection> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = match hosts.next() {
            None => None,
            Some(_) if hosts.next().is_some() => return Err(Rejection::SeveralHosts),
            Some(value) => Some(value.to_str().ok().ok_or(Rejection::MalformedHost)?),
        };
        let target = uri.authority().map(|target| Self::parse(target.as_str())).transpose()?;
        match (host, target) {
            (None, target) => Ok(target),
            (Some(""), None) => Ok(None),
            (Some(host), None) => Self::parse(host).map(Some),
            (Some(host), Some(target)) => {
                let default_port = default_port(uri);
                let host = Self::parse(host)?.with_port(default_port);
                let is_same = host == target.with_port(default_port);
                if is_same { Ok(Some(host)) } else { Err(Rejection::AnotherTarget) }
            }
        }
    }

    pub(crate) fn into_host(self) -> Host {
        self.host
    }

    fn parse(text: &str) -> Result<Self, Rejection> {
        let (host, port) = parts(text).ok_or(Rejection::MalformedHost)?;
        Ok(Self { host, port })
    }

    fn with_port(self, default: Option<u16>) -> Self {
        Self { port: self.port.or(default), ..self }
    }
}

fn default_port(uri: &Uri) -> Option<u16> {
    match uri.scheme_str() {
        Some("http") => Some(80),
        Some("https") => Some(443),
        Some(_) | None => None,
    }
}

/// The host and the port, if `text` is nothing else. A colon without a port is allowed.
pub(crate) fn parts(text: &str) -> Option<(Host, Option<u16>)> {
    let authority: http::uri::Authority = text.parse().ok()?;
    let host = authority.host();
    // A user name stands before the host. A comma joins the values of two headers.
    let port = text.strip_prefix(host).filter(|_| !host.is_empty() && !host.contains(','))?;
    let port = match port.strip_prefix(':') {
        None if port.is_empty() => None,
        None => return None,
        Some("") => None,
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
        Some(_) => return None,
    };
    Some((Host::new(host), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str, hosts: &[&str]) -> Result<Option<(Host, Option<u16>)>, Rejection> {
        let headers = hosts.iter().map(|host| (HOST, host.parse().unwrap())).collect();
        let authority = Authority::of_request(&target.parse().unwrap(), &headers)?;
        Ok(authority.map(|Authority { host, port }| (host, port)))
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for (host, name, port) in [
            ("localhost", "localhost", None),
            ("LOCALHOST:8080", "localhost", Some(8080)),
            ("localhost:", "localhost", None),
            ("127.0.0.1:65535", "127.0.0.1", Some(65535)),
            ("[::1]", "::1", None),
            ("[::1]:80", "::1", Some(80)),
        ] {
            assert_eq!(of("/mcp", &[host]), Ok(Some((Host::new(name), port))), "{host}");
        }
        assert_eq!(of("/mcp", &[]), Ok(None));
        assert_eq!(of("/mcp", &[""]), Ok(None));
    }

    #[test]
    fn anything_else_in_a_host_is_refused() {
        for host in [
            "evil@localhost",
            "evil:secret@localhost:80",
            "@localhost",
            "localhost@",
            "localhost:abc",
            "localhost:80abc",
            "localhost:+80",
            "localhost:-1",
            "localhost: 80",
            "localhost:65536",
            "localhost:99999999999999999999",
            "localhost:80:80",
            ":80",
            "::1",
            "[::1",
            "[::1]x",
            "localhost/mcp",
            "localhost,evil.example.com",
            "localhost evil.example.com",
            "http://localhost",
        ] {
            assert_eq!(of("/mcp", &[host]), Err(Rejection::MalformedHost), "{host}");
        }
    }

    #[test]
    fn two_hosts_are_refused_even_if_they_are_the_same() {
        for hosts in [["localhost", "evil.example.com"], ["localhost", "localhost"], ["", "localhost"]] {
            assert_eq!(of("/mcp", &hosts), Err(Rejection::SeveralHosts), "{hosts:?}");
        }
    }

    #[test]
    fn a_target_has_to_name_the_same_server_as_the_host() {
        for (target, host) in [
            ("http://localhost/mcp", "localhost"),
            ("http://localhost/mcp", "localhost:80"),
            ("https://localhost:443/mcp", "LocalHost"),
            ("http://localhost:8080/mcp", "localhost:8080"),
        ] {
            assert!(of(target, &[host]).is_ok(), "{target} {host}");
        }
        for (target, host) in [
            ("http://evil.example.com/mcp", "localhost"),
            ("http://localhost/mcp", "evil.example.com"),
            ("http://localhost:8081/mcp", "localhost:8080"),
            ("http://localhost:8080/mcp", "localhost"),
            ("http://localhost/mcp", "localhost:443"),
        ] {
            assert_eq!(of(target, &[host]), Err(Rejection::AnotherTarget), "{target} {host}");
        }
        assert_eq!(of("http://evil@localhost/mcp", &["localhost"]), Err(Rejection::MalformedHost));
        assert_eq!(of("http://localhost/mcp", &[""]), Err(Rejection::MalformedHost));
        // HTTP/2 names the server in the target alone.
        assert_eq!(of("http://localhost:8080/mcp", &[]), Ok(Some((Host::new("localhost"), Some(8080)))));
        assert_eq!(of("http://evil@localhost/mcp", &[]), Err(Rejection::MalformedHost));
    }
}
