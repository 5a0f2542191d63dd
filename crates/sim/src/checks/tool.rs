//! Checkers of a tool's view: arguments, replayed steps, answers, sleeps, variables, and the end.

use longhaul_core::{EntryKind, Task, TaskKey};
use longhaul_testkit::models::Promise;

use super::super::kernel::EPOCH_MS;
use super::state::{Checks, RecordedEntry};

impl Checks {
    /// A tool begins under `attempt`.
    pub(crate) fn tool_begins(&mut self, task: &Task, request: Option<usize>, whole: &str) {
        let at_ms = self.now_ms();
        let (key, attempt) = (task.key(), task.attempt);
        let expected = request.and_then(|call| self.calls.get(call)).map(|call| call.request_bytes);
        let name = self.name(&key);
        let Some(trace) = self.trace(&key) else { return };
        let call = trace.call;
        let Some(attempt) = trace.attempt(attempt) else {
            let what = format!("a tool of {name} began under attempt {}, which no worker claimed", task.attempt);
            return self.fail(Promise::StaleCannotWrite, what);
        };
        if attempt.began.is_some() {
            return self
                .fail(Promise::StaleCannotWrite, format!("two tools of {name} began under attempt {}", task.attempt));
        }
        attempt.began = Some(at_ms);
        attempt.tool_runs = true;
        self.must_be_due(call, &name);
        self.attempt_begins(task);
        // The tool of a webhook delivery gets no call.
        if !task.is_webhook_delivery() && (request != Some(call) || expected.is_none_or(|bytes| whole.len() < bytes)) {
            let what = format!("the tool of {name} got arguments that differ from the call's: {} bytes", whole.len());
            self.fail(Promise::NothingIsTruncated, what);
        }
    }

    /// No attempt of a call begins before the time that its caller asked for.
    fn must_be_due(&mut self, call: usize, name: &str) {
        let start_ms = self.calls.get(call).and_then(|call| call.not_before_ms).unwrap_or(0);
        if self.now_ms() + self.skew_ms < start_ms {
            let what = format!("the tool of {name} must not start before {start_ms} ms, and runs already");
            self.fail(Promise::StartsAtItsMoment, what);
        }
    }

    /// A tool ended, or was dropped.
    pub(crate) fn tool_stops(&mut self, key: &TaskKey, attempt: u32) {
        let at_ms = self.now_ms();
        let heartbeats_ms = self.heartbeat_ms + 8 * self.latency_ms + 1;
        let (skew_ms, lease_ms) = (self.skew_ms, self.lease_ms);
        self.attempt_stops(key, attempt);
        if let Some(actor) = self.trace(key).and_then(|trace| trace.attempt(attempt)).map(|attempt| attempt.actor) {
            self.check_wait(key, attempt, self.disturbed_until_ms(actor));
        }
        let name = self.name(key);
        let Some(trace) = self.trace(key) else { return };
        let ended = trace.ended;
        let deadline_ms = trace.latest().map(|task| task.deadline().as_ms().saturating_sub(EPOCH_MS));
        let Some(attempt) = trace.attempt(attempt) else { return };
        attempt.tool_runs = false;
        let (actor, began_ms) = (attempt.actor, attempt.began.unwrap_or(0));
        let quiet_since_ms = self.disturbed_until_ms(actor);
        if let Some((ended_ms, _)) = ended {
            let allowed_ms = ended_ms.max(began_ms).max(quiet_since_ms) + heartbeats_ms;
            if at_ms > allowed_ms {
                let what = format!("the tool of {name} ran {} ms after the task's end", at_ms - ended_ms);
                self.fail(Promise::CancelStopsTheTool, what);
            }
        }
        if deadline_ms.is_some_and(|ms| at_ms > ms.max(began_ms).max(quiet_since_ms) + lease_ms + skew_ms) {
            self.fail(Promise::DeadlineStopsTheTool, format!("the tool of {name} ran past the task's deadline"));
        }
    }

    /// A tool returned a result, which the engine now writes.
    pub(crate) fn tool_gave(&mut self, key: &TaskKey, attempt: u32, result: &str) {
        if let Some(attempt) = self.trace(key).and_then(|trace| trace.attempt(attempt)) {
            attempt.result = Some(result.to_owned());
        }
    }

    /// The body of a step runs.
    pub(crate) fn step_runs(&mut self, key: &TaskKey, attempt: u32, name: &str) {
        self.must_not_be_inherited(key, name);
        let (task, seq) = (self.name(key), self.seq);
        let Some(trace) = self.trace(key) else { return };
        trace.note_run(name, attempt, seq);
        let recorded = trace.entries.iter().find(|entry| entry.kind == EntryKind::Step && entry.name == name);
        let recorded_seq = recorded.map(|entry| entry.seq);
        let claimed_seq = trace.attempt(attempt).map(|attempt| attempt.claimed_seq);
        if let (Some(recorded), Some(claimed)) = (recorded_seq, claimed_seq)
            && recorded < claimed
        {
            let what =
                format!("step `{name}` of {task} was run again by attempt {attempt}, after it had been recorded");
            self.fail(Promise::StepsAreRecordedOnce, what);
        }
    }

    /// The try of a step with this number runs. A crash does not begin to count again.
    pub(crate) fn try_runs(&mut self, key: &TaskKey, attempt: u32, name: &str, number: u32) {
        self.step_runs(key, attempt, name);
        let task = self.name(key);
        let Some(trace) = self.trace(key) else { return };
        let Some(claimed_seq) = trace.attempt(attempt).map(|attempt| attempt.claimed_seq) else { return };
        let tries = format!("{name}#");
        let is_known = |entry: &&RecordedEntry| {
            entry.kind == EntryKind::Try && entry.name.starts_with(&tries) && entry.seq < claimed_seq
        };
        let known = trace.entries.iter().filter(is_known).count();
        if number as usize <= known {
            let what = format!("try {number} of step `{name}` of {task} began, although {known} are recorded");
            self.fail(Promise::StepsAreRecordedOnce, what);
        }
    }

    /// The tool was given `text` for a step or a question.
    pub(crate) fn tool_got(&mut self, key: &TaskKey, attempt: u32, kind: EntryKind, name: &str, text: &str) {
        self.must_be_redone(key, name, text);
        let (task, now_seq) = (self.name(key), self.seq);
        let Some(trace) = self.trace(key) else { return };
        let held = trace.entries.iter_mut().find(|entry| entry.kind == kind && entry.name == name);
        if let Some(entry) = held.filter(|entry| entry.text == text) {
            entry.got_seq.get_or_insert(now_seq);
            let seq = entry.seq;
            // From now on the attempt knows that it got further than the ones before it.
            if let Some(attempt) = trace.attempt(attempt) {
                attempt.advanced |= kind == EntryKind::Step && seq > attempt.claimed_seq;
            }
            return;
        }
        let promise = if kind == EntryKind::Answer { Promise::AnswersAreFinal } else { Promise::StepsAreRecordedOnce };
        let kind = kind.as_str();
        self.fail(promise, format!("the {kind} `{name}` that the tool of {task} was given is not the recorded one"));
    }

    /// The tool continues with the branch of this number, which is the recorded one.
    pub(crate) fn race_is_won(&mut self, key: &TaskKey, name: &str, won: usize) {
        let task = self.name(key);
        let Some(trace) = self.trace(key) else { return };
        let entry = trace.entries.iter().find(|entry| entry.kind == EntryKind::Step && entry.name == name);
        let recorded = entry.and_then(|entry| serde_json::from_str::<serde_json::Value>(&entry.text).ok());
        if recorded.and_then(|decided| decided["won"].as_u64()) != Some(won as u64) {
            let what =
                format!("the tool of {task} continues with branch {won} of `{name}`, which is not the recorded one");
            self.fail(Promise::StepsAreRecordedOnce, what);
        }
    }

    /// The tool begins the sleep with this number.
    pub(crate) fn sleep_begins(&mut self, key: &TaskKey, number: usize) {
        let at_ms = self.now_ms();
        let Some(trace) = self.trace(key) else { return };
        if !trace.sleeps.iter().any(|(held, _)| *held == number) {
            trace.sleeps.push((number, at_ms));
        }
    }

    /// The tool continues after the sleep with this number, which should have lasted `ms`.
    pub(crate) fn sleep_ends(&mut self, key: &TaskKey, number: usize, ms: u64) {
        let at_ms = self.now_ms();
        let (task, skew_ms) = (self.name(key), self.skew_ms);
        let Some(trace) = self.trace(key) else { return };
        let began_ms = trace.sleeps.iter().find(|(held, _)| *held == number).map_or(at_ms, |(_, began_ms)| *began_ms);
        if at_ms + skew_ms < began_ms + ms {
            self.fail(Promise::SleepsLastAsAsked, format!("{task} slept {} ms instead of {ms} ms", at_ms - began_ms));
        }
    }

    /// The tool begins to set its variable.
    pub(crate) fn variable_sets(&mut self, key: &TaskKey, value: u64) {
        if let Some(trace) = self.trace(key) {
            trace.variable.maybe.push(value);
        }
    }

    /// The tool got the confirmation that its variable is set.
    pub(crate) fn variable_is_set(&mut self, key: &TaskKey, attempt: u32, value: u64) {
        let Some(trace) = self.trace(key) else { return };
        // A worker that was overtaken may get a late answer to a write that is no longer the last one.
        if trace.latest().is_some_and(|task| task.attempt == attempt) {
            trace.variable.confirmed = Some(value);
            trace.variable.maybe.clear();
        }
    }

    /// An attempt begins and reads the variable.
    pub(crate) fn variable_is(&mut self, key: &TaskKey, attempt: u32, value: Option<u64>) {
        let task = self.name(key);
        let Some(trace) = self.trace(key) else { return };
        if trace.latest().is_none_or(|task| task.attempt != attempt) {
            return;
        }
        let held = &trace.variable;
        if value != held.confirmed && !value.is_some_and(|value| held.maybe.contains(&value)) {
            let what = format!("a variable of {task} is {value:?}, but was set to {:?}", held.confirmed);
            self.fail(Promise::VariablesAreKept, what);
        }
    }
}
