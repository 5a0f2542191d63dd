//! How the process is asked to stop.

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
