//! The events of the workers of a test run, and the record of their steps.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use longhaul_core::{CleanupEnd, EntryKind, Task, TaskEvent};
use longhaul_engine::{IsRecorded, Observer};
use longhaul_testkit::{Fault, StoreCall};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::crash::AtACrash;

/// A point at which the process of a worker ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// It has the task, and has not run the tool.
    Begin,
    /// The tool came to a step whose work has not begun.
    BeforeStep(String),
    /// Before a record: the work of a step has run, or a sleep has begun.
    BeforeRecord(EntryKind, String),
    AfterRecord(EntryKind, String),
    /// This step was recorded, and now the worker is asked to stop. It gives the task back.
    Stop(String),
    /// The tool has ended, and its end is not recorded.
    End,
    /// The server has cleaned up the task, and that is not recorded.
    AfterCleanup,
}

impl Moment {
    /// Whether a process can end so at this point. A tool that comes to a step cannot be left alone there: it is
    /// unwound.
    pub(super) const fn can_end_by(&self, crash: AtACrash) -> bool {
        match self {
            Self::BeforeStep(_) | Self::Stop(_) => matches!(crash, AtACrash::Dropped),
            Self::Begin | Self::BeforeRecord(..) | Self::AfterRecord(..) | Self::End | Self::AfterCleanup => true,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin => f.write_str("a crash when an attempt begins"),
            Self::BeforeStep(name) => write!(f, "a crash before step `{name}`"),
            Self::BeforeRecord(EntryKind::Step, name) => {
                write!(f, "a crash after the work of step `{name}` and before its record")
            }
            Self::BeforeRecord(kind, name) => write!(f, "a crash before {} `{name}` is recorded", kind.as_str()),
            Self::AfterRecord(EntryKind::Step, name) => write!(f, "a crash after step `{name}`"),
            Self::AfterRecord(kind, name) => write!(f, "a crash after {} `{name}` is recorded", kind.as_str()),
            Self::Stop(name) => write!(f, "a graceful stop after step `{name}`"),
            Self::End => f.write_str("a crash before the result is recorded"),
            Self::AfterCleanup => f.write_str("a crash after cleaning up, before that is recorded"),
        }
    }
}

/// An event of a step in an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It came to this one, which was recorded.
    Replayed(String),
    /// The work of this one began.
    Began(String),
    /// This one is recorded now.
    Recorded(String),
}

impl Seen {
    pub(super) fn step(&self) -> &str {
        match self {
            Self::Replayed(name) | Self::Began(name) | Self::Recorded(name) => name,
        }
    }
}

/// The events of the workers of a run, and the record of their steps.
pub(super) struct Script {
    inner: Mutex<Inner>,
    /// Is notified when a process dies.
    deaths: OnceLock<Arc<Notify>>,
    /// Is notified when it is time to cancel the task.
    pub(super) cancel: Notify,
}

struct Inner {
    /// The points at which processes die, each once.
    crashes: Vec<Moment>,
    /// After which steps the task is cancelled.
    cancels: Vec<String>,
    /// Stops the worker that runs now.
    stop: CancellationToken,
    attempts: Vec<Vec<Seen>>,
    /// Everything that was recorded, and how often.
    recorded: Vec<(EntryKind, String)>,
    times: BTreeMap<String, u32>,
    /// Whether the process dies at the first step that is not recorded, and which that was.
    replay: Option<Option<String>>,
    /// Whether the process that runs now has died, and is about to be dropped.
    is_dead: bool,
    /// Whether a tool that had failed succeeded when it was replayed to undo its work.
    replay_differs: bool,
}

impl Script {
    pub(super) fn new(crashes: Vec<Moment>, cancels: Vec<String>) -> Self {
        let inner = Inner {
            crashes,
            cancels,
            stop: CancellationToken::new(),
            attempts: Vec::new(),
            recorded: Vec::new(),
            times: BTreeMap::new(),
            replay: None,
            is_dead: false,
            replay_differs: false,
        };
        Self { inner: Mutex::new(inner), deaths: OnceLock::new(), cancel: Notify::new() }
    }

    /// Notifies these of deaths that are not at a call of the store.
    pub(super) fn tell_deaths(&self, deaths: Arc<Notify>) {
        self.deaths.get_or_init(|| deaths);
    }

    pub(super) fn store_call(&self, call: StoreCall<'_>) -> Fault {
        let mut inner = self.lock();
        match call {
            StoreCall::Apply(_, TaskEvent::Claim { .. }) if inner.takes(&Moment::Begin) => Fault::DiesAfter,
            StoreCall::Apply(_, TaskEvent::Finish { .. }) if inner.takes(&Moment::End) => Fault::DiesBefore,
            StoreCall::Apply(_, TaskEvent::EndCleanup { end: CleanupEnd::Done, .. })
                if inner.takes(&Moment::AfterCleanup) =>
            {
                Fault::DiesBefore
            }
            StoreCall::Record(_, entry) => {
                if inner.takes(&Moment::BeforeRecord(entry.kind, entry.name.clone())) {
                    return Fault::DiesBefore;
                }
                inner.recorded.push((entry.kind, entry.name.clone()));
                if entry.kind == EntryKind::Step {
                    inner.see(Seen::Recorded(entry.name.clone()));
                }
                let cancelled = entry.kind == EntryKind::Step && inner.takes_cancel(&entry.name);
                if cancelled {
                    self.cancel.notify_one();
                }
                if inner.takes(&Moment::AfterRecord(entry.kind, entry.name.clone())) {
                    // If the task is cancelled too, its next worker finds that out.
                    return Fault::DiesAfter;
                }
                let stops = inner.takes(&Moment::Stop(entry.name.clone()));
                if cancelled {
                    // The tool stays at this step until its worker learns of the cancel request. The same ends it as a
                    // stop would.
                    return Fault::HangsAfter;
                }
                if !stops {
                    return Fault::None;
                }
                inner.stop.cancel();
                Fault::YieldsAfter
            }
            _ => Fault::None,
        }
    }

    /// From now on the process dies at the first step that is not recorded.
    pub(super) fn stop_at_new_step(&self) {
        self.lock().replay = Some(None);
    }

    /// The step at which it died for that.
    pub(super) fn new_step(&self) -> Option<String> {
        self.lock().replay.clone().flatten()
    }

    /// A new worker, which this stops.
    pub(super) fn stop_by(&self, stop: CancellationToken) {
        self.lock().stop = stop;
    }

    /// The events that have not happened.
    pub(super) fn left(&self) -> Vec<String> {
        let inner = self.lock();
        let crashes = inner.crashes.iter().map(ToString::to_string);
        crashes.chain(inner.cancels.iter().map(|step| format!("a cancel request after step `{step}`"))).collect()
    }

    /// The steps of each attempt.
    pub(super) fn attempts(&self) -> Vec<Vec<Seen>> {
        self.lock().attempts.clone()
    }

    /// Everything that was recorded, in its order.
    pub(super) fn recorded(&self) -> Vec<(EntryKind, String)> {
        self.lock().recorded.clone()
    }

    /// How often the work of a step began.
    pub(super) fn times(&self, step: &str) -> u32 {
        self.lock().times.get(step).copied().unwrap_or(0)
    }

    /// Whether the process that runs now has died since this was last called.
    pub(super) fn takes_death(&self) -> bool {
        std::mem::take(&mut self.lock().is_dead)
    }

    /// Whether a tool that had failed succeeded when it was replayed to undo its work.
    pub(super) fn replay_differs(&self) -> bool {
        self.lock().replay_differs
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process of this attempt dies here, in the middle of the tool.
    fn die(&self) -> ! {
        self.lock().is_dead = true;
        self.deaths.get().into_iter().for_each(|deaths| deaths.notify_one());
        // Nothing of the attempt runs on: whoever runs it drops it.
        std::panic::resume_unwind(Box::new("a crash that a test asked for"));
    }
}

impl Inner {
    fn takes(&mut self, moment: &Moment) -> bool {
        let at = self.crashes.iter().position(|crash| crash == moment);
        at.map(|at| self.crashes.remove(at)).is_some()
    }

    fn takes_cancel(&mut self, step: &str) -> bool {
        let at = self.cancels.iter().position(|cancel| cancel == step);
        at.map(|at| self.cancels.remove(at)).is_some()
    }

    fn see(&mut self, seen: Seen) {
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.push(seen);
        }
    }
}

impl Observer for Script {
    fn attempt_began(&self, _task: &Task, _waited_ms: Option<u64>) {
        self.lock().attempts.push(Vec::new());
    }

    fn replay_differs(&self, _task: &Task) {
        self.lock().replay_differs = true;
    }

    fn came_to_step(&self, _task: &Task, name: &str, recorded: IsRecorded) {
        let mut inner = self.lock();
        if recorded == IsRecorded::Yes {
            inner.see(Seen::Replayed(name.to_owned()));
            return;
        }
        if let Some(new_step) = &mut inner.replay {
            *new_step = Some(name.to_owned());
            drop(inner);
            self.die();
        }
        if inner.takes(&Moment::BeforeStep(name.to_owned())) {
            drop(inner);
            self.die();
        }
        inner.see(Seen::Began(name.to_owned()));
        *inner.times.entry(name.to_owned()).or_insert(0) += 1;
    }
}
