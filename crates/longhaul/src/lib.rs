//! Durable, long-running MCP tool calls.
//!
//! Write an ordinary [`rmcp`] server, say which of its tools may become tasks, and serve it. A call of such a tool is
//! accepted at once and survives crashes. Its result is kept until it is fetched or expires:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use longhaul::rmcp::handler::server::wrapper::Parameters;
//! use longhaul::rmcp::{self, ServerHandler, schemars, tool, tool_handler, tool_router};
//! use longhaul::{Server, TaskContext, TaskPolicy, serve};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Report {
//!     months: u32,
//! }
//!
//! struct Reports;
//!
//! #[tool_router]
//! impl Reports {
//!     #[tool(description = "Adds up the given number of months")]
//!     async fn report(&self, Parameters(Report { months }): Parameters<Report>, task: TaskContext) -> String {
//!         let mut sum = 0;
//!         for month in 1..=months {
//!             sum += task.step(&format!("month {month}"), async || month * 100).await;
//!             task.progress(month).of(months).message("adding up").await;
//!         }
//!         sum.to_string()
//!     }
//! }
//!
//! #[tool_handler]
//! impl ServerHandler for Reports {}
//!
//! fn main() -> ExitCode {
//!     serve::main(|_env| Server::new(|| Reports).task("report", TaskPolicy::optional()))
//! }
//! ```
//!
//! # How it works
//!
//! A call of a tool with a [`TaskPolicy`] is recorded before it is answered: that record is the task. A worker claims
//! it and runs the tool. The value of a [step](TaskContext::step) is recorded when it is done. If the process dies,
//! another worker runs the tool again from its first line. Recorded steps return their values at once, so that the tool
//! continues where it was. During a long [sleep](TaskContext::sleep), or while a [question](TaskContext::ask) is open,
//! nothing runs. The client polls meanwhile, sees [progress](TaskContext::progress), and may go away and come back. A
//! client without tasks gets a job id.
//!
//! Two rules for tools follow. Work that must not be repeated is in a step. The names of steps depend neither on the
//! time nor on random numbers.
//!
//! # The parts, in the order in which you need them
//!
//! 1. [`Server`] is your handler, and which of its tools may become tasks; [`TaskPolicy`] says on which terms.
//! 2. [`TaskContext`] is a tool's view of its call: steps, sleeps, questions, progress, variables, and
//!    [who calls](VerifiedCaller).
//! 3. `testing` runs tools in tests, and lets them crash at every point.
//! 4. `serve` serves from one process, `lambda` from two Lambda functions.
//! 5. [`settings`] has what an operator can set, and takes settings of your own.
//! 6. [`ports`] has the traits of the store and the queue, for a backend of your own, and `contract`
//!    their tests.
//!
//! # Features
//!
//! | feature | | |
//! | --- | --- | --- |
//! | `serve` | on | the server as one process, with SQLite inside |
//! | `aws` | off | the server as several processes, on a DynamoDB table and an SQS queue |
//! | `lambda` | off | the server as two Lambda functions, with DynamoDB and SQS |
//! | `arbitrary-precision` | off | numbers keep all their digits; changes `serde_json` in the whole program |
//! | `testing` | off | the test kit, for `[dev-dependencies]` |
//! | `contract` | off | the tests of a store and a queue, for `[dev-dependencies]` |

// Pages on docs.rs say which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod handlers;
#[cfg(any(feature = "lambda", feature = "serve"))]
mod into_server;
#[cfg(feature = "lambda")]
pub mod lambda;
mod program;
#[cfg(feature = "serve")]
pub mod serve;
mod server;
pub mod settings;
mod system;
#[cfg(any(feature = "serve", feature = "lambda"))]
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod tool_env;

#[cfg(any(feature = "lambda", feature = "serve"))]
pub use into_server::{AtOnce, Awaited, Fallible, IntoServer};
/// Tools that say themselves that their calls may become tasks: `#[tool(meta = task_support::optional())]`. They need
/// no [`Server::task`].
pub mod task_support {
    pub use longhaul_mcp::task_support::{optional, required};
}

pub use longhaul_mcp::{
    Amount, Answer, Compensation, End, EndedTask, EndedTaskError, Every, InputResponse, LabelError, Outcomes, Overlap,
    Parallel, ProgressReport, Retry, Schedule, ScheduleError, ScheduleFault, SchemaError, Step, StepContext, StepError,
    StepValue, StepWork, TaskContext, TaskPolicy, TimedOut, ToolError, UnknownTool, UseTryStep, VariableError,
    VariableLimit, VerifiedCaller,
};
pub use program::{Program, spawn_blocking};
pub use rmcp;
#[cfg(feature = "serve")]
pub use serve::{serve, serve_stdio};
pub use server::{Degraded, Processes, Server};
pub use system::{OsIds, SystemClock};
pub use tool_env::{NotInToolEnv, ToolEnv};

/// The former name of [`serve`](mod@serve).
#[cfg(feature = "serve")]
#[deprecated(note = "the module is `longhaul::serve` now, and so is the feature: write `serve` instead of `local`")]
pub mod local {
    pub use crate::serve::*;
}

/// The server's store and queue as traits, and the types in their methods. Implement them for a backend of your own;
/// `serve::Options::on` takes it.
///
/// A [`TaskStore`](ports::TaskStore) keeps tasks and decides nothing: its `apply` is right if it does in one atomic
/// write what [`Task::apply`](ports::Task::apply) returns. A [`WorkQueue`](ports::WorkQueue) delivers every message at
/// least once. The feature `contract` has a test for each promise of both.
///
/// These traits and types are not `#[non_exhaustive]`: an adapter has to know all of them, so that every addition is a
/// new major version.
pub mod ports {
    pub use async_trait::async_trait;
    pub use longhaul_core::limits;
    pub use longhaul_core::ports::{
        ApplyError, AttemptPermit, AttemptPermits, CreateError, Created, Delivery, IdempotencyKey, Left, Message,
        NewEntry, NewTask, Page, Purpose, QueueError, Recorded, StoreError, Taken, TaskStore, WorkQueue,
    };
    pub use longhaul_core::{
        Admission, Advance, Ask, AttemptOutcome, Attempts, Cleanup, CleanupEnd, Clock, Entry, EntryKind, Failure,
        FailureKind, FlowControl, IdSource, Identity, InvalidOwner, InvalidTaskId, Lease, LeaseToken, MailboxId,
        Outcome, OwnerId, PartsName, PastAttempt, Payload, PermitGroup, Policy, Progress, Rate, Recording, Refusal,
        RequestedTerms, ResultKind, State, Status, Suspension, Task, TaskEvent, TaskFilter, TaskId, TaskKey,
        TaskRecord, Terms, Timestamp,
    };
}

/// The guarantees of every store and queue, as tests. [`store_contract!`](contract::store_contract!) and
/// [`queue_contract!`](contract::queue_contract!) make one test of each guarantee.
/// [`store_model_property!`](contract::store_model_property!) compares a store with the pure function, event by event.
/// A store that is one database with its queue, and sends the messages of new tasks, also has
/// [`one_database_contract!`](contract::one_database_contract!).
///
/// For `[dev-dependencies]`. `tests/server/own_backend` in the source of this crate is a complete example.
#[cfg(feature = "contract")]
pub mod contract {
    pub use longhaul_testkit::{
        ManualClock, OneDatabase, QueueHarness, StoreHarness, one_database_contract, queue_contract, store_contract,
        store_model_property,
    };
}

/// The code on the page about writing tools, compiled.
#[cfg(all(doctest, feature = "serve"))]
#[doc = include_str!("../../../docs/writing-tools.md")]
struct WritingTools;

/// The code on the page with recipes, compiled.
#[cfg(all(doctest, feature = "serve"))]
#[doc = include_str!("../../../docs/recipes.md")]
struct Recipes;

/// The code on the page about testing tools, compiled and run.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../../../docs/testing-tools.md")]
struct TestingTools;
