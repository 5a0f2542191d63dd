//! URLs that are safe to use: https, or http on this machine.

use crate::Host;
use http::Uri;

/// Characters of a URL.
const URL_CHARACTERS_MAX: usize = 1_024;

/// Why a text is not such a URL: the end of a sentence that begins with "it must be".
pub(crate) const EXPECTED: &str =
    "a URL that begins with https:// (or http:// on this machine), without user name and fragment";

/// The URL that `text` is: https, or http on loopback.
pub(crate) fn secure(text: &str) -> Option<Uri> {
    let uri = plain(text)?;
    let is_secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => is_loopback(&uri),
        Some(_) | None => false,
    };
    is_secure.then_some(uri)
}

/// The http or https URL that `text` is, without user name and fragment.
pub(crate) fn plain(text: &str) -> Option<Uri> {
    let is_clean = text.len() <= URL_CHARACTERS_MAX && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let uri: Uri = text.parse().ok().filter(|_| is_clean)?;
    let authority = uri.authority()?.as_str();
    let after_host = authority.strip_prefix(uri.host()?)?;
    let is_plain = matches!(uri.scheme_str(), Some("http" | "https"))
        && !authority.contains(['@', ','])
        && uri.host().is_some_and(|host| !host.is_empty())
        && (after_host.is_empty() || uri.port_u16().is_some());
    is_plain.then_some(uri)
}

/// Whether the URL's host is this machine.
pub(crate) fn is_loopback(uri: &Uri) -> bool {
    uri.host().is_some_and(|host| Host::new(host).is_loopback())
}

/// Scheme, host and port, without the port if it is the scheme's own, in lower case.
pub(crate) fn origin(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or_default().to_ascii_lowercase();
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    let default_port = if scheme == "https" { 443 } else { 80 };
    match uri.port_u16().filter(|port| *port != default_port) {
        Some(port) => format!("{scheme}://{host}:{port}"),
        None => format!("{scheme}://{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_is_for_this_machine() {
        for url in [
            "https://id.example.com",
            "https://id.example.com:8443/t/",
            "http://127.0.0.1:4000",
            "http://localhost/x",
            "http://[::1]:1",
        ] {
            assert!(secure(url).is_some(), "{url}");
        }
        for url in [
            "http://id.example.com",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com",
            "ftp://localhost",
            "https://",
            "https://user@id.example.com",
            "https://id.example.com/#x",
            "https://id.example.com:99999/",
            "https://id.example.com:443x/",
            "https://id.example.com:/",
            "http://[::1]:x/",
            "https://id.example.com/ x",
            "id.example.com",
            "/relative",
            "",
        ] {
            assert!(secure(url).is_none(), "{url}");
        }
        assert!(secure(&format!("https://id.example.com/{}", "x".repeat(URL_CHARACTERS_MAX))).is_none());
    }

    #[test]
    fn an_origin_has_one_spelling() {
        let origin_of = |url: &str| origin(&plain(url).unwrap());
        assert_eq!(origin_of("HTTPS://MCP.Example.com:443/mcp"), "https://mcp.example.com");
        assert_eq!(origin_of("http://127.0.0.1:8080/mcp"), "http://127.0.0.1:8080");
        assert_eq!(origin_of("http://localhost:80"), "http://localhost");
    }
}
