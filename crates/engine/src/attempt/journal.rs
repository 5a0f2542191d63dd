//! The journal of an attempt: entries are read, loaded and recorded here.

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use longhaul_core::ports::{Recorded, StoreError};
use longhaul_core::{Entry, EntryKind, FailureKind, PartsName, Payload, Recording, Timestamp, limits};

use super::Journal;
use crate::suspension::{Reason, StepRunning};
use crate::{Attempt, LoadError};

/// The beginning of some work.
#[derive(Clone, Copy)]
pub(crate) struct Began {
    pub(super) at: Timestamp,
    /// How many entries the attempt had recorded by then.
    recorded: u32,
}

impl Began {
    /// That of work which also depends on all that was recorded after this time.
    pub(super) const fn depending_on_all(at: Timestamp) -> Self {
        Self { at, recorded: u32::MAX }
    }
}

impl Attempt {
    /// The text of `payload`; if it cannot be loaded, the attempt is aborted.
    pub(crate) async fn load_or_abort(&self, payload: &Payload) -> String {
        match self.0.engine.load(&self.0.task.key(), payload).await {
            Ok(text) => text,
            Err(error @ (LoadError::Missing | LoadError::Unreadable(_))) => {
                self.abort(Reason::corrupt(error.to_string())).await
            }
            Err(error @ LoadError::Unavailable(_)) => self.abort(Reason::Retry(error.to_string())).await,
        }
    }

    pub(crate) async fn recorded(&self, kind: EntryKind, name: &str) -> Option<String> {
        self.until_shown(kind, name).await;
        let (payload, at) = self.lock_journal().get(&(kind, name.to_owned())).cloned()?;
        let _reading = self.reading();
        let text = self.load_or_abort(&payload).await;
        self.come_to_entry(kind, name, at);
        Some(text)
    }

    /// Records `text`, and returns what is recorded: `text`, or what another attempt recorded before. `work` is that of
    /// a step whose outcome `text` is.
    pub(crate) async fn record(&self, kind: EntryKind, name: &str, text: String, work: Option<Began>) -> String {
        if !self.is_stored() {
            return text;
        }
        if self.is_replay() {
            return match self.recorded(kind, name).await {
                Some(text) => text,
                None => self.stay_at_the_end().await,
            };
        }
        if text.len() > limits::ENTRY_BYTES_MAX {
            let (bytes, max) = (text.len(), limits::ENTRY_BYTES_MAX);
            let message = format!("the value of step `{name}` has {bytes} bytes; at most {max} can be recorded");
            return self.abort(Reason::Fail(FailureKind::TooLarge, message)).await;
        }
        if self.lock_journal().len() >= limits::ENTRIES_MAX && !self.0.compensations.is_undo() {
            let message = format!("a task records at most {} steps, timers and answers", limits::ENTRIES_MAX);
            return self.abort(Reason::Fail(FailureKind::TooLarge, message)).await;
        }
        let (engine, task) = (&self.0.engine, &self.0.task);
        let parts = PartsName::Entry { attempt: task.attempt, entry: format!("{}#{name}", kind.as_str()) };
        let recorded =
            match engine.store_payload(&task.key(), parts, text.clone(), limits::ENTRY_INLINE_BYTES_MAX).await {
                Ok(value) => {
                    let recording = Some(self.recording(work));
                    let entry = Entry { kind, name: name.to_owned(), value, recording };
                    let recorded = engine.with_retry(async || engine.store().record(&task.key(), &entry).await).await;
                    recorded.map(|recorded| (recorded, entry))
                }
                Err(error) => Err(error),
            };
        match recorded {
            Ok((Recorded::First, entry)) => {
                self.remember(entry);
                text
            }
            Ok((Recorded::Earlier(entry), _)) => {
                let earlier = self.load_or_abort(&entry.value).await;
                self.remember(entry);
                earlier
            }
            Err(error @ StoreError::Corrupt(_)) => {
                self.abort(Reason::corrupt(format!("what is recorded as `{name}` cannot be read: {error}"))).await
            }
            Err(error) => self.abort(Reason::Retry(format!("`{name}` could not be recorded: {error}"))).await,
        }
    }

    fn recording(&self, work: Option<Began>) -> Recording {
        let at = self.now();
        let recorded = self.0.recorded.fetch_add(1, Ordering::Relaxed);
        let began = work.map_or(recorded, |work| work.recorded.min(recorded));
        let took_ms = work.map(|work| at.since_ms(work.at));
        Recording { at, took_ms, attempt: self.0.task.attempt, order: Some([began, recorded]) }
    }

    /// The beginning of the work of a step.
    pub(super) fn begins(&self) -> Began {
        Began { at: self.now(), recorded: self.0.recorded.load(Ordering::Relaxed) }
    }

    fn remember(&self, entry: Entry) {
        let at = entry.recording.map(|made| made.at);
        self.come_to_entry(entry.kind, &entry.name, at);
        self.lock_journal().insert((entry.kind, entry.name), (entry.value, at));
        self.note_advance();
    }

    /// Records the value of a step, and returns the recorded value.
    pub(super) async fn record_step(&self, name: &str, text: String, work: Began, running: StepRunning<'_>) -> String {
        let text = self.record(EntryKind::Step, name, text, Some(work)).await;
        drop(running);
        self.name_once(EntryKind::Step, name).await;
        text
    }

    /// The recorded time of timer `name`. Records `time` if there is none.
    pub(super) async fn recorded_moment(&self, name: &str, time: Timestamp) -> Timestamp {
        let text = match self.recorded(EntryKind::Timer, name).await {
            Some(text) => text,
            None => self.record(EntryKind::Timer, name, time.as_ms().to_string(), None).await,
        };
        match text.parse() {
            Ok(ms) => Timestamp::from_ms(ms),
            Err(error) => self.abort(Reason::corrupt(format!("timer `{name}` cannot be read: {error}"))).await,
        }
    }

    /// Holds back the end of a replay, and the outcome of a race, until the guard is dropped: the tool is about to
    /// continue.
    pub(super) fn reading(&self) -> Reading<'_> {
        self.0.compensations.lock().reading += 1;
        self.place().polled_mut().iter_mut().for_each(|branch| branch.reading += 1);
        Reading(self)
    }

    pub(crate) fn lock_journal(&self) -> MutexGuard<'_, Journal> {
        self.0.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Reading<'a>(&'a Attempt);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.compensations.lock();
        state.reading = state.reading.saturating_sub(1);
        drop(state);
        let mut place = self.0.place();
        place.polled_mut().iter_mut().for_each(|branch| branch.reading = branch.reading.saturating_sub(1));
    }
}
