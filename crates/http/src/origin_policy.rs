//! Which hosts a request may name and which web pages it may come from: the defence against DNS rebinding
//! (MCP `2026-07-28`, "Streamable HTTP", "Security & Endpoint").

use http::header::ORIGIN;
use http::{HeaderMap, HeaderValue, Uri};

use crate::Rejection;
use crate::authority::{Authority, Host};

/// Which hosts and origins are allowed.
#[derive(Clone, Debug)]
pub struct OriginPolicy {
    hosts: Hosts,
    origins: Vec<String>,
    loopback_pages: LoopbackPages,
}

#[derive(Clone, Debug)]
enum Hosts {
    /// Loopback and these.
    Named(Vec<Host>),
    /// All: the platform in front routes by host, so no other host can arrive.
    Routed,
}

/// Whether web pages on loopback are allowed without being listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopbackPages {
    Allowed,
    Listed,
}

impl Default for OriginPolicy {
    /// Loopback only.
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new())
    }
}

impl OriginPolicy {
    /// A policy that allows loopback, `hosts`, and pages from `origins` (such as `https://app.example.com`). Loopback
    /// is always allowed, so that a local server works without configuration, and a page from elsewhere cannot reach
    /// it.
    #[must_use]
    pub fn new(hosts: Vec<Host>, origins: Vec<String>) -> Self {
        Self { hosts: Hosts::Named(hosts), origins: normalized(origins), loopback_pages: LoopbackPages::Allowed }
    }

    /// A policy for a server behind a platform that routes requests by host, so that no other host can arrive. Pages
    /// are allowed from `origins` only.
    #[must_use]
    pub fn behind_router(origins: Vec<String>) -> Self {
        Self { hosts: Hosts::Routed, origins: normalized(origins), loopback_pages: LoopbackPages::Listed }
    }

    /// Checks the `Host` of a request.
    ///
    /// # Errors
    /// [`Rejection::SeveralHosts`], [`Rejection::MalformedHost`], [`Rejection::AnotherTarget`] or [`Rejection::Host`]
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        let host = Authority::of_request(uri, headers)?.map(Authority::into_host);
        if self.hosts.allow(host) { Ok(()) } else { Err(Rejection::Host) }
    }

    /// Checks the `Origin` of a request, if there is one.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        if headers.contains_key(ORIGIN) && self.page(headers).is_none() { Err(Rejection::Origin) } else { Ok(()) }
    }

    /// The origin of the page that sent a request, if there is one and it is allowed.
    pub(crate) fn page(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        origin.to_str().is_ok_and(|text| self.allows_origin(text)).then(|| origin.clone())
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let origin = origin.to_ascii_lowercase();
        if self.origins.contains(&origin) {
            return true;
        }
        if self.loopback_pages == LoopbackPages::Listed {
            return false;
        }
        let host = origin.split_once("://").and_then(|(_, authority)| Host::of_authority(authority));
        host.is_some_and(|host| host.is_loopback())
    }
}

impl Hosts {
    fn allow(&self, host: Option<Host>) -> bool {
        match self {
            Self::Routed => true,
            Self::Named(named) => host.is_some_and(|host| host.is_loopback() || named.contains(&host)),
        }
    }
}

fn normalized(origins: Vec<String>) -> Vec<String> {
    origins.into_iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use http::header::HOST;

    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), Rejection> {
        let origin_policy =
            OriginPolicy::new(vec![Host::new("mcp.example.com")], vec!["https://app.example.com".to_owned()]);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        checked(&origin_policy, &headers)
    }

    fn checked(origin_policy: &OriginPolicy, headers: &HeaderMap) -> Result<(), Rejection> {
        origin_policy.check_host(&Uri::from_static("/mcp"), headers)?;
        origin_policy.check_origin(headers)
    }

    #[test]
    fn loopback_and_named_hosts_are_allowed() {
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
    fn behind_a_router_every_host_is_allowed_and_only_listed_pages_are() {
        let origin_policy = OriginPolicy::behind_router(vec!["https://app.example.com/".to_owned()]);
        let check = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "abc.lambda-url.us-east-1.on.aws".parse().unwrap());
            headers.extend(origin.map(|origin| (ORIGIN, origin.parse().unwrap())));
            checked(&origin_policy, &headers)
        };
        assert!(check(None).is_ok());
        assert!(check(Some("https://app.example.com")).is_ok());
        for origin in ["http://localhost:3000", "https://abc.lambda-url.us-east-1.on.aws", "null"] {
            assert!(matches!(check(Some(origin)), Err(Rejection::Origin)), "{origin}");
        }
    }
}
