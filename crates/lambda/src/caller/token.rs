//! Callers whose token the authorizer of an HTTP API verified: its signature, issuer, audience and time.

use std::collections::BTreeSet;

use aws_lambda_events::apigw::ApiGatewayRequestAuthorizerJwtDescription;
use longhaul_core::{Principal, Scopes};
use serde_json::{Map, Value};

use super::signed::stated;

const NAME_BYTES_MAX: usize = 512;

/// Bytes of the claims that tools may see: they are stored with each task.
const VISIBLE_BYTES_MAX: usize = 4 * 1024;

/// The claims of a token that was verified before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenClaims {
    /// The claim whose value is the owner; the subject if there is none.
    pub owner: Option<String>,
    /// The claims that tools may see.
    pub visible: Vec<String>,
}

impl TokenClaims {
    /// The bearer of the token; `None` if it does not say so clearly. The owner is the same as if the function had
    /// verified the token itself.
    pub(super) fn caller(&self, jwt: &ApiGatewayRequestAuthorizerJwtDescription) -> Option<Principal> {
        let claim = |name: &str| stated(jwt.claims.get(name).map(String::as_str));
        let subject = jwt.claims.get("sub").map(String::as_str);
        let owner = match &self.owner {
            None => None,
            Some(name) => Some((name.as_str(), claim(name).filter(|value| is_one(value))?)),
        };
        if subject.is_some_and(|subject| subject.is_empty() || !is_name(subject)) {
            return None;
        }
        Principal::of_token(claim("iss")?, subject, owner, self.visible(jwt)?, scopes(jwt))
    }

    /// As strings, the form in which the gateway passes them on.
    fn visible(&self, jwt: &ApiGatewayRequestAuthorizerJwtDescription) -> Option<Map<String, Value>> {
        let claim = |name: &String| Some((name.clone(), Value::from(jwt.claims.get(name)?.as_str())));
        let visible: Map<String, Value> = self.visible.iter().filter_map(claim).collect();
        let bytes: usize = visible.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum();
        (bytes <= VISIBLE_BYTES_MAX).then_some(visible)
    }
}

/// Whether a text may name a caller: not long, nothing that a log or a terminal would act on.
fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control)
}

/// Whether a claim has one value. The gateway writes a list as its values between brackets, so that the function cannot
/// tell a list from a text with brackets.
fn is_one(value: &str) -> bool {
    is_name(value) && !value.starts_with('[')
}

/// The scopes of the token: the claim `scope`, or `scp` as some issuers have it. Without both, the scopes that the
/// gateway found.
fn scopes(jwt: &ApiGatewayRequestAuthorizerJwtDescription) -> Scopes {
    let claimed = jwt.claims.get("scope").or_else(|| jwt.claims.get("scp"));
    let granted: BTreeSet<String> = match claimed {
        Some(text) => listed(text).split_whitespace().map(str::to_owned).collect(),
        None => jwt.scopes.iter().flatten().cloned().collect(),
    };
    Scopes::Granted(granted)
}

/// A list without its brackets.
fn listed(text: &str) -> &str {
    text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(claims: &[(&str, &str)]) -> ApiGatewayRequestAuthorizerJwtDescription {
        let mut jwt = ApiGatewayRequestAuthorizerJwtDescription::default();
        let always = [("iss", "https://issuer.example.com"), ("sub", "ann")];
        let all = always.iter().chain(claims).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        jwt.claims = all.collect();
        jwt
    }

    fn caller(claims: &[(&str, &str)]) -> Option<Principal> {
        TokenClaims::default().caller(&jwt(claims))
    }

    #[test]
    fn a_token_without_issuer_or_subject_identifies_nobody() {
        assert!(caller(&[]).is_some());
        let long = "s".repeat(NAME_BYTES_MAX + 1);
        for claims in [("iss", ""), ("sub", ""), ("sub", "a\nb"), ("sub", long.as_str())] {
            assert_eq!(caller(&[claims]), None, "{claims:?}");
        }
        assert_ne!(caller(&[]).unwrap().owner, caller(&[("sub", "bob")]).unwrap().owner);
        assert_ne!(caller(&[]).unwrap().owner, caller(&[("iss", "https://other.example.com")]).unwrap().owner);
    }

    #[test]
    fn scopes_are_what_the_token_claims() {
        let granted = |claims: &[(&str, &str)]| caller(claims).unwrap().scopes;
        let of = |scopes: &[&str]| Scopes::Granted(scopes.iter().map(|scope| (*scope).to_owned()).collect());
        assert_eq!(granted(&[]), of(&[]), "a token that grants nothing");
        assert_eq!(granted(&[("scope", "call  read")]), of(&["call", "read"]));
        assert_eq!(granted(&[("scp", "[call read]")]), of(&["call", "read"]), "how the gateway writes a list");
        assert_eq!(granted(&[("scope", "call"), ("scp", "[admin]")]), of(&["call"]), "one claim counts");
        let mut without = jwt(&[]);
        without.scopes = Some(vec!["call".to_owned()]);
        assert_eq!(TokenClaims::default().caller(&without).unwrap().scopes, of(&["call"]));
        without.claims.insert("scope".to_owned(), "read".to_owned());
        assert_eq!(TokenClaims::default().caller(&without).unwrap().scopes, of(&["read"]));
    }

    #[test]
    fn a_team_shares_its_tasks_if_the_operator_says_so() {
        let by_team = TokenClaims { owner: Some("team".to_owned()), visible: Vec::new() };
        let owner = |claims: &[(&str, &str)]| by_team.caller(&jwt(claims)).map(|caller| caller.owner);
        assert_eq!(owner(&[("team", "a")]), owner(&[("team", "a"), ("sub", "bob")]));
        assert_ne!(owner(&[("team", "a")]), owner(&[("team", "b")]));
        assert_ne!(owner(&[("team", "ann")]), caller(&[]).map(|caller| caller.owner));
        let mut lightweight = jwt(&[("team", "a")]);
        lightweight.claims.remove("sub");
        let bearer = by_team.caller(&lightweight).unwrap();
        assert_eq!(
            (Some(bearer.owner), bearer.identity.unwrap().subject),
            (owner(&[("team", "a")]), "team=a".to_owned())
        );
        for unclear in [&[][..], &[("team", "")], &[("team", "[a b]")], &[("team", "[a]")]] {
            assert_eq!(owner(unclear), None, "{unclear:?}");
        }
    }

    #[test]
    fn tools_see_the_claims_that_were_chosen() {
        let claims = TokenClaims { owner: None, visible: vec!["email".to_owned(), "team".to_owned()] };
        let seen = |token: &[(&str, &str)]| claims.caller(&jwt(token)).map(|caller| caller.identity.unwrap().claims);
        let email = [("email", "ann@example.com"), ("phone", "1")];
        let expected: Map<_, _> = [("email".to_owned(), Value::from("ann@example.com"))].into_iter().collect();
        assert_eq!(seen(&email), Some(expected));
        assert_eq!(seen(&[("email", &"e".repeat(VISIBLE_BYTES_MAX))]), None);
    }
}
