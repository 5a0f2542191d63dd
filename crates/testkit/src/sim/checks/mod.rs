//! The checkers: one per promise. They watch from outside, and restate each promise in their own words instead of
//! asking the code under test.

mod end;
mod record;
mod rules;
mod told;
mod tool;

use std::sync::Arc;

use longhaul_core::{EntryKind, Task, TaskKey};

use super::kernel::Actor;
use super::plan::Plan;
use super::story::task_name;

pub(crate) use told::Told;

/// A promise, and the checker that watches over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// An accepted call is on record until it expires.
    AcceptedIsKept,
    /// Nothing changes a task that has ended.
    EndsOnce,
    /// A task that somebody asks for ends within a bound.
    EndsInTime,
    /// Work goes on without polls where nothing was lost between record and message.
    GoesOnWithoutPolls,
    /// Only the highest attempt writes, and there is one worker for an attempt.
    StaleCannotWrite,
    /// A worker that lives keeps its lease.
    LivingKeepsLease,
    /// Legs that die in a row are counted, and their number is bounded.
    TriesAreCounted,
    /// A step is recorded once, and not run again after that.
    StepsAreRecordedOnce,
    /// The tool of a task that has ended is stopped within a heartbeat.
    CancelStopsTheTool,
    /// Work stops at the deadline.
    DeadlineStopsTheTool,
    /// No poller sees a task go back.
    ReadingIsMonotone,
    /// Owners see only their own tasks.
    OwnersSeeTheirOwn,
    /// The same key is the same task.
    SameKeySameTask,
    /// What has expired is not found, and not a moment earlier.
    ExpiredIsNotFound,
    /// An owner has at most as many unfinished tasks as allowed, and is refused only then.
    QuotaIsRight,
    /// What a client is told is on record.
    ToldIsOnRecord,
    /// Arguments, results and steps come back as they went in, whatever their size.
    NothingIsCut,
    /// The first answer to a question is the answer, and a tool gets what was asked for.
    AnswersAreFinal,
    /// The message is sent after the record was written.
    RecordBeforeMessage,
    /// Polls send a message again at most once per bound.
    ResendsAreBounded,
    /// Variables are what the tool set last.
    VariablesAreKept,
    /// Progress of one attempt does not go back.
    ProgressOnlyGrows,
    /// A sleep lasts as long as it was told to.
    SleepsAreSlept,
    /// When all has ended, nothing happens any more.
    ComesToRest,
    /// A store does what the model does.
    EqualsTheModel,
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which one.
    pub promise: Promise,
    /// When, in milliseconds since the world began.
    pub at_ms: u64,
    /// What was seen.
    pub what: String,
}

/// All checkers, and what they remember.
pub(crate) struct Checks {
    /// Raised with every write, so that what came first is known within one moment.
    pub(crate) seq: u64,
    violation: Option<Violation>,
    traces: Vec<Trace>,
    told: told::Memory,
    disturbed_until_ms: Vec<u64>,
    lease_ms: u64,
    heartbeat_ms: u64,
    resend_ms: u64,
    latency_ms: u64,
    skew_ms: u64,
    open_max: usize,
    calls: Vec<super::plan::CallPlan>,
    /// How long each actor may run one delivery, where there is an end to that.
    timeouts_ms: Vec<Option<u64>>,
    /// No tool is watched any more: the world is being taken down.
    over: bool,
}

/// What is remembered of a task.
struct Trace {
    key: TaskKey,
    call: usize,
    fingerprint: Option<([u8; 32], [u8; 32])>,
    /// Since when, and what. The last one is on record now.
    versions: Vec<(u64, Arc<Task>)>,
    legs: Vec<Leg>,
    entries: Vec<RecordedEntry>,
    /// Claims since a leg last recorded something new or suspended in order.
    legs_in_a_row: u32,
    /// Legs that failed, in all.
    failed_legs: u32,
    ended: Option<(u64, u64)>,
    variable: Variable,
    sleeps: Vec<(usize, u64)>,
    progress: (u32, f64),
}

/// A claim, and the tool that ran under it.
struct Leg {
    attempt: u32,
    actor: Actor,
    claimed_seq: u64,
    began: Option<u64>,
    tool_runs: bool,
    advanced: bool,
    result: Option<String>,
}

struct RecordedEntry {
    kind: EntryKind,
    name: String,
    seq: u64,
    text: String,
}

#[derive(Default)]
struct Variable {
    sure: Option<u64>,
    maybe: Vec<u64>,
}

impl Checks {
    pub(crate) fn new(plan: &Plan) -> Self {
        let settings = &plan.settings;
        Self {
            seq: 0,
            violation: None,
            traces: Vec::new(),
            told: told::Memory::default(),
            disturbed_until_ms: Vec::new(),
            lease_ms: settings.lease_ms,
            heartbeat_ms: settings.heartbeat_ms,
            resend_ms: settings.resend_ms,
            latency_ms: plan.latency_ms,
            skew_ms: plan.skew_ms_max(),
            open_max: settings.open_tasks_max as usize,
            calls: plan.calls.clone(),
            timeouts_ms: std::iter::repeat_n(None, 1 + plan.clients.len())
                .chain(plan.workers.iter().map(|worker| worker.timeout_ms))
                .collect(),
            over: false,
        }
    }

    /// The first promise that was broken.
    pub(crate) const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) const fn take_down(&mut self) {
        self.over = true;
    }

    pub(crate) fn fail(&mut self, promise: Promise, at_ms: u64, what: String) {
        if !self.over {
            self.violation.get_or_insert(Violation { promise, at_ms, what });
        }
    }

    pub(crate) fn differs(&mut self, at_ms: u64, what: &str) {
        self.fail(Promise::EqualsTheModel, at_ms, what.to_owned());
    }

    pub(crate) fn disturb(&mut self, actor: Actor, until_ms: u64) {
        if self.disturbed_until_ms.len() <= actor {
            self.disturbed_until_ms.resize(actor + 1, 0);
        }
        self.disturbed_until_ms[actor] = self.disturbed_until_ms[actor].max(until_ms);
    }

    fn disturbed_until_ms(&self, actor: Actor) -> u64 {
        self.disturbed_until_ms.get(actor).copied().unwrap_or(0)
    }

    /// What the story calls the task.
    pub(crate) fn name(&self, key: &TaskKey) -> String {
        self.traces
            .iter()
            .position(|trace| trace.key == *key)
            .map_or_else(|| "a task that is not on record".to_owned(), task_name)
    }

    fn place(&self, key: &TaskKey) -> Option<usize> {
        self.traces.iter().position(|trace| trace.key == *key)
    }

    fn trace(&mut self, key: &TaskKey) -> Option<&mut Trace> {
        self.traces.iter_mut().find(|trace| trace.key == *key)
    }
}

impl Trace {
    fn leg(&mut self, attempt: u32) -> Option<&mut Leg> {
        self.legs.iter_mut().find(|leg| leg.attempt == attempt)
    }

    fn latest(&self) -> Option<&Arc<Task>> {
        self.versions.last().map(|(_, task)| task)
    }
}
