//! The origin of a web page, as browsers send and compare it (RFC 6454; the URL standard, "origin").

use std::fmt;

use url::Url;

use crate::authority::{Host, parts};

/// A longer text is not an origin, in bytes.
const BYTES_MAX: usize = 2_048;

/// The origin that a browser sends for a page without one.
const NULL: &str = "null";

/// The origin of a web page, in the one spelling in which origins are compared: scheme and host in lower case, no
/// default port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin {
    spelling: String,
    /// `None` for `null`, and for schemes whose origins have no host.
    host: Option<Host>,
}

/// Why a text cannot be an allowed origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// It stands for several origins.
    #[error("`{0}` is a pattern: name each origin, such as https://app.example.com")]
    Pattern(String),
    /// It is not an origin.
    #[error(
        "`{0}` is not an origin: it must be a scheme, `://`, a host and perhaps a port, without a path, such as \
         https://app.example.com; or `null`"
    )]
    Malformed(String),
}

impl WebOrigin {
    /// The origin that `text` is, as a request or a setting has it.
    ///
    /// Hosts are spelled as browsers spell them if browsers know the scheme, such as `https`. Other schemes, such as
    /// `chrome-extension`, have a name instead of the host, or nothing (`file://`).
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        if text == NULL {
            return Some(Self { spelling: NULL.to_owned(), host: None });
        }
        let (scheme, authority) = text.split_once("://").filter(|_| text.len() <= BYTES_MAX)?;
        let scheme = scheme.to_ascii_lowercase();
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_lowercase())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let is_authority = !authority.contains(['/', '\\', '?', '#', '@', ',', '*', '%'])
            && !authority.contains(|one: char| one.is_whitespace() || one.is_control());
        if !is_scheme || !is_authority {
            return None;
        }
        let is_web = matches!(scheme.as_str(), "http" | "https" | "ws" | "wss");
        let spelling = if is_web { of_the_web(text)? } else { format!("{scheme}://{}", of_another(authority)?) };
        let (_, authority) = spelling.split_once("://")?;
        let host = parts(authority).map(|(host, _port)| host);
        Some(Self { spelling, host })
    }

    /// The origins that a setting lists.
    ///
    /// # Errors
    /// [`OriginError`] for the first one that cannot be an origin.
    pub fn listed(texts: &[String]) -> Result<Vec<Self>, OriginError> {
        let origin = |text: &String| {
            let malformed = || match text.contains('*') {
                true => OriginError::Pattern(text.clone()),
                false => OriginError::Malformed(text.clone()),
            };
            // `https://app.example.com/` is how people copy it.
            let without_slash = text.strip_suffix('/').filter(|rest| !rest.ends_with('/')).unwrap_or(text);
            Self::of(without_slash).ok_or_else(malformed)
        };
        texts.iter().map(origin).collect()
    }

    /// Whether a page of this origin is on this machine.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host.as_ref().is_some_and(Host::is_loopback)
    }

    /// Whether a page of this origin was loaded by the name `host`, which is that of a `Host` header. The default port
    /// of the scheme may be missing in either.
    #[must_use]
    pub fn is_served_as(&self, host: &str) -> bool {
        let scheme = self.spelling.split_once("://").map(|(scheme, _)| scheme);
        let scheme = scheme.filter(|scheme| matches!(*scheme, "http" | "https"));
        scheme.is_some_and(|scheme| Self::of(&format!("{scheme}://{host}")).as_ref() == Some(self))
    }
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.spelling)
    }
}

/// The spelling of an origin with a scheme that browsers know.
fn of_the_web(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let is_origin = url.path() == "/" && url.username().is_empty() && url.password().is_none();
    let origin = url.origin();
    (is_origin && origin.is_tuple()).then(|| origin.ascii_serialization())
}

/// The spelling of the host part of a scheme that browsers do not know: nothing, or a name and perhaps a port.
fn of_another(authority: &str) -> Option<String> {
    if authority.is_empty() {
        return Some(String::new());
    }
    parts(authority)?;
    Some(authority.trim_end_matches(':').to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(text: &str) -> Option<String> {
        WebOrigin::of(text).map(|origin| origin.to_string())
    }

    #[test]
    fn origins_have_one_spelling() {
        for (text, expected) in [
            ("https://app.example.com", "https://app.example.com"),
            ("https://app.example.com:443", "https://app.example.com"),
            ("HTTPS://App.Example.COM", "https://app.example.com"),
            ("http://app.example.com:80", "http://app.example.com"),
            ("http://app.example.com:443", "http://app.example.com:443"),
            ("https://app.example.com:8443", "https://app.example.com:8443"),
            ("https://app.example.com:", "https://app.example.com"),
            ("https://bücher.example", "https://xn--bcher-kva.example"),
            ("http://[::1]:80", "http://[::1]"),
            ("http://[0:0:0:0:0:0:0:1]:3000", "http://[::1]:3000"),
            ("wss://app.example.com:443", "wss://app.example.com"),
            ("null", "null"),
            ("file://", "file://"),
            ("chrome-extension://abcdefghijklmnop", "chrome-extension://abcdefghijklmnop"),
            (
                "moz-extension://6d1b8c3e-7b3c-4a8c-9f3e-0d3b5f3b2a1c",
                "moz-extension://6d1b8c3e-7b3c-4a8c-9f3e-0d3b5f3b2a1c",
            ),
            ("vscode-webview://0k4Lq7", "vscode-webview://0k4lq7"),
            ("app://obsidian.md", "app://obsidian.md"),
            ("App://-", "app://-"),
            ("tauri://localhost", "tauri://localhost"),
            ("capacitor://localhost:80", "capacitor://localhost:80"),
        ] {
            assert_eq!(spelled(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_no_browser_sends_is_not_an_origin() {
        for text in [
            "",
            "NULL",
            "*",
            "app.example.com",
            "localhost:3000",
            "https://",
            "https:app.example.com",
            "://app.example.com",
            "1app://a",
            "https://app.example.com/",
            "https://app.example.com/path",
            "https://app.example.com?a",
            "https://app.example.com#a",
            "https://user@app.example.com",
            "https://app.example.com:65536",
            "https://app.example.com:x",
            "https://a.example,https://b.example",
            "https://a.example https://b.example",
            "https://*.example.com",
            "https://app.example.com\\evil",
            "https://app.ex%61mple.com",
            "app://a:b:c",
            "app://a:99999",
            "file:///",
        ] {
            assert_eq!(spelled(text), None, "{text}");
        }
        assert_eq!(spelled(&format!("app://{}", "a".repeat(BYTES_MAX))), None);
    }

    #[test]
    fn a_setting_names_what_is_wrong_in_it() {
        let listed =
            |texts: &[&str]| WebOrigin::listed(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let spelled = |texts: &[&str]| listed(texts).unwrap().iter().map(WebOrigin::to_string).collect::<Vec<_>>();
        assert_eq!(spelled(&["https://a.example/", "file://", "null"]), ["https://a.example", "file://", "null"]);
        assert_eq!(listed(&["https://a.example", "*"]), Err(OriginError::Pattern("*".to_owned())));
        assert_eq!(listed(&["https://*.a.example"]), Err(OriginError::Pattern("https://*.a.example".to_owned())));
        for wrong in ["app.example.com", "https://a.example/app", "https://a.example//"] {
            assert_eq!(listed(&[wrong]), Err(OriginError::Malformed(wrong.to_owned())));
        }
    }

    #[test]
    fn a_page_is_served_by_the_name_in_its_origin() {
        let is_served =
            |origin: &str, host: &str| WebOrigin::of(origin).is_some_and(|origin| origin.is_served_as(host));
        for (origin, host) in [
            ("http://localhost:8081", "localhost:8081"),
            ("http://localhost:8081", "LOCALHOST:8081"),
            ("http://localhost", "localhost:80"),
            ("http://localhost:80", "localhost"),
            ("https://console.example.com", "Console.example.com"),
            ("https://console.example.com", "console.example.com:443"),
            ("http://[::1]:8081", "[::1]:8081"),
        ] {
            assert!(is_served(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://localhost:8081", "localhost:8082"),
            ("http://localhost", "localhost:443"),
            ("https://localhost", "localhost:80"),
            ("http://127.0.0.1:8081", "localhost:8081"),
            ("http://localhost:8081", ""),
            ("http://localhost:8081", "localhost:8081/"),
            ("http://localhost:8081", "user@localhost:8081"),
            ("null", "null"),
            ("file://", ""),
            ("app://localhost", "localhost"),
        ] {
            assert!(!is_served(origin, host), "{origin} {host}");
        }
    }
}
