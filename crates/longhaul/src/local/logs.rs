//! Structured logs on standard error: text on a terminal, JSON otherwise.

use std::io::IsTerminal;

use longhaul_settings::SettingsError;
use longhaul_settings::table::{self, LogFormat};
use tracing_subscriber::EnvFilter;

use super::Options;

/// Starts logging as `options` say. A second call changes nothing.
///
/// # Errors
/// [`SettingsError`]
pub fn init(options: &Options) -> Result<(), SettingsError> {
    let filter = EnvFilter::builder().parse_lossy(options.values().get(&table::LOG)?);
    let text = match options.values().get(&table::LOG_FORMAT)? {
        LogFormat::Auto => std::io::stderr().is_terminal(),
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started =
        if text { logs.try_init() } else { logs.json().flatten_event(true).with_current_span(false).try_init() };
    if let Err(error) = started {
        tracing::debug!(error, "logging was started before");
    }
    Ok(())
}
