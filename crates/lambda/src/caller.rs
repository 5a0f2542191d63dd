//! Who calls the API function, as verified by AWS before the function was invoked: the identity is in the request context
//! of the event, which callers cannot write.

use async_trait::async_trait;
use aws_lambda_events::apigw::{
    ApiGatewayRequestAuthorizer, ApiGatewayRequestAuthorizerIamDescription, ApiGatewayRequestAuthorizerJwtDescription,
};
use http::Extensions;
use http::request::Parts;
use lambda_http::request::RequestContext;
use longhaul_core::{Identity, OwnerId};
use longhaul_http::{Challenge, Identified, Identify, Rejection};

use crate::{Auth, IamOwner};

/// The issuer of identities that AWS verified by signature.
const IAM_ISSUER: &str = "aws-iam";

/// Identifies callers by the request context, in one of the ways of [`Auth`].
#[derive(Clone, Copy, Debug)]
pub struct AwsCaller(pub Auth);

#[async_trait]
impl Identify for AwsCaller {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        let authorizer = authorizer(request);
        match self.0 {
            Auth::Anonymous => Ok(OwnerId::of(Identity::Anonymous).into()),
            Auth::Iam(owner) => {
                let iam = authorizer.and_then(|authorizer| authorizer.iam.as_ref());
                iam.and_then(|iam| signed(iam, owner)).map(Identified::from).ok_or(Rejection::NotSigned)
            }
            Auth::Gateway => {
                let jwt = authorizer.and_then(|authorizer| authorizer.jwt.as_ref());
                jwt.and_then(with_token).map(Identified::from).ok_or_else(not_signed_in)
            }
        }
    }
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

/// The owner of a signed request: from the unique id that AWS gives to a user or role, never from a name. A role that
/// was deleted and created again is a different owner.
fn signed(iam: &ApiGatewayRequestAuthorizerIamDescription, owner: IamOwner) -> Option<OwnerId> {
    let account = stated(iam.account_id.as_deref())?;
    let arn = stated(iam.user_arn.as_deref())?;
    let id = stated(iam.user_id.as_deref())?;
    let subject = match owner {
        IamOwner::Account => "",
        IamOwner::Session => id,
        IamOwner::Principal => principal(arn, id),
    };
    Some(OwnerId::of(Identity::Verified { issuer: IAM_ISSUER, subject, tenant: account }))
}

/// The role of an assumed role, whose id reads `AROA…:session`; otherwise the id as it is. A federated user's id begins
/// with the account and identifies the user only as a whole.
fn principal<'a>(arn: &str, id: &'a str) -> &'a str {
    let resource = arn.splitn(6, ':').nth(5).unwrap_or_default();
    match id.split_once(':') {
        Some((role, _session)) if resource.starts_with("assumed-role/") && !role.is_empty() => role,
        Some(_) | None => id,
    }
}

/// The owner that a token names. The authorizer checked its signature, issuer, audience and time.
fn with_token(jwt: &ApiGatewayRequestAuthorizerJwtDescription) -> Option<OwnerId> {
    let claim = |name: &str| stated(jwt.claims.get(name).map(String::as_str));
    let (issuer, subject) = (claim("iss")?, claim("sub")?);
    Some(OwnerId::of(Identity::Verified { issuer, subject, tenant: "" }))
}

/// The text, unless it is empty: AWS writes an empty text for an unknown value.
fn stated(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: &str = "111122223333";

    fn iam(arn: &str, id: &str) -> ApiGatewayRequestAuthorizerIamDescription {
        let mut iam = ApiGatewayRequestAuthorizerIamDescription::default();
        iam.account_id = Some(ACCOUNT.to_owned());
        iam.user_arn = Some(format!("arn:aws:{arn}"));
        iam.user_id = Some(id.to_owned());
        iam
    }

    #[test]
    fn users_are_owners_of_their_own() {
        let owner =
            |name: &str, id: &str| signed(&iam(&format!("iam::{ACCOUNT}:user/{name}"), id), IamOwner::Principal);
        assert!(owner("ann", "AIDA1").is_some());
        assert_eq!(owner("ann", "AIDA1"), owner("renamed", "AIDA1"));
        assert_ne!(owner("ann", "AIDA1"), owner("ann", "AIDA2"));
    }

    #[test]
    fn sessions_of_a_role_are_one_owner_unless_told_otherwise() {
        let caller =
            |session: &str| iam(&format!("sts::{ACCOUNT}:assumed-role/app/{session}"), &format!("AROA1:{session}"));
        let owner = |session, by| signed(&caller(session), by);
        assert_eq!(owner("a", IamOwner::Principal), owner("b", IamOwner::Principal));
        assert_ne!(owner("a", IamOwner::Session), owner("b", IamOwner::Session));
        assert_eq!(owner("a", IamOwner::Account), owner("b", IamOwner::Account));
        assert_ne!(owner("a", IamOwner::Principal), owner("a", IamOwner::Account));
    }

    #[test]
    fn federated_users_of_an_account_are_not_one_owner() {
        let caller = |name: &str| iam(&format!("sts::{ACCOUNT}:federated-user/{name}"), &format!("{ACCOUNT}:{name}"));
        let owner = |name| signed(&caller(name), IamOwner::Principal);
        assert_ne!(owner("ann"), owner("bob"));
        let root = signed(&iam(&format!("iam::{ACCOUNT}:root"), ACCOUNT), IamOwner::Principal);
        assert_ne!(owner("ann"), root);
    }

    #[test]
    fn a_context_that_leaves_something_open_identifies_nobody() {
        let whole = iam(&format!("iam::{ACCOUNT}:user/ann"), "AIDA1");
        for strip in [
            |iam: &mut ApiGatewayRequestAuthorizerIamDescription| iam.account_id = None,
            |iam: &mut ApiGatewayRequestAuthorizerIamDescription| iam.user_arn = None,
            |iam: &mut ApiGatewayRequestAuthorizerIamDescription| iam.user_id = None,
            |iam: &mut ApiGatewayRequestAuthorizerIamDescription| iam.user_id = Some(String::new()),
        ] {
            let mut part = whole.clone();
            strip(&mut part);
            for by in [IamOwner::Principal, IamOwner::Session, IamOwner::Account] {
                assert_eq!(signed(&part, by), None, "{part:?}");
            }
        }
    }
}
