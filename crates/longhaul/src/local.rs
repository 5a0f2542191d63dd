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
mod logs;
mod options;
mod running;
#[cfg(feature = "aws")]
mod shared;
mod storage;
mod tool_env;
mod webhooks;
mod welcome;
mod worker;

use std::net::SocketAddr;
use std::process::ExitCode;

pub use backend::Backend;
pub use command_line::{CommandLine, OptionsError};
pub use error::ServeError;
pub use logs::init as init_logs;
pub use options::Options;
pub use running::Running;
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

/// Starts `server` and returns once it listens. A DynamoDB table or an SQS queue that cannot be used then is tried
/// again and again: meanwhile the log says why, and `/readyz` that the server is not ready. Where it needs more file
/// descriptors for its connections, it raises the limit of the process, as far as that may be done.
pub async fn start(server: &Server, options: &Options) -> Result<Running, ServeError> {
    Running::start(server, options).await
}

/// [`start`] on your own store and queue. The options `db`, `store` and `queue` are ignored.
pub async fn start_on(server: &Server, backend: Backend, options: &Options) -> Result<Running, ServeError> {
    Running::start_on(server, backend, options).await
}

/// Serves until the process is asked to stop (Ctrl-C or SIGTERM), then shuts down: `/readyz` says so, running attempts
/// end at their next step boundary, or after `drain-ms`, and are returned to the queue, and then no more requests are
/// answered.
///
/// Once the server listens, it prints on standard output what a user needs: the URLs of the endpoint and of the
/// console, how a client is configured, how many tools there are, and where tasks are kept. Then `ready` is called with
/// the address.
pub async fn serve(server: Server, options: Options, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    until_stopped(start(&server, &options).await?, ready).await;
    Ok(())
}

/// [`serve`] on your own store and queue. The options `db`, `store` and `queue` are ignored.
pub async fn serve_on(
    server: Server,
    backend: Backend,
    options: Options,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    until_stopped(start_on(&server, backend, &options).await?, ready).await;
    Ok(())
}

/// [`serve`] in its own runtime, with logs: for a program that reads its options itself. The log has the address.
pub fn run(server: Server, options: Options) -> Result<(), ServeError> {
    init_logs(&options)?;
    run_with(server, options, |address| tracing::info!(%address, "serving MCP on POST /mcp"))
}

/// [`run`] for a program that starts logging itself, and wants to know the address. Call it last: it does not wait for
/// a tool that keeps computing after all others have stopped.
pub fn run_with(server: Server, options: Options, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime)?;
    let served = runtime.block_on(serve(server, options, ready));
    runtime.shutdown_background();
    served
}

async fn until_stopped(running: Running, ready: impl FnOnce(SocketAddr)) {
    running.welcome().await.print();
    ready(running.address());
    stop_wanted().await;
    tracing::info!("stopping: running attempts are returned to the queue");
    running.stop().await;
}

async fn stop_wanted() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(error) => {
                tracing::warn!(%error, "the process cannot react to SIGTERM; stop it with Ctrl-C");
                std::future::pending().await
            }
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
