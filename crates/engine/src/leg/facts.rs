//! Waiting for a fact: an entry of the journal that somebody else records.

use std::time::Duration;

use longhaul_core::{EntryKind, Timestamp, limits};

use crate::facts::NOTHING;
use crate::suspension::Wait;
use crate::{Every, Leg};

impl Leg {
    /// The JSON text that somebody recorded as fact `name` ([`Engine::record_fact`](crate::Engine::record_fact)), in
    /// this and every later leg; `None`, also for ever, if nobody had recorded it at `until`. If it is not there yet,
    /// the leg ends, and whoever records it starts the next one.
    ///
    /// In case nobody does, the task looks for it now and then: first after a minute, and less often the longer ago
    /// `since` is, the moment when what it waits for was handed out; at last every 15 minutes.
    pub async fn fact(&self, name: &str, since: Timestamp, until: Option<Timestamp>) -> Option<String> {
        self.check_name(EntryKind::Fact, name).await;
        if let Some(text) = self.recorded(EntryKind::Fact, name).await {
            return in_time(text);
        }
        let now = self.0.engine.now();
        if until.is_some_and(|until| now >= until) {
            // The first record wins: from now on nobody records this fact, so that all legs go on without it.
            let _closing = self.0.suspend.step_running();
            return in_time(self.record(EntryKind::Fact, name, NOTHING.to_owned(), None).await);
        }
        let look_at = next_look(since, now).min(until.unwrap_or(Timestamp::from_ms(u64::MAX)));
        let _waiting = self.0.suspend.wait(Wait::Fact { name: name.to_owned(), look_at });
        std::future::pending().await
    }
}

fn in_time(text: String) -> Option<String> {
    (text != NOTHING).then_some(text)
}

fn next_look(since: Timestamp, now: Timestamp) -> Timestamp {
    let every = Every::growing(
        Duration::from_millis(limits::FACT_LOOK_MS_FIRST),
        Duration::from_millis(limits::FACT_LOOK_MS_MAX),
    );
    now.plus_ms(every.pause_ms(now.since_ms(since)))
}
