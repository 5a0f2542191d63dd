//! Keeps the schedules of a local server.

use longhaul_core::Clock;
use longhaul_mcp::McpServer;
use tokio_util::sync::CancellationToken;

use crate::SystemClock;

/// The longest pause between two looks: the clock may be set, and the machine may have been asleep.
const PAUSE_MS_MAX: u64 = 30_000;

/// The pause after a look that failed.
const RETRY_MS: u64 = 5_000;

/// Looks at the schedules whenever one is due, until the process stops.
pub(super) async fn keep(mcp: McpServer, stop: CancellationToken) {
    loop {
        let looked = mcp.look_at_schedules().await;
        let now = SystemClock.now();
        let due_in_ms = looked.next_at.map_or(PAUSE_MS_MAX, |next_at| next_at.since_ms(now).max(1));
        let pause_ms = if looked.failed > 0 { RETRY_MS } else { PAUSE_MS_MAX }.min(due_in_ms);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = SystemClock.sleep_ms(pause_ms) => {}
        }
    }
}
