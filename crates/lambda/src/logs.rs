//! Structured logs: a JSON object for each event, on standard error. Lambda keeps both streams in one place.

use std::panic::PanicHookInfo;
use std::sync::Arc;

use longhaul_core::Clock;
use longhaul_core::logs::{AuditLog, Audited, JsonLines, LineFormat, Payloads, audited, without_payloads};
use longhaul_core::settings::table::Audit;
use tracing::Subscriber;
use tracing_subscriber::filter::{FilterExt, Targets};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

/// The filter.
pub struct LogSettings<'a> {
    /// Levels, and levels of targets: `info,rmcp=warn`.
    pub filter: &'a str,
    /// Whether arguments and results may be logged.
    pub payloads: Payloads,
    /// Whether there is an audit log. It does not depend on the filter.
    pub audit: Audit,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// Starts logging, and logs panics in the same form. A second call changes nothing.
pub fn init_logs(settings: &LogSettings<'_>) {
    if let Err(error) = json_logs(settings, std::io::stderr).try_init() {
        tracing::debug!(error = &error as &dyn std::error::Error, "logging was started before");
        return;
    }
    std::panic::set_hook(Box::new(log_panic));
}

/// A subscriber that writes a line of JSON for each event that passes the filter, with the fields of its span, and the
/// audit log.
pub fn json_logs<W>(settings: &LogSettings<'_>, writer: W) -> impl Subscriber + Send + Sync + use<W>
where
    W: for<'a> MakeWriter<'a> + Clone + Send + Sync + 'static,
{
    let &LogSettings { filter, payloads, audit, ref clock } = settings;
    let lines =
        fmt::layer().json().flatten_event(true).with_span_list(false).with_writer(JsonLines::to(writer.clone()));
    let lines = lines.with_filter(targets(filter).and(without_payloads(payloads)).and(audited(Audited::Except)));
    let audit_log = AuditLog::to(writer, LineFormat::Json, Arc::clone(clock));
    let wanted = match audit {
        Audit::On => Audited::Only,
        Audit::Off => Audited::Nothing,
    };
    registry().with(lines).with(audit_log.with_filter(audited(wanted)))
}

/// Directives that cannot be parsed are ignored: a wrong filter must not stop a function from working. (`EnvFilter`,
/// which supports more than targets, compiles regular expressions at each start.)
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

/// Logs a panic as one line; the default hook would write several lines without a span. The code that catches the
/// panic decides about the task.
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
