//! What a tool sees of its task during one leg: recorded steps, timers, questions, progress.
//!
//! The tool is run again from its start in every leg. What it did in earlier legs comes out of the journal, so it
//! arrives at the point where the last leg ended, and goes on from there.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::planted::{Fault, planted};
use longhaul_core::ports::Recorded;
use longhaul_core::{Ask, Entry, EntryKind, FailureKind, PartsName, Payload, Progress, Task, Timestamp, limits};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::suspension::{Driven, Reason, Slot, Wait};
use crate::variables::Variables;
use crate::{Engine, LoadError};

mod news;
mod round;

pub(crate) use news::News;

/// A tool's handle on its task for one leg. Clones are the same handle.
#[derive(Clone)]
pub struct Leg(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    /// As it was claimed.
    pub(crate) task: Task,
    pub(crate) variables: futures::lock::Mutex<Variables>,
    pub(crate) news: News,
    request: String,
    ends_at: Option<Timestamp>,
    journal: Mutex<HashMap<(EntryKind, String), Payload>>,
    named: Mutex<BTreeSet<(EntryKind, String)>>,
    pub(crate) slot: Slot,
    timers: AtomicU32,
    stopping: CancellationToken,
    cancelled: CancellationToken,
}

/// What a leg starts with.
pub(crate) struct Start {
    pub(crate) task: Task,
    pub(crate) request: String,
    pub(crate) journal: Vec<Entry>,
    pub(crate) ends_at: Option<Timestamp>,
}

impl Leg {
    pub(crate) fn new(engine: Engine, start: Start) -> Self {
        let journal = start.journal.into_iter().map(|entry| ((entry.kind, entry.name), entry.value)).collect();
        Self(Arc::new(Shared {
            engine,
            task: start.task,
            variables: futures::lock::Mutex::default(),
            news: News::default(),
            request: start.request,
            ends_at: start.ends_at,
            journal: Mutex::new(journal),
            named: Mutex::default(),
            slot: Slot::default(),
            timers: AtomicU32::new(0),
            stopping: CancellationToken::new(),
            cancelled: CancellationToken::new(),
        }))
    }

    /// The task as it was when this leg began.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.0.task
    }

    /// The request that made the task.
    #[must_use]
    pub fn request(&self) -> &str {
        &self.0.request
    }

    /// Fires when the work is no longer wanted: the task was cancelled, timed out, or another worker has it.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.cancelled
    }

    /// When this leg ends at the latest.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        let deadline = self.0.task.deadline();
        self.0.ends_at.map_or(deadline, |ends_at| ends_at.min(deadline))
    }

    /// Drives the tool's future: runs it until it ends, or drops it when it waits for something that ends the leg.
    pub async fn drive<F: Future>(&self, tool: F) -> Driven<F::Output> {
        self.0.slot.drive(tool).await
    }

    /// Notes how far the work is. The next heartbeat writes it down.
    /// Numbers that are none, such as a division by zero, are left out.
    pub fn progress(&self, mut progress: Progress) {
        if !progress.done.is_finite() {
            return;
        }
        progress.total = progress.total.filter(|total| total.is_finite());
        progress.message = progress.message.map(|message| limits::cut(&message, limits::MESSAGE_BYTES_MAX));
        self.0.news.note(progress);
    }

    /// Runs `run` once, records the JSON text that it gives, and gives the recorded one in this and every later leg.
    /// Near the end of the leg the step is left to the next one. An error of `run` is not recorded.
    ///
    /// # Errors
    /// Those of `run`. A store that does not answer ends the leg instead.
    pub async fn step<E, F, Fut>(&self, name: &str, run: F) -> Result<String, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<String, E>>,
    {
        self.check_name(EntryKind::Step, name).await;
        if let Some(text) = self.recorded(EntryKind::Step, name).await.filter(|_| !planted(Fault::StepRunAgain)) {
            self.name_once(EntryKind::Step, name).await;
            return Ok(text);
        }
        self.yield_near_the_end().await;
        let running = self.0.slot.step_running();
        let task = &self.0.task;
        let span = tracing::info_span!(
            "step", name, task_id = %task.id, attempt = task.attempt, owner = %task.owner, trace = task.trace
        );
        let text = run().instrument(span).await?;
        let text = self.record(EntryKind::Step, name, text).await;
        drop(running);
        self.name_once(EntryKind::Step, name).await;
        Ok(text)
    }

    /// Asks the client and gives its answer. Where there is none yet, the leg ends, and the answer starts the next.
    pub async fn ask(&self, key: &str, request: String) -> String {
        self.check_name(EntryKind::Answer, key).await;
        self.name_once(EntryKind::Answer, key).await;
        if let Some(answer) = self.recorded(EntryKind::Answer, key).await.filter(|_| !planted(Fault::AnswerAskedAgain))
        {
            return answer;
        }
        let _asking = self.0.slot.wait(Wait::Ask(Ask { key: key.to_owned(), request }));
        std::future::pending().await
    }

    /// Sleeps until `ms` milliseconds after this was first called, in whichever leg that was.
    pub fn sleep_ms(&self, ms: u64) -> impl Future<Output = ()> + Send + '_ {
        self.sleep_until(self.0.engine.now().plus_ms(ms))
    }

    /// Sleeps until the moment that was given when this was first called. A long sleep ends the leg.
    ///
    /// A sleep has its number from the order of the calls, not of the first polls: in a race that an answer from the
    /// journal wins at once, the sleep beside it is never polled, and the sleeps after it must not take its number.
    pub fn sleep_until(&self, until: Timestamp) -> impl Future<Output = ()> + Send + '_ {
        self.sleep_numbered(self.0.timers.fetch_add(1, Ordering::Relaxed), until)
    }

    async fn sleep_numbered(&self, number: u32, until: Timestamp) {
        let name = number.to_string();
        // A question that is asked beside this sleep must not end the leg before the sleep is known.
        let recording = self.0.slot.step_running();
        let text = match self.recorded(EntryKind::Timer, &name).await {
            Some(_) if planted(Fault::SleepCutShort) => return,
            Some(text) => text,
            None => self.record(EntryKind::Timer, &name, until.as_ms().to_string()).await,
        };
        let Ok(until) = text.parse().map(Timestamp::from_ms) else {
            return self.break_off(Reason::corrupt(format!("timer {name} cannot be read"))).await;
        };
        let left_ms = until.since_ms(self.0.engine.now());
        let fits = self.0.ends_at.is_none_or(|ends_at| until.plus_ms(self.margin_ms()) < ends_at);
        if left_ms > 0 && (left_ms > self.0.engine.settings.inline_sleep_ms_max || !fits) {
            let _sleeping = self.0.slot.wait(Wait::Sleep(until));
            drop(recording);
            return std::future::pending().await;
        }
        if left_ms > 0 {
            let _napping = self.0.slot.wait(Wait::Nap(until));
            drop(recording);
            self.0.engine.ports.clock.sleep_ms(left_ms).await;
        }
    }

    /// Ends the task as failed, from inside its tool: for what another try would not mend, such as a recorded step that
    /// the tool cannot read any more. The caller's future stays here until it is dropped.
    pub async fn fail<T>(&self, kind: FailureKind, message: String) -> T {
        self.break_off(Reason::Fail(kind, message)).await
    }

    /// Asks the leg to end at its next step boundary.
    pub(crate) fn stop(&self) {
        self.0.stopping.cancel();
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Ends the leg from inside: the caller's future stays here until it is dropped.
    pub(crate) async fn break_off<T>(&self, reason: Reason) -> T {
        self.0.slot.break_off(reason);
        std::future::pending().await
    }

    pub(crate) async fn load_or_break_off(&self, payload: &Payload) -> String {
        match self.0.engine.load(&self.0.task.key(), payload).await {
            Ok(text) => text,
            Err(LoadError::Missing) => self.break_off(Reason::corrupt(LoadError::Missing.to_string())).await,
            Err(error) => self.break_off(Reason::Retry(error.to_string())).await,
        }
    }

    async fn recorded(&self, kind: EntryKind, name: &str) -> Option<String> {
        let payload = self.lock_journal().get(&(kind, name.to_owned())).cloned()?;
        Some(self.load_or_break_off(&payload).await)
    }

    /// Records `text` and gives what is on record: `text`, or what another leg recorded before.
    async fn record(&self, kind: EntryKind, name: &str, text: String) -> String {
        if text.len() > limits::ENTRY_BYTES_MAX {
            let (bytes, max) = (text.len(), limits::ENTRY_BYTES_MAX);
            let message = format!("the value of step `{name}` has {bytes} bytes; at most {max} can be recorded");
            return self.break_off(Reason::Fail(FailureKind::TooLarge, message)).await;
        }
        if self.lock_journal().len() >= limits::ENTRIES_MAX {
            let message = format!("a task records at most {} steps, timers and answers", limits::ENTRIES_MAX);
            return self.break_off(Reason::Fail(FailureKind::TooLarge, message)).await;
        }
        let (engine, task) = (&self.0.engine, &self.0.task);
        let parts = PartsName::Entry { attempt: task.attempt, entry: format!("{}#{name}", kind.as_str()) };
        let recorded = match engine.keep(&task.key(), parts, text.clone(), limits::ENTRY_INLINE_BYTES_MAX).await {
            Ok(value) => {
                let entry = Entry { kind, name: name.to_owned(), value };
                let recorded = engine.surely(async || engine.store().record(&task.key(), &entry).await).await;
                recorded.map(|recorded| (recorded, entry.value))
            }
            Err(error) => Err(error),
        };
        match recorded {
            Ok((Recorded::First, value)) => {
                self.remember(kind, name, value);
                text
            }
            Ok((Recorded::Earlier(_), _)) if planted(Fault::StepGivesItsOwnValue) => text,
            Ok((Recorded::Earlier(entry), _)) => {
                let earlier = self.load_or_break_off(&entry.value).await;
                self.remember(kind, name, entry.value);
                earlier
            }
            Err(error) => self.break_off(Reason::Retry(format!("`{name}` could not be recorded: {error}"))).await,
        }
    }

    fn remember(&self, kind: EntryKind, name: &str, value: Payload) {
        self.lock_journal().insert((kind, name.to_owned()), value);
        // Earlier failures are forgiven at once, in case this leg dies before its next heartbeat.
        self.0.news.advanced(self.0.task.failures > 0);
    }

    /// Leaves the next step to another leg when this one has little time left, but never without having got further:
    /// legs that are too short for the margin still do one step each.
    async fn yield_near_the_end(&self) {
        let near = self.0.ends_at.is_some_and(|ends_at| self.0.engine.now().plus_ms(self.margin_ms()) >= ends_at);
        if self.0.stopping.is_cancelled() || (near && self.0.news.has_advanced()) {
            self.0.slot.yield_leg();
            std::future::pending::<()>().await;
        }
    }

    fn margin_ms(&self) -> u64 {
        self.0.engine.settings.leg_margin_ms
    }

    async fn check_name(&self, kind: EntryKind, name: &str) {
        if name.is_empty() || name.len() > limits::NAME_BYTES_MAX {
            let message = format!("the name of a {} has 1 to {} bytes", kind.as_str(), limits::NAME_BYTES_MAX);
            self.break_off(Reason::Fail(FailureKind::Misuse, message)).await
        }
    }

    /// A name stands for one thing: a second use would get the first one's value.
    async fn name_once(&self, kind: EntryKind, name: &str) {
        let first = self.0.named.lock().unwrap_or_else(PoisonError::into_inner).insert((kind, name.to_owned()));
        if !first {
            let message = format!("two of the tool's {}s have the name `{name}`; give each its own", kind.as_str());
            self.break_off(Reason::Fail(FailureKind::Misuse, message)).await
        }
    }

    fn lock_journal(&self) -> std::sync::MutexGuard<'_, HashMap<(EntryKind, String), Payload>> {
        self.0.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reason {
    pub(crate) const fn corrupt(message: String) -> Self {
        Self::Fail(FailureKind::Corrupt, message)
    }
}
