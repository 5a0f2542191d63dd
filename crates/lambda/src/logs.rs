//! Structured logs: a JSON object for each event, on standard error. Lambda keeps both streams in one place.

use std::panic::PanicHookInfo;

use longhaul_logs::{JsonLines, Payloads, without_payloads};
use tracing::Subscriber;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging the events that pass `filter` (levels, and levels of targets: `info,rmcp=warn`), and panics in the same
/// form. A second call changes nothing.
pub fn init_logs(filter: &str, payloads: Payloads) {
    if let Err(error) = json_logs(filter, payloads, std::io::stderr).try_init() {
        tracing::debug!(error = &error as &dyn std::error::Error, "logging was started before");
        return;
    }
    std::panic::set_hook(Box::new(log_panic));
}

/// A subscriber that writes a line of JSON for each event that passes `filter`, with the fields of its span.
pub fn json_logs<W>(filter: &str, payloads: Payloads, writer: W) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let lines = fmt::layer().json().flatten_event(true).with_span_list(false);
    let lines = lines.with_writer(JsonLines::to(writer));
    registry().with(lines).with(without_payloads(payloads)).with(targets(filter))
}

/// Directives that cannot be parsed are ignored: a wrong filter must not stop a function from working. (`EnvFilter`, which
/// supports more than targets, compiles regular expressions at each start.)
fn targets(filter: &str) -> Targets {
    let directives = filter.split(',').filter_map(|directive| directive.trim().parse::<Targets>().ok());
    directives.fold(Targets::new(), |all, one| {
        let all = match one.default_level() {
            Some(level) => all.with_default(level),
            None => all,
        };
        all.with_targets(one)
    })
}

/// Logs a panic as one line; the default hook would write several lines without a span. Whoever catches the panic decides
/// about the task.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let location = panic.location().map(ToString::to_string);
    tracing::error!(location, reason = panic.payload_as_str().unwrap_or("no message"), "panicked");
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn a_filter_names_levels_of_targets_and_ignores_what_cannot_be_parsed() {
        let filter = targets("info, rmcp=warn,longhaul_engine=debug,what?=ever=,loud");
        for (target, lowest) in
            [("hyper", Level::INFO), ("rmcp::service", Level::WARN), ("longhaul_engine", Level::DEBUG)]
        {
            assert!(filter.would_enable(target, &lowest), "{target}");
        }
        assert!(!filter.would_enable("hyper", &Level::DEBUG) && !filter.would_enable("rmcp", &Level::INFO));
    }
}
