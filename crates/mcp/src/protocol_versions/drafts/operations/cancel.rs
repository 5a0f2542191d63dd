//! `notifications/cancelled`, which names the request that started an operation. The task is recorded under the
//! request's id when it starts: the notification may reach another instance.

use longhaul_core::ports::Left;
use longhaul_core::{MailboxId, OwnerId, TaskId, TaskKey, Timestamp, strict_json};
use longhaul_engine::CollectError;
use rmcp::model::RequestId;
use serde::Deserialize;

use crate::protocol_version::Endpoint;
use crate::reply;
use crate::request::incoming::{Client, Incoming, Notice};
use crate::signing::session::Scope;
use crate::state::Shared;

/// A request can be found by its id for at least this long.
const DAY_MS: u64 = 24 * 3_600_000;

/// How many tasks of one request id are read. Clients without a session may use an id again and again.
const TASKS_MAX: u32 = 32;

/// How many tasks of one request id are recorded in a day.
const NOTES_MAX: u32 = 1 << 20;

/// How often recording is tried while other instances record tasks under the same request id at the same time.
const TRIES_MAX: usize = 16;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    request_id: RequestId,
}

/// Records which task a request started. If it fails, only this way of cancelling is lost.
pub(super) async fn note(call: &Incoming<'_>, endpoint: &Endpoint, task: TaskId) {
    let shared = endpoint.shared();
    let day = shared.engine.ports().clock.now().as_ms() / DAY_MS;
    // Without a session nobody could prove later that the request was his.
    let Some(notes) = Notes::of(shared, call.owner, &call.scope, call.client, &call.id, day) else { return };
    if let Err(error) = notes.add(task).await {
        tracing::warn!(error = &*error, "an operation cannot be cancelled by its request id");
    }
}

/// Cancels the operation that the request started: the youngest if there are several, since only clients without a
/// session use an id twice.
pub(super) async fn on_notification(notice: &Notice<'_>, endpoint: &Endpoint) {
    let params = notice.params.and_then(|params| strict_json::from_str::<Params>(params.get()).ok());
    let Some(Params { request_id }) = params else { return };
    let shared = endpoint.shared();
    let today = shared.engine.ports().clock.now().as_ms() / DAY_MS;
    for day in [today, today.saturating_sub(1)] {
        let notes = Notes::of(shared, notice.owner, &notice.scope, notice.client, &request_id, day);
        let Some(notes) = notes else { return };
        let youngest = notes.youngest_unfinished().await.unwrap_or_else(|error| {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the operation of a request could not be looked up"
            );
            None
        });
        if let Some(task) = youngest {
            if let Err(error) = shared.engine.cancel(&task).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "an operation was not cancelled");
            }
            return;
        }
    }
}

/// The tasks that requests of one id started on one day, in mailboxes that are numbered from 0. Each new task is
/// recorded in the first empty one. All of them expire at the same time, so that there is never an empty one in
/// between.
struct Notes<'a> {
    shared: &'a Shared,
    owner: OwnerId,
    /// Request ids are unique within a session.
    session: Vec<u8>,
    id: String,
    day: u64,
}

impl<'a> Notes<'a> {
    /// `None` if the id of a request is valid nowhere, since many callers share the owner and this one has no session.
    fn of(
        shared: &'a Shared,
        owner: OwnerId,
        scope: &Scope,
        client: &Client,
        id: &RequestId,
        day: u64,
    ) -> Option<Self> {
        scope.of_name("the id of a request").ok()?;
        let session = client.session().map(|session| session.nonce().as_bytes().to_vec()).unwrap_or_default();
        // As text, with its quotes: 1 and "1" are two ids.
        let id = reply::id_text(id);
        Some(Self { shared, owner, session, id, day })
    }

    fn mailbox(&self, number: u32) -> MailboxId {
        let (day, number) = (self.day.to_be_bytes(), number.to_be_bytes());
        MailboxId::of(&[b"operation request", &self.session, self.id.as_bytes(), &day, &number])
    }

    async fn add(&self, task: TaskId) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (text, expires_at) = (task.to_string(), Timestamp::from_ms((self.day + 2).saturating_mul(DAY_MS)));
        // The first one is empty, unless the client has no session.
        let mut number = 0;
        for _ in 0..TRIES_MAX {
            match self.shared.engine.leave(&self.owner, &self.mailbox(number), &text, expires_at).await? {
                Left::First => return Ok(()),
                Left::Earlier(noted) if noted == text => return Ok(()),
                Left::Earlier(_) => number = self.count().await?,
            }
        }
        Err("too many operations were started with one request id".into())
    }

    async fn get(&self, number: u32) -> Result<Option<String>, CollectError> {
        self.shared.engine.collect(&self.owner, &self.mailbox(number)).await
    }

    /// How many tasks are recorded: the number of the first empty mailbox, found in steps that double and then halve.
    async fn count(&self) -> Result<u32, CollectError> {
        let (mut count, mut step) = (0, 1);
        while count + step <= NOTES_MAX && self.get(count + step - 1).await?.is_some() {
            count += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if self.get(count + step - 1).await?.is_some() {
                count += step;
            }
        }
        Ok(count)
    }

    /// The task recorded last among those that have not ended.
    async fn youngest_unfinished(&self) -> Result<Option<TaskKey>, CollectError> {
        let count = self.count().await?;
        for number in (count.saturating_sub(TASKS_MAX)..count).rev() {
            let Some(Ok(id)) = self.get(number).await?.map(|text| text.parse()) else { continue };
            let key = TaskKey::new(self.owner, id);
            if self.shared.engine.poll(&key).await.is_ok_and(|task| !task.has_ended()) {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }
}
