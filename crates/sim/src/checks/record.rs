//! Checkers of the store: every change, as it happens.

use std::sync::Arc;

use longhaul_core::ports::{NewTask, Recorded};
use longhaul_core::{Entry, EntryKind, Payload, State, Suspension, Task, TaskEvent, TaskKey, Timestamp};
use longhaul_testkit::models::{Change, Promise, StoreModel};

use super::super::kernel::{Actor, EPOCH_MS};
use super::super::plan::{Op, Tool, call_of};
use super::rules::{broken_by, ended};
use super::state::{Attempt, Calls, Checks, Inherited, Polls, RecordedEntry, Signals, Trace, Variable};

impl Checks {
    /// A task was created.
    pub(crate) fn created(&mut self, store: &StoreModel, task: &Task, new: &NewTask, now: Timestamp) {
        let at_ms = self.now_ms();
        let key = task.key();
        self.check_time(task);
        if self.position(&key).is_some() {
            return self.fail(Promise::EndsOnce, format!("{} was created a second time", self.name(&key)));
        }
        let text = text_of(store, &key, &task.request);
        let open = self.open_tasks(&key, now);
        if open >= self.open_max {
            let what = format!("its owner had {open} unfinished tasks already, and {} are allowed", self.open_max);
            self.fail(Promise::QuotaIsRight, what);
        }
        let fingerprint = new.idempotency.map(|idempotency| (idempotency.key, idempotency.request));
        if let Some((idempotency, _)) = fingerprint {
            // A caller whom the store keeps waiting has a timestamp that is in the past by then.
            let now = now.max(Timestamp::from_ms(EPOCH_MS + at_ms));
            let same = |trace: &&Trace| {
                trace.key.owner == key.owner
                    && trace.fingerprint.is_some_and(|(held, _)| held == idempotency)
                    && trace.latest().is_some_and(|task| now < task.expires_at)
            };
            if self.traces.iter().any(|trace| same(&trace)) {
                let what =
                    "a second task was created with the idempotency key of a task that has not expired".to_owned();
                self.fail(Promise::SameKeySameTask, what);
            }
        }
        self.traces.push(Trace {
            key,
            call: self.scheduled_call(task).or_else(|| text.as_deref().and_then(call_of)).unwrap_or(usize::MAX),
            fingerprint,
            versions: vec![(at_ms, Arc::new(task.clone()))],
            attempts: Vec::new(),
            entries: Vec::new(),
            attempts_in_a_row: 0,
            failed_attempts: 0,
            ended: None,
            variable: Variable::default(),
            sleeps: Vec::new(),
            polls: Polls::default(),
            signals: Signals::default(),
            calls: Calls::default(),
            cleanups: 0,
            is_cleaned: false,
            begun: Vec::new(),
            undone: Vec::new(),
            answered: Vec::new(),
            progress: (0, 0.0),
            runs: Vec::new(),
            inherited: Inherited::default(),
        });
        self.check_resumed(store, task, new);
        self.check_child(task, self.traces.last().map_or(usize::MAX, |trace| trace.call));
        if text.is_none() {
            let what = format!("{} is stored, but its arguments are not", self.name(&key));
            self.fail(Promise::NothingIsTruncated, what);
        }
    }

    fn open_tasks(&self, key: &TaskKey, now: Timestamp) -> usize {
        let open = |trace: &&Trace| {
            trace.key.owner == key.owner && trace.latest().is_some_and(|task| !ended(task) && now < task.expires_at)
        };
        self.traces.iter().filter(open).count()
    }

    /// A record changed.
    pub(crate) fn changed(
        &mut self,
        store: &StoreModel,
        actor: Actor,
        change: &Change,
        event: &TaskEvent,
        now: Timestamp,
    ) {
        let at_ms = self.now_ms();
        let (before, after) = (&*change.before, &*change.after);
        let key = before.key();
        if let Some((promise, what)) = broken_by(before, after, event, now) {
            self.fail(promise, format!("{}: {what}", self.name(&key)));
        }
        self.must_not_be_resuming(actor, &key);
        self.check_event(actor, before, after, event);
        self.check_parts(store, after);
        self.check_failures(before, after, event);
        self.check_attempts(before, after, event, now);
        self.check_wake(after, event);
        self.check_family(before, after);
        let seq = self.seq;
        let Some(trace) = self.trace(&key) else { return };
        if let TaskEvent::Claim { .. } = event {
            trace.attempts.push(Attempt {
                number: after.attempt,
                actor,
                claimed_seq: seq,
                began: None,
                tool_runs: false,
                advanced: false,
                result: None,
            });
        }
        if !ended(before) && ended(after) {
            trace.ended = Some((at_ms, seq));
        }
        trace.versions.push((at_ms, Arc::clone(&change.after)));
    }

    fn check_event(&mut self, actor: Actor, before: &Task, after: &Task, event: &TaskEvent) {
        let key = before.key();
        match event {
            TaskEvent::Claim { .. } => self.check_takeover(before),
            TaskEvent::Heartbeat { attempt, progress, .. } => {
                self.check_writer(actor, &key, *attempt);
                if let Some(progress) = progress {
                    self.check_progress(&key, *attempt, progress.done);
                }
            }
            TaskEvent::Suspend { attempt, progress, suspension, .. } => {
                self.check_writer(actor, &key, *attempt);
                self.check_timer_alongside(&key, suspension);
                self.check_asked_again(after);
                self.check_pause(&key, *attempt, suspension);
                if let Some(progress) = progress {
                    self.check_progress(&key, *attempt, progress.done);
                }
            }
            TaskEvent::SetVariables { attempt, .. } | TaskEvent::Retry { attempt, .. } => {
                self.check_writer(actor, &key, *attempt);
            }
            TaskEvent::Finish { attempt, progress, .. } => {
                self.check_writer(actor, &key, *attempt);
                if let Some(progress) = progress {
                    self.check_progress(&key, *attempt, progress.done);
                }
                self.check_finish(before, after, *attempt);
            }
            TaskEvent::Resend { .. } => {
                // The time of the previous sending may come from a clock that is behind.
                let since_ms = after.sent_at.as_ms().saturating_sub(before.sent_at.as_ms());
                if since_ms + self.skew_ms < self.settings.resend_after_ms(before.resends) {
                    let what = format!("{} was sent again {since_ms} ms after the last sending", self.name(&key));
                    self.fail(Promise::ResendsAreBounded, what);
                }
            }
            TaskEvent::Answer { .. } => self.check_answer(before, after),
            TaskEvent::Wake { .. }
            | TaskEvent::Cancel
            | TaskEvent::RetriesExhausted
            | TaskEvent::TimeOut
            | TaskEvent::ExtendRetention { .. }
            | TaskEvent::Forget
            | TaskEvent::BeginCleanup { .. }
            | TaskEvent::EndCleanup { .. } => {}
        }
    }

    /// A question is not asked again once a client got the reply that its answer is accepted.
    fn check_asked_again(&mut self, after: &Task) {
        let key = after.key();
        let Some(trace) = self.trace(&key) else { return };
        let again = trace.answered.iter().find(|asked| is_open(after, asked)).cloned();
        if let Some(asked) = again {
            let what = format!("{} asks `{asked}` again, which a client has answered", self.name(&key));
            self.fail(Promise::AnswersAreFinal, what);
        }
    }

    /// A question with a timer alongside does not wait for the answer alone.
    fn check_timer_alongside(&mut self, key: &TaskKey, suspension: &Suspension) {
        let Suspension::Input { asks, until: None } = suspension else { return };
        let call = self.trace(key).map(|trace| trace.call).and_then(|call| self.calls.get(call));
        let Some(Tool::Script(ops)) = call.map(|call| &call.tool) else { return };
        let forgotten = ops.iter().enumerate().any(|(position, op)| {
            matches!(op, Op::AskOrSleep(_)) && asks.iter().any(|ask| ask.key == format!("q{position}"))
        });
        if forgotten {
            let what = format!("{} asks, and loses the sleep alongside its question", self.name(key));
            self.fail(Promise::SleepsLastAsAsked, what);
        }
    }

    fn check_answer(&mut self, before: &Task, after: &Task) {
        let open = |task: &Task| match &task.record().state {
            State::InputRequired { asks, .. } => asks.iter().map(|ask| ask.key.clone()).collect(),
            _ => Vec::new(),
        };
        let (was, is) = (open(before), open(after));
        let key = before.key();
        let Some(trace) = self.trace(&key) else { return };
        let unanswered = was
            .iter()
            .filter(|name| !is.contains(name))
            .find(|name| !trace.entries.iter().any(|entry| entry.kind == EntryKind::Answer && entry.name == **name));
        if let Some(name) = unanswered {
            let what = format!("{}: `{name}` counts as answered, but no answer is recorded", self.name(&key));
            self.fail(Promise::AnswersAreFinal, what);
        }
    }

    /// The events of an attempt come from the worker that claimed it.
    fn check_writer(&mut self, actor: Actor, key: &TaskKey, attempt: u32) {
        let claimed_by = self.trace(key).and_then(|trace| trace.attempt(attempt)).map(|attempt| attempt.actor);
        if claimed_by != Some(actor) {
            let what = format!("{}: attempt {attempt} was written by a worker that did not claim it", self.name(key));
            self.fail(Promise::StaleCannotWrite, what);
        }
    }

    /// A task is taken from a worker only if that worker is dead, or had trouble for a while.
    fn check_takeover(&mut self, before: &Task) {
        let at_ms = self.now_ms();
        let State::Running { .. } = &before.state else { return };
        let (key, lease_ms) = (before.key(), self.lease_ms);
        let Some(trace) = self.trace(&key) else { return };
        let Some(attempt) = trace.attempt(before.attempt) else { return };
        let (actor, runs, began) = (attempt.actor, attempt.tool_runs, attempt.began.unwrap_or(0));
        let quiet_since_ms = self.disturbed_until_ms(actor).max(began);
        // A worker that is killed at a known time holds nothing after it, by any clock.
        let killed_at_ms = self.killed_at_ms.get(actor).copied().flatten();
        let near_its_end = killed_at_ms.is_some_and(|ms| at_ms + self.skew_ms + lease_ms / 2 >= ms);
        if runs && !near_its_end && quiet_since_ms + lease_ms + self.heartbeat_ms < at_ms {
            let what = format!(
                "{} was taken from attempt {}, whose worker is alive and runs the tool",
                self.name(&key),
                before.attempt
            );
            self.fail(Promise::LiveWorkerKeepsLease, what);
        }
    }

    fn check_progress(&mut self, key: &TaskKey, attempt: u32, done: f64) {
        let Some(trace) = self.trace(key) else { return };
        let (held, furthest) = trace.progress;
        trace.progress = (attempt, done);
        if held == attempt && done < furthest {
            let what = format!("{}: progress went from {furthest} back to {done}", self.name(key));
            self.fail(Promise::ProgressOnlyGrows, what);
        }
    }

    /// A tool's result is recorded as the tool returned it.
    fn check_finish(&mut self, before: &Task, after: &Task, attempt: u32) {
        let key = before.key();
        let State::Completed { .. } = &after.state else { return };
        let gave = self.trace(&key).and_then(|trace| trace.attempt(attempt)).and_then(|attempt| attempt.result.clone());
        if gave.is_none() {
            let what =
                format!("{} is completed, but the tool of attempt {attempt} returned no result", self.name(&key));
            self.fail(Promise::RepliesMatchTheRecord, what);
        }
    }

    fn check_parts(&mut self, store: &StoreModel, after: &Task) {
        let key = after.key();
        let outcome = match &after.state {
            State::Completed { result, .. } => Some(result),
            State::Failed { failure } => failure.detail.as_ref(),
            _ => None,
        };
        let missing = [Some(&after.request), after.variables.as_ref(), outcome]
            .into_iter()
            .flatten()
            .any(|payload| matches!(payload, Payload::Parts { .. }) && text_of(store, &key, payload).is_none());
        if missing {
            let what = format!("the record of {} names parts that are not there", self.name(&key));
            self.fail(Promise::NothingIsTruncated, what);
        }
        let State::Completed { result, .. } = &after.state else { return };
        let gave =
            self.trace(&key).and_then(|trace| trace.attempt(after.attempt)).and_then(|attempt| attempt.result.clone());
        if gave.is_some_and(|gave| text_of(store, &key, result).as_deref() != Some(gave.as_str())) {
            let what = format!("the result of {} differs from the one that its tool returned", self.name(&key));
            self.fail(Promise::NothingIsTruncated, what);
        }
    }

    /// A journal entry was written, or was there before.
    pub(crate) fn recorded(&mut self, store: &StoreModel, key: &TaskKey, entry: &Entry, recorded: Option<&Recorded>) {
        self.must_not_be_resuming(self.actor(), key);
        let (now, delay_ms, skew_ms) =
            (Timestamp::from_ms(EPOCH_MS + self.now_ms()), 2 * self.latency_ms, self.skew_ms);
        let name = self.name(key);
        let seq = self.seq;
        let on_record = store.entry(key, entry.kind, &entry.name).and_then(|held| text_of(store, key, &held.value));
        let Some(trace) = self.trace(key) else { return };
        if store.peek(key).is_none() {
            // An entry that an attempt still records of a task that was forgotten and deleted holds for that attempt
            // alone.
            trace.entries.retain(|held| (held.kind, &held.name) != (entry.kind, &entry.name));
        }
        let known = trace.entries.iter().find(|held| held.kind == entry.kind && held.name == entry.name);
        let problem = match (known, on_record) {
            (_, None) => Some(format!("{name}: the {} `{}` cannot be read back", entry.kind.as_str(), entry.name)),
            (Some(held), Some(text)) if held.text != text => {
                Some(format!("{name}: the recorded {} `{}` was changed", entry.kind.as_str(), entry.name))
            }
            (Some(_), Some(_)) if recorded == Some(&Recorded::First) => {
                Some(format!("{name}: the {} `{}` was recorded a second time", entry.kind.as_str(), entry.name))
            }
            (Some(_), Some(_)) => None,
            (None, Some(text)) => {
                if !matches!(entry.kind, EntryKind::Answer | EntryKind::Signal) {
                    trace.attempts_in_a_row = trace.attempts_in_a_row.min(1);
                }
                let mut new = RecordedEntry::of(entry, seq, text);
                let is_delayed = entry.recording.is_some_and(|made| made.at.plus_ms(delay_ms) < now);
                let has_lost = trace.attempts.iter().any(|attempt| attempt.number > new.attempt);
                new.is_late = has_lost && (skew_ms > 0 || is_delayed);
                trace.entries.push(new);
                None
            }
        };
        if let Some(what) = problem {
            let promise = match entry.kind {
                EntryKind::Answer | EntryKind::Signal => Promise::AnswersAreFinal,
                EntryKind::Step | EntryKind::Timer | EntryKind::Token | EntryKind::Round | EntryKind::Try => {
                    Promise::StepsAreRecordedOnce
                }
            };
            self.fail(promise, what);
        }
        self.signal_recorded(key);
        self.check_entries(key);
    }

    /// A message is being sent.
    pub(crate) fn sent(&mut self, key: &TaskKey) {
        if self.position(key).is_none() {
            self.fail(Promise::RecordBeforeMessage, "a message names a task that is not stored".to_owned());
        }
    }
}

impl RecordedEntry {
    pub(super) fn of(entry: &Entry, seq: u64, text: String) -> Self {
        let attempt = entry.recording.map_or(0, |made| made.attempt);
        Self { kind: entry.kind, name: entry.name.clone(), seq, attempt, is_late: false, got_seq: None, text }
    }
}

/// The text of a payload, as it can be read back.
pub(super) fn text_of(store: &StoreModel, key: &TaskKey, payload: &Payload) -> Option<String> {
    match payload {
        Payload::Inline(text) => Some(text.clone()),
        Payload::Parts { name, count, bytes } => {
            store.parts(key, name, *count).filter(|text| text.len() as u64 == *bytes)
        }
    }
}

/// Whether a task waits for the answer of this name.
pub(super) fn is_open(task: &Task, name: &str) -> bool {
    matches!(&task.state, State::InputRequired { asks, .. } if asks.iter().any(|ask| ask.key == name))
}
