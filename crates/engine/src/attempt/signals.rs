//! Waiting for a signal: an entry of the journal that somebody else records.

use std::time::Duration;

use longhaul_core::{EntryKind, Timestamp, limits};

use crate::signals::NOTHING;
use crate::suspension::Wait;
use crate::{Attempt, Every};

impl Attempt {
    /// The JSON text that somebody recorded as signal `name` ([`Engine::record_signal`](crate::Engine::record_signal)),
    /// in this and every later attempt; `None`, also for ever, if nobody had recorded it at `until`. If it is not there
    /// yet, the attempt ends, and whoever records it starts the next one.
    ///
    /// In case nobody does, the task looks for it now and then: first after a minute, and less often the longer ago
    /// `since` is, the moment when what it waits for was handed out; at last every 15 minutes.
    pub async fn signal(&self, name: &str, since: Timestamp, until: Option<Timestamp>) -> Option<String> {
        self.check_name(EntryKind::Signal, name).await;
        if let Some(text) = self.recorded(EntryKind::Signal, name).await {
            return in_time(text);
        }
        let now = self.0.engine.now();
        if until.is_some_and(|until| now >= until) {
            // The first record wins: from now on nobody records this signal, so that all attempts go on without it.
            let _closing = self.0.suspend.step_running();
            return in_time(self.record(EntryKind::Signal, name, NOTHING.to_owned(), None).await);
        }
        let poll_at = next_poll(since, now).min(until.unwrap_or(Timestamp::from_ms(u64::MAX)));
        let _waiting = self.0.suspend.wait(Wait::Signal { name: name.to_owned(), poll_at });
        std::future::pending().await
    }
}

fn in_time(text: String) -> Option<String> {
    (text != NOTHING).then_some(text)
}

fn next_poll(since: Timestamp, now: Timestamp) -> Timestamp {
    let every = Every::growing(
        Duration::from_millis(limits::SIGNAL_POLL_MS_FIRST),
        Duration::from_millis(limits::SIGNAL_POLL_MS_MAX),
    );
    now.plus_ms(every.pause_ms(now.since_ms(since)))
}
