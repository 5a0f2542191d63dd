//! Structured logs: a JSON object for each event, on standard error. Lambda keeps both streams in one place.

use tracing_subscriber::EnvFilter;

/// Starts logging what `filter` lets through, as `tracing` filter directives. A second call changes nothing.
pub fn init_logs(filter: &str) {
    let filter = EnvFilter::builder().parse_lossy(filter);
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if let Err(error) = logs.json().flatten_event(true).with_span_list(false).try_init() {
        tracing::debug!(error, "logging was started before");
    }
}
