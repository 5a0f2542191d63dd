//! The use cases of Longhaul, over the ports of the domain.
//!
//! Nothing here knows MCP or AWS, spawns work, reads a clock or generates randomness: all of that comes in through
//! [`Ports`]. So the same code runs in a Lambda function, on a laptop, and in a simulator where one seed is one run.
//!
//! # The use cases
//!
//! Each is a method of [`Engine`], in the file of this name. "Event" is the [`TaskEvent`](longhaul_core::TaskEvent)
//! that it applies to the task's record. The last column is its cost if no error occurs and all payloads are small.
//!
//! | to … | call | file | event | store and queue |
//! | --- | --- | --- | --- | --- |
//! | accept a call | [`Engine::accept`] | `accept.rs` | | `create`, `send` |
//! | read a task, and recover it if it is stuck | [`Engine::poll`] | `poll.rs`, `recovery.rs` | | `get` |
//! | list an owner's tasks | [`Engine::list`], [`Engine::list_filtered`] | `poll.rs` | | `list` |
//! | wait for a change of a task | [`Engine::listener`] | `listener.rs` | | |
//! | answer its questions | [`Engine::answer`] | `answer.rs` | `Answer` | `get`, `record` each, `apply`, `send` |
//! | record a signal for which it waits | [`Engine::record_signal`] | `signals.rs` | `Wake` | `record`, `get`, `apply`, `send` |
//! | cancel it | [`Engine::cancel`] | `poll.rs` | `Cancel` | `apply` |
//! | continue a failed one with its recorded steps | [`Engine::resume`] | `resume.rs` | | `journal`, `create`, `send` |
//! | keep its result for longer, or forget it | [`Engine::extend_retention`], [`Engine::forget`] | `poll.rs` | `ExtendRetention`, `Forget` | `apply` |
//! | run one attempt of its tool | [`Engine::run_delivery`] | `delivery.rs` and below | `Claim`, `Heartbeat`, then `Finish`, `Suspend` or `Retry` | `apply` each, `journal` from the second attempt on, `record` a step |
//! | run the cleanup of a task that has ended without its tool | [`Engine::run_delivery`] | `delivery/clean.rs` | `BeginCleanup`, `EndCleanup` | `get`, `apply` each |
//! | end a task whose message was delivered too often | [`Engine::run_dead_letter`] | `recovery.rs` | `RetriesExhausted`, `TimeOut` | `get`, `apply` |
//! | recover all tasks that no client polls | [`Engine::sweep`], [`Engine::ensure_message`] | `recovery.rs` | `Resend`, `RetriesExhausted`, `TimeOut` | `unfinished`, then `apply`, `send` each |
//! | publish that tasks have ended | [`Engine::publish`] | `publish.rs` | | `create`, `send` for each endpoint |
//!
//! The verbs of a tool in an attempt ([`Attempt::step`], [`Attempt::ask`], [`Attempt::sleep_ms`], [`Attempt::call`] and
//! so on) are in `attempt.rs` and the folder of this name.
//!
//! # One task, from the call to its result
//!
//! ```
//! use std::convert::Infallible;
//! use std::sync::Arc;
//!
//! use async_trait::async_trait;
//! use longhaul_core::ports::WorkQueue;
//! use longhaul_core::{Cleanup, Clock, Labels, Policy, RequestedTerms, ResultKind, Status, Terms};
//! use longhaul_engine::{Attempt, AttemptEnd, Call, Driven, Engine, Ports, Settings, ToolRunner, WorkerSignals};
//! use longhaul_testkit::{FakeQueue, FakeStore, ManualClock, SeededIds, given};
//!
//! /// A tool of one step, whose value is recorded once.
//! struct Greeter;
//!
//! #[async_trait]
//! impl ToolRunner for Greeter {
//!     async fn run(&self, attempt: Attempt) -> AttemptEnd {
//!         let tool = attempt.step("greet", async || Ok::<_, Infallible>(r#""hello""#.to_owned()));
//!         match attempt.drive(tool).await {
//!             Driven::Ended(Ok(result)) => AttemptEnd::Completed { result, kind: ResultKind::Success },
//!             Driven::Ended(Err(never)) => match never {},
//!             Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(given::NOW));
//! let queue = Arc::new(FakeQueue::new(Arc::clone(&clock), 3));
//! let engine = Engine::new(
//!     Ports {
//!         store: Arc::new(FakeStore::default()),
//!         queue: Arc::<FakeQueue>::clone(&queue),
//!         clock,
//!         ids: Arc::new(SeededIds::new(1)),
//!     },
//!     Settings::default(),
//! );
//!
//! let call = Call {
//!     owner: given::owner("alice"),
//!     tool: "greet".to_owned(),
//!     request: "{}".to_owned(),
//!     terms: Terms::negotiate(&Policy::default(), RequestedTerms::default()),
//!     idempotency: None,
//!     trace: None,
//!     cleanup: Cleanup::None,
//!     not_before: None,
//!     flow: None,
//!     labels: Labels::default(),
//! };
//! let task = engine.accept(call).await?.into_task();
//! assert_eq!(engine.poll(&task.key()).await?.status(), Status::Working);
//!
//! for delivery in queue.receive(1, 30_000, 0).await? {
//!     engine.run_delivery(&delivery, &Greeter, &WorkerSignals::default()).await;
//! }
//! assert_eq!(engine.poll(&task.key()).await?.status(), Status::Completed);
//! # Ok(())
//! # }
//! ```

mod accept;
mod answer;
mod attempt;
mod changes;
mod child;
mod children;
mod cleaned;
mod delivery;
mod engine;
mod error;
mod limits;
mod listener;
mod observer;
mod poll;
mod publish;
mod recovery;
mod resume;
mod settings;
mod signals;
mod suspension;
mod tool;
mod variables;
mod writes;

pub use accept::{Accepted, Call, Idempotency, WebhookDelivery};
pub use attempt::{Attempt, Compensate, Every, Retry, Tried, Unstored};
pub use changes::Subject;
pub use child::{CallError, ChildEnd, child_of};
pub use cleaned::Cleaned;
pub use delivery::{Disposition, WorkerSignals};
pub use engine::{Engine, Ports};
pub use error::{AcceptError, AnswerError, CollectError, LeaveError, LoadError, PollError, SignalError};
pub use listener::Listener;
pub use observer::{IsRecorded, Observer};
pub use poll::Cancelled;
pub use publish::{PublishError, WebhookDeliveries};
pub use recovery::{EnsureError, Ensured, Swept};
pub use resume::{ResumeError, Resumption};
pub use settings::{AttemptLimit, Settings};
pub use signals::{SignalRecorded, Woken};
pub use suspension::{AttemptEnd, Driven, Round, Suspended};
pub use tool::{Ended, ToolRunner};
pub use variables::{VariableLimit, check_variable, write_variables};
