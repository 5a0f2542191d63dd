//! The server as one process: for a laptop, a test, or your own machine.
//!
//! It has the same parts as on AWS: an HTTP server that accepts calls and answers, and workers that take messages from
//! a queue and run tools. Tasks and messages are stored in one SQLite file, so that nothing is lost when the process is
//! killed. [`start_on`] takes your own store and queue instead.
//!
//! [`main`] is all that a program needs. Inside a program of your own, [`start`] returns once the server listens:
//!
//! ```
//! use longhaul::local::{self, Options};
//! use longhaul::settings::table::{DB, LISTEN};
//!
//! # use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
//! # use longhaul::{Server, TaskPolicy};
//! # #[derive(Clone)]
//! # struct Reports;
//! # #[tool_router]
//! # impl Reports {
//! #     #[tool]
//! #     async fn report(&self) -> String { String::new() }
//! # }
//! # #[tool_handler]
//! # impl ServerHandler for Reports {}
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let file = folder.path().join("tasks.db");
//! let server = Server::new(|| Reports).task("report", TaskPolicy::optional());
//! let options = Options::default().with(&DB, file).with(&LISTEN, ([127, 0, 0, 1], 0));
//! let running = local::start(&server, &options).await?;
//! println!("MCP on http://{}/mcp", running.address());
//! // …
//! running.stop().await;
//! # Ok(())
//! # }
//! ```

mod backend;
mod bearer;
mod command_line;
mod connections;
mod console;
mod error;
mod health;
mod http_server;
mod limits;
mod logs;
mod mounted;
mod options;
mod running;
mod serve;
#[cfg(feature = "aws")]
mod shared;
mod storage;
mod tool_env;
mod webhooks;
mod welcome;
mod worker;

use std::process::ExitCode;

pub use backend::Backend;
pub use command_line::{CommandLine, OptionsError};
pub use error::ServeError;
pub use logs::init as init_logs;
pub use mounted::{Caller, McpService, Mounted};
pub use options::Options;
pub use running::Running;
pub use serve::{mount, run, run_with, serve, serve_on, start, start_on};
pub use tool_env::ToolEnvError;

use crate::{Server, ToolEnv};

/// All of a `main`: [`CommandLine::main`] with the flags that every server has.
///
/// ```no_run
/// # use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
/// # use longhaul::{Server, TaskPolicy, ToolEnv};
/// # #[derive(Clone)]
/// # struct Reports { env: ToolEnv }
/// # #[tool_router]
/// # impl Reports {
/// #     #[tool]
/// #     async fn report(&self) -> String { String::new() }
/// # }
/// # #[tool_handler]
/// # impl ServerHandler for Reports {}
/// fn server(env: ToolEnv) -> Server {
///     Server::new(move || Reports { env: env.clone() }).task("report", TaskPolicy::optional())
/// }
///
/// fn main() -> std::process::ExitCode {
///     longhaul::local::main(server)
/// }
/// ```
pub fn main(server: impl FnOnce(ToolEnv) -> Server) -> ExitCode {
    CommandLine::default().main(server)
}
