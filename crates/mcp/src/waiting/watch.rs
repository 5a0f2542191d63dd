//! Waiting for changes of tasks: the loop behind every stream about tasks and every call that stays open until its task
//! ends.
//!
//! A [`TaskWatch`] reads its tasks whenever this process changes one of them, and from time to time in case another
//! process does. It returns what has not been reported to its client yet, one [`Event`] at a time.
//! The protocol versions turn the events into messages, each in its own way, and decide nothing else.
//!
//! A watch is driven by the reader of the answer, and spawns nothing. When the client leaves, the answer is dropped,
//! and the watch with it.

use std::collections::{BTreeSet, VecDeque};
use std::error::Error;
use std::sync::Arc;

use longhaul_core::{Ask, Progress, Status, Task, TaskId, TaskKey, Timestamp, strict_json};
use longhaul_engine::{Engine, Listener, PollError, Subject};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::McpSettings;

#[cfg(test)]
mod tests;

/// The first pause of a watch that [starts with short pauses](TaskWatch::starting_with_short_pauses).
const PAUSE_MS_FIRST: u64 = 4;

/// What a watch reports. The events of one look come in the order in which they are listed here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// Nothing was [sent](TaskWatch::sent) for a while. A protocol version that holds a connection open sends a
    /// keep-alive comment.
    KeepAlive,
    /// The task no longer exists.
    Gone(TaskKey),
    /// Something that a client can see is different. Also reported when a task is seen for the first time.
    Changed(Arc<Task>),
    /// The status is different.
    Status(Arc<Task>),
    /// The progress has grown.
    Progress(Arc<Task>, Progress),
    /// The task asks something.
    Question(Arc<Task>, Ask),
    /// The task has ended.
    Ended(Arc<Task>),
    /// The time is over, the server closes, or there is nothing left to wait for. This is the last event; it has the
    /// tasks that have not ended, each as the last look found it.
    Close(Vec<Arc<Task>>),
}

/// The state of a task that was reported to a client. It can be sent to the client, and come back with the request that
/// resumes a stream. This is why its names are short.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reported {
    #[serde(
        rename = "d",
        skip_serializing_if = "Option::is_none",
        default,
        deserialize_with = "strict_json::optional_number"
    )]
    progress: Option<f64>,
    #[serde(rename = "u", skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// The questions that may still be open, each as the beginning of the hash of its key.
    #[serde(rename = "a", skip_serializing_if = "Vec::is_empty", default)]
    asked: Vec<u32>,
}

/// A watch over some tasks, until all of them have ended or there is no time left.
pub(crate) struct TaskWatch {
    engine: Engine,
    listener: Listener,
    watched: Vec<Watched>,
    /// The events that the last check found and that were not reported yet.
    pending: VecDeque<Event>,
    ends_at: Timestamp,
    /// Cancelled when the server closes.
    closing: CancellationToken,
    pause_ms: u64,
    pause_ms_max: u64,
    /// When all tasks are read again, even if no change is heard before.
    look_at: Option<Timestamp>,
    /// The tasks that the next check reads. They stay here until they are read, because a check may be dropped.
    unread: BTreeSet<TaskKey>,
    keep_alive_ms: u64,
    last_sent_at: Timestamp,
    over: bool,
}

impl TaskWatch {
    /// A watch that ends after `wait_ms`, or as soon as `closing` is cancelled. Each task comes with the state that was
    /// reported before. `listener` listened to the tasks before they were read, so that no change is missed between
    /// that read and the first pause.
    pub(crate) fn new(
        mut listener: Listener,
        settings: &McpSettings,
        closing: &CancellationToken,
        wait_ms: u64,
        tasks: impl IntoIterator<Item = (Task, Reported)>,
    ) -> Self {
        let engine = listener.engine().clone();
        let now = engine.ports().clock.now();
        let mut watched: Vec<Watched> = tasks.into_iter().map(Watched::new).collect();
        for watched in &watched {
            listener.add(watched.task.key());
        }
        Self {
            engine,
            listener,
            pending: watched.iter_mut().flat_map(Watched::unreported).collect(),
            watched,
            ends_at: now.plus_ms(wait_ms),
            closing: closing.clone(),
            pause_ms: settings.listen_poll_ms,
            pause_ms_max: settings.listen_poll_ms,
            look_at: None,
            unread: BTreeSet::new(),
            keep_alive_ms: settings.keep_alive_ms,
            last_sent_at: now,
            over: false,
        }
    }

    /// The same watch for a caller who waits for a task that may end soon. The first pauses between reads are short,
    /// each twice as long as the one before.
    pub(crate) fn starting_with_short_pauses(mut self) -> Self {
        self.pause_ms = PAUSE_MS_FIRST.min(self.pause_ms_max);
        self
    }

    /// The next event; `None` after the last one. It counts as reported, unless it is [put back](Self::put_back).
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.pending.pop_front() {
                self.mark_reported(&event);
                return Some(event);
            }
            if self.over {
                return None;
            }
            if let Some(last) = self.last() {
                self.over = true;
                return Some(last);
            }
            if self.unread.is_empty() {
                self.pause().await;
            }
            if !self.closing.is_cancelled() {
                self.read().await;
            }
        }
    }

    /// Marks `event` as not reported: it comes again with the next check.
    pub(crate) fn put_back(&mut self, event: &Event) {
        match event {
            Event::Changed(task) => self.change(task.id, |watched| watched.seen = None),
            Event::Status(task) => self.change(task.id, |watched| watched.reported.status = None),
            Event::Question(task, ask) => {
                self.change(task.id, |watched| watched.reported.asked.retain(|asked| *asked != short(&ask.key)));
            }
            Event::Ended(task) => self.change(task.id, |watched| watched.end_reported = false),
            // The value before is no longer known, and the next progress includes this one.
            Event::Progress(..) | Event::KeepAlive | Event::Gone(_) | Event::Close(_) => {}
        }
    }

    /// Records that something is being sent to the client, so that no keep-alive is due for a while.
    pub(crate) fn sent(&mut self) {
        self.last_sent_at = self.now();
    }

    /// Ends the watch without another event: the client has its answer.
    pub(crate) fn stop(&mut self) {
        self.pending.clear();
        self.over = true;
    }

    /// Extends the watch until `wait_ms` from now.
    pub(crate) fn wait_until_after(&mut self, wait_ms: u64) {
        self.ends_at = self.now().plus_ms(wait_ms);
    }

    /// The state of a task that was reported so far; `None` if the task is not watched.
    pub(crate) fn reported(&self, id: TaskId) -> Option<&Reported> {
        self.watched.iter().find(|watched| watched.task.id == id).map(|watched| &watched.reported)
    }

    /// Reads the tasks at once. The events replace those of the last check that were not returned yet. A task that
    /// cannot be read stays as it was, and the next check tries again.
    pub(crate) async fn look(&mut self) {
        self.unread = self.keys();
        self.read().await;
    }

    /// Reads the tasks that are unread.
    async fn read(&mut self) {
        self.pending.clear();
        if self.now().since_ms(self.last_sent_at) >= self.keep_alive_ms {
            self.pending.push_back(Event::KeepAlive);
        }
        self.watched.retain(|watched| !watched.is_finished());
        for watched in &mut self.watched {
            let key = watched.task.key();
            if !self.unread.contains(&key) {
                continue;
            }
            match self.listener.look(&key).await {
                Ok(task) => watched.task = task,
                Err(PollError::NotFound) => {
                    watched.gone = true;
                    self.pending.push_back(Event::Gone(key));
                }
                Err(PollError::Unavailable(error)) => {
                    tracing::warn!(task_id = %key.id, error = &error as &dyn Error, "a watched task could not be read");
                }
            }
            self.unread.remove(&key);
        }
        self.unread.clear();
        self.pending.extend(self.watched.iter_mut().flat_map(Watched::unreported));
    }

    /// Waits for the next check. Only this function decides its time, and the tasks that it reads: those that this
    /// process has changed, at once, and all of them, after a while.
    async fn pause(&mut self) {
        let now = self.now();
        let look_at = *self.look_at.get_or_insert_with(|| {
            let pause_ms = self.pause_ms;
            self.pause_ms = pause_ms.saturating_mul(2).min(self.pause_ms_max);
            now.plus_ms(pause_ms)
        });
        let pause_ms = look_at.min(self.ends_at).since_ms(now).max(1);
        tokio::select! {
            biased;
            () = self.closing.cancelled() => {}
            changed = self.listener.changed() => {
                self.unread.extend(changed.into_iter().filter_map(Subject::task));
            }
            () = self.engine.ports().clock.sleep_ms(pause_ms) => {
                self.look_at = None;
                self.unread = self.keys();
            }
        }
    }

    fn keys(&self) -> BTreeSet<TaskKey> {
        self.watched.iter().map(|watched| watched.task.key()).collect()
    }

    /// The last event, if it is due.
    fn last(&self) -> Option<Event> {
        let unfinished = self.watched.iter().filter(|watched| !watched.is_finished());
        let tasks: Vec<_> = unfinished.map(|watched| Arc::clone(&watched.task)).collect();
        let is_over = tasks.is_empty() || self.closing.is_cancelled() || self.now() >= self.ends_at;
        is_over.then_some(Event::Close(tasks))
    }

    /// Marks `event` as reported.
    fn mark_reported(&mut self, event: &Event) {
        match event {
            Event::Changed(task) => self.change(task.id, |watched| watched.seen = Some(Seen::of(task))),
            Event::Status(task) => {
                self.change(task.id, |watched| watched.reported.status = Some(task.status().as_str().to_owned()));
            }
            Event::Progress(task, progress) => {
                self.change(task.id, |watched| watched.reported.progress = Some(progress.done));
            }
            Event::Question(task, ask) => self.change(task.id, |watched| watched.reported.asked.push(short(&ask.key))),
            Event::Ended(task) => self.change(task.id, |watched| watched.end_reported = true),
            Event::KeepAlive | Event::Gone(_) | Event::Close(_) => {}
        }
    }

    fn change(&mut self, id: TaskId, change: impl FnOnce(&mut Watched)) {
        if let Some(watched) = self.watched.iter_mut().find(|watched| watched.task.id == id) {
            change(watched);
        }
    }

    fn now(&self) -> Timestamp {
        self.engine.ports().clock.now()
    }
}

impl Reported {
    /// The report for a client that knows only the task's status.
    pub(crate) fn status_of(task: &Task) -> Self {
        Self { status: Some(task.status().as_str().to_owned()), ..Self::default() }
    }
}

/// A task that is watched.
struct Watched {
    task: Arc<Task>,
    reported: Reported,
    /// The task as it was when a change was last reported.
    seen: Option<Seen>,
    end_reported: bool,
    gone: bool,
}

impl Watched {
    fn new((task, reported): (Task, Reported)) -> Self {
        Self { task: Arc::new(task), reported, seen: None, end_reported: false, gone: false }
    }

    /// Whether there is nothing more to report, now or later.
    const fn is_finished(&self) -> bool {
        self.gone || (self.end_reported && self.seen.is_some())
    }

    /// The events that were not reported yet.
    fn unreported(&mut self) -> Vec<Event> {
        if self.gone {
            return Vec::new();
        }
        let (task, reported) = (&self.task, &mut self.reported);
        let asks = task.state.asks();
        if !asks.is_empty() {
            reported.asked.retain(|asked| asks.iter().any(|ask| short(&ask.key) == *asked));
        }
        let mut events = Vec::new();
        if self.seen.as_ref() != Some(&Seen::of(task)) {
            events.push(Event::Changed(Arc::clone(task)));
        }
        if reported.status.as_deref() != Some(task.status().as_str()) {
            events.push(Event::Status(Arc::clone(task)));
        }
        // Protocol versions promise that progress grows, and an attempt that starts again repeats what was reported
        // before.
        let grown =
            task.progress.iter().filter(|progress| reported.progress.is_none_or(|reported| progress.done > reported));
        events.extend(grown.map(|progress| Event::Progress(Arc::clone(task), progress.clone())));
        let new = asks.iter().filter(|ask| !reported.asked.contains(&short(&ask.key)));
        events.extend(new.map(|ask| Event::Question(Arc::clone(task), ask.clone())));
        if task.has_ended() && !self.end_reported {
            events.push(Event::Ended(Arc::clone(task)));
        }
        events
    }
}

/// The parts of a task by which a client can distinguish two of its states.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    status: Status,
    updated_at: Timestamp,
    progress: Option<Progress>,
    open_asks: usize,
}

impl Seen {
    fn of(task: &Task) -> Self {
        let (updated_at, progress) = (task.updated_at, task.progress.clone());
        Self { status: task.status(), updated_at, progress, open_asks: task.state.asks().len() }
    }
}

/// Enough of a key's hash to distinguish the questions of one task.
fn short(key: &str) -> u32 {
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(key).into();
    u32::from_be_bytes([a, b, c, d])
}
