//! How much one server may write to the log.

use std::sync::{Arc, Mutex, PoisonError};

use longhaul::SystemClock;
use longhaul_core::Clock;

use crate::limits;

/// The lines that one server may still write. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Quota(Arc<Mutex<Used>>);

#[derive(Debug, Default)]
struct Used {
    since_ms: u64,
    lines: u32,
    left_out: u64,
}

impl Quota {
    /// Whether the next line goes to the log. The next line that does says how many were left out.
    pub(super) fn take(&self, server: &str) -> bool {
        let left_out = self.used_at(SystemClock.now().as_ms());
        if let Some(lines @ 1..) = left_out {
            tracing::warn!(server, lines, "lines of a server are left out: it writes too many");
        }
        left_out.is_some()
    }

    /// How many lines were left out before the one that goes to the log now; `None` if it is left out too.
    fn used_at(&self, now_ms: u64) -> Option<u64> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now_ms.saturating_sub(used.since_ms) >= limits::LOG_PERIOD_MS {
            *used = Used { since_ms: now_ms, left_out: used.left_out, lines: 0 };
        }
        if used.lines >= limits::LOG_LINES_MAX {
            used.left_out += 1;
            return None;
        }
        used.lines += 1;
        Some(std::mem::take(&mut used.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_left_out_and_counted() {
        let quota = Quota::default();
        let now_ms = limits::LOG_PERIOD_MS;
        for _ in 0..limits::LOG_LINES_MAX {
            assert_eq!(quota.used_at(now_ms), Some(0));
        }
        assert_eq!([quota.used_at(now_ms), quota.used_at(now_ms)], [None, None]);
        assert_eq!(quota.used_at(2 * now_ms), Some(2));
        assert_eq!(quota.used_at(2 * now_ms), Some(0));
    }
}
