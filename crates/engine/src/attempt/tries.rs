//! Steps whose work may fail: it is tried again, and its final failure is recorded as the step's outcome.

use std::future::Future;

use longhaul_core::{Clock, EntryKind, FailureKind, Timestamp, strict_json};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Retry, Tried};
use crate::suspension::{Reason, StepRunning};
use crate::{Attempt, IsRecorded};

/// How the recorded text of a step begins that failed for good. The error follows, as JSON text, and a brace.
const FAILED: &str = r#"{"dev.longhaul/failed":"#;

/// The tries of a step that have failed.
#[derive(Clone, Copy)]
struct Tries {
    failed: u32,
    /// When the first one began.
    since: Timestamp,
}

/// A failed try, as it is recorded.
#[derive(Serialize, Deserialize)]
struct FailedTry {
    /// When the first try began.
    since: Timestamp,
    /// When the next try begins.
    next: Timestamp,
    error: Box<RawValue>,
}

impl Attempt {
    /// Runs `run` with the number of the try, until it returns a value or `retry` allows no more tries. Returns the
    /// recorded value or the recorded error, as JSON text, in this and every later attempt.
    ///
    /// Each failed try is recorded with the time of the next one, so that a crash does not begin to count again. A try
    /// that a crash interrupts does not count. The wait for the next try ends the attempt if it is long, as a sleep
    /// does. No try begins after the task's deadline: the error before it is final.
    ///
    /// # Errors
    /// The error of the last try.
    pub async fn step_with_tries<F, Fut>(&self, name: &str, retry: Retry, mut run: F) -> Result<String, String>
    where
        F: FnMut(u32) -> Fut,
        Fut: Future<Output = Tried>,
    {
        if let Some(text) = self.replayed(name).await {
            return outcome(text);
        }
        let mut tries = None;
        if let Some((earlier, error)) = self.earlier_tries(name).await {
            // The tool may allow fewer tries by now.
            if retry.ends_with(earlier.failed) {
                let running = self.step_running();
                return outcome(self.record_step(name, failure(&error), self.begins(), running).await);
            }
            tries = Some(earlier);
        }
        loop {
            self.yield_near_the_end().await;
            let running = self.step_running();
            let began = self.begins();
            let tried =
                self.run_step(name, &running, || run(tries.map_or(0, |tries| tries.failed).saturating_add(1))).await;
            let (error, may_succeed) = match tried {
                Tried::Value(text) => {
                    let text = self.value(name, text).await;
                    return outcome(self.record_step(name, text, began, running).await);
                }
                Tried::Failed(error) => (error, true),
                Tried::FailedForGood(error) => (error, false),
            };
            let Tries { failed, since } = tries.unwrap_or(Tries { failed: 0, since: began.at });
            let failed = Tries { failed: failed.saturating_add(1), since };
            match self.next_try(retry, failed).filter(|_| may_succeed) {
                Some(next) => self.wait_for_try(name, failed, next, error, running).await,
                None => return outcome(self.record_step(name, failure(&error), began, running).await),
            }
            tries = Some(failed);
        }
    }

    /// Runs `run` once: that it begins is recorded before. If an earlier attempt has recorded that, and not how it
    /// ended, the step fails with the error that `may_have_run` returns as JSON text. Returns the recorded value or the
    /// recorded error in this and every later attempt.
    ///
    /// # Errors
    /// The error of `run`, or of `may_have_run`.
    pub async fn step_at_most_once<F, Fut, M>(&self, name: &str, may_have_run: M, run: F) -> Result<String, String>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Tried>,
        M: Future<Output = String>,
    {
        if let Some(text) = self.replayed(name).await {
            return outcome(text);
        }
        self.yield_near_the_end().await;
        let running = self.step_running();
        let began = self.begins();
        let text = if self.marks(name).await {
            match self.run_step(name, &running, run).await {
                Tried::Value(text) => self.value(name, text).await,
                Tried::Failed(error) | Tried::FailedForGood(error) => failure(&error),
            }
        } else {
            failure(&may_have_run.await)
        };
        outcome(self.record_step(name, text, began, running).await)
    }

    /// The recorded value or error of step `name`; `None` if nothing is recorded. Runs nothing.
    pub async fn recorded_step(&self, name: &str) -> Option<Result<String, String>> {
        self.check_name(EntryKind::Step, name).await;
        if !self.place().shows(EntryKind::Step, name) {
            return None;
        }
        let text = self.recorded(EntryKind::Step, name).await?;
        self.came_to(name, IsRecorded::Yes);
        Some(outcome(text))
    }

    /// The clock of the engine, for work that has a time of its own.
    #[must_use]
    pub fn clock(&self) -> &dyn Clock {
        &*self.0.engine.ports.clock
    }

    /// The failed tries that are recorded, and the error of the last one. Waits until it is time for the next one.
    async fn earlier_tries(&self, name: &str) -> Option<(Tries, String)> {
        let is_recorded = |number: &u32| self.lock_journal().contains_key(&(EntryKind::Try, entry_name(name, *number)));
        let failed = (1..).take_while(is_recorded).last()?;
        let running = self.step_running();
        let text = self.recorded(EntryKind::Try, &entry_name(name, failed)).await?;
        let FailedTry { since, next, error } = self.read_try(name, &text).await;
        self.wait_until(next, running).await;
        Some((Tries { failed, since }, error.get().to_owned()))
    }

    /// When the next try begins, if there is one.
    fn next_try(&self, retry: Retry, tries: Tries) -> Option<Timestamp> {
        let now = self.now();
        let pause_ms = retry.pause_ms(tries.failed, now.since_ms(tries.since))?;
        // What undoes the work of a task has the time for which the task is kept.
        let is_undo = self.0.compensations.is_undo();
        let last = if is_undo { self.0.task.expires_at } else { self.0.task.deadline() };
        Some(now.plus_ms(self.ids().delay_ms(pause_ms))).filter(|next| *next < last)
    }

    /// Records a failed try, and waits until it is time for the next one.
    async fn wait_for_try(&self, name: &str, tries: Tries, next: Timestamp, error: String, running: StepRunning<'_>) {
        let written = RawValue::from_string(error)
            .and_then(|error| serde_json::to_string(&FailedTry { since: tries.since, next, error }));
        let text = match written {
            Ok(text) => text,
            Err(error) => {
                let message = format!("a failed try of step `{name}` cannot be written: {error}");
                return self.abort(Reason::corrupt(message)).await;
            }
        };
        // Another attempt may have recorded the same try first: then its time counts.
        let text = self.record(EntryKind::Try, &entry_name(name, tries.failed), text, None).await;
        let FailedTry { next, .. } = self.read_try(name, &text).await;
        self.wait_until(next, running).await;
    }

    async fn read_try(&self, name: &str, text: &str) -> FailedTry {
        match strict_json::from_str(text) {
            Ok(failed) => failed,
            Err(error) => {
                self.abort(Reason::corrupt(format!("a failed try of step `{name}` cannot be read: {error}"))).await
            }
        }
    }

    /// Records that the work of a step that runs at most once begins. False if it may have begun before.
    async fn marks(&self, name: &str) -> bool {
        let mark = entry_name(name, 0);
        if self.lock_journal().contains_key(&(EntryKind::Try, mark.clone())) {
            return false;
        }
        // A second call in this attempt finds its own mark, which is no proof that the work has not begun.
        self.name_once(EntryKind::Try, name).await;
        let own = self.0.task.attempt.to_string();
        self.record(EntryKind::Try, &mark, own.clone(), None).await == own
    }

    /// The text of a value, which must not look like a failure.
    async fn value(&self, name: &str, text: String) -> String {
        if text.starts_with(FAILED) {
            let message = format!("the value of step `{name}` begins with the reserved member `dev.longhaul/failed`");
            return self.fail(FailureKind::Misuse, message).await;
        }
        text
    }
}

/// The name of the entry for a failed try, from 1; 0 is the mark that the work begins.
fn entry_name(step: &str, number: u32) -> String {
    format!("{step}#{number}")
}

/// The recorded text of a step that failed for good.
fn failure(error: &str) -> String {
    format!("{FAILED}{error}}}")
}

/// The value in the recorded text of a step, or its error.
pub(crate) fn outcome(text: String) -> Result<String, String> {
    match text.strip_prefix(FAILED).and_then(|rest| rest.strip_suffix('}')) {
        Some(error) => Err(error.to_owned()),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_told_from_every_value() {
        assert_eq!(outcome(failure(r#"{"code":1}"#)), Err(r#"{"code":1}"#.to_owned()));
        for value in ["1", "{}", "\"x\"", r#"{"failed":1}"#, "null"] {
            assert_eq!(outcome(value.to_owned()), Ok(value.to_owned()));
        }
        let read: serde_json::Value = serde_json::from_str(&failure("1")).unwrap();
        assert_eq!(read, serde_json::json!({"dev.longhaul/failed": 1}));
    }
}
