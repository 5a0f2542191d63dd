//! The domain of Longhaul: what a task is, what may happen to it, and the ports through which it is kept.
//!
//! This crate decides and never acts: it does no I/O, reads no clock, generates no randomness, and knows neither MCP
//! nor AWS. At its center is [`Task::apply`], a pure function from a task and an event to the next task or a named
//! refusal. A store is correct when it does the same.

#![warn(clippy::wildcard_enum_match_arm)]

mod causes;
mod class;
mod cleanup;
mod event;
mod filter;
mod ids;
mod journal;
pub mod limits;
mod notification;
mod owner;
mod payload;
pub mod ports;
mod principal;
mod refusal;
pub mod strict_json;
mod task;
mod terms;
mod time;
mod trace;
mod transition;
mod unreadable;

pub use causes::with_causes;
pub use class::ToolClass;
pub use cleanup::{Cleanup, CleanupEnd};
pub use event::{Advance, Outcome, Suspension, TaskEvent};
pub use filter::TaskFilter;
pub use ids::{IdSource, InvalidTaskId, Lease, LeaseToken, MailboxId, TaskId, TaskKey};
pub use journal::{AttemptOutcome, Attempts, Entry, EntryKind, PastAttempt, Recording};
pub use notification::{Notification, NotificationKind};
pub use owner::{Identity, InvalidOwner, OwnerId};
pub use payload::{PartsName, Payload, split};
pub use principal::{MissingScopes, Principal, Scopes, VerifiedIdentity};
pub use refusal::Refusal;
pub use task::{
    Ask, Failure, FailureKind, Parent, Progress, ResultKind, State, Status, Task, TaskRecord, WEBHOOK_DELIVERY_TOOL,
};
pub use terms::{Policy, RequestedTerms, Terms};
pub use time::{Clock, Timestamp};
pub use trace::{InvalidTraceParent, TraceParent};
pub use unreadable::NotedTasks;
