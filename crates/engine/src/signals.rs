//! Signals: values that a task waits for, and that another process records.
//!
//! Two sides race, in every order. The process that records a signal records it, and then wakes the task. An attempt
//! that waits for a signal suspends the task, and then polls once more. So the process that is second sees the other.
//! If the second one dies, the task still polls when the wait of its suspension ends.

use std::time::Duration;

use longhaul_core::ports::{ApplyError, Recorded, StoreError};
use longhaul_core::{
    Entry, EntryKind, PartsName, Payload, Recording, Task, TaskEvent, TaskKey, Timestamp, limits, strict_json,
};
use serde::{Deserialize, Serialize};

use crate::suspension::{Reason, Wait};
use crate::{Attempt, Engine, Every, LoadError, SignalError};

/// The recorded text of a signal that was not recorded in time. No JSON text is empty.
const NOTHING: &str = "";

/// The outcome for a signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignalRecorded {
    /// It is recorded.
    First,
    /// This text was recorded before, and stays.
    Earlier(String),
    /// The task's wait for it had ended before, and it continued without.
    TooLate,
}

/// The outcome of a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The task's next attempt starts now, or within seconds.
    Now,
    /// The task waits for nothing that could be there. It runs or is about to, waits for its client alone or for the
    /// delay before a retry, has ended, or is not there.
    NotWaiting,
}

/// The recorded part of a token.
#[derive(Serialize, Deserialize)]
pub(crate) struct Token {
    /// The signal that its holder may record.
    #[serde(rename = "fact")]
    pub(crate) signal: String,
    /// Until when.
    until: Timestamp,
}

impl Engine {
    /// Records `text`, which is JSON, as signal `name` of a task, unless there is one, and wakes the task. The
    /// task need not wait for it yet: it may come to that later.
    ///
    /// # Errors
    /// [`SignalError`]; after [`SignalError::Unavailable`] the signal may be recorded, and the same call may be made
    /// again: it wakes the task in any case.
    pub async fn record_signal(&self, key: &TaskKey, name: &str, text: &str) -> Result<SignalRecorded, SignalError> {
        check_signal(name, text)?;
        let task = self.unended(key).await?;
        let recorded = self
            .record_from_outside(key, EntryKind::Signal, name, text)
            .await
            .map_err(self.unavailable(SignalError::Unavailable))?;
        // Before anything else that may fail: what is on record must not lie there unseen.
        self.wake_waiting(&task).await.map_err(self.unavailable(SignalError::Unavailable))?;
        match recorded {
            Recorded::First => Ok(SignalRecorded::First),
            Recorded::Earlier(entry) => match self.load(key, &entry.value).await {
                Ok(earlier) if earlier == NOTHING => Ok(SignalRecorded::TooLate),
                Ok(earlier) => Ok(SignalRecorded::Earlier(earlier)),
                Err(LoadError::Missing) => Err(SignalError::NotFound),
                Err(LoadError::Unreadable(error)) => Err(SignalError::Unavailable(error)),
                Err(LoadError::Unavailable(error)) => Err(self.unavailable(SignalError::Unavailable)(error)),
            },
        }
    }

    /// Does what [`Engine::record_signal`] does, for the process that presents the token with this hash. The task has
    /// to have admitted it ([`Attempt::admit_token`](crate::Attempt::admit_token)), and its time must not have passed.
    ///
    /// # Errors
    /// [`SignalError::NotFound`] if it has not, or it is; else as there.
    pub async fn record_signal_by_token(
        &self,
        key: &TaskKey,
        hash: &str,
        text: &str,
    ) -> Result<SignalRecorded, SignalError> {
        let journal = self.with_retry(|| self.store().journal(key)).await;
        let journal = journal.map_err(self.unavailable(SignalError::Unavailable))?;
        let admitted = journal.iter().find(|entry| entry.kind == EntryKind::Token && entry.name == hash);
        let Some(Entry { value: Payload::Inline(token), .. }) = admitted else { return Err(SignalError::NotFound) };
        let token: Token = match strict_json::from_str(token) {
            Ok(token) => token,
            Err(_unreadable) => return Err(SignalError::NotFound),
        };
        if self.now() >= token.until {
            return Err(SignalError::NotFound);
        }
        self.record_signal(key, &token.signal, text).await
    }

    /// Starts the next attempt of a task now, if it waits for something that may be there. A task that has had many
    /// attempts starts within seconds. This is for processes that know that something happened, and cannot or may not
    /// name it. The task checks on its own.
    ///
    /// # Errors
    /// [`StoreError`]; the task may have been woken, and may be woken again.
    pub async fn wake(&self, key: &TaskKey) -> Result<Woken, StoreError> {
        match self.with_retry(|| self.store().get(key, self.now())).await? {
            Some(task) => self.wake_waiting(&task).await,
            None => Ok(Woken::NotWaiting),
        }
    }

    /// Polls once more for the signals that the attempt of a suspended task waits for. They may have been recorded
    /// while it ran, when no process could wake it. If one is there, wakes the task, and returns it, and when its next
    /// attempt may start.
    pub(crate) async fn wake_if_there(&self, task: &Task, signals: &[String]) -> Option<(Task, Timestamp)> {
        if signals.is_empty() {
            return None;
        }
        let key = task.key();
        let journal = self.with_retry(|| self.store().journal(&key)).await;
        let is_there = |journal: Vec<Entry>| {
            journal.iter().any(|entry| entry.kind == EntryKind::Signal && signals.contains(&entry.name))
        };
        let woken = match journal.map(is_there) {
            Ok(true) => self.apply_wake(task).await,
            Ok(false) => return None,
            Err(error) => Err(error),
        };
        woken.unwrap_or_else(|error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(task_id = %task.id, attempt = task.attempt, error,
                "the task looks for its signals again later");
            None
        })
    }

    /// Records an entry from outside the tool, unless there is one. An entry that has to be stored in parts is read
    /// first: the parts of a refused entry would stay until the task expires.
    pub(crate) async fn record_from_outside(
        &self,
        key: &TaskKey,
        kind: EntryKind,
        name: &str,
        text: &str,
    ) -> Result<Recorded, StoreError> {
        if text.len() > limits::ENTRY_INLINE_BYTES_MAX {
            let journal = self.with_retry(|| self.store().journal(key)).await?;
            if let Some(entry) = journal.into_iter().find(|entry| entry.kind == kind && entry.name == name) {
                return Ok(Recorded::Earlier(entry));
            }
        }
        // Two may record at once, and parts of the same name are replaced: each writer uses its own name.
        let entry = format!("{}#{name}#{}", kind.as_str(), self.ports.ids.lease_token());
        let parts = PartsName::Entry { attempt: 0, entry };
        let value = self.store_payload(key, parts, text.to_owned(), limits::ENTRY_INLINE_BYTES_MAX).await?;
        let recording = Some(Recording { at: self.now(), took_ms: None, attempt: 0, order: None });
        let entry = Entry { kind, name: name.to_owned(), value, recording };
        self.with_retry(|| self.store().record(key, &entry)).await
    }

    async fn unended(&self, key: &TaskKey) -> Result<Task, SignalError> {
        let found = self.with_retry(|| self.store().get(key, self.now())).await;
        let task = found.map_err(self.unavailable(SignalError::Unavailable))?.ok_or(SignalError::NotFound)?;
        if task.has_ended() { Err(SignalError::Ended) } else { Ok(task) }
    }

    /// Wakes the task, and sends the message for its next attempt. If that is not sent, the one of its suspension comes
    /// later.
    async fn wake_waiting(&self, task: &Task) -> Result<Woken, StoreError> {
        let Some((woken, at)) = self.apply_wake(task).await? else { return Ok(Woken::NotWaiting) };
        let _logged = self.send(&woken, at.since_ms(self.now())).await;
        Ok(Woken::Now)
    }

    /// The woken task, and when its next attempt may start; `None` if it waits for nothing that could be there sooner.
    /// Attempts may have run since `task` was read. A message that knew of them only by `task` would count as one of an
    /// earlier wait.
    async fn apply_wake(&self, task: &Task) -> Result<Option<(Task, Timestamp)>, StoreError> {
        let at = self.now().plus_ms(limits::wake_delay_ms(task.attempt));
        match self.apply_with_retry(&task.key(), &TaskEvent::Wake { at }).await {
            Ok(woken) => Ok(Some((woken, at))),
            Err(ApplyError::Refused { .. } | ApplyError::NotFound) => Ok(None),
            Err(ApplyError::Store(error)) => Err(error),
        }
    }
}

fn check_signal(name: &str, text: &str) -> Result<(), SignalError> {
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
        return Err(SignalError::Name);
    }
    if text == NOTHING {
        return Err(SignalError::Empty);
    }
    if text.len() > limits::ENTRY_BYTES_MAX {
        return Err(SignalError::TooLarge(text.len()));
    }
    Ok(())
}

impl Attempt {
    /// The JSON text that was recorded as signal `name` ([`Engine::record_signal`](crate::Engine::record_signal)), the
    /// same in every later attempt. `None` in all attempts if it was not recorded by `until`. If it is not there yet,
    /// the attempt ends, and the process that records it starts the next one.
    ///
    /// In case that process dies, the task polls now and then. It polls first after a minute, and less often the longer
    /// ago `since` is, down to every 15 minutes. `since` is the time at which the name of the signal was given away.
    pub async fn signal(&self, name: &str, since: Timestamp, until: Option<Timestamp>) -> Option<String> {
        self.check_name(EntryKind::Signal, name).await;
        if let Some(text) = self.recorded(EntryKind::Signal, name).await {
            return in_time(text);
        }
        if self.is_replay() {
            return self.stay_at_the_end().await;
        }
        let now = self.now();
        if until.is_some_and(|until| now >= until) {
            // The first record wins: from now on nobody records this signal, so that all attempts go on without it.
            let _closing = self.step_running();
            return in_time(self.record(EntryKind::Signal, name, NOTHING.to_owned(), None).await);
        }
        let poll_at = next_poll(since, now).min(until.unwrap_or(Timestamp::from_ms(u64::MAX)));
        let _waiting = self.shared().suspend.wait(Wait::Signal { name: name.to_owned(), poll_at });
        std::future::pending().await
    }

    /// Allows the process that presents the token with this hash to record the signal `name` until `until`
    /// ([`Engine::record_signal_by_token`](crate::Engine::record_signal_by_token)). The token itself is not stored: a
    /// reader of the task's journal must not be able to answer instead of its holder.
    pub async fn admit_token(&self, hash: &str, name: &str, until: Timestamp) {
        self.check_name(EntryKind::Signal, name).await;
        match serde_json::to_string(&Token { signal: name.to_owned(), until }) {
            Ok(text) => drop(self.record(EntryKind::Token, hash, text, None).await),
            Err(error) => self.abort(Reason::corrupt(format!("a token cannot be written: {error}"))).await,
        }
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
