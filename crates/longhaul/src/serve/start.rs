//! The two ways to run a server in a program of its author's: until the process is asked to stop, and next to whatever
//! else the program does.

use super::{Options, Running, ServeError};
use crate::Server;

/// Starts `server`, and returns once it listens. The rest of the program runs next to it, and [`Running`] stops it.
///
/// With [`Options::mounted`] nothing listens: the program has the listener, and passes requests on to
/// [`Running::service`].
///
/// A DynamoDB table or an SQS queue that cannot be used yet is tried again and again. Meanwhile the log says why, and
/// `/readyz` that the server is not ready. Where the server needs more file descriptors for its connections, it raises
/// the limit of the process, as far as that is allowed.
pub async fn start(server: &Server, options: &Options) -> Result<Running, ServeError> {
    Running::start(server, options).await
}

/// Serves until the process is asked to stop (Ctrl-C or SIGTERM), then shuts down: `/readyz` says so, running attempts
/// end at their next step boundary, or after `drain-ms`, and are returned to the queue, and then no more requests are
/// answered.
///
/// It is for a program that has a `main`, a runtime, flags, logs and state: all of them stay. Once the server listens,
/// it prints on standard output what a user needs: the URLs of the endpoint and of the console, how a client is
/// configured, how many tools there are, and where tasks are stored.
///
/// ```no_run
/// use longhaul::serve::Options;
/// use longhaul::{Server, TaskPolicy};
/// # use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
/// # #[derive(Clone)]
/// # struct Reports;
/// # #[tool_router]
/// # impl Reports {
/// #     #[tool]
/// #     async fn report(&self) -> String { String::new() }
/// # }
/// # #[tool_handler]
/// # impl ServerHandler for Reports {}
///
/// #[tokio::main]
/// async fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let reports = Reports;
///     let server = Server::new(move || reports.clone()).task("report", TaskPolicy::optional());
///     longhaul::serve(server, Options::from_env()?).await?;
///     Ok(())
/// }
/// ```
pub async fn serve(server: Server, options: Options) -> Result<(), ServeError> {
    let running = start(&server, &options).await?;
    running.welcome().await.print();
    tracing::info!(address = %running.address(), "serving MCP on POST /mcp");
    stop_wanted().await;
    tracing::info!("stopping: running attempts are returned to the queue");
    running.stop().await;
    Ok(())
}

/// Waits until the process is asked to stop.
pub(super) async fn stop_wanted() {
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
