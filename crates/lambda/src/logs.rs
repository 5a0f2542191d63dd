//! Structured logs: a JSON object for each event, on standard error. Lambda keeps both streams in one place.

use std::panic::PanicHookInfo;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging what `filter` lets through, as `tracing` filter directives, and panics like everything else. A second
/// call changes nothing.
pub fn init_logs(filter: &str) {
    if let Err(error) = json_logs(filter, std::io::stderr).try_init() {
        tracing::debug!(error = &error as &dyn std::error::Error, "logging was started before");
        return;
    }
    std::panic::set_hook(Box::new(log_panic));
}

/// What writes a line of JSON for each event that `filter` lets through, with the fields of the span that it happened in.
pub fn json_logs<W>(filter: &str, writer: W) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse_lossy(filter);
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    logs.json().flatten_event(true).with_span_list(false).finish()
}

/// One line, where the default hook would write several that belong to nothing. Whoever catches the panic says what
/// becomes of the task.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string);
    tracing::error!(place, reason = panic.payload_as_str().unwrap_or("no message"), "panicked");
}
