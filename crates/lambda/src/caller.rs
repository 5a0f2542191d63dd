//! Who calls the API function: as verified by AWS before the function was invoked, in the request context of the event,
//! which callers cannot write; or by an access token, which is verified here.

mod signed;
mod token;

use std::sync::Arc;

use async_trait::async_trait;
use aws_lambda_events::apigw::ApiGatewayRequestAuthorizer;
use bytes::Bytes;
use http::Extensions;
use http::request::Parts;
use lambda_http::request::RequestContext;
use longhaul_core::{Clock, Identity, OwnerId};
use longhaul_http::{Challenge, Identified, Identify, Rejection};
use longhaul_oauth::ResourceServer;

pub use self::signed::OnBehalf;
pub use self::token::TokenClaims;
use crate::{Auth, IamOwner};

/// Identifies callers in one of the ways of [`Auth`].
#[derive(Debug)]
pub enum AwsCaller {
    /// By the signature that AWS checked.
    Iam(IamOwner),
    /// By the signature that AWS checked; one role says for which user it calls.
    IamOnBehalf(IamOwner, OnBehalf),
    /// By the token that the authorizer checked; and where callers log in, if that is known.
    Gateway(TokenClaims, Option<Box<ResourceServer>>),
    /// By the token that is checked here.
    Oauth(Box<ResourceServer>),
    /// Not at all.
    Anonymous,
}

impl AwsCaller {
    /// Identifies callers by `auth`.
    #[must_use]
    pub fn new(auth: Auth, clock: Arc<dyn Clock>) -> Self {
        let resource = |config, clock| Box::new(ResourceServer::new(config, clock));
        match auth {
            Auth::Iam(owner) => Self::Iam(owner),
            Auth::IamOnBehalf(owner, trusted) => Self::IamOnBehalf(owner, trusted),
            Auth::Gateway(claims, published) => Self::Gateway(claims, published.map(|config| resource(*config, clock))),
            Auth::Oauth(config) => Self::Oauth(resource(*config, clock)),
            Auth::Anonymous => Self::Anonymous,
        }
    }
}

#[async_trait]
impl Identify for AwsCaller {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        let authorizer = authorizer(request);
        let iam = || authorizer.and_then(|authorizer| authorizer.iam.as_ref()).ok_or(Rejection::NotSigned);
        match self {
            Self::Anonymous => Ok(OwnerId::of(Identity::Anonymous).into()),
            Self::Iam(owner) => {
                let principal = signed::signed(iam()?, *owner).ok_or(Rejection::NotSigned)?;
                Ok(Identified { principal, challenge: Challenge::default() })
            }
            Self::IamOnBehalf(owner, trusted) => {
                let principal = signed::signed_on_behalf(iam()?, *owner, trusted, &request.headers)?;
                Ok(Identified { principal, challenge: Challenge::default() })
            }
            Self::Gateway(claims, published) => {
                let challenge = published.as_ref().map(|resource| resource.challenge_at(domain(request)));
                let challenge = challenge.unwrap_or_default();
                let jwt = authorizer.and_then(|authorizer| authorizer.jwt.as_ref());
                match jwt.and_then(|jwt| claims.caller(jwt)) {
                    Some(principal) => Ok(Identified { principal, challenge }),
                    None => Err(not_logged_in(&challenge)),
                }
            }
            Self::Oauth(resource) => resource.identify_at(domain(request), &request.headers).await,
        }
    }

    fn document(&self, request: &Parts) -> Option<Bytes> {
        match self {
            Self::Oauth(resource) => resource.document_at(domain(request), request.uri.path()),
            Self::Gateway(_, Some(resource)) => resource.document_at(domain(request), request.uri.path()),
            Self::Iam(_) | Self::IamOnBehalf(..) | Self::Gateway(_, None) | Self::Anonymous => None,
        }
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
        reason: "the caller is not known: send a token that this server accepts",
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

/// The text, unless it is empty: AWS writes an empty text for an unknown value.
fn stated(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
