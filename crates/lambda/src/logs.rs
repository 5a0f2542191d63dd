//! Structured logs: a JSON object for each event, on standard error. Lambda keeps both streams in one place.

use std::panic::PanicHookInfo;

use tracing_subscriber::EnvFilter;

/// Starts logging what `filter` lets through, as `tracing` filter directives, and panics like everything else. A second
/// call changes nothing.
pub fn init_logs(filter: &str) {
    let filter = EnvFilter::builder().parse_lossy(filter);
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if let Err(error) = logs.json().flatten_event(true).with_span_list(false).try_init() {
        tracing::debug!(error, "logging was started before");
        return;
    }
    std::panic::set_hook(Box::new(log_panic));
}

/// One line, where the default hook would write several that belong to nothing. Whoever catches the panic says what
/// becomes of the task.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    tracing::error!(place, reason = panic.payload_as_str().unwrap_or("no message"), "panicked");
}
