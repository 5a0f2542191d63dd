//! Which hosts a request may name and which pages it may come from: the defence against DNS rebinding
//! (MCP `2026-07-28`, "Streamable HTTP", "Security & Endpoint").

use http::header::{HOST, ORIGIN};
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

    fn of_authority(authority: &str) -> Option<Self> {
        let authority: http::uri::Authority = authority.parse().ok()?;
        Some(Self::new(authority.host()))
    }

    fn is_loopback(&self) -> bool {
        self.0 == "localhost" || self.0.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// Which hosts and origins are let in.
#[derive(Clone, Debug)]
pub struct Gate {
    hosts: Hosts,
    origins: Vec<String>,
    loopback_pages: LoopbackPages,
}

/// Which hosts are let in.
#[derive(Clone, Debug)]
enum Hosts {
    /// Loopback and these.
    Named(Vec<Host>),
    /// Whatever the platform in front sends here: it routes by the host itself.
    Routed,
}

/// Whether pages on loopback are let in without being named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopbackPages {
    LetIn,
    LikeOthers,
}

impl Default for Gate {
    /// Loopback only.
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new())
    }
}

impl Gate {
    /// A gate that lets in loopback, `hosts`, and pages from `origins` (such as `https://app.example.com`). Loopback
    /// always is let in, so that a local server works out of the box and a page from elsewhere does not reach it.
    #[must_use]
    pub fn new(hosts: Vec<Host>, origins: Vec<String>) -> Self {
        Self { hosts: Hosts::Named(hosts), origins: written_alike(origins), loopback_pages: LoopbackPages::LetIn }
    }

    /// A gate behind a platform that routes requests by their host, so that no other host can arrive. Pages are let in
    /// from `origins` only.
    #[must_use]
    pub fn behind_router(origins: Vec<String>) -> Self {
        Self { hosts: Hosts::Routed, origins: written_alike(origins), loopback_pages: LoopbackPages::LikeOthers }
    }

    /// Checks the `Host` and, where there is one, the `Origin` of a request.
    ///
    /// # Errors
    /// [`Rejection::Host`] or [`Rejection::Origin`]
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        if !self.hosts.let_in(uri, headers) {
            return Err(Rejection::Host);
        }
        match headers.get(ORIGIN) {
            None => Ok(()),
            Some(origin) if origin.to_str().is_ok_and(|origin| self.lets_in(origin)) => Ok(()),
            Some(_) => Err(Rejection::Origin),
        }
    }

    fn lets_in(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        if self.origins.contains(&origin) {
            return true;
        }
        if self.loopback_pages == LoopbackPages::LikeOthers {
            return false;
        }
        let host = origin.split_once("://").and_then(|(_, authority)| Host::of_authority(authority));
        host.is_some_and(|host| host.is_loopback())
    }
}

impl Hosts {
    fn let_in(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let named = match self {
            Self::Routed => return true,
            Self::Named(named) => named,
        };
        // HTTP/2 carries the host in the URI.
        let host = match headers.get(HOST) {
            Some(value) => value.to_str().ok().and_then(Host::of_authority),
            None => uri.host().map(Host::new),
        };
        host.is_some_and(|host| host.is_loopback() || named.contains(&host))
    }
}

fn written_alike(origins: Vec<String>) -> Vec<String> {
    origins.into_iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), Rejection> {
        let gate = Gate::new(vec![Host::new("mcp.example.com")], vec!["https://app.example.com".to_owned()]);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        gate.check(&Uri::from_static("/mcp"), &headers)
    }

    #[test]
    fn loopback_and_named_hosts_are_let_in() {
        for host in
            ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:8080", "MCP.example.com", "mcp.example.com:443"]
        {
            assert!(check(host, None).is_ok(), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_not() {
        for host in ["evil.example.com", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", ""] {
            assert!(matches!(check(host, None), Err(Rejection::Host)), "{host}");
        }
    }

    #[test]
    fn pages_from_elsewhere_are_refused_even_with_a_good_host() {
        for origin in
            ["http://evil.example.com", "null", "http://localhost.evil.example", "https://app.example.com.evil"]
        {
            assert!(matches!(check("localhost", Some(origin)), Err(Rejection::Origin)), "{origin}");
        }
        for origin in ["http://localhost:3000", "http://127.0.0.1", "https://app.example.com", "http://[::1]:6274"] {
            assert!(check("localhost", Some(origin)).is_ok(), "{origin}");
        }
    }

    #[test]
    fn behind_a_router_every_host_is_right_and_only_named_pages_are() {
        let gate = Gate::behind_router(vec!["https://app.example.com/".to_owned()]);
        let check = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "abc.lambda-url.us-east-1.on.aws".parse().unwrap());
            headers.extend(origin.map(|origin| (ORIGIN, origin.parse().unwrap())));
            gate.check(&Uri::from_static("/mcp"), &headers)
        };
        assert!(check(None).is_ok());
        assert!(check(Some("https://app.example.com")).is_ok());
        for origin in ["http://localhost:3000", "https://abc.lambda-url.us-east-1.on.aws", "null"] {
            assert!(matches!(check(Some(origin)), Err(Rejection::Origin)), "{origin}");
        }
    }
}
