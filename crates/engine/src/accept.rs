//! Accepting a call: the record first, then the message, then the response. A store that is one with the queue writes
//! the first two at once.

use std::sync::Arc;

use longhaul_core::audit::{Entry as AuditEntry, Event, Outcome};
use longhaul_core::ports::{CreateError, Created, IdempotencyKey, NewEntry, NewTask};
use longhaul_core::spans::{Span, SpanName};
use longhaul_core::{
    Attempts, Cleanup, FlowControl, Labels, Notification, OwnerId, Parent, PartsName, Resumed, State, Task, TaskId,
    TaskRecord, Terms, Timestamp, TraceParent, WEBHOOK_DELIVERY_TOOL, limits,
};
use sha2::{Digest, Sha256};

use crate::writes::{payload, retriable_create};
use crate::{AcceptError, Engine};

/// A tool call to be accepted as a task.
#[derive(Clone, Debug)]
pub struct Call {
    /// The caller.
    pub owner: OwnerId,
    /// Which tool.
    pub tool: String,
    /// The request as JSON text, opaque here; the tool runner gets it back.
    pub request: String,
    /// The agreed terms.
    pub terms: Terms,
    /// How a retry is recognised, if the caller sent a key.
    pub idempotency: Option<Idempotency>,
    /// The trace that the call belongs to.
    pub trace: Option<TraceParent>,
    /// Whether the tool has cleanup: [`Cleanup::ARMED`], or [`Cleanup::None`].
    pub cleanup: Cleanup,
    /// The earliest time of the first attempt, if the caller requests one. A time that is past counts as none. At most
    /// [`START_AHEAD_MS_MAX`](limits::START_AHEAD_MS_MAX) ahead.
    pub not_before: Option<Timestamp>,
    /// The limits that its task shares with others, if its tool has any.
    pub flow: Option<FlowControl>,
    /// The labels of its task.
    pub labels: Labels,
}

/// A call that is recorded.
#[derive(Clone, Debug)]
pub enum Accepted {
    /// Accepted now.
    New(Task),
    /// Accepted before; this call is a retry.
    Existing(Task),
}

impl Accepted {
    /// The task, whether it was accepted now or before.
    #[must_use]
    pub fn into_task(self) -> Task {
        match self {
            Self::New(task) | Self::Existing(task) => task,
        }
    }
}

/// The delivery of one notification to one endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookDelivery {
    /// The name of the endpoint.
    pub endpoint: String,
    /// The request for the runner of webhook deliveries, as JSON text, opaque here.
    pub request: String,
    /// How long is tried to tell the endpoint, and how long it is shown how that went.
    pub terms: Terms,
}

/// The origin of a task that no client's call made.
#[derive(Default)]
pub(crate) struct Origin {
    pub(crate) parent: Option<Parent>,
    pub(crate) resumes: Option<Resumed>,
    /// The attempts of the task that it resumes.
    pub(crate) attempt: u32,
    /// The journal with which it begins.
    pub(crate) journal: Arc<[NewEntry]>,
}

#[derive(Clone, Copy)]
struct OwnerLimits {
    open_max: u32,
    stored_max: u64,
    new_max: Option<u32>,
}

/// How a retry of the same call is recognised.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The caller's key.
    pub key: String,
    /// Hash of the parts of the request that a retry repeats.
    pub fingerprint: [u8; 32],
}

impl Engine {
    /// Accepts `call`. Once this returns, the task is recorded, and workers will run it even if processes die. Polls
    /// send its message again if that could not be sent.
    pub async fn accept(&self, call: Call) -> Result<Accepted, AcceptError> {
        let id = self.ports.ids.task_id(self.now());
        self.accept_as(id, call).await
    }

    /// Accepts `call` as the task `id`, for callers that choose the id themselves. If the id is already taken, the
    /// call's idempotency key decides whether this is a retry. Without a key, the task that has the id is returned as
    /// new.
    pub async fn accept_as(&self, id: TaskId, call: Call) -> Result<Accepted, AcceptError> {
        self.accept_below(None, id, call).await
    }

    /// Does the same for a call that the tool of `parent` makes. There is one task of this id, however often this is
    /// done.
    pub(crate) async fn accept_below(
        &self,
        parent: Option<Parent>,
        id: TaskId,
        mut call: Call,
    ) -> Result<Accepted, AcceptError> {
        let (owner, tool, began_at) = (call.owner, call.tool.clone(), self.now());
        let span = Span::begin(SpanName::Accept, call.trace.as_ref());
        span.set("longhaul.tool", &tool);
        call.trace = span.trace().or(call.trace);
        let accepted = self.accept_from(Origin { parent, ..Origin::default() }, id, call).await;
        match &accepted {
            Ok(Accepted::New(task) | Accepted::Existing(task)) => span.set("longhaul.task_id", task.id),
            Err(_) => span.fail(),
        }
        audit(owner, &tool, began_at, &accepted);
        accepted
    }

    /// Accepts a call within the limits of its owner, without a line in the audit log.
    pub(crate) async fn accept_from(&self, origin: Origin, id: TaskId, call: Call) -> Result<Accepted, AcceptError> {
        let limits = OwnerLimits {
            open_max: self.settings.open_tasks_max,
            stored_max: self.settings.stored_bytes_max,
            new_max: self.settings.new_tasks_max,
        };
        // Boxed: the futures of all requests hold that of a call.
        Box::pin(self.recorded(id, call, origin, limits)).await
    }

    /// Creates the task that tells `endpoint` of `notification`, once: if it exists, its message is sent again. It is
    /// not held to the limits of its owner.
    pub async fn accept_webhook_delivery(
        &self,
        notification: &Notification,
        webhook_delivery: WebhookDelivery,
    ) -> Result<(), AcceptError> {
        let call = Call {
            owner: notification.task.owner,
            tool: WEBHOOK_DELIVERY_TOOL.to_owned(),
            request: webhook_delivery.request,
            terms: webhook_delivery.terms,
            idempotency: None,
            trace: notification.trace,
            cleanup: Cleanup::None,
            not_before: None,
            flow: None,
            labels: Labels::default(),
        };
        let limits = OwnerLimits { open_max: u32::MAX, stored_max: u64::MAX, new_max: None };
        self.recorded(notification.webhook_delivery_id(&webhook_delivery.endpoint), call, Origin::default(), limits)
            .await
            .map(drop)
    }

    async fn recorded(
        &self,
        id: TaskId,
        call: Call,
        origin: Origin,
        limits: OwnerLimits,
    ) -> Result<Accepted, AcceptError> {
        let idempotency = call.idempotency.as_ref().map(recognise).transpose()?;
        if call.request.len() > limits::REQUEST_BYTES_MAX {
            return Err(AcceptError::TooLarge(call.request.len()));
        }
        let now = self.now();
        if call.not_before.is_some_and(|start| start.since_ms(now) > limits::START_AHEAD_MS_MAX) {
            return Err(AcceptError::TooFarAhead);
        }
        let journal = Arc::clone(&origin.journal);
        let (task, request_parts) = new_task(call, id, origin, now);
        let OwnerLimits { open_max, stored_max, new_max } = limits;
        let send_in_ms = self.has_shared_queue(&task.tool).then(|| self.first_message_in_ms(&task));
        let new = NewTask { task, request_parts, journal, idempotency, open_max, stored_max, new_max, send_in_ms };
        match self.with_retry(async || retriable_create(self.store().create(new.clone(), now).await)).await {
            Ok(Ok(Created::NewAndSent(task))) => Ok(Accepted::New(self.noted(task))),
            Ok(Ok(Created::New(task))) => Ok(Accepted::New(self.queued(task).await)),
            // The first try was written, and its answer was lost.
            Ok(Ok(Created::Existing(task))) if task.id == id => Ok(Accepted::New(self.queued(task).await)),
            Ok(Ok(Created::Existing(task))) => Ok(Accepted::Existing(self.recover(task).await)),
            Ok(Err(CreateError::KeyReused)) => Err(AcceptError::KeyReused),
            Ok(Err(CreateError::TooManyOpen { open_max })) => Err(AcceptError::TooManyOpen { open_max }),
            Ok(Err(CreateError::TooMuchStored { stored_max })) => Err(AcceptError::TooMuchStored { stored_max }),
            Ok(Err(CreateError::TooManyNew { new_max, retry_ms })) => {
                Err(AcceptError::TooManyNew { new_max, retry_ms })
            }
            Ok(Err(CreateError::Store(error))) | Err(error) => Err(self.unavailable(AcceptError::Unavailable)(error)),
        }
    }

    /// The call is accepted even if the message could not be sent: the record says when it was due.
    async fn queued(&self, task: Task) -> Task {
        let task = self.noted(task);
        let _logged = self.send(&task, self.first_message_in_ms(&task)).await;
        task
    }

    fn noted(&self, task: Task) -> Task {
        self.note_on_span(&task);
        self.observer().accepted(&task);
        task
    }

    fn first_message_in_ms(&self, task: &Task) -> u64 {
        task.awaited_start().map_or(0, |start| start.since_ms(self.now()))
    }
}

/// The task of a call, and the parts of its request if it is too large for the record. The store writes them with the
/// record, or not at all.
pub(crate) fn new_task(call: Call, id: TaskId, origin: Origin, now: Timestamp) -> (Task, Arc<[String]>) {
    let (request, parts) = payload(PartsName::Request, call.request, limits::INLINE_BYTES_MAX);
    let not_before = call.not_before.filter(|start| *start > now);
    let task = Task::restore(TaskRecord {
        owner: call.owner,
        id,
        tool: call.tool,
        state: not_before.map_or(State::Queued, |until| State::Sleeping { until }),
        attempt: origin.attempt,
        failures: 0,
        last_failure: None,
        terms: call.terms,
        created_at: now,
        not_before,
        updated_at: now,
        sent_at: now,
        resends: 0,
        started_at: None,
        ended_at: None,
        expires_at: not_before.unwrap_or(now).plus_ms(call.terms.ttl_ms),
        progress: None,
        request,
        trace: call.trace,
        variables: None,
        cleanup: call.cleanup,
        held_until: None,
        asked: Vec::new(),
        answered: Vec::new(),
        flow: call.flow,
        labels: call.labels,
        attempts: Attempts::default(),
        parent: origin.parent,
        resumes: origin.resumes,
    });
    (task, parts.into())
}

fn recognise(idempotency: &Idempotency) -> Result<IdempotencyKey, AcceptError> {
    if !(1..=limits::IDEMPOTENCY_KEY_BYTES_MAX).contains(&idempotency.key.len()) {
        return Err(AcceptError::InvalidKey);
    }
    Ok(IdempotencyKey { key: Sha256::digest(&idempotency.key).into(), request: idempotency.fingerprint })
}

/// A call that began at `began_at` was accepted, or was not.
fn audit(owner: OwnerId, tool: &str, began_at: Timestamp, accepted: &Result<Accepted, AcceptError>) {
    let entry = |outcome| AuditEntry::new(Event::Accept, outcome).by(owner).tool(tool);
    match accepted {
        // The caller chose the id, and had chosen it before.
        Ok(Accepted::New(task)) if task.created_at < began_at => entry(Outcome::Repeated).task(&task.key()).log(),
        Ok(Accepted::New(task)) => entry(Outcome::Done).task(&task.key()).log(),
        Ok(Accepted::Existing(task)) => entry(Outcome::Repeated).task(&task.key()).log(),
        Err(AcceptError::Unavailable(_)) => entry(Outcome::Unavailable).log(),
        Err(AcceptError::TooLarge { .. }) => entry(Outcome::Refused).because("too_large").log(),
        Err(AcceptError::InvalidKey) => entry(Outcome::Refused).because("invalid_key").log(),
        Err(AcceptError::KeyReused) => entry(Outcome::Refused).because("key_reused").log(),
        Err(AcceptError::TooManyOpen { .. }) => entry(Outcome::Refused).because("too_many_open").log(),
        Err(AcceptError::TooManyNew { .. }) => entry(Outcome::Refused).because("too_many_new").log(),
        Err(AcceptError::TooFarAhead) => entry(Outcome::Refused).because("too_far_ahead").log(),
        Err(AcceptError::TooMuchStored { .. }) => entry(Outcome::Refused).because("too_much_stored").log(),
    }
}
