//! The server as a process of its own, on a laptop, on a machine or in a container.
//!
//! It has the same parts as on AWS: an HTTP server that accepts calls, and workers that take messages from a queue and
//! run tools. One SQLite file stores tasks and messages, so a killed process loses nothing.
//! [`Options::on`] takes your own store and queue instead.
//!
//! There are three ways in:
//!
//! | the program | calls |
//! | --- | --- |
//! | is new, and has nothing else to do | [`main`] |
//! | has a `main`, flags and a runtime | [`longhaul::serve(server, options).await`](fn@serve), or [`serve_stdio`] |
//! | has a listener, or something to do next to the server | [`start`], which returns a [`Running`] |
//!
//! [`Args`] are Longhaul's flags for a command of the program's own.

mod args;
mod backend;
mod bearer;
mod command_line;
mod connections;
mod console;
mod error;
mod flags;
mod health;
mod http_server;
mod limits;
mod logs;
mod metrics;
mod mounted;
mod options;
mod project;
mod running;
#[cfg(feature = "aws")]
mod shared;
mod start;
mod stdio;
mod stopping;
mod storage;
mod tool_env;
mod until_stopped;
mod webhooks;
mod welcome;
mod windows;
mod worker;

use std::process::ExitCode;

pub use args::Args;
pub use backend::Backend;
pub use command_line::{CommandLine, OptionsError};
pub use error::ServeError;
pub use logs::init as init_logs;
pub use mounted::{Caller, McpService};
pub use options::Options;
pub use running::Running;
pub use start::start;
pub use stdio::serve_stdio;
pub use tool_env::ToolEnvError;
pub use until_stopped::serve;

use crate::{IntoServer, ToolEnv};

/// All of a `main`, for a program that does nothing else: [`CommandLine::main`] with the flags that every server has.
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
///     longhaul::serve::main(server)
/// }
/// ```
///
/// The server may be made by async code, and that may fail:
///
/// ```no_run
/// # use longhaul::{Server, ToolEnv};
/// # #[derive(Clone)]
/// # struct Reports;
/// # impl Reports { async fn connect(_url: &str) -> std::io::Result<Self> { Ok(Self) } }
/// # impl longhaul::rmcp::ServerHandler for Reports {}
/// fn main() -> std::process::ExitCode {
///     longhaul::serve::main(async |env: ToolEnv| -> std::io::Result<Server> {
///         let reports = Reports::connect(env.find("DATABASE").unwrap_or("localhost")).await?;
///         Ok(Server::new(move || reports.clone()))
///     })
/// }
/// ```
pub fn main<S: IntoServer<Kind>, Kind>(server: impl FnOnce(ToolEnv) -> S) -> ExitCode {
    CommandLine::default().main(server)
}
