//! The MCP endpoint as a protected resource: who calls, and where callers log in (RFC 6750, RFC 9728).

use std::sync::Arc;

use crate::{Challenge, Identified, Identify, MCP_PATH, Rejection};
use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HOST};
use http::request::Parts;
use longhaul_core::Clock;
use serde::Serialize;

use crate::oauth::audience::Resource;
use crate::oauth::config::OauthConfig;
use crate::oauth::refusal::Refusal;
use crate::oauth::verifier::Verifier;
use crate::oauth::{Fetch, HttpsClient};

/// Identifies callers by their access tokens.
pub struct ResourceServer {
    config: OauthConfig,
    scope: String,
    verifier: Verifier,
}

/// The metadata of a protected resource (RFC 9728, section 2).
#[derive(Serialize)]
struct Metadata<'a> {
    resource: &'a str,
    authorization_servers: Vec<&'a str>,
    bearer_methods_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    scopes_supported: &'a [String],
}

impl ResourceServer {
    /// A resource server that fetches the issuers' keys over HTTPS, when the first token comes.
    #[must_use]
    pub fn new(config: OauthConfig, clock: Arc<dyn Clock>) -> Self {
        Self::fetching_with(config, Arc::new(HttpsClient::default()), clock)
    }

    /// A resource server that fetches the issuers' keys with `fetch`.
    #[must_use]
    pub fn fetching_with(config: OauthConfig, fetch: Arc<dyn Fetch>, clock: Arc<dyn Clock>) -> Self {
        let verifier = Verifier::new(&config, &fetch, clock);
        Self { scope: config.scopes.join(" "), config, verifier }
    }

    /// The sender of a request to `authority`: the host, and perhaps the port, at which it arrived. If no audience is
    /// configured, the endpoint there is the audience: `authority` must come from who routed the request, not from its
    /// sender.
    ///
    /// # Errors
    /// [`Rejection::Unauthorized`], [`Rejection::SeveralTokens`] or [`Rejection::NoKeys`]
    pub async fn identify_at(&self, authority: Option<&str>, headers: &HeaderMap) -> Result<Identified, Rejection> {
        let Some(here) = self.resource_at(authority) else {
            return Err(self.unauthorized(&Challenge::default(), Some(Refusal::Audience)));
        };
        let challenge = Challenge::with_metadata(here.metadata_url().into());
        let token = match bearer_token(headers) {
            Sent::One(token) => token,
            Sent::None => return Err(self.unauthorized(&challenge, None)),
            Sent::Several => {
                let challenge = challenge.invalid_request("send one Authorization header");
                return Err(Rejection::SeveralTokens { challenge });
            }
        };
        match self.verifier.verify(token, &here).await {
            Ok(principal) => Ok(Identified { principal: Arc::unwrap_or_clone(principal), challenge }),
            Err(Refusal::NoKeys { retry_after_s }) => Err(Rejection::NoKeys { retry_after_s }),
            Err(refusal) => Err(self.unauthorized(&challenge, Some(refusal))),
        }
    }

    /// The metadata of the endpoint at `authority`, if its path is `path`.
    #[must_use]
    pub fn document_at(&self, authority: Option<&str>, path: &str) -> Option<Bytes> {
        let here = self.resource_at(authority).filter(|here| here.has_metadata_at(path))?;
        let metadata = Metadata {
            resource: here.name(),
            authorization_servers: self.config.issuers.iter().map(|issuer| issuer.url()).collect(),
            bearer_methods_supported: ["header"],
            scopes_supported: &self.config.scopes,
        };
        serde_json::to_vec(&metadata).ok().map(Bytes::from)
    }

    /// The challenge that sends callers of the endpoint at `authority` to the login.
    #[must_use]
    pub fn challenge_at(&self, authority: Option<&str>) -> Challenge {
        let here = self.resource_at(authority);
        here.map_or_else(Challenge::default, |here| Challenge::with_metadata(here.metadata_url().into()))
    }

    /// The resource that is meant by a request to `authority`: of several the one at this host, or the first.
    fn resource_at(&self, authority: Option<&str>) -> Option<Resource> {
        let resources = &self.config.audiences.resources;
        let at_host = resources.iter().find(|resource| authority.is_some_and(|authority| resource.is_at(authority)));
        match at_host.or(resources.first()) {
            Some(resource) => Some(resource.clone()),
            None => Resource::parse(&format!("https://{}{MCP_PATH}", authority?)),
        }
    }

    fn unauthorized(&self, challenge: &Challenge, why: Option<Refusal>) -> Rejection {
        let reason = match &why {
            Some(why) => why.reason(),
            None => "log in: send an access token in the header Authorization".into(),
        };
        let challenge = challenge.unauthorized(why.as_ref().map(Refusal::invalid_token), &self.scope);
        Rejection::Unauthorized { reason, challenge }
    }
}

#[async_trait]
impl Identify for ResourceServer {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        self.identify_at(authority(request), &request.headers).await
    }

    fn document(&self, request: &Parts) -> Option<Bytes> {
        self.document_at(authority(request), request.uri.path())
    }
}

impl std::fmt::Debug for ResourceServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResourceServer").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The host that a request names. It only chooses among audiences that are configured.
fn authority(request: &Parts) -> Option<&str> {
    match request.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => request.headers.get(HOST)?.to_str().ok(),
    }
}

/// The tokens in a request's head. Tokens in its query or body are ignored.
enum Sent<'a> {
    None,
    One(&'a str),
    Several,
}

fn bearer_token(headers: &HeaderMap) -> Sent<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Sent::None,
        (Some(_), Some(_)) => return Sent::Several,
        (Some(value), None) => value.to_str().unwrap_or_default(),
    };
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Sent::One(token.trim_matches(' ')),
        Some(_) | None => Sent::None,
    }
}
