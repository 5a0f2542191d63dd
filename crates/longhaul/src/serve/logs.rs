//! Structured logs on standard error: text on a terminal, JSON otherwise.

use std::io::IsTerminal;
use std::sync::Arc;

use longhaul_core::logs::{AuditLog, Audited, JsonLines, LineFormat, audited, text_fields, without_payloads};
use longhaul_core::settings::SettingsError;
use longhaul_core::settings::table::{self, Audit, LogFormat};
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

use super::Options;
use crate::SystemClock;

/// Starts logging as `options` say. A second call changes nothing.
///
/// ```
/// use longhaul::serve::{self, Options};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options::from_args(["reports", "--log-format", "json"])?;
/// serve::init_logs(&options)?;
/// assert!(options.tool_env()?.find("DATABASE").is_none());
/// # Ok(())
/// # }
/// ```
pub fn init(options: &Options) -> Result<(), SettingsError> {
    let filter = EnvFilter::builder().parse_lossy(options.values().get(&table::LOG)?);
    let payloads = without_payloads(options.values().get(&table::LOG_PAYLOADS)?.into());
    let format = match options.values().get(&table::LOG_FORMAT)? {
        LogFormat::Auto if std::io::stderr().is_terminal() => LineFormat::Text,
        LogFormat::Text => LineFormat::Text,
        LogFormat::Auto | LogFormat::Json => LineFormat::Json,
    };
    let wanted = match options.values().get(&table::AUDIT)? {
        Audit::On => Audited::Only,
        Audit::Off => Audited::Nothing,
    };
    let lines = match format {
        LineFormat::Text => {
            let is_terminal = std::io::stderr().is_terminal();
            fmt::layer().fmt_fields(text_fields()).with_ansi(is_terminal).with_writer(std::io::stderr).boxed()
        }
        LineFormat::Json => {
            let json = fmt::layer().json().flatten_event(true).with_current_span(false);
            json.with_writer(JsonLines::to(std::io::stderr)).boxed()
        }
    };
    let lines = lines.with_filter(filter.and(payloads).and(audited(Audited::Except)));
    let audit = AuditLog::to(std::io::stderr, format, Arc::new(SystemClock)).with_filter(audited(wanted));
    if let Err(error) = registry().with(lines).with(audit).try_init() {
        tracing::debug!(error = &error as &dyn std::error::Error, "logging was started before");
    }
    Ok(())
}
