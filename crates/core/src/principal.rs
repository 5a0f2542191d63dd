//! The caller, as verified before the call: the owner of its tasks, its scopes, and what tools may know of it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Identity, OwnerId};

/// A caller, as the HTTP frontend verified it; never what callers say about themselves. It holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Whose tasks it creates and sees.
    pub owner: OwnerId,
    /// Its identity; `None` for anonymous callers.
    pub identity: Option<VerifiedIdentity>,
    /// Its permissions.
    pub scopes: Scopes,
}

impl From<OwnerId> for Principal {
    /// A caller of whom nothing but its owner is known, and who may do everything.
    fn from(owner: OwnerId) -> Self {
        Self { owner, identity: None, scopes: Scopes::Unrestricted }
    }
}

impl Principal {
    /// The bearer of a token from `issuer`. Its tasks belong to its `subject`, or to the value of the claim that the
    /// operator chose: `owner` is that claim's name and value. Without a subject this claim also names the bearer, as
    /// in the tokens that Keycloak calls lightweight. `None` if a token has neither.
    ///
    /// ```
    /// use longhaul_core::{Principal, Scopes};
    ///
    /// let of = |subject, owner| {
    ///     Principal::of_token("https://login.example.com", subject, owner, Default::default(), Scopes::Unrestricted)
    /// };
    /// let (ann, bob) = (of(Some("ann"), Some(("team", "red"))), of(Some("bob"), Some(("team", "red"))));
    /// assert_eq!(ann.unwrap().owner, bob.unwrap().owner);
    /// assert_eq!(of(None, Some(("team", "red"))).unwrap().identity.unwrap().subject, "team=red");
    /// assert_eq!(of(None, None), None);
    /// ```
    #[must_use]
    pub fn of_token(
        issuer: &str,
        subject: Option<&str>,
        owner: Option<(&str, &str)>,
        claims: Map<String, Value>,
        scopes: Scopes,
    ) -> Option<Self> {
        let (owned_by, named) = match owner {
            None => (Identity::Verified { issuer, subject: subject?, tenant: "" }, subject?.to_owned()),
            Some((claim, tenant)) => {
                let named = subject.map_or_else(|| format!("{claim}={tenant}"), str::to_owned);
                (Identity::Verified { issuer, subject: "", tenant }, named)
            }
        };
        let identity = VerifiedIdentity { claims, ..VerifiedIdentity::new(issuer, named) };
        Some(Self { owner: OwnerId::of(owned_by), identity: Some(identity), scopes })
    }
}

/// The verified facts about a caller, without the token or signature that proved them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct VerifiedIdentity {
    /// The issuer of the subject: that of its token, or `aws-iam`.
    pub issuer: String,
    /// The subject: unique at its issuer, and never given to another caller.
    pub subject: String,
    /// Further claims about it, which the operator chose.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub claims: Map<String, Value>,
}

impl VerifiedIdentity {
    /// An identity without further claims.
    #[must_use]
    pub fn new(issuer: impl Into<String>, subject: impl Into<String>) -> Self {
        Self { issuer: issuer.into(), subject: subject.into(), claims: Map::new() }
    }
}

/// The permissions of a caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scopes {
    /// Everything: who calls was decided by something that knows no scopes.
    Unrestricted,
    /// The scopes of its token (RFC 6749, section 3.3).
    Granted(BTreeSet<String>),
}

const SCOPE_BYTES_MAX: usize = 256;

impl Scopes {
    /// Whether `text` can be a scope (RFC 6749, section 3.3). It has at least one character, no spaces, quotes or
    /// backslashes, and nothing beyond ASCII.
    #[must_use]
    pub fn is_scope(text: &str) -> bool {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
        (1..=SCOPE_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed)
    }

    /// Whether `scope` is among them.
    #[must_use]
    pub fn contain(&self, scope: &str) -> bool {
        match self {
            Self::Unrestricted => true,
            Self::Granted(scopes) => scopes.contains(scope),
        }
    }

    /// Whether all of `needed` are among them.
    #[must_use]
    pub fn contain_all<'a>(&self, needed: impl IntoIterator<Item = &'a String>) -> bool {
        needed.into_iter().all(|scope| self.contain(scope))
    }
}

/// Why a request was refused. An answer that carries this among its extensions becomes a challenge at the HTTP
/// frontend, which knows the form of challenges (RFC 6750, section 3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingScopes {
    /// The scopes that the request needs and its caller does not have.
    pub missing: BTreeSet<String>,
    /// The scopes of the token that the caller should get: all that the request needs, and those of this server that
    /// the caller has. Many clients replace their token by one with the scopes of the challenge alone.
    pub wanted: BTreeSet<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_what_rfc_6749_says() {
        for scope in ["a", "etl:run", "https://example.com/tasks", "!#[]~,"] {
            assert!(Scopes::is_scope(scope), "{scope:?}");
        }
        for other in ["", "a b", " a", "\"a\"", "a\\b", "ä", "a\t", "a\n", "\u{7f}"] {
            assert!(!Scopes::is_scope(other), "{other:?}");
        }
        let longest = "a".repeat(SCOPE_BYTES_MAX);
        assert!(Scopes::is_scope(&longest) && !Scopes::is_scope(&format!("{longest}a")));
    }

    #[test]
    fn a_scope_has_to_be_granted_as_it_is_written() {
        let granted = Scopes::Granted(["etl:run".to_owned()].into());
        assert!(granted.contain("etl:run"));
        for other in ["etl:Run", "etl", "etl:run ", ""] {
            assert!(!granted.contain(other), "{other:?}");
            assert!(Scopes::Unrestricted.contain(other));
        }
    }
}
