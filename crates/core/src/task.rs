//! A task: one durable tool call.

use serde::{Deserialize, Serialize};

use crate::{
    Ask, Attempts, Cleanup, FlowControl, Labels, OwnerId, Payload, Progress, State, Status, TaskId, TaskKey, Terms,
    Timestamp, TraceParent, limits,
};

/// The tool of webhook deliveries: of tasks that tell one endpoint of one notification. No server has a tool of this
/// name, and no client can call it.
pub const WEBHOOK_DELIVERY_TOOL: &str = "longhaul/notice";

/// One durable tool call, as it is recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Task(TaskRecord);

/// Everything that is stored about a task. Absent values are left out of the JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// The owner of the task.
    pub owner: OwnerId,
    /// Its name.
    pub id: TaskId,
    /// Which tool was called.
    pub tool: String,
    /// Where the task is in its life.
    pub state: State,
    /// The highest claim so far; 0 before the first. Only this attempt may write.
    pub attempt: u32,
    /// Attempts that died or failed since an attempt last recorded a step or suspended normally.
    pub failures: u32,
    /// The failure of the latest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// The negotiated terms.
    pub terms: Terms,
    /// When the call was accepted.
    pub created_at: Timestamp,
    /// The time that the caller has asked for as the earliest one for the first attempt; `None` if that may begin at
    /// once. Always later than `created_at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// When the record last changed in a way that a client can see.
    pub updated_at: Timestamp,
    /// When a message for the task was last sent.
    pub sent_at: Timestamp,
    /// How often a message was sent again since a worker last claimed the task, or a new message was due. Records of
    /// older versions do not have it.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub resends: u32,
    /// When the first attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When the task ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The time from which the task is "not found".
    pub expires_at: Timestamp,
    /// How far the work is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// The call itself.
    pub request: Payload,
    /// The trace that the call belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "TraceParent::or_none")]
    pub trace: Option<TraceParent>,
    /// The tool's variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variables: Option<Payload>,
    /// The cleanup, if the task is ended by anything but its tool.
    #[serde(default, rename = "cleaning")]
    pub cleanup: Cleanup,
    /// Until when a worker may still run the tool, because it held the task when another process ended it. Records of
    /// older versions do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_until: Option<Timestamp>,
    /// The latest attempts. Records of older versions do not have them.
    #[serde(default, rename = "legs")]
    pub attempts: Attempts,
    /// The task whose tool made this one by calling a tool; `None` if a client's call or a schedule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The failed task that this one continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumes: Option<Resumed>,
    /// The questions that were open when a worker last claimed the task: the client may answer them while the task
    /// works. None while the task waits for answers, and after its end. Records of older versions do not have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Ask>,
    /// The keys of those that were answered since then. An attempt that began before does not know that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answered: Vec<String>,
    /// The limits that it shares with others; `None` if its tool has none. Records of older versions do not have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<FlowControl>,
    /// Its labels. Records of older versions do not have them.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_none_yet(count: &u32) -> bool {
    *count == 0
}

/// The task whose tool called the tool of another task. Both have the same owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// Its id.
    pub id: TaskId,
    /// How many tasks are above the child: at most [`CHILD_DEPTH_MAX`](crate::limits::CHILD_DEPTH_MAX).
    pub depth: u8,
}

/// The failed task that another one continues, with its recorded steps. Both have the same owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Its id.
    pub task: TaskId,
    /// The subject of the caller who resumed it, for people to read; `None` for a caller without an identity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Task {
    /// The task of a record that an adapter read back, or of a call that was just accepted.
    #[must_use]
    pub const fn restore(record: TaskRecord) -> Self {
        Self(record)
    }

    /// The record.
    #[must_use]
    pub const fn record(&self) -> &TaskRecord {
        &self.0
    }

    /// The record, for a store to write.
    #[must_use]
    pub fn into_record(self) -> TaskRecord {
        self.0
    }

    /// Where the task is stored.
    #[must_use]
    pub const fn key(&self) -> TaskKey {
        TaskKey::new(self.0.owner, self.0.id)
    }

    /// How many tasks are above it.
    #[must_use]
    pub fn depth(&self) -> u8 {
        self.0.parent.map_or(0, |parent| parent.depth)
    }

    /// The status that a client sees.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.0.state.status()
    }

    /// The questions that the client may answer: the open ones, or, while the task works, those that were open before
    /// and have no answer yet.
    pub fn answerable(&self) -> impl Iterator<Item = &Ask> {
        let asked = self.0.asked.iter().filter(|ask| !self.0.answered.contains(&ask.key));
        self.0.state.asks().iter().chain(asked)
    }

    /// Whether the task has ended. Its outcome no longer changes; how long it is retained still can
    /// ([`TaskEvent::ExtendRetention`](crate::TaskEvent::ExtendRetention),
    /// [`TaskEvent::Forget`](crate::TaskEvent::Forget)).
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.0.state.status().is_terminal()
    }

    /// Whether the task tells an endpoint of what happened to another one. It does not count among the tasks of its
    /// owner that are limited, and nothing is published of it.
    #[must_use]
    pub fn is_webhook_delivery(&self) -> bool {
        self.0.tool == WEBHOOK_DELIVERY_TOOL
    }

    /// From when on a worker may take the task: its creation, or the later time that its caller asked for. The
    /// longest run and the time to live count from then.
    #[must_use]
    pub const fn due_at(&self) -> Timestamp {
        match self.0.not_before {
            Some(not_before) => not_before,
            None => self.0.created_at,
        }
    }

    /// The later time that the task waits for, if it was asked for one and no worker has taken the task yet.
    #[must_use]
    pub const fn awaited_start(&self) -> Option<Timestamp> {
        // A delay before a retry comes after an attempt.
        if self.0.attempt == 0 && self.0.state.asks().is_empty() { self.wakes_at() } else { None }
    }

    /// When the task continues on its own, if it sleeps, or waits for answers for a limited time.
    #[must_use]
    pub const fn wakes_at(&self) -> Option<Timestamp> {
        match self.0.state {
            State::Sleeping { until } | State::InputRequired { until: Some(until), .. } => Some(until),
            State::InputRequired { until: None, .. }
            | State::Queued
            | State::Running { .. }
            | State::Completed { .. }
            | State::Failed { .. }
            | State::Cancelled => None,
        }
    }

    /// When work on the task is stopped.
    #[must_use]
    pub const fn deadline(&self) -> Timestamp {
        self.due_at().plus_ms(self.0.terms.run_ms)
    }

    /// Whether the task is "not found" at `now`.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        now >= self.0.expires_at
    }

    /// Time from creation to expiry: what was agreed on, or more if the task starts later or ended late.
    #[must_use]
    pub const fn ttl_ms(&self) -> u64 {
        self.0.expires_at.since_ms(self.0.created_at)
    }

    /// How long a client should wait before it polls again. Before a later start that is the time until then, or a
    /// minute.
    #[must_use]
    pub fn poll_interval_ms(&self, now: Timestamp) -> u64 {
        let left_ms = self.awaited_start().map_or(0, |start| start.since_ms(now));
        let by_age_ms = self.0.terms.poll_interval_ms(now.since_ms(self.due_at()));
        left_ms.min(limits::POLL_MS_BEFORE_START_MAX).max(by_age_ms)
    }

    /// How many bytes its arguments have, and its result or error.
    #[must_use]
    pub const fn stored_bytes(&self) -> u64 {
        let outcome = match self.0.state.outcome() {
            Some(outcome) => outcome.bytes(),
            None => 0,
        };
        self.0.request.bytes().saturating_add(outcome)
    }

    /// Whether the task fails if one more attempt dies or fails.
    #[must_use]
    pub const fn is_on_last_retry(&self) -> bool {
        self.0.failures.saturating_add(1) >= self.0.terms.consecutive_failures_max
    }
}

impl std::ops::Deref for Task {
    type Target = TaskRecord;

    fn deref(&self) -> &TaskRecord {
        &self.0
    }
}
