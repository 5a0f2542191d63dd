//! Connections that were not served: counted, and logged at most once a minute.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// How often the log says so.
const EVERY: Duration = Duration::from_secs(60);

/// What has happened since the last line in the log.
#[derive(Default)]
pub(crate) struct Incidents {
    logged_at: Option<Instant>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    failed: u64,
    closed: u64,
    refused: u64,
    error: Option<io::Error>,
}

impl Incidents {
    /// The system gave no connection.
    pub(crate) fn failed(&mut self, error: io::Error) {
        self.counts.failed += 1;
        self.counts.error = Some(error);
    }

    /// A connection was closed to make room for another one.
    pub(crate) const fn closed_for_another(&mut self) {
        self.counts.closed += 1;
    }

    /// A connection was refused.
    pub(crate) const fn refused(&mut self) {
        self.counts.refused += 1;
    }

    /// Waits until there is something to log.
    pub(crate) async fn due(&self) {
        let Counts { failed, closed, refused, .. } = &self.counts;
        if failed + closed + refused == 0 {
            return std::future::pending().await;
        }
        if let Some(logged_at) = self.logged_at {
            tokio::time::sleep_until(logged_at + EVERY).await;
        }
    }

    /// Logs what has happened.
    pub(crate) fn log(&mut self) {
        self.logged_at = Some(Instant::now());
        let Counts { failed, closed, refused, error } = std::mem::take(&mut self.counts);
        if let Some(error) = error {
            tracing::warn!(%error, failed, "connections could not be accepted");
        }
        if closed + refused > 0 {
            tracing::warn!(
                closed,
                refused,
                "too many connections: some that were silent, idle or slow were closed to make room, or new ones were \
                 refused"
            );
        }
    }
}
