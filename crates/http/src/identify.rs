//! Who calls: the step of the door that turns a request into an owner.

use async_trait::async_trait;
use http::request::Parts;
use longhaul_core::{Identity, OwnerId};

use crate::Rejection;

/// Finds out who sends a request, from what somebody verified; never from what the caller merely says of itself.
#[async_trait]
pub trait Identify: Send + Sync {
    /// The owner of what this request makes and may see.
    ///
    /// # Errors
    /// [`Rejection::NotSignedIn`] or [`Rejection::NotSigned`], where nobody vouches for the caller.
    async fn identify(&self, request: &Parts) -> Result<OwnerId, Rejection>;
}

/// Lets everyone in, as one and the same owner.
#[derive(Clone, Copy, Debug, Default)]
pub struct Anyone;

#[async_trait]
impl Identify for Anyone {
    async fn identify(&self, _request: &Parts) -> Result<OwnerId, Rejection> {
        Ok(OwnerId::of(Identity::Anonymous))
    }
}
