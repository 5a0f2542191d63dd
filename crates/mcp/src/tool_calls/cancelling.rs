//! `notifications/cancelled` of revisions with sessions: the client no longer wants the answer to a request that may be
//! running on another instance. The notification stores its time in a mailbox that is named by the session and the
//! request's id. The instance that runs the request reads it there.

use std::sync::Arc;

use futures::future::BoxFuture;
use longhaul_core::{MailboxId, OwnerId, Task, TaskId, TaskKey, Timestamp, strict_json};
use longhaul_engine::{AcceptError, Call, Engine, Listener, PollError};
use rmcp::model::RequestId;
use serde::Deserialize;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::reply;
use crate::request::incoming::{Client, Notice};
use crate::state::Shared;

pub(crate) const METHOD: &str = "notifications/cancelled";

/// How long a cancellation can be found: longer than any call stays open.
const KEPT_MS: u64 = 15 * 60 * 1_000;

/// The longest pause between two looks. The first one is as long as that of a stream.
const PAUSE_MS_MAX: u64 = 2_000;

/// How far the clocks of two instances may differ.
const SKEW_MS: u64 = 1_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    request_id: RequestId,
}

/// How a call ends early, for the handler that runs it.
#[derive(Clone, Default)]
pub(crate) struct Ending {
    /// Cancelled when no client waits for the answer any more.
    pub(crate) left: CancellationToken,
    /// Cancelled before that if the client said so, rather than only left.
    pub(crate) by_client: CancellationToken,
}

/// The end of a call whose client leaves before the answer. Its acceptance continues, so that its task has a message.
#[derive(Default)]
pub(crate) struct Leaving {
    accepting: Option<BoxFuture<'static, Result<(Task, Listener), AcceptError>>>,
    /// The task, which is cancelled: no other client can know the id.
    unnamed: Option<(Engine, TaskKey)>,
}

impl Leaving {
    /// Accepts a call as the task `id`.
    pub(crate) async fn accept(
        &mut self,
        id: TaskId,
        call: Call,
        engine: &Engine,
    ) -> Result<(Task, Listener), AcceptError> {
        let mut listener = engine.listener();
        let accepting = async move { Ok((listener.accept(id, call).await?, listener)) };
        let accepted = self.accepting.insert(Box::pin(accepting)).await;
        self.accepting = None;
        self.unnamed.take_if(|_| accepted.is_err());
        accepted
    }

    /// Has this task cancelled if the client leaves, and no other.
    pub(crate) fn cancels(&mut self, unnamed: Option<(Engine, TaskKey)>) {
        self.unnamed = unnamed;
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let (accepting, unnamed) = (self.accepting.take(), self.unnamed.take());
        let Ok(runtime) = Handle::try_current() else { return };
        if accepting.is_none() && unnamed.is_none() {
            return;
        }
        // The client has left, so no request can await it.
        runtime.spawn(async move {
            if let Some(accepting) = accepting {
                drop(accepting.await);
            }
            if let Some((engine, key)) = unnamed {
                cancel(&engine, &key).await;
            }
        });
    }
}

/// Cancels the task of a call whose client no longer wants the answer.
pub(crate) async fn cancel(engine: &Engine, key: &TaskKey) {
    if let Err(error @ PollError::Unavailable(_)) = engine.cancel(key).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "a request was not cancelled");
    }
}

/// Stores the cancellation where the instance that runs the request finds it. Without a session, the ids of requests
/// are not unique, and it is ignored.
pub(crate) async fn leave(shared: &Shared, notice: &Notice<'_>) {
    let params = notice.params.and_then(|params| strict_json::from_str::<Params>(params.get()).ok());
    let Some(Params { request_id }) = params else { return };
    let Some(mailbox) = mailbox(notice.client, &request_id) else { return };
    let now = shared.engine.ports().clock.now();
    let left = shared.engine.leave(&notice.owner, &mailbox, &now.as_ms().to_string(), now.plus_ms(KEPT_MS)).await;
    if let Err(error) = left {
        tracing::warn!(error = &error as &dyn std::error::Error, "a request was not cancelled");
    }
}

/// The mailbox for the cancellation of a request; `None` if its client has no session.
pub(crate) fn mailbox(client: &Client, id: &RequestId) -> Option<MailboxId> {
    let session = client.session()?.nonce().to_string();
    // As text, with its quotes: 1 and "1" are two ids.
    Some(MailboxId::of(&[b"cancelled request", session.as_bytes(), reply::id_text(id).as_bytes()]))
}

/// Waits until the client cancels the request with this id, on any instance. It costs nothing in the first seconds, and
/// then one read for each check.
pub(crate) async fn of_request(shared: Arc<Shared>, owner: OwnerId, mailbox: Option<MailboxId>) {
    let Some(mailbox) = mailbox else { return std::future::pending().await };
    let clock = &shared.engine.ports().clock;
    let began_at = clock.now();
    let mut pause_ms = shared.settings.listen_poll_ms.max(1);
    loop {
        clock.sleep_ms(pause_ms).await;
        pause_ms = pause_ms.saturating_mul(2).min(PAUSE_MS_MAX.max(shared.settings.listen_poll_ms));
        match shared.engine.collect(&owner, &mailbox).await {
            Ok(Some(left_at)) if counts(&left_at, began_at) => return,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a cancellation could not be looked up");
            }
        }
    }
}

/// Whether a cancellation is for the request that began at this time, and not for an earlier one of the same id.
fn counts(left_at: &str, began_at: Timestamp) -> bool {
    left_at.parse().is_ok_and(|left_at: u64| left_at.saturating_add(SKEW_MS) >= began_at.as_ms())
}
