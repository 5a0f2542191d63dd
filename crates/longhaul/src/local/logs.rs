//! Structured logs on standard error: text on a terminal, JSON otherwise.

use std::io::IsTerminal;

use longhaul_logs::{JsonLines, text_fields, without_payloads};
use longhaul_settings::SettingsError;
use longhaul_settings::table::{self, LogFormat};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt, registry};

use super::Options;

/// Starts logging as `options` say. A second call changes nothing.
///
/// # Errors
/// [`SettingsError`]
pub fn init(options: &Options) -> Result<(), SettingsError> {
    let filter = EnvFilter::builder().parse_lossy(options.values().get(&table::LOG)?);
    let payloads = without_payloads(options.values().get(&table::LOG_PAYLOADS)?.into());
    let text = match options.values().get(&table::LOG_FORMAT)? {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let lines = if text {
        let is_terminal = std::io::stderr().is_terminal();
        fmt::layer().fmt_fields(text_fields()).with_ansi(is_terminal).with_writer(std::io::stderr).boxed()
    } else {
        let json = fmt::layer().json().flatten_event(true).with_current_span(false);
        json.with_writer(JsonLines::to(std::io::stderr)).boxed()
    };
    if let Err(error) = registry().with(lines).with(payloads).with(filter).try_init() {
        tracing::debug!(error = &error as &dyn std::error::Error, "logging was started before");
    }
    Ok(())
}
