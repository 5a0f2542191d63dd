//! Durable, long-running MCP tool calls.
//!
//! Write an ordinary [`rmcp`] server, say which of its tools may become tasks, and serve it. A call of such a tool is
//! accepted at once, survives every crash on the way, and its result waits for whoever asks:
//!
//! ```no_run
//! use longhaul::{Server, TaskContext, TaskPolicy, local};
//! use rmcp::handler::server::router::tool::ToolRouter;
//! use rmcp::handler::server::wrapper::Parameters;
//! use rmcp::{ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
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
//!     async fn report(&self, Parameters(Report { months }): Parameters<Report>, task: TaskContext) -> Result<String, ErrorData> {
//!         let mut sum = 0;
//!         for month in 1..=months {
//!             sum += task.step(&format!("month {month}"), async || Ok::<_, ErrorData>(month * 100)).await?;
//!             task.progress(f64::from(month), Some(f64::from(months)), "adding up").await;
//!         }
//!         Ok(sum.to_string())
//!     }
//! }
//!
//! #[tool_handler]
//! impl ServerHandler for Reports {}
//!
//! # fn main() -> Result<(), local::ServeError> {
//! let server = Server::new(|| Reports).task("report", TaskPolicy::optional());
//! local::run(server, local::Options::default())
//! # }
//! ```

#[cfg(feature = "lambda")]
pub mod lambda;
#[cfg(feature = "local")]
pub mod local;
mod server;
pub mod settings;
mod system;

pub use longhaul_mcp::{Answer, InputResponse, TaskContext, TaskPolicy, VariableError};
pub use rmcp;
pub use server::Server;
pub use system::{OsIds, SystemClock};

/// The code on the page about writing tools, compiled.
#[cfg(all(doctest, feature = "local"))]
#[doc = include_str!("../../../docs/writing-tools.md")]
struct WritingTools;
