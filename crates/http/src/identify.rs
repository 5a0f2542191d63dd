//! Who calls: how the frontend derives the owner of a request.

use async_trait::async_trait;
use http::request::Parts;
use longhaul_core::{Identity, OwnerId};

use crate::Rejection;

/// Derives the owner of a request from a verified identity, never from what the caller claims without proof.
#[async_trait]
pub trait Identify: Send + Sync {
    /// The owner of the tasks that this request creates and may see.
    ///
    /// # Errors
    /// [`Rejection::NotSignedIn`] or [`Rejection::NotSigned`], if nobody verified the caller.
    async fn identify(&self, request: &Parts) -> Result<OwnerId, Rejection>;
}

/// Accepts every caller, as one and the same anonymous owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anyone;

#[async_trait]
impl Identify for Anyone {
    async fn identify(&self, _request: &Parts) -> Result<OwnerId, Rejection> {
        Ok(OwnerId::of(Identity::Anonymous))
    }
}
