//! Checkers of what a client is told.

use longhaul_core::ports::Page;
use longhaul_core::{OwnerId, State, Task, TaskKey, Timestamp};
use longhaul_engine::{AcceptError, Accepted};

use super::super::store::StoreModel;
use super::super::world::DAWN_MS;
use super::{Checks, Promise};

/// Who asked, when, and by which clock.
#[derive(Clone, Copy)]
pub(crate) struct Told {
    pub(crate) client: usize,
    pub(crate) owner: OwnerId,
    pub(crate) begun_ms: u64,
    pub(crate) begun: Timestamp,
    pub(crate) at_ms: u64,
}

/// What clients were told before.
#[derive(Default)]
pub(super) struct Memory {
    /// The end that a client was told.
    ends: Vec<(usize, Task)>,
    /// The attempt and the moment of the last change that a client was told.
    seen: Vec<(usize, TaskKey, u32)>,
    /// Task and idempotency key that were told to belong together.
    keys: Vec<(OwnerId, u8, TaskKey)>,
}

impl Checks {
    /// A client was told how a task is.
    pub(crate) fn told_task(&mut self, told: Told, task: &Task) {
        let key = task.key();
        let at_ms = told.at_ms;
        let name = self.name(&key);
        if key.owner != told.owner {
            return self.fail(
                Promise::OwnersSeeTheirOwn,
                at_ms,
                format!("a client was told of {name}, which is not its own"),
            );
        }
        if told.begun >= task.expires_at {
            self.fail(Promise::ExpiredIsNotFound, at_ms, format!("a client was told of {name} after it had expired"));
        }
        let Some(trace) = self.trace(&key) else {
            return self.fail(
                Promise::ToldIsOnRecord,
                at_ms,
                "a client was told of a task that is not on record".to_owned(),
            );
        };
        // What was on record at some moment while the client waited.
        let since = trace.versions.iter().rposition(|(since_ms, _)| *since_ms < told.begun_ms).unwrap_or(0);
        let true_once = trace.versions[since..].iter().any(|(_, version)| **version == *task);
        if !true_once {
            let what = format!("a client was told that {name} is {}, which it was not", task.status().as_str());
            self.fail(Promise::ToldIsOnRecord, at_ms, what);
        }
        self.check_monotone(told, task, &name);
    }

    fn check_monotone(&mut self, told: Told, task: &Task, name: &str) {
        let key = task.key();
        let end = self.told.ends.iter().find(|(client, end)| *client == told.client && end.key() == key);
        if end.is_some_and(|(_, end)| end.state != task.state) {
            let what = format!("a client that knew the end of {name} was told that it is {}", task.status().as_str());
            return self.fail(Promise::ReadingIsMonotone, told.at_ms, what);
        }
        let seen = self.told.seen.iter_mut().find(|(client, held, _)| *client == told.client && *held == key);
        match seen {
            Some((_, _, attempt)) if *attempt > task.attempt => {
                let what = format!("a client was told of attempt {} of {name} after attempt {attempt}", task.attempt);
                return self.fail(Promise::ReadingIsMonotone, told.at_ms, what);
            }
            Some((_, _, attempt)) => *attempt = task.attempt,
            None => self.told.seen.push((told.client, key, task.attempt)),
        }
        if end.is_none() && task.has_ended() {
            self.told.ends.push((told.client, task.clone()));
        }
    }

    /// A client was told that there is no such task.
    pub(crate) fn told_not_found(&mut self, told: Told, key: &TaskKey) {
        let (name, skew_ms) = (self.name(key), self.skew_ms);
        if key.owner != told.owner {
            return;
        }
        let Some(trace) = self.trace(key) else { return };
        let Some(task) = trace.latest() else { return };
        let latest_now_ms = DAWN_MS + told.at_ms + skew_ms;
        if latest_now_ms < task.expires_at.as_ms() {
            let what = format!("a client was told that {name} is not there, and it has not expired");
            self.fail(Promise::AcceptedIsKept, told.at_ms, what);
        }
    }

    /// A client was told that its call is accepted.
    pub(crate) fn told_accepted(&mut self, told: Told, accepted: &Accepted, call: usize, idempotency: Option<u8>) {
        let (Accepted::New(task) | Accepted::Existing(task)) = accepted;
        if self.place(&task.key()).is_none() {
            let what = "a call was accepted, and its task is not on record".to_owned();
            return self.fail(Promise::AcceptedIsKept, told.at_ms, what);
        }
        self.told_task(told, task);
        if self.trace(&task.key()).is_some_and(|trace| trace.call != call) {
            let what = "a call was accepted as a retry of another call, which had other arguments".to_owned();
            self.fail(Promise::SameKeySameTask, told.at_ms, what);
        }
        let Some(idempotency) = idempotency else { return };
        let key = task.key();
        let earlier = self.told.keys.iter().position(|(owner, held, _)| *owner == key.owner && *held == idempotency);
        let Some(place) = earlier else {
            self.told.keys.push((key.owner, idempotency, key));
            return;
        };
        let (_, _, held) = self.told.keys[place];
        let skew_ms = self.skew_ms;
        let alive = self
            .trace(&held)
            .and_then(|trace| trace.latest().cloned())
            .is_some_and(|task| DAWN_MS + told.at_ms + skew_ms < task.expires_at.as_ms());
        if held != key && alive {
            let what = "the same idempotency key gave two tasks".to_owned();
            self.fail(Promise::SameKeySameTask, told.at_ms, what);
        }
        self.told.keys[place].2 = key;
    }

    /// A client was told that its call is not accepted.
    pub(crate) fn told_refused(&mut self, told: Told, error: &AcceptError, key: [u8; 32]) {
        match error {
            AcceptError::KeyReused => {
                let holder = |owner: OwnerId, fingerprint: Option<([u8; 32], [u8; 32])>| {
                    owner == told.owner && fingerprint.is_some_and(|(held, _)| held == key)
                };
                if !self.traces.iter().any(|trace| holder(trace.key.owner, trace.fingerprint)) {
                    let what = "a client was told that its new idempotency key was used before".to_owned();
                    self.fail(Promise::SameKeySameTask, told.at_ms, what);
                }
            }
            AcceptError::TooManyOpen { .. } => {
                let open = self.open_between(told);
                if open < self.open_max {
                    let what =
                        format!("a client with {open} unfinished tasks was refused, and {} are allowed", self.open_max);
                    self.fail(Promise::QuotaIsRight, told.at_ms, what);
                }
            }
            AcceptError::TooLarge { .. } | AcceptError::InvalidKey { .. } | AcceptError::Unavailable(_) => {}
        }
    }

    /// How many tasks of the owner may have been unfinished at one moment while the client waited.
    fn open_between(&self, told: Told) -> usize {
        let earliest_now_ms = (DAWN_MS + told.begun_ms).saturating_sub(self.skew_ms);
        let open = |trace: &&super::Trace| {
            trace.key.owner == told.owner
                && trace.ended.is_none_or(|(ended_ms, _)| ended_ms >= told.begun_ms)
                && trace.latest().is_some_and(|task| earliest_now_ms < task.expires_at.as_ms())
        };
        self.traces.iter().filter(open).count()
    }

    /// A client was told that its task is cancelled, or how it ended before.
    pub(crate) fn told_cancelled(&mut self, told: Told, task: &Task) {
        self.told_task(told, task);
        if !task.has_ended() {
            let what = format!(
                "a client cancelled {} and was told that it is {}",
                self.name(&task.key()),
                task.status().as_str()
            );
            self.fail(Promise::ToldIsOnRecord, told.at_ms, what);
        }
    }

    /// A client was told that its result is kept for as long as it wants.
    pub(crate) fn told_prolonged(&mut self, told: Told, task: &Task, keep_ms: u64) {
        self.told_task(told, task);
        let from = task.ended_at.unwrap_or_else(|| task.deadline());
        // One that was forgotten a moment ago may still be seen, by a clock that is behind.
        let forgotten = task.expires_at < from.plus_ms(task.terms.keep_ms);
        if !forgotten && task.expires_at < from.plus_ms(keep_ms) {
            let what = format!("{} is kept for less time than a client was told", self.name(&task.key()));
            self.fail(Promise::ExpiredIsNotFound, told.at_ms, what);
        }
    }

    /// A client was told that its answers are taken.
    pub(crate) fn told_answered(&mut self, told: Told, key: &TaskKey, names: &[String]) {
        let name = self.name(key);
        let Some(trace) = self.trace(key) else { return };
        let unchanged = trace.versions.last().is_some_and(|(since_ms, _)| *since_ms < told.begun_ms);
        let open = |asked: &&String| trace.latest().is_some_and(|task| is_open(task, asked));
        let lost = names.iter().find(|asked| unchanged && open(asked));
        if let Some(lost) = lost {
            let what = format!("a client answered `{lost}` of {name}, and it is still asked");
            self.fail(Promise::AnswersAreFinal, told.at_ms, what);
        }
    }

    /// A client was given one page.
    pub(crate) fn told_page(&mut self, told: Told, page: &Page, limit: usize) {
        for task in &page.tasks {
            self.told_task(told, task);
        }
        if page.tasks.windows(2).any(|pair| pair[0].id <= pair[1].id) {
            self.fail(Promise::ToldIsOnRecord, told.at_ms, "a list is not in order".to_owned());
        }
        let latest_now_ms = DAWN_MS + told.at_ms + self.skew_ms;
        let missing = self.traces.iter().find(|trace| {
            let living = trace.latest().is_some_and(|task| latest_now_ms < task.expires_at.as_ms());
            let old = trace.versions.first().is_some_and(|(created_ms, _)| *created_ms < told.begun_ms);
            trace.key.owner == told.owner && living && old && !page.tasks.iter().any(|task| task.key() == trace.key)
        });
        if page.tasks.len() < limit
            && let Some(key) = missing.map(|trace| trace.key)
        {
            let what = format!("{} is missing in a list", self.name(&key));
            self.fail(Promise::AcceptedIsKept, told.at_ms, what);
        }
    }

    /// A client read a whole result.
    pub(crate) fn told_result(&mut self, told: Told, store: &StoreModel, task: &Task, text: Option<&str>) {
        let State::Completed { result, .. } = &task.state else { return };
        let held = super::record::text_of(store, &task.key(), result);
        let gave = self.trace(&task.key()).and_then(|trace| trace.leg(task.attempt)).and_then(|leg| leg.result.clone());
        if text != gave.as_deref() || held.as_deref() != text {
            let what = format!("the result of {} that a client read is not what the tool gave", self.name(&task.key()));
            self.fail(Promise::NothingIsCut, told.at_ms, what);
        }
    }

    /// A client was told of an error although nothing had gone wrong.
    pub(crate) fn told_unavailable(&mut self, told: Told, calm_since_ms: Option<u64>, weather_is_fine: bool) {
        if weather_is_fine || calm_since_ms.is_some_and(|calm_ms| calm_ms < told.begun_ms) {
            self.fail(Promise::ToldIsOnRecord, told.at_ms, "a client was told of a failure that nobody had".to_owned());
        }
    }
}

fn is_open(task: &Task, name: &str) -> bool {
    matches!(&task.state, State::InputRequired { asks, .. } if asks.iter().any(|ask| ask.key == name))
}
