//! Waiting for news of tasks: the one loop behind every stream about tasks and every call that stays open until its
//! task ends.
//!
//! A [`TaskWatch`] looks at its tasks again and again and says what its client has not been told yet, one [`Event`] at
//! a time. The dialects write the events down as messages, each in its own way, and decide nothing else.
//!
//! A watch is pulled by whoever reads the answer, and spawns nothing. When the client leaves, the answer is dropped,
//! and the watch with it.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;

use longhaul_core::{Ask, Progress, State, Status, Task, TaskId, TaskKey, Timestamp};
use longhaul_engine::{Engine, PollError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use crate::McpSettings;

#[cfg(test)]
mod tests;

/// The first pause of a watch that [starts with short pauses](TaskWatch::starting_with_short_pauses).
const PAUSE_MS_FIRST: u64 = 4;

/// What a watch says. The events of one look come in the order in which they are listed here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// Nothing was [sent](TaskWatch::sent) for a while. Whoever keeps a connection open sends a sign of life.
    KeepAlive,
    /// The task is no longer there.
    Gone(TaskKey),
    /// A client could see a difference, whichever it is. Also said of a task that is seen for the first time.
    Changed(Arc<Task>),
    /// The status is different.
    Status(Arc<Task>),
    /// The progress has grown.
    Progress(Arc<Task>, Progress),
    /// The task asks something.
    Question(Arc<Task>, Ask),
    /// The task has ended.
    Ended(Arc<Task>),
    /// The client has left. This is the last event.
    Left,
    /// The time is over, the server closes, or there is nothing left to wait for. This is the last event; it names the
    /// tasks that go on, each as the last look found it.
    Close(Vec<Arc<Task>>),
}

/// What a client was told of a task. It can go out to the client, and come back with the request that resumes a
/// stream; hence the short names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Told {
    #[serde(rename = "d", skip_serializing_if = "Option::is_none")]
    progress: Option<f64>,
    #[serde(rename = "u", skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    /// The questions that may not be answered yet, each by the beginning of the hash of its key.
    #[serde(rename = "a", skip_serializing_if = "Vec::is_empty", default)]
    asked: Vec<u32>,
}

/// A watch over some tasks, until all of them have ended or there is no time left.
pub(crate) struct TaskWatch {
    engine: Engine,
    watched: Vec<Watched>,
    /// What the last look found and the client has not been told yet.
    agenda: VecDeque<Event>,
    ends_at: Timestamp,
    /// Fires when the server closes.
    closing: CancellationToken,
    /// Fires when the client leaves.
    leaving: CancellationToken,
    pause_ms: u64,
    pause_ms_max: u64,
    keep_alive_ms: u64,
    last_sent_at: Timestamp,
    over: bool,
}

impl TaskWatch {
    /// A watch that ends after `wait_ms` at the latest, or as soon as `closing` fires. Each task comes with what its
    /// client was told of it before.
    pub(crate) fn new(
        engine: &Engine,
        settings: &McpSettings,
        closing: &CancellationToken,
        wait_ms: u64,
        tasks: impl IntoIterator<Item = (Task, Told)>,
    ) -> Self {
        let now = engine.ports().clock.now();
        let mut watched: Vec<Watched> = tasks.into_iter().map(Watched::new).collect();
        Self {
            engine: engine.clone(),
            agenda: watched.iter_mut().flat_map(Watched::news).collect(),
            watched,
            ends_at: now.plus_ms(wait_ms),
            closing: closing.clone(),
            leaving: CancellationToken::new(),
            pause_ms: settings.listen_poll_ms,
            pause_ms_max: settings.listen_poll_ms,
            keep_alive_ms: settings.keep_alive_ms,
            last_sent_at: now,
            over: false,
        }
    }

    /// The same watch for a caller who waits for something that may end soon: the first pauses between looks are short,
    /// each twice as long as the one before.
    pub(crate) fn starting_with_short_pauses(mut self) -> Self {
        self.pause_ms = PAUSE_MS_FIRST.min(self.pause_ms_max);
        self
    }

    /// The same watch for a client whose leaving is told by `leaving`, and does not drop the watch.
    pub(crate) fn until_left(mut self, leaving: CancellationToken) -> Self {
        self.leaving = leaving;
        self
    }

    /// The next event; nothing after the last one. The client counts as told of what is returned, unless it is
    /// [put back](Self::put_back).
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.agenda.pop_front() {
                self.note(&event);
                return Some(event);
            }
            if self.over {
                return None;
            }
            if let Some(last) = self.last() {
                self.over = true;
                return Some(last);
            }
            self.pause().await;
            if !self.is_interrupted() {
                self.look().await;
            }
        }
    }

    /// Takes note that the client was not told of `event` after all: it comes again with the next look.
    pub(crate) fn put_back(&mut self, event: &Event) {
        match event {
            Event::Changed(task) => self.change(task.id, |watched| watched.seen = None),
            Event::Status(task) => self.change(task.id, |watched| watched.told.status = None),
            Event::Question(task, ask) => {
                self.change(task.id, |watched| watched.told.asked.retain(|asked| *asked != short(&ask.key)));
            }
            Event::Ended(task) => self.change(task.id, |watched| watched.end_told = false),
            // What was told before is not known any more, and the next progress says all that this one did.
            Event::Progress(..) | Event::KeepAlive | Event::Gone(_) | Event::Left | Event::Close(_) => {}
        }
    }

    /// Takes note that something is being sent to the client, so that no sign of life is due for a while.
    pub(crate) fn sent(&mut self) {
        self.last_sent_at = self.now();
    }

    /// Ends the watch without another event: the client has its answer.
    pub(crate) fn stop(&mut self) {
        self.agenda.clear();
        self.over = true;
    }

    /// Lets the watch go on until `wait_ms` from now.
    pub(crate) fn wait_until_after(&mut self, wait_ms: u64) {
        self.ends_at = self.now().plus_ms(wait_ms);
    }

    /// What the client was told of a task so far; nothing where the task is not watched.
    pub(crate) fn told(&self, id: TaskId) -> Option<&Told> {
        self.watched.iter().find(|watched| watched.task.id == id).map(|watched| &watched.told)
    }

    /// Looks at the tasks at once; what is new replaces what was still to be said of the look before. A task that
    /// cannot be read stays as it was, and the next look tries again.
    pub(crate) async fn look(&mut self) {
        self.agenda.clear();
        if self.now().since_ms(self.last_sent_at) >= self.keep_alive_ms {
            self.agenda.push_back(Event::KeepAlive);
        }
        self.watched.retain(|watched| !watched.is_finished());
        for watched in &mut self.watched {
            let key = watched.task.key();
            match self.engine.poll(&key).await {
                Ok(task) => watched.task = Arc::new(task),
                Err(PollError::NotFound) => {
                    watched.gone = true;
                    self.agenda.push_back(Event::Gone(key));
                }
                Err(PollError::Unavailable(error)) => {
                    tracing::warn!(task_id = %key.id, error = &error as &dyn Error, "a watched task could not be read");
                }
            }
        }
        self.agenda.extend(self.watched.iter_mut().flat_map(Watched::news));
    }

    /// Waits for the next look. The only place that decides when it comes, so whatever is to wake all who wait, such as
    /// an end in the same process, is to be heard here.
    async fn pause(&mut self) {
        let left_ms = self.ends_at.since_ms(self.now());
        let pause_ms = self.pause_ms.min(left_ms).max(1);
        self.pause_ms = self.pause_ms.saturating_mul(2).min(self.pause_ms_max);
        tokio::select! {
            biased;
            () = self.leaving.cancelled() => {}
            () = self.closing.cancelled() => {}
            () = self.engine.ports().clock.sleep_ms(pause_ms) => {}
        }
    }

    /// The last event, where it is time for it.
    fn last(&self) -> Option<Event> {
        if self.leaving.is_cancelled() {
            return Some(Event::Left);
        }
        let unfinished = self.watched.iter().filter(|watched| !watched.is_finished());
        let tasks: Vec<_> = unfinished.map(|watched| Arc::clone(&watched.task)).collect();
        let is_over = tasks.is_empty() || self.is_interrupted() || self.now() >= self.ends_at;
        is_over.then_some(Event::Close(tasks))
    }

    fn is_interrupted(&self) -> bool {
        self.leaving.is_cancelled() || self.closing.is_cancelled()
    }

    /// Takes note that the client is being told of `event`.
    fn note(&mut self, event: &Event) {
        match event {
            Event::Changed(task) => self.change(task.id, |watched| watched.seen = Some(Seen::of(task))),
            Event::Status(task) => {
                self.change(task.id, |watched| watched.told.status = Some(task.status().as_str().to_owned()));
            }
            Event::Progress(task, progress) => {
                self.change(task.id, |watched| watched.told.progress = Some(progress.done));
            }
            Event::Question(task, ask) => self.change(task.id, |watched| watched.told.asked.push(short(&ask.key))),
            Event::Ended(task) => self.change(task.id, |watched| watched.end_told = true),
            Event::KeepAlive | Event::Gone(_) | Event::Left | Event::Close(_) => {}
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

impl Told {
    /// What a client was told that knows the task's status and nothing else.
    pub(crate) fn status_of(task: &Task) -> Self {
        Self { status: Some(task.status().as_str().to_owned()), ..Self::default() }
    }
}

/// A task that is watched.
struct Watched {
    task: Arc<Task>,
    told: Told,
    /// What the task looked like when the client was last told of a change.
    seen: Option<Seen>,
    end_told: bool,
    gone: bool,
}

impl Watched {
    fn new((task, told): (Task, Told)) -> Self {
        Self { task: Arc::new(task), told, seen: None, end_told: false, gone: false }
    }

    /// Whether the client knows all that there will ever be to know.
    const fn is_finished(&self) -> bool {
        self.gone || (self.end_told && self.seen.is_some())
    }

    /// What the client was not told yet.
    fn news(&mut self) -> Vec<Event> {
        if self.gone {
            return Vec::new();
        }
        let (task, told) = (&self.task, &mut self.told);
        let asks = asks(task);
        if !asks.is_empty() {
            told.asked.retain(|asked| asks.iter().any(|ask| short(&ask.key) == *asked));
        }
        let mut news = Vec::new();
        if self.seen.as_ref() != Some(&Seen::of(task)) {
            news.push(Event::Changed(Arc::clone(task)));
        }
        if told.status.as_deref() != Some(task.status().as_str()) {
            news.push(Event::Status(Arc::clone(task)));
        }
        // Dialects promise that it grows, and a leg that starts again says what was said before.
        let grown = task.progress.iter().filter(|progress| told.progress.is_none_or(|told| progress.done > told));
        news.extend(grown.map(|progress| Event::Progress(Arc::clone(task), progress.clone())));
        let new = asks.iter().filter(|ask| !told.asked.contains(&short(&ask.key)));
        news.extend(new.map(|ask| Event::Question(Arc::clone(task), ask.clone())));
        if task.has_ended() && !self.end_told {
            news.push(Event::Ended(Arc::clone(task)));
        }
        news
    }
}

/// What a client can tell two states of a task apart by.
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
        Self { status: task.status(), updated_at, progress, open_asks: asks(task).len() }
    }
}

/// What the task asks at the moment.
fn asks(task: &Task) -> &[Ask] {
    match &task.state {
        State::InputRequired { asks, .. } => asks,
        State::Queued
        | State::Running { .. }
        | State::Sleeping { .. }
        | State::Completed { .. }
        | State::Failed { .. }
        | State::Cancelled => &[],
    }
}

/// Enough of a key's hash to tell one task's questions apart.
fn short(key: &str) -> u32 {
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(key).into();
    u32::from_be_bytes([a, b, c, d])
}
