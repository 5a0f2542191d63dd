//! Another configuration while the gateway runs: on SIGHUP it reads the files again.

use std::path::{Path, PathBuf};

use longhaul_gateway::{Config, Gateway, Lock};
use tokio::signal::unix::{SignalKind, signal};

use super::arguments::{read_lock, servers};

/// The files of a gateway.
pub(super) struct Files {
    pub(super) config: PathBuf,
    pub(super) lock: Option<PathBuf>,
}

impl Files {
    fn read(&self) -> Result<(Config, Option<Lock>), String> {
        let config = servers(&self.config)?;
        Ok((config, self.lock.as_deref().map(read_lock).transpose()?))
    }
}

/// Reads the files with each SIGHUP, for as long as it is polled. A file that cannot be used changes nothing.
pub(super) async fn with_each_hangup(gateway: &Gateway, files: &Files) {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => {
            tracing::warn!(%error, "the process cannot react to SIGHUP; restart it for another configuration");
            return std::future::pending().await;
        }
    };
    while hangups.recv().await.is_some() {
        let file = shown(&files.config);
        let reloaded = match files.read() {
            Ok((config, lock)) => gateway.reload(config, lock).await.map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        match reloaded {
            Ok(()) => tracing::info!(file, "the configuration was read again"),
            Err(why) => tracing::error!(file, why, "the configuration is refused, and the running one stays"),
        }
    }
    std::future::pending().await
}

fn shown(file: &Path) -> String {
    file.display().to_string()
}
