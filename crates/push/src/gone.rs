//! Endpoints that have switched themselves off, by answering `410 Gone`. That is on record, in a mailbox of nobody's.

use longhaul_core::ports::Left;
use longhaul_core::{Identity, MailboxId, OwnerId};
use longhaul_engine::{CollectError, Engine, LeaveError};

use crate::Endpoint;

/// How long it is on record: ten years.
const OFF_MS: u64 = 10 * 366 * 24 * 60 * 60 * 1_000;

/// Whose mailboxes these are: no caller's.
fn owner() -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "longhaul", subject: "webhooks", tenant: "" })
}

/// An endpoint with another URL, or another revision, is another one.
fn mailbox(endpoint: &Endpoint) -> MailboxId {
    let revision = endpoint.revision.to_be_bytes();
    MailboxId::of(&[b"switched off", endpoint.name.as_bytes(), endpoint.url.as_str().as_bytes(), &revision])
}

/// Whether the endpoint has switched itself off.
pub(crate) async fn is_off(engine: &Engine, endpoint: &Endpoint) -> Result<bool, CollectError> {
    Ok(engine.collect(&owner(), &mailbox(endpoint)).await?.is_some())
}

/// Records that the endpoint has switched itself off.
pub(crate) async fn switch_off(engine: &Engine, endpoint: &Endpoint) -> Result<(), LeaveError> {
    let expires_at = engine.ports().clock.now().plus_ms(OFF_MS);
    match engine.leave(&owner(), &mailbox(endpoint), "410", expires_at).await? {
        Left::First => {
            tracing::warn!(endpoint = endpoint.name, "an endpoint answered 410: it is switched off");
        }
        Left::Earlier(_) => {}
    }
    Ok(())
}
