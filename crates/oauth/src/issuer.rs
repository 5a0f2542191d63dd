//! An authorization server, as its tokens name it.

use http::Uri;

use crate::web_url;

/// An issuer whose tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    /// Exactly as its tokens and its metadata name it.
    name: String,
    uri: Uri,
}

impl Issuer {
    /// The issuer called `name`; `None` if that is not a URL that an issuer may have (RFC 8414, section 2).
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let uri = web_url::secure(name).filter(|_| !name.contains('?'))?;
        Some(Self { name: name.to_owned(), uri })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where its metadata may be, in the order in which to ask, which is that of MCP's clients: as RFC 8414, section 3,
    /// has it, the document of OpenID Connect in the same way, and as OpenID Connect Discovery, section 4, has it.
    pub(crate) fn metadata_urls(&self) -> Vec<String> {
        let path = self.uri.path().trim_end_matches('/');
        let origin = web_url::origin(&self.uri);
        let mut urls = vec![
            format!("{origin}/.well-known/oauth-authorization-server{path}"),
            format!("{origin}/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            urls.push(format!("{origin}{path}/.well-known/openid-configuration"));
        }
        urls
    }

    /// The URL at which it says that its keys are, if it may be asked there: https, or on this machine if the issuer
    /// is.
    pub(crate) fn keys_url(&self, stated: &str) -> Option<Uri> {
        let uri = web_url::secure(stated)?;
        let is_allowed = uri.scheme_str() == Some("https") || web_url::is_loopback(&self.uri);
        is_allowed.then_some(uri)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_a_url_without_query() {
        assert!(Issuer::parse("https://id.example.com/tenant").is_some());
        for name in ["https://id.example.com/?x", "https://id.example.com/#x", "http://id.example.com", "id"] {
            assert_eq!(Issuer::parse(name), None, "{name}");
        }
    }

    #[test]
    fn metadata_is_where_the_standards_have_it() {
        let urls = |name| Issuer::parse(name).unwrap().metadata_urls();
        let root = [
            "https://id.example.com/.well-known/oauth-authorization-server",
            "https://id.example.com/.well-known/openid-configuration",
        ];
        assert_eq!(urls("https://id.example.com"), root);
        assert_eq!(urls("https://id.example.com/"), root);
        let tenant = [
            "https://id.example.com:8443/.well-known/oauth-authorization-server/a/b",
            "https://id.example.com:8443/.well-known/openid-configuration/a/b",
            "https://id.example.com:8443/a/b/.well-known/openid-configuration",
        ];
        assert_eq!(urls("https://id.example.com:8443/a/b"), tenant);
        assert_eq!(urls("https://id.example.com:8443/a/b/"), tenant);
    }

    #[test]
    fn keys_of_another_machine_are_fetched_over_https() {
        let far = Issuer::parse("https://id.example.com").unwrap();
        let near = Issuer::parse("http://localhost:4000").unwrap();
        for (issuer, url, allowed) in [
            (&far, "https://keys.example.net/jwks?p=x", true),
            (&far, "http://keys.example.net/jwks", false),
            (&far, "http://127.0.0.1/jwks", false),
            (&far, "file:///etc/passwd", false),
            (&near, "http://localhost:4000/jwks", true),
            (&near, "http://keys.example.net/jwks", false),
        ] {
            assert_eq!(issuer.keys_url(url).is_some(), allowed, "{} {url}", issuer.name());
        }
    }
}
