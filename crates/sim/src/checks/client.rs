//! Checkers of clients' observations.

use longhaul_core::ports::Page;
use longhaul_core::{EntryKind, OwnerId, State, Task, TaskFilter, TaskKey};
use longhaul_engine::{AcceptError, Accepted};
use longhaul_testkit::models::{Promise, StoreModel};

use super::super::kernel::EPOCH_MS;
use super::record::{is_open, text_of};
use super::rules::ended;
use super::state::{Checks, Observation, RecordedEntry, Trace, was_forgotten};

impl Checks {
    /// A client got the state of a task.
    pub(crate) fn observed_task(&mut self, observed: Observation, task: &Task) {
        let key = task.key();
        let name = self.name(&key);
        if key.owner != observed.owner {
            return self.fail(Promise::OwnersSeeOnlyTheirOwn, format!("a client got {name}, which is not its own"));
        }
        if observed.begun >= task.expires_at {
            self.fail(Promise::ExpiredIsNotFound, format!("a client got {name} after it had expired"));
        }
        let Some(trace) = self.trace(&key) else {
            return self.fail(Promise::RepliesMatchTheRecord, "a client got a task that is not stored".to_owned());
        };
        // The versions that were stored at some time while the client waited.
        let since = trace.versions.iter().rposition(|(since_ms, _)| *since_ms < observed.begun_ms).unwrap_or(0);
        let true_once = trace.versions[since..].iter().any(|(_, version)| **version == *task);
        if !true_once {
            let what = format!("a client saw {name} as {}, which it was not", task.status().as_str());
            self.fail(Promise::RepliesMatchTheRecord, what);
        }
        self.check_monotone(observed, task, &name);
    }

    fn check_monotone(&mut self, observed: Observation, task: &Task, name: &str) {
        let key = task.key();
        let end = self.observed.ends.iter().find(|(client, end)| *client == observed.client && end.key() == key);
        if end.is_some_and(|(_, end)| end.state != task.state) {
            let what = format!("a client that knew the end of {name} got the status {}", task.status().as_str());
            return self.fail(Promise::ReadsAreMonotonic, what);
        }
        let seen = self.observed.seen.iter_mut().find(|(client, held, _)| *client == observed.client && *held == key);
        match seen {
            Some((_, _, attempt)) if *attempt > task.attempt => {
                let what = format!("a client got attempt {} of {name} after attempt {attempt}", task.attempt);
                return self.fail(Promise::ReadsAreMonotonic, what);
            }
            Some((_, _, attempt)) => *attempt = task.attempt,
            None => self.observed.seen.push((observed.client, key, task.attempt)),
        }
        if end.is_none() && task.has_ended() {
            self.observed.ends.push((observed.client, task.clone()));
        }
    }

    /// A client got the reply that the task does not exist.
    pub(crate) fn observed_not_found(&mut self, observed: Observation, key: &TaskKey) {
        let (name, skew_ms) = (self.name(key), self.skew_ms);
        if key.owner != observed.owner {
            return;
        }
        let Some(trace) = self.trace(key) else { return };
        let Some(task) = trace.latest() else { return };
        let latest_now_ms = EPOCH_MS + observed.at_ms + skew_ms;
        if latest_now_ms < task.expires_at.as_ms() {
            let what = format!("a client did not find {name}, although it has not expired");
            self.fail(Promise::AcceptedStaysOnRecord, what);
        }
    }

    /// A client got the reply that its call is accepted.
    pub(crate) fn observed_accepted(
        &mut self,
        observed: Observation,
        accepted: &Accepted,
        call: usize,
        idempotency: Option<u8>,
    ) {
        let (Accepted::New(task) | Accepted::Existing(task)) = accepted;
        if self.position(&task.key()).is_none() {
            let what = "a call was accepted, but its task is not stored".to_owned();
            return self.fail(Promise::AcceptedStaysOnRecord, what);
        }
        self.observed_task(observed, task);
        if self.trace(&task.key()).is_some_and(|trace| trace.call != call) {
            let what = "a call was accepted as a retry of another call with different arguments".to_owned();
            self.fail(Promise::SameKeySameTask, what);
        }
        let Some(idempotency) = idempotency else { return };
        let key = task.key();
        let earlier =
            self.observed.keys.iter().position(|(owner, held, _)| *owner == key.owner && *held == idempotency);
        let Some(position) = earlier else {
            self.observed.keys.push((key.owner, idempotency, key));
            return;
        };
        let (_, _, held) = self.observed.keys[position];
        let skew_ms = self.skew_ms;
        let alive = self
            .trace(&held)
            .and_then(|trace| trace.latest().cloned())
            .is_some_and(|task| EPOCH_MS + observed.at_ms + skew_ms < task.expires_at.as_ms());
        if held != key && alive {
            self.fail(Promise::SameKeySameTask, "the same idempotency key gave two tasks".to_owned());
        }
        self.observed.keys[position].2 = key;
    }

    /// A client got the reply that its call is not accepted.
    pub(crate) fn observed_refused(&mut self, observed: Observation, error: &AcceptError, key: [u8; 32]) {
        match error {
            AcceptError::KeyReused => {
                let holder = |owner: OwnerId, fingerprint: Option<([u8; 32], [u8; 32])>| {
                    owner == observed.owner && fingerprint.is_some_and(|(held, _)| held == key)
                };
                if !self.traces.iter().any(|trace| holder(trace.key.owner, trace.fingerprint)) {
                    let what = "a client's new idempotency key was refused as used before".to_owned();
                    self.fail(Promise::SameKeySameTask, what);
                }
            }
            AcceptError::TooManyOpen { .. } => {
                let open = self.open_between(observed);
                if open < self.open_max {
                    let what =
                        format!("a client with {open} unfinished tasks was refused, and {} are allowed", self.open_max);
                    self.fail(Promise::QuotaIsRight, what);
                }
            }
            AcceptError::TooLarge(_)
            | AcceptError::InvalidKey
            | AcceptError::TooMuchStored { .. }
            | AcceptError::TooManyNew { .. }
            | AcceptError::TooFarAhead
            | AcceptError::Unavailable(_) => {}
        }
    }

    /// How many tasks of the owner may have been unfinished at one point in time while the client waited.
    fn open_between(&self, observed: Observation) -> usize {
        let earliest_now_ms = (EPOCH_MS + observed.begun_ms).saturating_sub(self.skew_ms);
        let open = |trace: &&Trace| {
            trace.key.owner == observed.owner
                && trace.ended.is_none_or(|(ended_ms, _)| ended_ms >= observed.begun_ms)
                && trace.latest().is_some_and(|task| earliest_now_ms < task.expires_at.as_ms())
        };
        self.traces.iter().filter(open).count()
    }

    /// A client got the reply that its task is cancelled, or how it ended before.
    pub(crate) fn observed_cancelled(&mut self, observed: Observation, task: &Task) {
        self.observed_task(observed, task);
        if !task.has_ended() {
            let what =
                format!("a client cancelled {} and got the status {}", self.name(&task.key()), task.status().as_str());
            self.fail(Promise::RepliesMatchTheRecord, what);
        }
    }

    /// A client got the reply that its result is retained for as long as it asked for.
    pub(crate) fn observed_extended(&mut self, observed: Observation, task: &Task, retention_ms: u64) {
        self.observed_task(observed, task);
        let from = task.ended_at.unwrap_or_else(|| task.deadline());
        // A task that was forgotten a short time ago may still be seen, by a clock that is behind.
        if !was_forgotten(task) && task.expires_at < from.plus_ms(retention_ms) {
            let what = format!("{} is retained for less time than a client was promised", self.name(&task.key()));
            self.fail(Promise::ExpiredIsNotFound, what);
        }
    }

    /// A client got the reply that its answers are accepted.
    pub(crate) fn observed_answered(&mut self, observed: Observation, key: &TaskKey, names: &[String]) {
        let name = self.name(key);
        let Some(trace) = self.trace(key) else { return };
        let still_open = names.iter().find(|asked| trace.latest().is_some_and(|task| is_open(task, asked)));
        let ignored = names.iter().find(|asked| {
            let on_record = |entry: &RecordedEntry| entry.kind == EntryKind::Answer && entry.name == **asked;
            !trace.entries.iter().any(on_record) && was_open_since(trace, asked, observed.begun_ms)
        });
        let what = match (still_open, ignored) {
            (Some(asked), _) => format!("a client answered `{asked}` of {name}, but the question is still open"),
            (None, Some(asked)) => format!("a client answered `{asked}` of {name}, and the answer is nowhere"),
            (None, None) => return trace.answered.extend(names.iter().cloned()),
        };
        self.fail(Promise::AnswersAreFinal, what);
    }

    /// A client got one page.
    pub(crate) fn observed_page(&mut self, observed: Observation, page: &Page, limit: usize) {
        for task in &page.tasks {
            self.observed_task(observed, task);
        }
        if page.tasks.windows(2).any(|pair| pair[0].id <= pair[1].id) {
            self.fail(Promise::RepliesMatchTheRecord, "a list is out of order".to_owned());
        }
        let latest_now_ms = EPOCH_MS + observed.at_ms + self.skew_ms;
        let missing = self.traces.iter().find(|trace| {
            let living = trace.latest().is_some_and(|task| latest_now_ms < task.expires_at.as_ms());
            let old = trace.versions.first().is_some_and(|(created_ms, _)| *created_ms < observed.begun_ms);
            trace.key.owner == observed.owner && living && old && !page.tasks.iter().any(|task| task.key() == trace.key)
        });
        if page.tasks.len() < limit
            && let Some(key) = missing.map(|trace| trace.key)
        {
            self.fail(Promise::AcceptedStaysOnRecord, format!("{} is missing from a list", self.name(&key)));
        }
    }

    /// A client got all pages of a filtered list.
    pub(crate) fn observed_filtered_list(&mut self, observed: Observation, filter: &TaskFilter, tasks: &[Task]) {
        let has = |key: TaskKey| tasks.iter().any(|task| task.key() == key);
        let latest_now_ms = EPOCH_MS + observed.at_ms + self.skew_ms;
        let missing = self.traces.iter().find(|trace| {
            let Some((since_ms, task)) = trace.versions.last() else { return false };
            let unchanged = *since_ms < observed.begun_ms && latest_now_ms < task.expires_at.as_ms();
            trace.key.owner == observed.owner && unchanged && is_taken(filter, task) && !has(trace.key)
        });
        let what = if tasks.windows(2).any(|pair| pair[0].id <= pair[1].id) {
            "a filtered list is out of order, or shows a task twice".to_owned()
        } else if let Some(wrong) = tasks.iter().find(|task| !is_taken(filter, task)) {
            format!("a filtered list shows {}, which its filter does not take", self.name(&wrong.key()))
        } else if let Some(key) = missing.map(|trace| trace.key) {
            format!("{} is missing from a filtered list", self.name(&key))
        } else {
            return;
        };
        self.fail(Promise::FilteredListsAreWhole, what);
    }

    /// A client read a whole result.
    pub(crate) fn observed_result(&mut self, store: &StoreModel, task: &Task, text: Option<&str>) {
        let State::Completed { result, .. } = &task.state else { return };
        let held = text_of(store, &task.key(), result);
        let gave = self
            .trace(&task.key())
            .and_then(|trace| trace.attempt(task.attempt))
            .and_then(|attempt| attempt.result.clone());
        if text != gave.as_deref() || held.as_deref() != text {
            let what = format!(
                "the result of {} that a client read differs from the one that the tool returned",
                self.name(&task.key())
            );
            self.fail(Promise::NothingIsTruncated, what);
        }
    }

    /// A client got an error although no fault was injected.
    pub(crate) fn observed_unavailable(
        &mut self,
        observed: Observation,
        quiescent_since_ms: Option<u64>,
        nothing_goes_wrong: bool,
    ) {
        if nothing_goes_wrong || quiescent_since_ms.is_some_and(|quiescent_ms| quiescent_ms < observed.begun_ms) {
            self.fail(
                Promise::RepliesMatchTheRecord,
                "a client got an error for a failure that did not happen".to_owned(),
            );
        }
    }
}

/// The tasks that a filter takes, in the checker's own words.
fn is_taken(filter: &TaskFilter, task: &Task) -> bool {
    let is_of_status = filter.statuses.iter().any(|status| status.as_str() == task.status().as_str());
    is_of_status && filter.tool.as_deref().is_none_or(|tool| tool == task.tool)
}

/// Whether a question could be answered all the time since then: it was open, or it was when the task last waited for
/// answers.
fn was_open_since(trace: &Trace, name: &str, since_ms: u64) -> bool {
    let since = trace.versions.iter().rposition(|(at_ms, _)| *at_ms < since_ms).unwrap_or(0);
    (since..trace.versions.len()).all(|latest| {
        let versions = &trace.versions[..=latest];
        let asking = versions.iter().rev().find(|(_, task)| matches!(task.state, State::InputRequired { .. }));
        let has_ended = versions.last().is_some_and(|(_, task)| ended(task));
        !has_ended && asking.is_some_and(|(_, task)| is_open(task, name))
    })
}
