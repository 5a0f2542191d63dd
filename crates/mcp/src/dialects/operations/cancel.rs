//! `notifications/cancelled`, which names the request that started an operation. Which task that was is written down
//! when it starts: the notification may reach another instance.

use longhaul_core::{Entry, EntryKind, OwnerId, Payload, Task, TaskId, TaskKey, Timestamp};
use rmcp::model::RequestId;
use serde::Deserialize;

use crate::dialect::Endpoint;
use crate::shared::Shared;
use crate::shared::derived;
use crate::shared::incoming::{Client, Incoming, Notice};

/// How long a request can be found by its id, at the least.
const DAY_MS: u64 = 24 * 3_600_000;

/// Tasks of one request id that are looked at. Clients without a session may use an id again and again.
const TASKS_MAX: usize = 32;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    request_id: RequestId,
}

/// Notes which task a request started. A failure costs no more than this way of cancelling.
pub(super) async fn note(call: &Incoming<'_>, endpoint: &Endpoint, task: TaskId) {
    let ports = endpoint.shared().engine.ports();
    let day = ports.clock.now().as_ms() / DAY_MS;
    let place = place(&call.owner, call.client, &call.id, day);
    let entry = Entry { kind: EntryKind::Answer, name: task.to_string(), value: Payload::Inline(String::new()) };
    if let Err(error) = ports.store.record(&place, &entry).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "an operation cannot be cancelled by its request id");
    }
}

/// Cancels the operation that the request started: of several the youngest, since only clients without a session use an
/// id twice.
pub(super) async fn on_notification(notice: &Notice<'_>, endpoint: &Endpoint) {
    let params = notice.params.and_then(|params| serde_json::from_str::<Params>(params.get()).ok());
    let Some(Params { request_id }) = params else { return };
    let shared = endpoint.shared();
    let today = shared.engine.ports().clock.now().as_ms() / DAY_MS;
    for day in [today, today.saturating_sub(1)] {
        let place = place(&notice.owner, notice.client, &request_id, day);
        if let Some(task) = youngest(shared, &notice.owner, &place).await {
            if let Err(error) = shared.engine.cancel(&task.key()).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "an operation was not cancelled");
            }
            return;
        }
    }
}

/// The youngest of the tasks noted at `place` that have not ended.
async fn youngest(shared: &Shared, owner: &OwnerId, place: &TaskKey) -> Option<Task> {
    let noted = shared.engine.ports().store.journal(place).await.unwrap_or_default();
    let mut youngest: Option<Task> = None;
    for id in noted.iter().rev().take(TASKS_MAX).filter_map(|entry| entry.name.parse().ok()) {
        match shared.engine.poll(&TaskKey::new(*owner, id)).await {
            Ok(task) if !task.has_ended() => {
                if youngest.as_ref().is_none_or(|other| other.created_at <= task.created_at) {
                    youngest = Some(task);
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
    youngest
}

/// Where the tasks of a request id are noted. Ids are unique within a session.
fn place(owner: &OwnerId, client: &Client, id: &RequestId, day: u64) -> TaskKey {
    let session = client.session().map(|session| session.nonce().to_be_bytes());
    let session = session.as_ref().map_or(&[][..], |nonce| &nonce[..]);
    // As text, with its quotes: 1 and "1" are two ids.
    let id = serde_json::to_string(id).unwrap_or_default();
    derived::place(owner, Timestamp::from_ms(day * DAY_MS), &[b"operation request", session, id.as_bytes()])
}
