//! Webhooks of a local server: their receivers, and the loops that send them.

use std::path::{Path, PathBuf};

use longhaul_core::ports::{Outbox, UnfinishedTasks};
use longhaul_core::settings::{EnvSource, SettingsError, Values, table};
use longhaul_core::{Clock, with_causes};
use longhaul_engine::Engine;
use longhaul_http::webhooks::{Endpoints, Reach};
use tokio_util::sync::CancellationToken;

use super::{ServeError, tool_env};
use crate::SystemClock;
use crate::serve::limits::{OUTBOX_BACKOFF_MS, OUTBOX_WAIT_MS};

/// Where the endpoints are named, and which addresses they may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WebhookSettings {
    config: ConfigAt,
    pub(super) reach: Reach,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ConfigAt {
    Here(String),
    File(PathBuf),
}

/// The settings that `values` name.
pub(super) fn settings(values: &Values, is_shared: bool) -> Result<Option<WebhookSettings>, SettingsError> {
    let Some(text) = values.find(&table::WEBHOOKS)? else { return Ok(None) };
    if is_shared {
        return Err(refusal(values, &text));
    }
    let config =
        if text.trim_start().starts_with('{') { ConfigAt::Here(text) } else { ConfigAt::File(PathBuf::from(text)) };
    let reach = if values.get(&table::WEBHOOKS_TO_THIS_MACHINE)? { Reach::ThisMachineToo } else { Reach::Public };
    Ok(Some(WebhookSettings { config, reach }))
}

/// Refuses webhooks where there is no outbox.
pub(super) fn refuse(values: &Values) -> Result<(), SettingsError> {
    values.find(&table::WEBHOOKS)?.map_or(Ok(()), |text| Err(refusal(values, &text)))
}

fn refusal(values: &Values, text: &String) -> SettingsError {
    let why = "only a server with a database file tells others how tasks end: leave this out";
    values.refuse(&table::WEBHOOKS, text, why)
}

impl WebhookSettings {
    /// The endpoints, with their secrets as they are now.
    pub(super) fn endpoints(&self, env: &dyn EnvSource) -> Result<Endpoints, ServeError> {
        let text = match &self.config {
            ConfigAt::Here(text) => text.clone(),
            ConfigAt::File(path) => {
                tool_env::text_of(path).map_err(|cause| ServeError::Webhooks { cause: Box::new(cause) })?
            }
        };
        longhaul_http::webhooks::read(&text, &|source| secret(source, env), self.reach)
            .map_err(|cause| ServeError::Webhooks { cause: Box::new(cause) })
    }
}

fn secret(source: &str, env: &dyn EnvSource) -> Result<String, String> {
    match source.split_once(':') {
        Some(("file", path)) if !path.is_empty() => tool_env::text_of(Path::new(path))
            .map_err(|cause| format!("cannot be read from {path}: {}", with_causes(&cause))),
        Some(("env", variable)) if !variable.is_empty() => {
            let text = env.get(variable).and_then(|text| text.into_string().ok());
            text.ok_or_else(|| {
                format!("cannot be read: the environment variable {variable} is not set, or is not UTF-8")
            })
        }
        _ => Err("has no source: write `file:PATH` or `env:VARIABLE`".to_owned()),
    }
}

/// Passes notifications on until the process stops.
pub(super) async fn publish(engine: Engine, outbox: impl Outbox, endpoints: Endpoints, stop: CancellationToken) {
    while let Some(published) = stop.run_until_cancelled(engine.publish(&outbox, &endpoints, OUTBOX_WAIT_MS)).await {
        if let Err(error) = published {
            tracing::warn!(error = &error as &dyn std::error::Error, "notifications were not passed on yet");
            stop.run_until_cancelled(SystemClock.sleep_ms(OUTBOX_BACKOFF_MS)).await;
        }
    }
}

/// Recovers tasks that no client polls, until the process stops.
pub(super) async fn sweep(engine: Engine, tasks: impl UnfinishedTasks, stop: CancellationToken) {
    let every_ms = engine.settings().resend_ms;
    while stop.run_until_cancelled(SystemClock.sleep_ms(every_ms)).await.is_some() {
        match engine.sweep(&tasks).await {
            Ok(swept) if swept.recovered > 0 => {
                tracing::info!(tasks = swept.recovered, "recovered tasks that no client polled");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "unfinished tasks could not be read");
            }
        }
    }
}
