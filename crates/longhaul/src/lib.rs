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
//!
//! A store and a queue of your own implement the traits of the crate [`longhaul-core`](longhaul_core::ports), and have
//! their tests from the crate `longhaul-testkit`. `serve::Options::on` takes them.
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

// Pages on docs.rs say which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod handlers;
#[cfg(any(feature = "lambda", feature = "serve"))]
mod into_server;
#[cfg(feature = "lambda")]
pub mod lambda;
mod other_servers;
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

pub use longhaul_core::{FailureKind, Identity, OwnerId};
pub use longhaul_mcp::{
    Amount, Answer, Compensation, End, EndedTask, EndedTaskError, Every, InputResponse, LabelError, Outcomes, Overlap,
    Parallel, ProgressReport, Retry, Schedule, ScheduleError, ScheduleFault, SchemaError, Step, StepContext, StepError,
    StepValue, StepWork, TaskContext, TaskPolicy, TimedOut, ToolError, UnknownTool, UseTryStep, VariableError,
    VariableLimit, VerifiedCaller,
};
pub use other_servers::{Degraded, Processes};
pub use program::{Program, spawn_blocking};
pub use rmcp;
#[cfg(feature = "serve")]
pub use serve::{serve, serve_stdio};
pub use server::Server;
pub use system::{OsIds, SystemClock};
pub use tool_env::{NotInToolEnv, ToolEnv};

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
