//! A server until the process is asked to stop.

use longhaul_core::settings::table;

use super::stdio::serve_stdio;
use super::stopping::stop_wanted;
use super::{Options, ServeError, start};
use crate::Server;

/// Serves until the process is asked to stop (Ctrl-C or SIGTERM), then shuts down, and `/readyz` says so. Running
/// attempts end at their next step boundary, or after `drain-ms`, and are returned to the queue. Then no more requests
/// are answered.
///
/// It is for a program that has a `main`, a runtime, flags, logs and state: all of them stay. Once the server listens,
/// it prints the URLs of the endpoint and of the console on standard output, and how a client is configured. It also
/// prints how many tools there are, and where tasks are stored.
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
    if options.values().get(&table::STDIO)? {
        return serve_stdio(server, options).await;
    }
    let running = start(&server, &options).await?;
    running.welcome().await.print();
    tracing::info!(address = %running.address(), "serving MCP on POST /mcp");
    stop_wanted().await;
    tracing::info!("stopping: running attempts are returned to the queue");
    running.stop().await;
    Ok(())
}
