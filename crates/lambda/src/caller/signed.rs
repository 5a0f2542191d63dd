//! Callers whose signature AWS verified, and the users for whom one of them calls.

use aws_lambda_events::apigw::ApiGatewayRequestAuthorizerIamDescription;
use http::{HeaderMap, HeaderName};
use longhaul_core::settings::table::IamOwner;
use longhaul_core::{Identity, OwnerId, Principal, Scopes, VerifiedIdentity};
use longhaul_http::Rejection;
use serde_json::Value;

/// The issuer of identities that AWS verified by signature.
const ISSUER: &str = "aws-iam";

const USER_BYTES_MAX: usize = 256;

/// The one role that says for which user it calls, and the header in which it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnBehalf {
    /// The unique id of the role. Its name is not enough: a role that is deleted and created again is another one.
    pub role: String,
    /// The header that has the user.
    pub header: HeaderName,
}

/// A signed request's sender, all of it verified by AWS.
#[derive(Clone, Copy)]
struct Signer<'a> {
    account: &'a str,
    arn: &'a str,
    id: &'a str,
}

pub(super) fn signed(iam: &ApiGatewayRequestAuthorizerIamDescription, owner: IamOwner) -> Option<Principal> {
    Some(Signer::of(iam)?.alone(owner))
}

/// The signer of a request, or the user for whom the trusted role did.
pub(super) fn signed_on_behalf(
    iam: &ApiGatewayRequestAuthorizerIamDescription,
    owner: IamOwner,
    trusted: &OnBehalf,
    headers: &HeaderMap,
) -> Result<Principal, Rejection> {
    let signer = Signer::of(iam).ok_or(Rejection::NotSigned)?;
    let mut users = headers.get_all(&trusted.header).iter();
    let Some(user) = users.next() else { return Ok(signer.alone(owner)) };
    if !signer.is_role(&trusted.role) {
        return Err(Rejection::OnBehalf("only the role that this server trusts may name the user for whom it calls"));
    }
    let only = user.to_str().ok().filter(|user| users.next().is_none() && is_user(user));
    let unclear =
        "the header that names the user must be there once, with 1 to 256 visible characters of ASCII and no comma";
    only.map(|user| signer.for_user(user)).ok_or(Rejection::OnBehalf(unclear))
}

/// AWS puts a comma between the values of a header that was sent several times.
fn is_user(user: &str) -> bool {
    (1..=USER_BYTES_MAX).contains(&user.len()) && user.bytes().all(|byte| matches!(byte, b'!'..=b'~') && byte != b',')
}

impl<'a> Signer<'a> {
    fn of(iam: &'a ApiGatewayRequestAuthorizerIamDescription) -> Option<Self> {
        let account = stated(iam.account_id.as_deref())?;
        let arn = stated(iam.user_arn.as_deref())?;
        let id = stated(iam.user_id.as_deref())?;
        Some(Self { account, arn, id })
    }

    /// From the unique id that AWS gives to a user or role, never from a name. A role that was deleted and created
    /// again is a different owner.
    fn alone(self, owner: IamOwner) -> Principal {
        let (owner, subject) = match owner {
            IamOwner::Account => ("", self.principal()),
            IamOwner::Session => (self.id, self.id),
            IamOwner::Principal => (self.principal(), self.principal()),
        };
        let owner = OwnerId::of(Identity::Verified { issuer: ISSUER, subject: owner, tenant: self.account });
        self.caller(owner, ISSUER, subject)
    }

    /// A user whom this role vouches for: an issuer of its own, so that no other caller can be the same owner.
    fn for_user(self, user: &str) -> Principal {
        let issuer = format!("{ISSUER}/{}", self.principal());
        let owner = OwnerId::of(Identity::Verified { issuer: &issuer, subject: user, tenant: self.account });
        self.caller(owner, &issuer, user)
    }

    fn caller(self, owner: OwnerId, issuer: &str, subject: &str) -> Principal {
        let mut identity = VerifiedIdentity::new(issuer, subject);
        let claims = [("account", self.account), ("arn", self.arn)];
        identity.claims = claims.map(|(name, value)| (name.to_owned(), Value::from(value))).into_iter().collect();
        Principal { owner, identity: Some(identity), scopes: Scopes::Unrestricted }
    }

    /// The role of an assumed role, whose id reads `AROA…:session`; otherwise the id as it is. A federated user's id
    /// begins with the account and identifies the user only as a whole.
    fn principal(self) -> &'a str {
        match self.id.split_once(':') {
            Some((role, _session)) if self.has_assumed_a_role() && !role.is_empty() => role,
            Some(_) | None => self.id,
        }
    }

    fn is_role(self, role: &str) -> bool {
        self.has_assumed_a_role() && self.principal() == role
    }

    fn has_assumed_a_role(self) -> bool {
        let resource = self.arn.splitn(6, ':').nth(5).unwrap_or_default();
        resource.starts_with("assumed-role/")
    }
}

/// The text, unless it is empty: AWS writes an empty text for an unknown value.
pub(super) fn stated(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const ACCOUNT: &str = "111122223333";

    fn iam(arn: &str, id: &str) -> ApiGatewayRequestAuthorizerIamDescription {
        let mut iam = ApiGatewayRequestAuthorizerIamDescription::default();
        iam.account_id = Some(ACCOUNT.to_owned());
        iam.user_arn = Some(format!("arn:aws:{arn}"));
        iam.user_id = Some(id.to_owned());
        iam
    }

    fn owner(iam: &ApiGatewayRequestAuthorizerIamDescription, by: IamOwner) -> Option<OwnerId> {
        signed(iam, by).map(|caller| caller.owner)
    }

    fn session(role: &str, session: &str) -> ApiGatewayRequestAuthorizerIamDescription {
        iam(&format!("sts::{ACCOUNT}:assumed-role/app/{session}"), &format!("{role}:{session}"))
    }

    #[test]
    fn users_are_owners_of_their_own() {
        let owner = |name: &str, id: &str| owner(&iam(&format!("iam::{ACCOUNT}:user/{name}"), id), IamOwner::Principal);
        assert!(owner("ann", "AIDA1").is_some());
        assert_eq!(owner("ann", "AIDA1"), owner("renamed", "AIDA1"));
        assert_ne!(owner("ann", "AIDA1"), owner("ann", "AIDA2"));
    }

    #[test]
    fn sessions_of_a_role_are_one_owner_unless_told_otherwise() {
        let owner = |name, by| owner(&session("AROA1", name), by);
        assert_eq!(owner("a", IamOwner::Principal), owner("b", IamOwner::Principal));
        assert_ne!(owner("a", IamOwner::Session), owner("b", IamOwner::Session));
        assert_eq!(owner("a", IamOwner::Account), owner("b", IamOwner::Account));
        assert_ne!(owner("a", IamOwner::Principal), owner("a", IamOwner::Account));
    }

    #[test]
    fn federated_users_of_an_account_are_not_one_owner() {
        let caller = |name: &str| iam(&format!("sts::{ACCOUNT}:federated-user/{name}"), &format!("{ACCOUNT}:{name}"));
        let of = |name| owner(&caller(name), IamOwner::Principal);
        assert_ne!(of("ann"), of("bob"));
        let root = owner(&iam(&format!("iam::{ACCOUNT}:root"), ACCOUNT), IamOwner::Principal);
        assert_ne!(of("ann"), root);
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
            assert_eq!(on_behalf(&part, IamOwner::Principal, &["ann"]), Err(Rejection::NotSigned));
        }
    }

    #[test]
    fn tools_see_who_signed() {
        let identity = |by| signed(&session("AROA1", "a"), by).unwrap().identity.unwrap();
        for (by, subject) in
            [(IamOwner::Principal, "AROA1"), (IamOwner::Account, "AROA1"), (IamOwner::Session, "AROA1:a")]
        {
            let identity = identity(by);
            assert_eq!((identity.issuer.as_str(), identity.subject.as_str()), ("aws-iam", subject));
            assert_eq!(identity.claims["account"], ACCOUNT);
            assert_eq!(identity.claims["arn"], format!("arn:aws:sts::{ACCOUNT}:assumed-role/app/a"));
        }
    }

    fn on_behalf(
        iam: &ApiGatewayRequestAuthorizerIamDescription,
        by: IamOwner,
        users: &[&str],
    ) -> Result<Principal, Rejection> {
        let trusted = OnBehalf { role: "AROA1".to_owned(), header: HeaderName::from_static("x-end-user") };
        let mut headers = HeaderMap::new();
        for user in users {
            headers.append("x-end-user", HeaderValue::from_bytes(user.as_bytes()).unwrap());
        }
        signed_on_behalf(iam, by, &trusted, &headers)
    }

    #[test]
    fn each_user_of_the_trusted_role_is_an_owner_of_its_own() {
        let gateway = session("AROA1", "a");
        for by in [IamOwner::Principal, IamOwner::Session, IamOwner::Account] {
            let ann = on_behalf(&gateway, by, &["ann"]).unwrap();
            assert_eq!(ann, on_behalf(&gateway, by, &["ann"]).unwrap());
            assert_ne!(ann.owner, on_behalf(&gateway, by, &["bob"]).unwrap().owner);
            let itself = on_behalf(&gateway, by, &[]).unwrap();
            assert_eq!(Some(itself.owner), owner(&gateway, by), "the gateway calls for itself when it lists the tools");
            assert_ne!(ann.owner, itself.owner);
        }
        let ann = on_behalf(&gateway, IamOwner::Session, &["ann"]).unwrap();
        assert_eq!(ann.owner, on_behalf(&session("AROA1", "b"), IamOwner::Session, &["ann"]).unwrap().owner);
        let identity = ann.identity.unwrap();
        assert_eq!((identity.issuer.as_str(), identity.subject.as_str()), ("aws-iam/AROA1", "ann"));
    }

    #[test]
    fn nobody_but_the_trusted_role_names_a_user() {
        for other in [
            session("AROA2", "a"),
            session("AROA11", "a"),
            session("AROA", "1:a"),
            session("aroa1", "a"),
            iam(&format!("iam::{ACCOUNT}:user/ann"), "AROA1"),
            iam(&format!("iam::{ACCOUNT}:user/assumed-role/ann"), "AROA1:a"),
            iam(&format!("sts::{ACCOUNT}:federated-user/AROA1"), "AROA1:a"),
        ] {
            let refused = on_behalf(&other, IamOwner::Principal, &["ann"]);
            assert!(matches!(refused, Err(Rejection::OnBehalf(_))), "{other:?}");
            assert_eq!(on_behalf(&other, IamOwner::Principal, &[]).ok(), signed(&other, IamOwner::Principal));
        }
    }

    #[test]
    fn a_user_who_is_not_named_clearly_is_refused() {
        let long = "u".repeat(USER_BYTES_MAX + 1);
        for users in
            [&["ann", "bob"][..], &["ann", "ann"], &[""], &["ann,bob"], &["ann bob"], &[" "], &["änn"], &[&long]]
        {
            let refused = on_behalf(&session("AROA1", "a"), IamOwner::Principal, users);
            assert!(matches!(refused, Err(Rejection::OnBehalf(_))), "{users:?}");
        }
        for user in ["ann@example.com", "auth0|5fe435b5cbbc85006b071eba", &long[1..]] {
            assert!(on_behalf(&session("AROA1", "a"), IamOwner::Principal, &[user]).is_ok(), "{user}");
        }
    }
}
