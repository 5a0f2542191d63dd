//! Who calls: how the frontend learns who sent a request, and how callers learn to show who they are.

use async_trait::async_trait;
use bytes::Bytes;
use http::request::Parts;
use longhaul_core::{Identity, OwnerId, Principal};

use crate::{Challenge, Rejection};

/// One way to learn who calls: from what was verified, never from what the caller claims without proof.
#[async_trait]
pub trait Identify: Send + Sync {
    /// Who sent this request.
    ///
    /// # Errors
    /// [`Rejection::Unauthorized`] or [`Rejection::NotSigned`], if nobody verified the caller.
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection>;

    /// The JSON document that anyone may read at the path of this request, and that tells a caller how to sign in (RFC
    /// 9728, section 3); `None` if there is none.
    fn document(&self, _request: &Parts) -> Option<Bytes> {
        None
    }
}

/// A caller that was identified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    /// Who it is.
    pub principal: Principal,
    /// How it is told that it needs further scopes.
    pub challenge: Challenge,
}

impl From<OwnerId> for Identified {
    /// A caller of whom nothing but its owner is known, and who may do everything.
    fn from(owner: OwnerId) -> Self {
        Self { principal: owner.into(), challenge: Challenge::default() }
    }
}

/// Accepts every caller, as one and the same anonymous owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anyone;

#[async_trait]
impl Identify for Anyone {
    async fn identify(&self, _request: &Parts) -> Result<Identified, Rejection> {
        Ok(OwnerId::of(Identity::Anonymous).into())
    }
}
