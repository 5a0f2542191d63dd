//! A tool's view of its task during one attempt: recorded steps, timers, questions, progress.
//!
//! The tool runs again from its start in every attempt. The journal replays its work of earlier attempts. So it arrives
//! at the point where the last attempt ended, and continues from there.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use longhaul_core::{
    Ask, Entry, EntryKind, FailureKind, IdSource, LabelLimit, Payload, Progress, Task, Timestamp, TraceParent, limits,
};
use serde_json::{Map, Value};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::Engine;
use crate::suspension::{Driven, Reason, StepRunning, SuspendState, Wait};

mod calling;
mod children;
mod compensations;
mod fitting;
mod journal;
mod pending;
mod place;
mod polling;
mod race;
mod replayed;
mod retry;
mod round;
mod running_step;
mod sleeping;
mod tries;
mod undo;
mod unstored;

use children::Children;
pub use compensations::Compensate;
use compensations::Compensations;
use pending::PendingUpdates;
pub(crate) use pending::{NewUpdates, News};
use place::Place;
pub(crate) use place::SINCE;
pub use polling::Every;
pub(crate) use race::TIMEOUT;
pub use retry::{Retry, Tried};
pub(crate) use tries::outcome;
pub use unstored::Unstored;

/// A tool's handle on its task for one attempt. Clones are the same handle.
#[derive(Clone)]
pub struct Attempt(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) engine: Engine,
    /// As it was claimed.
    pub(crate) task: Task,
    pub(crate) variables: futures::lock::Mutex<Variables>,
    pub(crate) pending: PendingUpdates,
    pub(crate) children: Children,
    compensations: Compensations,
    request: String,
    trace: Option<TraceParent>,
    ends_at: Option<Timestamp>,
    /// When the attempt ends because its tool may not run for longer in one piece.
    limit: OnceLock<Timestamp>,
    journal: Mutex<Journal>,
    place: Mutex<Place>,
    /// The names that the tool used in this attempt.
    named: Mutex<BTreeSet<(EntryKind, String)>>,
    pub(crate) suspend: SuspendState,
    timers: AtomicU32,
    /// How many entries this attempt has recorded.
    recorded: AtomicU32,
    /// How many sleeps of each name the tool has begun.
    sleeps: Mutex<HashMap<String, u32>>,
    is_stored: bool,
    stopping: CancellationToken,
    cancelled: CancellationToken,
    /// Fires when a tool that runs elsewhere has been dropped.
    gone: OnceLock<CancellationToken>,
}

/// The recorded values, and when they were recorded.
type Journal = HashMap<(EntryKind, String), (Payload, Option<Timestamp>)>;

pub(crate) struct Start {
    pub(crate) task: Task,
    pub(crate) request: String,
    pub(crate) journal: Vec<Entry>,
    pub(crate) trace: Option<TraceParent>,
    pub(crate) ends_at: Option<Timestamp>,
    /// Cancels a call that is not a task.
    pub(crate) unstored: Option<CancellationToken>,
}

/// The variables of an attempt, read from the record when they are first needed.
#[derive(Default)]
pub(crate) struct Variables {
    pub(crate) values: Option<Map<String, Value>>,
    pub(crate) version: u32,
    /// A write whose answer was lost may still be applied, and would then overwrite a later write of the same attempt.
    pub(crate) may_land_late: bool,
}

impl Attempt {
    pub(crate) fn new(engine: Engine, start: Start) -> Self {
        Self::with(engine, start, Compensations::default())
    }

    /// An attempt of a task that has ended. It does none of the tool's work, and replays the tool to the end of its
    /// record, to register its compensations. Sleeps until `until` have passed.
    pub(crate) fn replay(engine: Engine, start: Start, until: Timestamp) -> Self {
        let steps = start.journal.iter().filter(|entry| entry.kind == EntryKind::Step);
        let steps = steps.map(|entry| entry.name.clone()).collect();
        Self::with(engine, start, Compensations::of_replay(until, steps))
    }

    fn with(engine: Engine, start: Start, compensations: Compensations) -> Self {
        let recorded = |entry: Entry| ((entry.kind, entry.name), (entry.value, entry.recording.map(|made| made.at)));
        let entries = start.journal.into_iter().map(recorded).collect();
        Self(Arc::new(Shared {
            engine,
            pending: PendingUpdates::of(start.task.labels.clone()),
            task: start.task,
            variables: futures::lock::Mutex::default(),
            children: Children::default(),
            compensations,
            request: start.request,
            trace: start.trace,
            ends_at: start.ends_at,
            limit: OnceLock::new(),
            journal: Mutex::new(entries),
            place: Mutex::default(),
            named: Mutex::default(),
            suspend: SuspendState::default(),
            timers: AtomicU32::new(0),
            recorded: AtomicU32::new(0),
            sleeps: Mutex::default(),
            is_stored: start.unstored.is_none(),
            stopping: CancellationToken::new(),
            cancelled: start.unstored.unwrap_or_default(),
            gone: OnceLock::new(),
        }))
    }

    /// The task as it was when this attempt began.
    #[must_use]
    pub fn task(&self) -> &Task {
        &self.0.task
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.engine.now()
    }

    /// Where randomness comes from.
    #[must_use]
    pub fn ids(&self) -> &dyn IdSource {
        &*self.0.engine.ports.ids
    }

    /// The request that made the task.
    #[must_use]
    pub fn request(&self) -> &str {
        &self.0.request
    }

    /// Fires when the work is no longer wanted: the task was cancelled or timed out, or another worker has it.
    #[must_use]
    pub fn cancelled(&self) -> &CancellationToken {
        &self.0.cancelled
    }

    /// A guard for a tool that does not run inside [`ToolRunner::run`](crate::ToolRunner::run), and may outlive the
    /// drop of its future. The tool counts as running until the guard is dropped. The process that runs it drops the
    /// guard after the tool's future. An attempt has one.
    #[must_use]
    pub fn runs_elsewhere(&self) -> DropGuard {
        self.0.gone.get_or_init(CancellationToken::new).clone().drop_guard()
    }

    /// Waits until a tool that runs elsewhere has been dropped.
    pub(crate) async fn gone(&self) {
        if let Some(gone) = self.0.gone.get() {
            gone.cancelled().await;
        }
    }

    /// The latest end of this attempt.
    #[must_use]
    pub fn ends_at(&self) -> Timestamp {
        let deadline = self.0.task.deadline();
        self.own_end().map_or(deadline, |ends_at| ends_at.min(deadline))
    }

    /// Ends this attempt after so many milliseconds: a tool that takes longer in one piece has failed.
    /// The first call counts.
    pub fn end_within_ms(&self, ms: u64) {
        self.0.limit.get_or_init(|| self.now().plus_ms(ms));
    }

    /// When this attempt ends, if it does before its task.
    fn own_end(&self) -> Option<Timestamp> {
        self.0.ends_at.into_iter().chain(self.0.limit.get().copied()).min()
    }

    /// How much longer the tool may run in one piece, in milliseconds. This is the time until the end of this attempt,
    /// less the margin in which that is recorded. `None` if only the task's deadline ends it.
    #[must_use]
    pub fn left_ms(&self) -> Option<u64> {
        let ends_at = self.own_end()?;
        Some(ends_at.since_ms(self.0.engine.now().plus_ms(self.margin_ms())))
    }

    /// Drives the tool's future: runs it until it returns, or drops it when it waits for something that ends the
    /// attempt.
    pub async fn drive<F: Future>(&self, tool: F) -> Driven<F::Output> {
        if self.is_replay() { self.drive_replay(tool).await } else { self.0.suspend.drive(tool).await }
    }

    /// Notes how far the work is. It is written at once, or as soon as the interval between two such writes has passed.
    /// Numbers that are not finite, such as the result of a division by zero, are ignored.
    pub fn progress(&self, mut progress: Progress) {
        if !progress.done.is_finite() {
            return;
        }
        progress.total = progress.total.filter(|total| total.is_finite());
        progress.message = progress.message.map(|message| limits::cut(&message, limits::MESSAGE_BYTES_MAX));
        self.0.pending.note_progress(progress);
    }

    /// Sets a label of the task. The next write of the attempt records it.
    ///
    /// # Errors
    /// [`LabelLimit`] if the task cannot have this label.
    pub fn set_label(&self, key: &str, value: &str) -> Result<(), LabelLimit> {
        self.0.pending.set_label(key, value)
    }

    /// Runs `run`, records the JSON text that it returns, and returns the recorded text in this and every later
    /// attempt. Near the end of the attempt the step is left to the next attempt. An error of `run` is not recorded.
    ///
    /// # Errors
    /// The errors of `run`. If the store does not answer, the attempt ends instead.
    pub async fn step<E, F, Fut>(&self, name: &str, run: F) -> Result<String, E>
    where
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<String, E>>,
    {
        if let Some(text) = self.replayed(name).await {
            return Ok(text);
        }
        self.yield_near_the_end().await;
        let running = self.step_running();
        let began = self.begins();
        let text = self.run_step(name, &running, run).await?;
        Ok(self.record_step(name, text, began, running).await)
    }

    /// Asks the client and returns its answer. If there is no answer yet, the attempt ends, and the answer starts the
    /// next attempt.
    pub async fn ask(&self, key: &str, request: String) -> String {
        self.check_name(EntryKind::Answer, key).await;
        self.name_once(EntryKind::Answer, key).await;
        if let Some(answer) = self.recorded(EntryKind::Answer, key).await {
            return answer;
        }
        if self.is_replay() {
            return self.stay_at_the_end().await;
        }
        let _asking = self.0.suspend.wait(Wait::Ask(Ask { key: key.to_owned(), request }));
        std::future::pending().await
    }

    /// Waits in this attempt if it is short and fits; ends the attempt otherwise. `running` must live
    /// until the wait of this branch is known.
    async fn wait_until(&self, until: Timestamp, mut running: StepRunning<'_>) {
        if !self.shows_moment(until) {
            // A branch that lost a race does not delay the end of the attempt.
            drop(running);
            self.until_shown_moment(until).await;
            running = self.step_running();
        }
        if let Some(replayed_until) = self.0.compensations.replayed_until() {
            if until > replayed_until {
                self.stay_at_the_end::<()>().await;
            }
            return;
        }
        self.has_time_until(until).await;
        let left_ms = until.since_ms(self.0.engine.now());
        if left_ms == 0 {
            return;
        }
        let fits = self.own_end().is_none_or(|ends_at| until.plus_ms(self.margin_ms()) < ends_at);
        if left_ms > self.0.engine.settings.inline_sleep_ms_max || !fits {
            let _sleeping = self.0.suspend.wait(Wait::Sleep(until));
            drop(running);
            return std::future::pending().await;
        }
        let _sleeping = self.0.suspend.wait(Wait::ShortSleep(until));
        drop(running);
        self.0.engine.ports.clock.sleep_ms(left_ms).await;
    }

    /// Ends the task as failed, from inside its tool. It is for errors that a retry would not fix, such as a recorded
    /// step that the tool can no longer read. The caller's future stays pending here until it is dropped.
    pub async fn fail<T>(&self, kind: FailureKind, message: String) -> T {
        self.abort(Reason::Fail(kind, message)).await
    }

    /// Asks the attempt to end at its next step boundary.
    pub(crate) fn stop(&self) {
        self.0.stopping.cancel();
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0
    }

    /// Aborts the attempt from inside: the caller's future stays pending here until it is dropped.
    pub(crate) async fn abort<T>(&self, reason: Reason) -> T {
        self.0.suspend.abort(reason);
        std::future::pending().await
    }

    /// Leaves the next step to another attempt if this one has little time left, but never before it recorded
    /// something. So attempts that are shorter than the margin still do one step each.
    async fn yield_near_the_end(&self) {
        self.until_released().await;
        let near = self.left_ms() == Some(0);
        if self.0.stopping.is_cancelled() || (near && self.0.pending.has_advanced()) {
            self.0.suspend.yield_attempt();
            std::future::pending::<()>().await;
        }
    }

    fn margin_ms(&self) -> u64 {
        self.0.engine.settings.attempt_margin_ms
    }

    pub(crate) async fn check_name(&self, kind: EntryKind, name: &str) {
        let is_valid = !name.is_empty() && name.len() <= limits::NAME_BYTES_MAX;
        if !is_valid && self.has_names(kind) {
            let message = format!("{} names must have 1 to {} bytes", kind.as_str(), limits::NAME_BYTES_MAX);
            self.abort(Reason::Fail(FailureKind::Misuse, message)).await
        }
    }

    /// Each name is used once: a second use would get the value of the first.
    async fn name_once(&self, kind: EntryKind, name: &str) {
        if !self.has_names(kind) {
            return;
        }
        let first = self.0.named.lock().unwrap_or_else(PoisonError::into_inner).insert((kind, name.to_owned()));
        if kind == EntryKind::Step && self.0.compensations.have_name(name) {
            let message = format!("a step has the name `{name}` of a compensation; give each its own");
            return self.fail(FailureKind::Misuse, message).await;
        }
        if !first {
            let kind = if kind == EntryKind::Try { EntryKind::Step } else { kind };
            let message = format!("two of the tool's {}s have the name `{name}`; give each its own", kind.as_str());
            self.abort(Reason::Fail(FailureKind::Misuse, message)).await
        }
    }

    /// Whether the names of entries of this kind matter. Without a record, only those of questions do.
    fn has_names(&self, kind: EntryKind) -> bool {
        self.is_stored() || kind == EntryKind::Answer
    }

    fn has_named(&self, kind: EntryKind, name: &str) -> bool {
        self.0.named.lock().unwrap_or_else(PoisonError::into_inner).contains(&(kind, name.to_owned()))
    }
}
