//! Serving until the process is asked to stop.

use std::net::SocketAddr;

use super::running::Connected;
use super::{Backend, Mounted, Options, Running, ServeError, init_logs};
use crate::Server;

/// Starts `server` and returns once it listens. A DynamoDB table or an SQS queue that cannot be used then is tried
/// again and again: meanwhile the log says why, and `/readyz` that the server is not ready. Where it needs more file
/// descriptors for its connections, it raises the limit of the process, as far as that may be done.
pub async fn start(server: &Server, options: &Options) -> Result<Running, ServeError> {
    Running::start(server, options, Connected::Directly).await
}

/// Starts `server` inside a program that has a listener of its own, and gives it its requests: see [`Mounted`]. Nothing
/// listens on `listen`, and there is no console.
pub async fn mount(server: &Server, options: &Options) -> Result<Mounted, ServeError> {
    Ok(Mounted::new(Running::start(server, options, Connected::ByItsHost).await?))
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
