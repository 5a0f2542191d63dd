//! The sender of a request, and its address.

use crate::{Identity, OwnerId, Principal, VerifiedIdentity};
use tracing::Span;
use tracing::field::{Empty, display};

use crate::audit::TARGET;

/// Where a request came from, as the platform knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a, A> {
    /// The client's address, as the platform saw it: never from a header that clients can write.
    pub address: Option<A>,
    /// The method of HTTP.
    pub http_method: &'a str,
    /// The platform's id of the request.
    pub request_id: Option<&'a str>,
    /// The client's name for itself.
    pub user_agent: Option<&'a str>,
}

/// The span around a request, whose fields are in each of its entries.
#[derive(Clone, Debug)]
pub struct CallerSpan(Span);

impl CallerSpan {
    /// The span of a request whose sender is not known yet.
    pub fn new<A: std::fmt::Display>(source: Source<'_, A>) -> Self {
        Self(tracing::info_span!(
            target: TARGET,
            parent: None,
            "caller",
            address = source.address.map(display),
            http_method = source.http_method,
            request_id = source.request_id,
            user_agent = source.user_agent,
            issuer = Empty,
            subject = Empty,
            owner = Empty,
        ))
    }

    /// Says who sent the request.
    pub fn identified(&self, principal: &Principal) {
        if self.0.is_disabled() {
            return;
        }
        self.0.record("owner", display(principal.owner));
        if let Some(identity) = &principal.identity {
            self.0.record("issuer", identity.issuer.as_str());
            self.0.record("subject", display(pseudonym(identity)));
        }
    }

    /// The span itself, to enter.
    #[must_use]
    pub const fn span(&self) -> &Span {
        &self.0
    }
}

/// The subject, hashed with its issuer. It is the owner of a caller that shares its tasks with no other.
fn pseudonym(identity: &VerifiedIdentity) -> OwnerId {
    let VerifiedIdentity { issuer, subject, .. } = identity;
    OwnerId::of(Identity::Verified { issuer, subject, tenant: "" })
}
