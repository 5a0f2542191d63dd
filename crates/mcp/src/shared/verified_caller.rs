//! What tools may know about who calls them.

use std::sync::Arc;

use http::request::Parts;
use longhaul_core::{OwnerId, Principal, Scopes, VerifiedIdentity};
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Who calls, as it was verified before the call reached the server: never what callers say about themselves, and never
/// a token. [`TaskContext::caller`](crate::TaskContext::caller) returns it in tools, [`VerifiedCaller::of`] everywhere
/// else.
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use longhaul::VerifiedCaller;
/// use rmcp::{RoleServer, service::RequestContext};
///
/// fn greeting(context: &RequestContext<RoleServer>) -> String {
///     match VerifiedCaller::of(context) {
///         Some(caller) => format!("{} of {}", caller.subject(), caller.issuer()),
///         None => "somebody".to_owned(),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifiedCaller {
    #[serde(flatten)]
    identity: VerifiedIdentity,
    scopes: Scopes,
}

impl VerifiedCaller {
    /// Who sent the request of `context`, for handlers that take no [`TaskContext`](crate::TaskContext): in tools,
    /// which may be running as tasks, and in prompts, resources and lists. `None` for callers whom nobody identifies.
    #[must_use]
    pub fn of(context: &RequestContext<RoleServer>) -> Option<Self> {
        if let Some(known) = context.extensions.get::<Self>() {
            return Some(known.clone());
        }
        Self::known(context.extensions.get::<Parts>()?.extensions.get::<Arc<Principal>>()?)
    }

    /// What is known about `principal`; `None` if nobody identified it.
    pub(crate) fn known(principal: &Principal) -> Option<Self> {
        Some(Self { identity: principal.identity.clone()?, scopes: principal.scopes.clone() })
    }

    /// Who calls a tool from the task of such a caller, or of one whom nobody identified.
    pub(crate) fn principal_of(known: Option<&Self>, owner: OwnerId) -> Principal {
        known.map_or_else(
            || Principal::from(owner),
            |known| Principal { owner, identity: Some(known.identity.clone()), scopes: known.scopes.clone() },
        )
    }

    /// Who vouches for the [subject](Self::subject): the issuer of the caller's token, or `aws-iam`.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.identity.issuer
    }

    /// Who it is: unique at its [issuer](Self::issuer), and never given to anybody else.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.identity.subject
    }

    /// Further claims about it, which the operator chose, by their names.
    #[must_use]
    pub const fn claims(&self) -> &Map<String, Value> {
        &self.identity.claims
    }

    /// Whether it may do what needs this scope. A caller whom something identified that knows no scopes, such as IAM,
    /// may do everything.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.contain(scope)
    }

    /// The scopes that were granted to it; `None` if it may do everything.
    #[must_use]
    pub fn scopes(&self) -> Option<impl Iterator<Item = &str>> {
        match &self.scopes {
            Scopes::Unrestricted => None,
            Scopes::Granted(scopes) => Some(scopes.iter().map(String::as_str)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_what_it_wrote_and_what_has_no_claims() {
        let mut identity = VerifiedIdentity::new("https://id.example.com", "alice");
        identity.claims.insert("team".to_owned(), "blue".into());
        let granted = VerifiedCaller { identity, scopes: Scopes::Granted(["etl:run".to_owned()].into()) };
        let text = serde_json::to_string(&granted).unwrap();
        assert_eq!(serde_json::from_str::<VerifiedCaller>(&text).unwrap(), granted, "{text}");
        let text = r#"{"issuer":"aws-iam","subject":"AIDA","scopes":"unrestricted"}"#;
        let read: VerifiedCaller = serde_json::from_str(text).unwrap();
        assert!(read.scopes().is_none() && read.has_scope("anything") && read.claims().is_empty());
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
