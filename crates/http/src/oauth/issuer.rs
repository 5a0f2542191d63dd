//! An authorization server, as its tokens name it.

use http::Uri;

use crate::oauth::web_url;

/// Stands in the name of an issuer of Microsoft Entra ID for the tenant, which its tokens name in `tid`.
const TENANT: &str = "{tenantid}";

/// The tenant in whose place Entra publishes what holds for all of them.
const ANY_TENANT: &str = "common";

/// An issuer whose tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Issuer {
    /// Exactly as its metadata name it; and its tokens, unless it issues those of many tenants.
    name: String,
    /// Its URL, as clients see it.
    url: String,
    uri: Uri,
}

impl Issuer {
    /// The issuer called `name`; `None` if that is not a URL that an issuer may have (RFC 8414, section 2). The tenant
    /// may be left open, as one whole segment of the path.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let url = name.replacen(&format!("/{TENANT}/"), &format!("/{ANY_TENANT}/"), 1);
        let uri = web_url::secure(&url).filter(|_| !url.contains(['?', '{', '}']) && !name.contains("//{"))?;
        Some(Self { name: name.to_owned(), url, uri })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The URL at which clients find it.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Whether a token is this issuer's that names `stated` as its issuer, and perhaps a tenant.
    pub(crate) fn is_named_by(&self, stated: &str, tenant: Option<&str>) -> bool {
        match self.tenant_in(stated) {
            Some(of) => tenant == Some(of),
            None => self.name == stated && !self.has_tenants(),
        }
    }

    /// The tenant that `stated`, the issuer of a token, names, if this is the issuer of many.
    pub(crate) fn tenant_in<'a>(&self, stated: &'a str) -> Option<&'a str> {
        let (before, after) = self.name.split_once(TENANT)?;
        stated.strip_prefix(before)?.strip_suffix(after).filter(|tenant| is_guid(tenant))
    }

    fn has_tenants(&self) -> bool {
        self.name.contains(TENANT)
    }

    /// The URLs where its metadata may be, in the order in which MCP's clients try them. The first follows RFC 8414,
    /// section 3. The second has the document of OpenID Connect in the same place. The third follows OpenID Connect
    /// Discovery, section 4.
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

/// Whether a key that names `of` as its issuer may sign tokens of `tenant`: Entra names one tenant, or leaves it open.
pub(crate) fn is_for_tenant(of: &str, tenant: &str) -> bool {
    of.split('/').any(|segment| segment == TENANT || segment == tenant)
}

/// Whether a text is written as Entra writes the ids of tenants.
fn is_guid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let is_hex = |part: &str| part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    text.split('-').map(str::len).eq(lengths) && text.split('-').all(is_hex)
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
    fn a_tenant_may_be_left_open_as_one_segment_of_the_path() {
        const TENANT_ID: &str = "aaaabbbb-0000-cccc-1111-dddd2222eeee";
        let issuer = Issuer::parse("https://login.microsoftonline.com/{tenantid}/v2.0").unwrap();
        assert_eq!(issuer.url(), "https://login.microsoftonline.com/common/v2.0");
        let urls = issuer.metadata_urls();
        assert_eq!(urls[2], "https://login.microsoftonline.com/common/v2.0/.well-known/openid-configuration");
        let stated = |tenant: &str| format!("https://login.microsoftonline.com/{tenant}/v2.0");
        assert!(issuer.is_named_by(&stated(TENANT_ID), Some(TENANT_ID)));
        for (tenant, claimed) in [
            (TENANT_ID, None),
            (TENANT_ID, Some("aaaabbbb-0000-cccc-1111-dddd2222eeef")),
            ("{tenantid}", Some("{tenantid}")),
            ("common", Some("common")),
            ("", Some("")),
            ("a/b", Some("a/b")),
            ("AAAABBBB-0000-CCCC-1111-DDDD2222EEEE", Some("AAAABBBB-0000-CCCC-1111-DDDD2222EEEE")),
        ] {
            assert!(!issuer.is_named_by(&stated(tenant), claimed), "{tenant} {claimed:?}");
        }
        assert!(Issuer::parse("https://sts.windows.net/{tenantid}/").is_some());
        for wrong in [
            "https://{tenantid}.example.com/v2.0",
            "https://{tenantid}/v2.0",
            "https://id.example.com/{tenantid}",
            "https://id.example.com/a{tenantid}/",
            "https://id.example.com/{tenantid}/{tenantid}/",
            "https://id.example.com/{tenant}/",
        ] {
            assert_eq!(Issuer::parse(wrong), None, "{wrong}");
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
