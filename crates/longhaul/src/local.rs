//! The server as one process with an embedded database: for a laptop, a test, or a machine of one's own.
//!
//! The same parts as on AWS, in one process: an HTTP server that accepts and answers, and workers that are fed by a
//! queue. Tasks and messages stand in one SQLite file, so that a killed process loses nothing.

mod command_line;
mod error;
mod http_server;
mod logs;
mod options;
mod running;
mod worker;

use std::net::SocketAddr;

pub use command_line::{CommandLine, OptionsError};
pub use error::ServeError;
pub use logs::init as init_logs;
pub use options::Options;
pub use running::Running;

use crate::Server;

/// Starts `server` and returns once it listens.
///
/// # Errors
/// [`ServeError`], which says what to do.
pub async fn start(server: &Server, options: &Options) -> Result<Running, ServeError> {
    Running::start(server, options).await
}

/// Serves until the process is asked to stop (Ctrl-C, or SIGTERM), then stops in order: running legs are given back to
/// the queue. `ready` is told the address once the server listens.
///
/// # Errors
/// [`ServeError`], which says what to do.
pub async fn serve(server: Server, options: Options, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let running = start(&server, &options).await?;
    ready(running.address());
    stop_wanted().await;
    tracing::info!("stopping: running legs are given back to the queue");
    running.stop().await;
    Ok(())
}

/// [`serve`] in a runtime of its own: all that a `main` needs.
///
/// # Errors
/// [`ServeError`], which says what to do.
pub fn run(server: Server, options: Options) -> Result<(), ServeError> {
    init_logs(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(ServeError::Runtime)?;
    runtime.block_on(serve(server, options, |address| tracing::info!(%address, "serving MCP on POST /mcp")))
}

async fn stop_wanted() {
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(error) => {
                tracing::warn!(%error, "SIGTERM cannot be heard; use Ctrl-C");
                std::future::pending().await
            }
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
