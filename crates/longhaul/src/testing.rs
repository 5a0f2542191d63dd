//! Running durable tools in tests: in memory, in milliseconds, with crashes where you want them.
//!
//! There is no HTTP, no database and no waiting here. Time stands still while a tool runs. When everything waits, it
//! jumps to the next time that matters, so that a sleep of a day takes no time. Everything else is as in production:
//! the arguments are checked, the tool runs in attempts, steps are recorded and replayed.
//!
//! ```
//! use longhaul::rmcp::handler::server::wrapper::Parameters;
//! use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
//! use longhaul::{TaskContext, testing};
//! use serde_json::json;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Migration {
//!     tables: Vec<String>,
//! }
//!
//! #[derive(Clone)]
//! struct Migrations;
//!
//! #[tool_router]
//! impl Migrations {
//!     #[tool]
//!     async fn migrate(
//!         &self,
//!         Parameters(Migration { tables }): Parameters<Migration>,
//!         task: TaskContext,
//!     ) -> Result<String, ErrorData> {
//!         let mut rows = 0;
//!         for table in &tables {
//!             rows += task.try_step(&format!("migrate {table}"), || copy(table)).await?;
//!         }
//!         Ok(format!("{rows} rows"))
//!     }
//! }
//!
//! #[tool_handler]
//! impl ServerHandler for Migrations {}
//!
//! async fn copy(_table: &str) -> Result<u64, ErrorData> {
//!     Ok(1_000)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), testing::TestError> {
//! let call = testing::server(Migrations).call("migrate", json!({"tables": ["a", "b"]}));
//! let run = call.crash_after("migrate a").to_end().await?;
//! assert_eq!(run.text(), "2000 rows");
//! assert_eq!((run.attempts(), run.times("migrate a")), (2, 1));
//!
//! // Every step, before and after.
//! testing::crash_everywhere(Migrations, "migrate", json!({"tables": ["a", "b"]})).await?;
//! # Ok(())
//! # }
//! ```
//!
//! - [`server`] takes a handler, [`of`] a [`Server`] with its policies, and [`tool`] an async function that
//!   takes a [`TaskContext`].
//! - [`Call`] says what happens on the way: crashes, answers, a cancel request, messages that are delivered twice.
//! - [`Call::to_end`] runs to the end of the task, and [`Call::begin`] step by step.
//! - [`crash_everywhere`] repeats a run once for each point at which a process can die, and compares.
//!   [`crash_everywhere_with`] does so for tools that keep files, programs or connections.
//!
//! The tests run on `tokio`, in any flavor of its runtime.

use longhaul_mcp::TaskContext;
use rmcp::ServerHandler;
use rmcp::handler::server::tool::IntoCallToolResult;
use serde_json::Value;

use crate::Server;

mod call;
mod client;
mod crash;
mod error;
mod everywhere;
mod failures;
mod replay;
mod run;
mod running;
mod script;
mod world;

pub use call::{Call, TestServer};
pub use error::TestError;
pub use everywhere::crash_everywhere_with;
pub use failures::{Times, always, times};
pub use longhaul_core::{EntryKind, Progress, Recording, Status};
pub use replay::replay;
pub use run::{JournalEntry, Run};
pub use running::{Question, Running, State};

/// Tests of the tools of `handler`. Each of them is a task, under the default policy:
/// [`TaskPolicy::optional`](crate::TaskPolicy::optional). [`Call::policy`] gives one of them another.
pub fn server<H: ServerHandler + Clone>(handler: H) -> TestServer {
    TestServer { server: Server::new(move || handler.clone()), any_tool: true }
}

/// Tests of the tools of `server`, under their policies.
#[must_use]
pub fn of(server: &Server) -> TestServer {
    TestServer { server: server.clone(), any_tool: false }
}

/// A call of `run` as the tool of a task: for tests of a single function, without a server around it.
///
/// ```
/// use longhaul::{TaskContext, testing};
///
/// async fn roll(task: TaskContext) -> String {
///     let first = task.step("first", async || 4).await;
///     let second = task.step("second", async || 2).await;
///     format!("{first} and {second}")
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), testing::TestError> {
/// let run = testing::tool(roll).crash_before("second").to_end().await?;
/// assert_eq!(run.text(), "4 and 2");
/// assert_eq!(run.steps(), ["first", "second"]);
/// # Ok(())
/// # }
/// ```
pub fn tool<F, Fut>(run: F) -> Call
where
    F: Fn(TaskContext) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output: IntoCallToolResult> + Send + 'static,
{
    function(run).call(call::NAME, Value::Object(serde_json::Map::new()))
}

/// Tests of `run` as the tool `tool` of a server: for [`TestServer::replay`].
pub fn function<F, Fut>(run: F) -> TestServer
where
    F: Fn(TaskContext) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output: IntoCallToolResult> + Send + 'static,
{
    server(call::OneTool(run))
}

/// Runs a call once without a crash, and then once for each point at which its process can die. These are before a
/// step, after its work and before its record, and after it. Then it compares the runs. For a call with answers, there
/// is [`Call::crash_everywhere`].
///
/// # Errors
/// [`TestError::Differs`] if the tool does not do the same after a crash: with the crash point, and the names of the
/// steps.
pub async fn crash_everywhere<H: ServerHandler + Clone>(
    handler: H,
    tool: impl Into<String>,
    arguments: Value,
) -> Result<(), TestError> {
    server(handler).call(tool, arguments).crash_everywhere().await
}
