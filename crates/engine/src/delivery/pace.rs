//! When an attempt's worker writes while its tool runs: heartbeats at a steady interval, progress as soon as its own
//! interval allows.

use longhaul_core::Timestamp;

use crate::Settings;
use crate::attempt::News;

/// A write that is due. Both renew the lease and write what is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// A heartbeat, which also renews the message's invisibility.
    Heartbeat,
    /// Progress alone.
    Progress,
}

/// The times of the next writes of one attempt.
pub(crate) struct Pace {
    heartbeat_ms: u64,
    progress_ms: u64,
    /// When the next heartbeat is due.
    beat_at: Timestamp,
    /// From when on progress may be written again.
    progress_from: Timestamp,
}

impl Pace {
    /// The times of an attempt that begins at `now`. Its first progress is written at once.
    pub(crate) const fn new(settings: &Settings, now: Timestamp) -> Self {
        let (heartbeat_ms, progress_ms) = (settings.heartbeat_ms, settings.progress_ms);
        Self { heartbeat_ms, progress_ms, beat_at: now.plus_ms(heartbeat_ms), progress_from: now }
    }

    /// When the next write is due; this may be in the past.
    pub(crate) fn next_at(&self, news: News) -> Timestamp {
        if news.flush_requested {
            return Timestamp::from_ms(0);
        }
        if news.has_progress { self.progress_from.min(self.beat_at) } else { self.beat_at }
    }

    /// What is due at `now`. A heartbeat that would follow before the next progress is brought forward, so that
    /// heartbeats are no additional writes as long as there is progress.
    pub(crate) fn due(&self, now: Timestamp, news: News) -> Option<Due> {
        if now < self.next_at(news) {
            return None;
        }
        let beats = news.flush_requested || now.plus_ms(self.progress_ms) >= self.beat_at;
        Some(if beats { Due::Heartbeat } else { Due::Progress })
    }

    /// Notes a write that ended at `now`, successful or not.
    pub(crate) fn wrote(&mut self, due: Due, now: Timestamp, news: News) {
        if due == Due::Heartbeat {
            self.beat_at = now.plus_ms(self.heartbeat_ms);
        }
        if news.has_progress {
            self.progress_from = now.plus_ms(self.progress_ms);
        }
    }
}
