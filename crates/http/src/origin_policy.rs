//! Which hosts a request may name and which web pages it may come from: the defence against DNS rebinding
//! (MCP `2026-07-28`, "Streamable HTTP", "Security & Endpoint").

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, HeaderValue, Uri};

use crate::authority::{Authority, Host};
use crate::{Rejection, WebOrigin};

/// Characters of an origin that an error repeats.
const SHOWN_MAX: usize = 128;

/// Which hosts and origins are allowed.
#[derive(Clone, Debug)]
pub struct OriginPolicy {
    hosts: Hosts,
    origins: Vec<WebOrigin>,
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
    pub fn new(hosts: Vec<Host>, origins: Vec<WebOrigin>) -> Self {
        Self { hosts: Hosts::Named(hosts), origins, loopback_pages: LoopbackPages::Allowed }
    }

    /// A policy for a server behind a platform that routes requests by host, so that no other host can arrive. Pages
    /// are allowed from `origins` only.
    #[must_use]
    pub fn behind_router(origins: Vec<WebOrigin>) -> Self {
        Self { hosts: Hosts::Routed, origins, loopback_pages: LoopbackPages::Listed }
    }

    /// Checks the `Host` of a request.
    ///
    /// # Errors
    /// [`Rejection::SeveralHosts`], [`Rejection::MalformedHost`], [`Rejection::AnotherTarget`] or [`Rejection::Host`]
    pub fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Rejection> {
        let host = Authority::of_request(uri, headers)?.map(Authority::into_host);
        if self.hosts.allow(host) {
            return Ok(());
        }
        let named = headers.get(HOST).map(HeaderValue::as_bytes);
        let named = named.or_else(|| uri.authority().map(|authority| authority.as_str().as_bytes()));
        Err(Rejection::Host { host: shown(named.unwrap_or_default()) })
    }

    /// Checks the `Origin` of a request, if there is one.
    ///
    /// # Errors
    /// [`Rejection::Origin`], with the origin of the request.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        match headers.get(ORIGIN) {
            Some(origin) if self.page(headers).is_none() => Err(Rejection::Origin { origin: shown(origin.as_bytes()) }),
            Some(_) | None => Ok(()),
        }
    }

    /// The origin of the page that sent a request, if there is one and it is allowed.
    pub(crate) fn page(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let mut origins = headers.get_all(ORIGIN).iter();
        let origin = origins.next().filter(|_| origins.next().is_none())?;
        let page = WebOrigin::of(origin.to_str().ok()?)?;
        self.allows(&page).then(|| origin.clone())
    }

    fn allows(&self, page: &WebOrigin) -> bool {
        let is_local = self.loopback_pages == LoopbackPages::Allowed && page.is_loopback();
        is_local || self.origins.contains(page)
    }
}

/// An `Origin` or a `Host` for an error: escaped, and its beginning only.
fn shown(header: &[u8]) -> String {
    let escaped = header.escape_ascii().to_string();
    match escaped.get(..SHOWN_MAX) {
        Some(beginning) if beginning.len() < escaped.len() => format!("{beginning}…"),
        Some(_) | None => escaped,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(origins: &[&str]) -> Vec<WebOrigin> {
        WebOrigin::listed(&origins.iter().map(|origin| (*origin).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn check(host: &str, origin: Option<&str>) -> Result<(), Rejection> {
        let origin_policy = OriginPolicy::new(vec![Host::new("mcp.example.com")], listed(&["https://app.example.com"]));
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
            assert!(matches!(check(host, None), Err(Rejection::Host { .. })), "{host}");
        }
    }

    #[test]
    fn pages_from_elsewhere_are_refused_even_with_a_good_host() {
        for origin in
            ["http://evil.example.com", "null", "http://localhost.evil.example", "https://app.example.com.evil"]
        {
            assert!(matches!(check("localhost", Some(origin)), Err(Rejection::Origin { .. })), "{origin}");
        }
        for origin in ["http://localhost:3000", "http://127.0.0.1", "https://app.example.com", "http://[::1]:6274"] {
            assert!(check("localhost", Some(origin)).is_ok(), "{origin}");
        }
    }

    #[test]
    fn behind_a_router_every_host_is_allowed_and_only_listed_pages_are() {
        let origin_policy = OriginPolicy::behind_router(listed(&["https://app.example.com/"]));
        let check = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "abc.lambda-url.us-east-1.on.aws".parse().unwrap());
            headers.extend(origin.map(|origin| (ORIGIN, origin.parse().unwrap())));
            checked(&origin_policy, &headers)
        };
        assert!(check(None).is_ok());
        assert!(check(Some("https://app.example.com")).is_ok());
        for origin in ["http://localhost:3000", "https://abc.lambda-url.us-east-1.on.aws", "null"] {
            assert!(matches!(check(Some(origin)), Err(Rejection::Origin { .. })), "{origin}");
        }
    }

    fn allowed_by(origin_policy: &OriginPolicy, origin: &str) -> bool {
        let headers = HeaderMap::from_iter([(ORIGIN, origin.parse().unwrap())]);
        origin_policy.check_origin(&headers).is_ok()
    }

    #[test]
    fn origins_are_compared_as_browsers_compare_them_in_every_place() {
        let origins = || {
            listed(&[
                "HTTPS://App.example.com:443",
                "http://plain.example:80",
                "https://port.example:8443",
                "file://",
                "chrome-extension://abcdef",
                "vscode-webview://0K4L",
                "app://-",
            ])
        };
        for origin_policy in [OriginPolicy::new(Vec::new(), origins()), OriginPolicy::behind_router(origins())] {
            for origin in [
                "https://app.example.com",
                "https://app.example.com:443",
                "https://APP.example.com",
                "http://plain.example",
                "https://port.example:8443",
                "file://",
                "chrome-extension://abcdef",
                "vscode-webview://0k4l",
                "app://-",
            ] {
                assert!(allowed_by(&origin_policy, origin), "{origin}");
            }
            for origin in [
                "http://app.example.com",
                "https://app.example.com:444",
                "https://app.example.com/",
                "https://plain.example",
                "https://port.example",
                "chrome-extension://ghijkl",
                "app://other",
                "null",
                "",
            ] {
                assert!(!allowed_by(&origin_policy, origin), "{origin}");
            }
        }
    }

    #[test]
    fn null_is_allowed_where_it_is_listed_only() {
        assert!(allowed_by(&OriginPolicy::behind_router(listed(&["null"])), "null"));
        assert!(!allowed_by(&OriginPolicy::behind_router(listed(&["file://"])), "null"));
        assert!(!allowed_by(&OriginPolicy::default(), "null"));
    }

    #[test]
    fn two_origins_are_refused_even_if_both_are_allowed() {
        let mut headers = HeaderMap::new();
        for origin in ["http://localhost:1", "http://localhost:2"] {
            headers.append(ORIGIN, origin.parse().unwrap());
        }
        assert!(OriginPolicy::default().check_origin(&headers).is_err());
    }

    #[test]
    fn a_refusal_names_the_host_and_the_setting() {
        let refusal = check("evil.example.com", None).unwrap_err().to_string();
        assert!(refusal.contains("`evil.example.com`") && refusal.contains("--allow-host"), "{refusal}");
    }

    #[test]
    fn a_refusal_names_the_origin_and_the_setting() {
        let refusal = |origin: HeaderValue| {
            let headers = HeaderMap::from_iter([(ORIGIN, origin)]);
            OriginPolicy::default().check_origin(&headers).unwrap_err().to_string()
        };
        let named = refusal(HeaderValue::from_static("https://app.example.com"));
        assert!(named.contains("`https://app.example.com`") && named.contains("--allow-origin"), "{named}");
        assert!(named.contains("LONGHAUL_ALLOW_ORIGIN") && named.contains("AllowOrigins"), "{named}");
        let escaped = refusal(HeaderValue::from_bytes(b"\xff\"<script>").unwrap());
        assert!(escaped.contains(r#"`\xff\"<script>`"#), "{escaped}");
        let cut = refusal("a".repeat(5_000).parse().unwrap());
        assert!(cut.contains("a…`") && cut.len() < 400, "{cut}");
    }
}
