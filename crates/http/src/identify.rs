//! The caller of a request: how the frontend identifies it, and the header `WWW-Authenticate`. The header names the
//! credentials and the scopes that a caller needs (RFC 6750, section 3).

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderValue;
use http::request::Parts;
use longhaul_core::{Identity, MissingScopes, OwnerId, Principal};

use crate::Rejection;

/// One way to identify the caller: by verified facts, never by claims without proof.
#[async_trait]
pub trait Identify: Send + Sync {
    /// The sender of this request. Fails with [`Rejection::Unauthorized`] or [`Rejection::NotSigned`] if the caller is
    /// not verified.
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection>;

    /// The public JSON document at the path of this request, which describes how a caller signs in (RFC 9728, section
    /// 3). `None` if there is none.
    fn document(&self, _request: &Parts) -> Option<Bytes> {
        None
    }
}

/// A caller that was identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// The caller.
    pub principal: Principal,
    /// How it is notified that it needs further scopes.
    pub challenge: Challenge,
}

impl From<OwnerId> for Identified {
    /// A caller of whom nothing but its owner is known, and who may do everything.
    fn from(owner: OwnerId) -> Self {
        Self { principal: owner.into(), challenge: Challenge::default() }
    }
}

/// Accepts every caller, as one and the same anonymous owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anyone;

#[async_trait]
impl Identify for Anyone {
    async fn identify(&self, _request: &Parts) -> Result<Identified, Rejection> {
        Ok(OwnerId::of(Identity::Anonymous).into())
    }
}

/// The answer to a caller of one resource who needs a token, or a better one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    resource_metadata: Option<Arc<str>>,
}

/// Why a token is not accepted (RFC 6750, section 3.1). Never contains a part of the token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidToken(pub Cow<'static, str>);

impl Challenge {
    /// A challenge that says where the resource's metadata is: an absolute URL.
    #[must_use]
    pub const fn with_metadata(resource_metadata: Arc<str>) -> Self {
        Self { resource_metadata: Some(resource_metadata) }
    }

    /// For a request without an acceptable token. `why` is `None` if it has none. `scope` holds the scopes that a
    /// client should request, separated by spaces, and may be empty.
    #[must_use]
    pub fn unauthorized(&self, why: Option<InvalidToken>, scope: &str) -> HeaderValue {
        let why = why.as_ref().map(|InvalidToken(description)| ("invalid_token", &**description));
        self.header(why, scope)
    }

    /// For a request that does not say clearly which token is its caller's.
    #[must_use]
    pub fn invalid_request(&self, description: &'static str) -> HeaderValue {
        self.header(Some(("invalid_request", description)), "")
    }

    /// For a request whose caller is known, but needs further scopes.
    #[must_use]
    pub fn insufficient(&self, MissingScopes { wanted, .. }: &MissingScopes) -> HeaderValue {
        let scope: Vec<&str> = wanted.iter().map(String::as_str).collect();
        self.header(Some(("insufficient_scope", "the token lacks a scope that this request needs")), &scope.join(" "))
    }

    fn header(&self, error: Option<(&str, &str)>, scope: &str) -> HeaderValue {
        let (code, description) = error.unzip();
        let parameters = [
            ("error", code),
            ("error_description", description),
            ("scope", Some(scope).filter(|scope| !scope.is_empty())),
            ("resource_metadata", self.resource_metadata.as_deref()),
        ];
        let stated: Vec<String> =
            parameters.into_iter().filter_map(|(name, value)| Some(format!("{name}=\"{}\"", quoted(value?)))).collect();
        let text = format!("Bearer {}", stated.join(", "));
        HeaderValue::try_from(text.trim_end()).unwrap_or(HeaderValue::from_static("Bearer"))
    }
}

/// `value` without what would end a quoted string, or a header (RFC 9110, section 5.6.4).
fn quoted(value: &str) -> String {
    value.chars().filter(|character| matches!(character, ' '..='~') && !matches!(character, '"' | '\\')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_says_what_to_do() {
        let url = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
        let challenge = Challenge::with_metadata(url.into());
        assert_eq!(
            challenge.unauthorized(None, "call read"),
            format!(r#"Bearer scope="call read", resource_metadata="{url}""#)
        );
        let expired = Some(InvalidToken("the token has expired".into()));
        let header = format!(
            r#"Bearer error="invalid_token", error_description="the token has expired", resource_metadata="{url}""#
        );
        assert_eq!(challenge.unauthorized(expired, ""), header);
        let wanted = ["etl:run".to_owned(), "a".to_owned()].into();
        let missing = MissingScopes { missing: ["etl:run".to_owned()].into(), wanted };
        let header = challenge.insufficient(&missing);
        let header = header.to_str().unwrap();
        assert!(header.starts_with(r#"Bearer error="insufficient_scope", "#), "{header}");
        assert!(header.contains(r#"scope="a etl:run""#), "{header}");
        assert_eq!(Challenge::default().unauthorized(None, ""), "Bearer");
    }

    #[test]
    fn no_value_can_end_its_parameter() {
        let header = Challenge::with_metadata("https://x\", scope=\"all\r\n".into()).unauthorized(None, "");
        assert_eq!(header, r#"Bearer resource_metadata="https://x, scope=all""#);
    }
}
