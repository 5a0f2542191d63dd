//! The domain of Longhaul: what a task is, what may happen to it, and the ports through which it is kept.
//!
//! This crate decides and never acts: it does no I/O, reads no clock, generates no randomness, and knows neither MCP
//! nor AWS. At its center is [`Task::apply`], a pure function from a task and an event to the next task or a named
//! refusal. A store is correct when it does the same.
//!
//! # Where to find it
//!
//! | to … | use | file |
//! | --- | --- | --- |
//! | decide what an event makes of a task | [`Task::apply`], [`TaskEvent`], [`Refusal`] | `transition.rs`, `event.rs`, `refusal.rs` |
//! | recognise a write whose answer was lost | [`Task::already_applied`] | `transition/repeated.rs` |
//! | read a task: status, deadline, questions | [`Task`], [`TaskRecord`], [`State`] | `task.rs`, `state.rs` |
//! | negotiate how long it may take and is kept | [`Terms::negotiate`], [`Policy`] | `terms.rs` |
//! | know whether it needs cleanup | [`Task::needs_cleanup`], [`Cleanup`] | `cleanup.rs`, `transition/cleanup.rs` |
//! | record steps, answers and signals | [`Entry`], [`EntryKind`] | `journal.rs` |
//! | store a payload inside the record, or in parts | [`Payload`], [`split`] | `payload.rs` |
//! | name tasks, mailboxes and leases | [`IdSource`], [`TaskId`], [`MailboxId`], [`Lease`] | `ids.rs` |
//! | say who owns a task, and what a caller may do | [`OwnerId`], [`Principal`] | `owner.rs`, `principal.rs` |
//! | publish that a task has ended | [`Notification`] | `notification.rs` |
//! | write a store or a queue | [`ports`] | `ports.rs`, `ports/` |
//! | write an entry of the audit log | [`audit`] | `audit.rs`, `audit/` |
//! | begin a span of a trace | [`spans`] | `spans.rs` |
//! | format a log line, with limits | `logs` (a feature) | `logs.rs`, `logs/` |
//! | declare and read settings | [`settings`] | `settings.rs`, `settings/` |
//! | look up a limit | [`limits`] | `limits.rs` |
//! | read JSON from outside | [`strict_json`] | `strict_json.rs` |
//! | pass JSON on as it was written | [`verbatim`] | `verbatim.rs` |
//!
//! # A worker takes a task, and ends it
//!
//! ```
//! use longhaul_core::{Admission, LeaseToken, Outcome, Payload, Refusal, ResultKind, Status, TaskEvent};
//! use longhaul_testkit::{SeededIds, given};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = given::NOW;
//! let queued = given::task(&SeededIds::new(1), given::owner("alice"), now);
//! let (token, lease_until) = (LeaseToken::from_random([7; 16]), now.plus_ms(30_000));
//! let claim = TaskEvent::Claim { token, lease_until, admission: Admission::Free };
//! let running = queued.apply(&claim, now)?;
//! assert_eq!((running.attempt, running.status()), (1, Status::Working));
//!
//! // While its lease holds, no other worker gets the task.
//! let refused = running.apply(&claim, now.plus_ms(1));
//! assert_eq!(refused, Err(Refusal::Leased { until: now.plus_ms(30_000) }));
//!
//! let outcome = Outcome::Completed { result: Payload::Inline("\"hello\"".to_owned()), kind: ResultKind::Success };
//! let finish = TaskEvent::Finish { attempt: 1, outcome, progress: None, labels: None };
//! let ended = running.apply(&finish, now.plus_ms(2))?;
//! assert_eq!(ended.status(), Status::Completed);
//!
//! // How a task ended never changes.
//! assert_eq!(ended.apply(&TaskEvent::Cancel, now.plus_ms(3)), Err(Refusal::Ended));
//! # Ok(())
//! # }
//! ```

#![warn(clippy::wildcard_enum_match_arm)]

pub mod audit;
mod causes;
mod class;
mod cleanup;
mod event;
mod filter;
mod flow;
mod ids;
mod journal;
mod labels;
pub mod limits;
#[cfg(feature = "logs")]
pub mod logs;
mod notification;
mod owner;
mod payload;
mod permits;
pub mod ports;
mod principal;
mod refusal;
pub mod settings;
pub mod spans;
mod state;
pub mod strict_json;
mod task;
mod terms;
mod time;
mod trace;
mod transition;
mod unreadable;
pub mod verbatim;

pub use causes::with_causes;
pub use class::ToolClass;
pub use cleanup::{Cleanup, CleanupEnd};
pub use event::{Admission, Advance, Outcome, Suspension, TaskEvent};
pub use filter::TaskFilter;
pub use flow::{FlowControl, PermitGroup, Rate, Turn};
pub use ids::{IdSource, InvalidTaskId, Lease, LeaseToken, MailboxId, TaskId, TaskKey};
pub use journal::{AttemptOutcome, Attempts, Entry, EntryKind, PastAttempt, Recording};
pub use labels::{LabelLimit, Labels, check_label_key};
pub use notification::{CLEANUP_GIVEN_UP, Notification, NotificationKind};
pub use owner::{Identity, InvalidOwner, OwnerId};
pub use payload::{PartsName, Payload, split};
pub use permits::{GroupPermits, WaitingTask};
pub use principal::{MissingScopes, Principal, Scopes, VerifiedIdentity};
pub use refusal::Refusal;
pub use state::{Ask, Failure, FailureKind, Progress, ResultKind, State, Status};
pub use task::{Parent, Resumed, Task, TaskRecord, WEBHOOK_DELIVERY_TOOL};
pub use terms::{Policy, RequestedTerms, Terms};
pub use time::{Clock, Timestamp};
pub use trace::{InvalidTraceParent, TraceParent};
pub use unreadable::NotedTasks;
