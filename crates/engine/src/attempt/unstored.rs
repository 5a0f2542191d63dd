//! The attempt of a call that is not a task. Its tool has the same verbs, nothing is stored, and no later attempt
//! follows. The tool waits while the call is open, within a limit.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, Delivery, Left, Message, NewTask, Page, QueueError, Recorded, StoreError,
    TaskStore, WorkQueue,
};
use longhaul_core::{
    Ask, Cleanup, Clock, Entry, FailureKind, IdSource, Labels, MailboxId, OwnerId, PartsName, Suspension, Task,
    TaskEvent, TaskId, TaskKey, Terms, Timestamp,
};
use tokio_util::sync::CancellationToken;

use super::Start;
use super::compensations::Compensations;
use crate::accept::{Origin, new_task};
use crate::suspension::{Reason, Suspended};
use crate::{Attempt, Call, Engine, Ports, Settings};

/// A call that is not a task.
pub struct Unstored {
    /// The clock that its waits follow.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub ids: Arc<dyn IdSource>,
    /// Whose call it is.
    pub owner: OwnerId,
    /// The tool that is called.
    pub tool: String,
    /// The call as JSON text.
    pub request: String,
    /// How long the tool may wait, in milliseconds.
    pub wait_ms_max: u64,
    /// Fires when the caller no longer wants the work.
    pub cancelled: CancellationToken,
}

impl Attempt {
    /// The only attempt of a call that is not a task.
    #[must_use]
    pub fn unstored(call: Unstored) -> Self {
        let Unstored { clock, ids, owner, tool, request, wait_ms_max, cancelled } = call;
        let now = clock.now();
        // A wait may take all of the time.
        let run_ms = wait_ms_max.saturating_add(1);
        let terms = Terms { ttl_ms: run_ms, retention_ms: 0, run_ms, poll_ms: None, consecutive_failures_max: 1 };
        let (cleanup, id) = (Cleanup::None, ids.task_id(now));
        let call = Call {
            owner,
            tool,
            request: String::new(),
            terms,
            idempotency: None,
            trace: None,
            cleanup,
            not_before: None,
            flow: None,
            labels: Labels::default(),
        };
        let (task, _) = new_task(call, id, Origin::default(), now);
        let settings = Settings { attempt_margin_ms: 0, inline_sleep_ms_max: u64::MAX, ..Settings::default() };
        let engine = Engine::new(Ports { store: Arc::new(Nowhere), queue: Arc::new(Nowhere), clock, ids }, settings);
        let (journal, unstored) = (Vec::new(), Some(cancelled));
        let start = Start { task, request, journal, trace: None, ends_at: None, unstored };
        Self::with(engine, start, Compensations::default())
    }

    /// Whether what the tool does is recorded.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.0.is_stored
    }

    /// Ends a call that is not a task, and whose tool waits as only a task can.
    pub async fn needs_a_task<T>(&self, message: String) -> T {
        self.fail(FailureKind::TimedOut, message).await
    }

    /// Ends a call that is not a task if a wait until then would be longer than its caller waits.
    pub(super) async fn has_time_until(&self, until: Timestamp) {
        let task = self.task();
        if self.is_stored() || until < task.deadline() {
            return;
        }
        let (takes_ms, most_ms) = (until.since_ms(self.now()), task.terms.run_ms.saturating_sub(1));
        let left_ms = task.created_at.plus_ms(most_ms).since_ms(self.now());
        let message = format!(
            "this tool would wait for {takes_ms} ms. A plain call may wait for {most_ms} ms, and has {left_ms} ms \
             left: call it as a task"
        );
        self.needs_a_task(message).await
    }
}

impl Suspended {
    /// The questions of a tool whose call is not a task.
    ///
    /// # Errors
    /// Why the call has failed.
    pub fn into_asks(self) -> Result<Vec<Ask>, (FailureKind, String)> {
        match self.0 {
            Reason::Suspend { suspension: Suspension::Input { asks, .. }, .. } => Ok(asks),
            Reason::Suspend { .. } => Err((FailureKind::Misuse, "a plain call cannot be suspended".to_owned())),
            Reason::Retry(message) => Err((FailureKind::Misuse, message)),
            Reason::Fail(kind, message) => Err((kind, message)),
        }
    }
}

/// Stands for the store and the queue of calls that have none.
struct Nowhere;

fn none() -> StoreError {
    StoreError::Lost(io::Error::from(io::ErrorKind::Unsupported).into())
}

#[async_trait]
impl TaskStore for Nowhere {
    async fn create(&self, _new: NewTask, _now: Timestamp) -> Result<Created, CreateError> {
        Err(none().into())
    }

    async fn get(&self, _key: &TaskKey, _now: Timestamp) -> Result<Option<Task>, StoreError> {
        Ok(None)
    }

    async fn apply(&self, _key: &TaskKey, _event: &TaskEvent, _now: Timestamp) -> Result<Task, ApplyError> {
        Err(ApplyError::NotFound)
    }

    async fn list(
        &self,
        _owner: &OwnerId,
        _before: Option<TaskId>,
        _limit: usize,
        _now: Timestamp,
    ) -> Result<Page, StoreError> {
        Err(none())
    }

    async fn record(&self, _key: &TaskKey, _entry: &Entry) -> Result<Recorded, StoreError> {
        Err(none())
    }

    async fn journal(&self, _key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        Ok(Vec::new())
    }

    async fn put_parts(&self, _key: &TaskKey, _name: &PartsName, _parts: &[&str]) -> Result<(), StoreError> {
        Err(none())
    }

    async fn parts(&self, _key: &TaskKey, _name: &PartsName, _count: u32) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    async fn leave(
        &self,
        _owner: &OwnerId,
        _mailbox: &MailboxId,
        _text: &str,
        _expires_at: Timestamp,
        _now: Timestamp,
    ) -> Result<Left, StoreError> {
        Err(none())
    }

    async fn collect(&self, _owner: &OwnerId, _box: &MailboxId, _now: Timestamp) -> Result<Option<String>, StoreError> {
        Ok(None)
    }
}

#[async_trait]
impl WorkQueue for Nowhere {
    async fn send(&self, _message: &Message, _delay_ms: u64) -> Result<(), QueueError> {
        Err(QueueError(none().into()))
    }

    async fn receive(&self, _max: usize, _hidden_ms: u64, _wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        Ok(Vec::new())
    }

    async fn extend(&self, _receipt: &str, _hidden_ms: u64) -> Result<(), QueueError> {
        Ok(())
    }

    async fn delete(&self, _receipt: &str) -> Result<(), QueueError> {
        Ok(())
    }

    async fn receive_dead(&self, _max: usize, _hidden_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        Ok(Vec::new())
    }
}
