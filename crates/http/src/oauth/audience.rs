//! The audience of a token (RFC 8707, RFC 9728).

use crate::MCP_PATH;
use http::Uri;

use crate::oauth::web_url;

/// Where a resource's metadata is, below its origin (RFC 9728, section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Characters of an audience.
const AUDIENCE_CHARACTERS_MAX: usize = 512;

/// The MCP endpoint as its callers know it: its canonical URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Resource {
    /// As it was configured, and as the metadata shows it.
    name: String,
    canonical: String,
    origin: String,
}

impl Resource {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let uri = web_url::plain(name).filter(|_| !name.contains('?'))?;
        Some(Self { name: name.to_owned(), canonical: canonical(&uri), origin: web_url::origin(&uri) })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the claim `aud` names this resource: the case of scheme and host does not matter, nor a slash at the
    /// end.
    fn is_named_by(&self, audience: &str) -> bool {
        self.name == audience || web_url::plain(audience).is_some_and(|uri| canonical(&uri) == self.canonical)
    }

    /// Whether a request for `authority`, a host and perhaps a port, is for this resource.
    pub(crate) fn is_at(&self, authority: &str) -> bool {
        ["https", "http"].iter().any(|scheme| {
            let url = format!("{scheme}://{authority}");
            web_url::plain(&url).is_some_and(|uri| web_url::origin(&uri) == self.origin)
        })
    }

    /// Its host, without the port.
    pub(crate) fn host(&self) -> String {
        self.name.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default()
    }

    /// The URL of its metadata. If callers know the endpoint below a path, a proxy in front of the server removes that
    /// path from each request.
    pub(crate) fn metadata_url(&self) -> String {
        match self.path().strip_suffix(MCP_PATH) {
            Some(taken_away) => format!("{}{taken_away}{WELL_KNOWN}{MCP_PATH}", self.origin),
            None => format!("{}{WELL_KNOWN}{}", self.origin, self.path()),
        }
    }

    /// Whether its metadata may be asked for at this path.
    pub(crate) fn has_metadata_at(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(WELL_KNOWN) else { return false };
        ["", MCP_PATH, self.path()].contains(&rest)
    }

    fn path(&self) -> &str {
        self.canonical.strip_prefix(&self.origin).unwrap_or_default()
    }
}

fn canonical(uri: &Uri) -> String {
    let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    format!("{}{}{query}", web_url::origin(uri), uri.path().trim_end_matches('/'))
}

/// The audiences that a token may have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audiences {
    /// The URLs of the endpoint; none if the function's domain is used.
    pub(crate) resources: Vec<Resource>,
    /// Other names that an issuer has for it, compared character by character.
    pub(crate) names: Vec<String>,
}

impl Audiences {
    /// The audiences in `texts`; the first text that cannot be one is the error.
    pub(crate) fn parse(texts: &[String]) -> Result<Self, &str> {
        let mut audiences = Self::default();
        for text in texts {
            let is_url = ["http:", "https:"].iter().any(|scheme| text.to_ascii_lowercase().starts_with(scheme));
            let is_clean = text.len() <= AUDIENCE_CHARACTERS_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
            match Resource::parse(text) {
                Some(resource) if is_clean => audiences.resources.push(resource),
                None if is_clean && !is_url => audiences.names.push(text.clone()),
                Some(_) | None => return Err(text),
            }
        }
        Ok(audiences)
    }

    /// Whether one of `stated` is this server; `here` is the resource that was asked.
    pub(crate) fn accept<'a>(&self, here: &Resource, mut stated: impl Iterator<Item = &'a str>) -> bool {
        stated.any(|audience| {
            here.is_named_by(audience)
                || self.resources.iter().any(|resource| resource.is_named_by(audience))
                || self.names.iter().any(|name| name == audience)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audience_is_the_resource_in_any_usual_spelling() {
        let here = Resource::parse("https://mcp.example.com/mcp").unwrap();
        let audiences = Audiences::parse(&["api://longhaul".to_owned()]).unwrap();
        for (audience, accepted) in [
            ("https://mcp.example.com/mcp", true),
            ("https://mcp.example.com/mcp/", true),
            ("HTTPS://MCP.Example.Com:443/mcp", true),
            ("api://longhaul", true),
            ("api://longhaul/", false),
            ("API://longhaul", false),
            ("https://mcp.example.com", false),
            ("https://mcp.example.com/MCP", false),
            ("https://mcp.example.com/mcp?x", false),
            ("https://mcp.example.com/mcp#x", false),
            ("https://user@mcp.example.com/mcp", false),
            ("http://mcp.example.com/mcp", false),
            ("https://mcp.example.com:8443/mcp", false),
            ("https://mcp.example.com.evil.example/mcp", false),
            ("", false),
        ] {
            assert_eq!(audiences.accept(&here, [audience].into_iter()), accepted, "{audience}");
        }
    }

    #[test]
    fn metadata_is_below_the_origin_or_below_a_path_that_is_taken_away() {
        let resource = |name| Resource::parse(name).unwrap();
        let here = resource("https://mcp.example.com/team/mcp/");
        assert_eq!(here.metadata_url(), "https://mcp.example.com/team/.well-known/oauth-protected-resource/mcp");
        for (path, known) in [
            ("/.well-known/oauth-protected-resource", true),
            ("/.well-known/oauth-protected-resource/mcp", true),
            ("/.well-known/oauth-protected-resource/team/mcp", true),
            ("/.well-known/oauth-protected-resource/other", false),
            ("/.well-known/oauth-protected-resourcemcp", false),
            ("/.well-known", false),
        ] {
            assert_eq!(here.has_metadata_at(path), known, "{path}");
        }
        assert_eq!(
            resource("http://127.0.0.1:8080").metadata_url(),
            "http://127.0.0.1:8080/.well-known/oauth-protected-resource"
        );
    }

    #[test]
    fn a_resource_is_known_by_the_host_of_a_request() {
        let here = Resource::parse("https://mcp.example.com/mcp").unwrap();
        assert!(here.is_at("MCP.example.com") && here.is_at("mcp.example.com:443"));
        assert!(!here.is_at("other.example.com") && !here.is_at("mcp.example.com:8443"));
    }

    #[test]
    fn what_looks_like_a_url_has_to_be_one() {
        for wrong in ["https://", "http://user@host/mcp", "https://host/mcp#x", "https://host/mcp?x", "a b", "é"] {
            assert_eq!(Audiences::parse(&[wrong.to_owned()]), Err(wrong));
        }
    }
}
