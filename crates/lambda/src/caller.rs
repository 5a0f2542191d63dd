//! The caller of the API function. AWS verified it before the function was invoked, and names it in the request context
//! of the event, which callers cannot write. Or an access token names it, which is verified here.

mod bearer;
mod signed;
mod token;

use std::sync::Arc;

use async_trait::async_trait;
use aws_lambda_events::apigw::ApiGatewayRequestAuthorizer;
use bytes::Bytes;
use http::Extensions;
use http::request::Parts;
use lambda_http::request::RequestContext;
use longhaul_core::settings::table::IamOwner;
use longhaul_core::{Clock, Identity, OwnerId};
use longhaul_http::oauth::{OauthConfig, ResourceServer};
use longhaul_http::{Challenge, Identified, Identify, Rejection};

pub(crate) use self::bearer::TokenParameter;
pub use self::bearer::{BearerCaller, TokenSource};
pub use self::signed::OnBehalf;
pub use self::token::TokenClaims;

/// How callers are identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// By the signature that AWS checked before it invoked the function.
    Iam(IamOwner),
    /// In the same way; and one role says for which user it calls.
    IamOnBehalf(IamOwner, OnBehalf),
    /// By the token that the authorizer of an HTTP API checked before it invoked the function.
    /// Holds the claims to read, and the settings that send clients to the login.
    Gateway(TokenClaims, Option<Box<OauthConfig>>),
    /// By an access token, which the function verifies itself.
    Oauth(Box<OauthConfig>),
    /// By a token of the list in the parameter of SSM with this name.
    Bearer(String),
    /// Not at all: all callers are one owner, and a caller with a task's id can see the task. Names that callers choose
    /// are valid within their session only.
    Anonymous,
}

/// Identifies callers in one of the ways of [`Auth`].
#[derive(Debug)]
pub(crate) struct AwsCaller {
    auth: Auth,
    /// Verifies access tokens, and says where callers log in.
    resource: Option<ResourceServer>,
}

impl AwsCaller {
    pub(crate) fn new(auth: Auth, clock: Arc<dyn Clock>) -> Self {
        let config = match &auth {
            Auth::Gateway(_, published) => published.clone(),
            Auth::Oauth(config) => Some(config.clone()),
            Auth::Iam(_) | Auth::IamOnBehalf(..) | Auth::Bearer(_) | Auth::Anonymous => None,
        };
        Self { auth, resource: config.map(|config| ResourceServer::new(*config, clock)) }
    }
}

#[async_trait]
impl Identify for AwsCaller {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        let authorizer = authorizer(request);
        let iam = || authorizer.and_then(|authorizer| authorizer.iam.as_ref()).ok_or(Rejection::NotSigned);
        match (&self.auth, &self.resource) {
            (Auth::Anonymous, _) => Ok(OwnerId::of(Identity::Anonymous).into()),
            (Auth::Iam(owner), _) => {
                let principal = signed::signed(iam()?, *owner).ok_or(Rejection::NotSigned)?;
                Ok(Identified { principal, challenge: Challenge::default() })
            }
            (Auth::IamOnBehalf(owner, trusted), _) => {
                let principal = signed::signed_on_behalf(iam()?, *owner, trusted, &request.headers)?;
                Ok(Identified { principal, challenge: Challenge::default() })
            }
            (Auth::Gateway(claims, _), published) => {
                let challenge = published.as_ref().map(|resource| resource.challenge_at(domain(request)));
                let challenge = challenge.unwrap_or_default();
                let jwt = authorizer.and_then(|authorizer| authorizer.jwt.as_ref());
                match jwt.and_then(|jwt| claims.caller(jwt)) {
                    Some(principal) => Ok(Identified { principal, challenge }),
                    None => Err(not_logged_in(&challenge)),
                }
            }
            // The list is read by a caller of its own.
            (Auth::Bearer(_), _) => Err(not_logged_in(&Challenge::default())),
            (Auth::Oauth(_), Some(resource)) => resource.identify_at(domain(request), &request.headers).await,
            (Auth::Oauth(_), None) => Err(not_logged_in(&Challenge::default())),
        }
    }

    fn document(&self, request: &Parts) -> Option<Bytes> {
        self.resource.as_ref()?.document_at(domain(request), request.uri.path())
    }
}

/// The domain at which AWS received the request. Unlike the `Host`, a caller cannot choose it.
fn domain(request: &Parts) -> Option<&str> {
    match request.extensions.get::<RequestContext>()? {
        RequestContext::ApiGatewayV2(context) => context.domain_name.as_deref(),
        RequestContext::ApiGatewayV1(context) => context.domain_name.as_deref(),
        _ => None,
    }
}

fn not_logged_in(challenge: &Challenge) -> Rejection {
    Rejection::Unauthorized {
        reason: "the caller is not known: send a token that this server accepts".into(),
        challenge: challenge.unauthorized(None, ""),
    }
}

fn authorizer(request: &Parts) -> Option<&ApiGatewayRequestAuthorizer> {
    request.extensions.get::<RequestContext>()?.authorizer()
}

/// The address that the request came from, as AWS saw it.
pub(crate) fn source_address(extensions: &Extensions) -> Option<String> {
    match extensions.get::<RequestContext>()? {
        RequestContext::ApiGatewayV1(context) => context.identity.source_ip.clone(),
        RequestContext::ApiGatewayV2(context) => context.http.source_ip.clone(),
        _ => None,
    }
}
