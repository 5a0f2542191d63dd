//! Who calls the API function, as verified by AWS before the function was invoked: the identity is in the request context
//! of the event, which callers cannot write.

mod signed;
mod token;

use async_trait::async_trait;
use aws_lambda_events::apigw::ApiGatewayRequestAuthorizer;
use http::Extensions;
use http::request::Parts;
use lambda_http::request::RequestContext;
use longhaul_core::{Identity, OwnerId, Principal};
use longhaul_http::{Challenge, Identified, Identify, Rejection};

pub use self::signed::OnBehalf;
pub use self::token::TokenClaims;
use crate::Auth;

/// Identifies callers by the request context, in one of the ways of [`Auth`].
#[derive(Clone, Debug)]
pub struct AwsCaller(pub Auth);

#[async_trait]
impl Identify for AwsCaller {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        let authorizer = authorizer(request);
        let iam = || authorizer.and_then(|authorizer| authorizer.iam.as_ref()).ok_or(Rejection::NotSigned);
        match &self.0 {
            Auth::Anonymous => Ok(OwnerId::of(Identity::Anonymous).into()),
            Auth::Iam(owner) => signed::signed(iam()?, *owner).map(identified).ok_or(Rejection::NotSigned),
            Auth::IamOnBehalf(owner, trusted) => {
                signed::signed_on_behalf(iam()?, *owner, trusted, &request.headers).map(identified)
            }
            Auth::Gateway(claims) => {
                let jwt = authorizer.and_then(|authorizer| authorizer.jwt.as_ref());
                jwt.and_then(|jwt| claims.caller(jwt)).map(identified).ok_or_else(not_signed_in)
            }
        }
    }
}

fn identified(principal: Principal) -> Identified {
    Identified { principal, challenge: Challenge::default() }
}

fn not_signed_in() -> Rejection {
    Rejection::Unauthorized {
        reason: "the caller is not known: send a token that this server accepts",
        challenge: Challenge::default().unauthorized(None, ""),
    }
}

fn authorizer(request: &Parts) -> Option<&ApiGatewayRequestAuthorizer> {
    request.extensions.get::<RequestContext>()?.authorizer()
}

/// The address that the request came from, as AWS saw it.
pub(crate) fn source_address(extensions: &Extensions) -> Option<String> {
    match extensions.get::<RequestContext>()? {
        RequestContext::ApiGatewayV2(context) => context.http.source_ip.clone(),
        _ => None,
    }
}

/// The text, unless it is empty: AWS writes an empty text for an unknown value.
fn stated(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
