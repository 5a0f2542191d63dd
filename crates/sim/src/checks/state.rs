//! The memory of the checkers of a run, and the first promise that was broken.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::{EntryKind, LeaseToken, OwnerId, Task, TaskId, TaskKey, Timestamp};
use longhaul_engine::{Every, Settings};
use longhaul_testkit::models::{Promise, Violation};

use super::super::kernel::{Actor, Kernel};
use super::super::plan::{CallPlan, Plan};
use super::super::schedule_plan::SchedulePlan;
use super::super::story::task_name;

/// All checkers, and what they remember.
pub(crate) struct Checks {
    kernel: Arc<Kernel>,
    /// Raised with every write, so that the order of writes is known even within one point in time.
    pub(crate) seq: u64,
    pub(super) violation: Option<Violation>,
    pub(super) traces: Vec<Trace>,
    pub(super) observed: Observed,
    pub(super) disturbed_until_ms: Vec<u64>,
    pub(super) lease_ms: u64,
    pub(super) heartbeat_ms: u64,
    pub(super) settings: Settings,
    pub(super) latency_ms: u64,
    pub(super) skew_ms: u64,
    /// How long faults are injected.
    pub(super) chaos_ms: u64,
    /// The schedule, if there is one.
    pub(super) times: Option<Times>,
    /// The endpoints that received each notification.
    pub(super) told: Vec<(String, usize)>,
    pub(super) open_max: usize,
    pub(super) owner_attempts: Option<u32>,
    pub(super) tool_attempts: Option<u32>,
    pub(super) attempts: Attempts,
    pub(super) calls: Vec<CallPlan>,
    /// Whether everything happens as soon as it can.
    pub(super) is_calm: bool,
    /// The latest time at which each actor is killed, according to its latest delivery.
    pub(super) killed_at_ms: Vec<Option<u64>>,
    /// The requests to resume a task that are under way.
    pub(super) resuming: Vec<Resuming>,
    /// Tools are not checked any more: the world is being taken down.
    pub(super) over: bool,
}

/// The memory of running attempts.
#[derive(Default)]
pub(super) struct Attempts {
    /// Until when attempts may run, by their leases.
    pub(super) until: Vec<(LeaseToken, Timestamp)>,
    /// Running attempts for which it is unknown whether they have a permit.
    pub(super) unknown: Vec<LeaseToken>,
    pub(super) running: Vec<(TaskKey, u32, LeaseToken)>,
}

/// The memory of a task.
pub(super) struct Trace {
    pub(super) key: TaskKey,
    pub(super) call: usize,
    pub(super) fingerprint: Option<([u8; 32], [u8; 32])>,
    /// Every version of the record, and since when it held. The last one is recorded now.
    pub(super) versions: Vec<(u64, Arc<Task>)>,
    pub(super) attempts: Vec<Attempt>,
    pub(super) entries: Vec<RecordedEntry>,
    /// Claims since an attempt last recorded something new or suspended normally.
    pub(super) attempts_in_a_row: u32,
    /// All attempts that failed.
    pub(super) failed_attempts: u32,
    pub(super) ended: Option<(u64, u64)>,
    pub(super) variable: Variable,
    pub(super) sleeps: Vec<(usize, u64)>,
    /// Questions whose answers were accepted, according to a reply to a client.
    pub(super) answered: Vec<String>,
    pub(super) polls: Polls,
    pub(super) signals: Signals,
    pub(super) calls: Calls,
    /// How often its cleanup has begun.
    pub(super) cleanups: u32,
    pub(super) is_cleaned: bool,
    /// The places of the steps that have begun and have compensations.
    pub(super) begun: Vec<usize>,
    /// The steps whose compensations ran, in this order.
    pub(super) undone: Vec<usize>,
    pub(super) progress: (u32, f64),
    /// The runs of its steps.
    pub(super) runs: Vec<StepRun>,
    /// The work of the failed task that it continues.
    pub(super) inherited: Inherited,
}

/// The signals that a tool waits for, and since when one of them is recorded while the task waits.
#[derive(Default)]
pub(super) struct Signals {
    pub(super) awaited: Vec<String>,
    pub(super) there_since_ms: Option<u64>,
}

/// A claim, and the tool that ran under it.
pub(super) struct Attempt {
    pub(super) number: u32,
    pub(super) actor: Actor,
    pub(super) claimed_seq: u64,
    pub(super) began: Option<u64>,
    pub(super) tool_runs: bool,
    pub(super) advanced: bool,
    pub(super) result: Option<String>,
}

#[derive(Clone)]
pub(super) struct RecordedEntry {
    pub(super) kind: EntryKind,
    pub(super) name: String,
    pub(super) seq: u64,
    /// The attempt that recorded it.
    pub(super) attempt: u32,
    /// Whether that had lost its task, and the order of its entry is uncertain: clocks differ, or the store was slow.
    pub(super) is_late: bool,
    /// The latest write when a tool got it first.
    pub(super) got_seq: Option<u64>,
    pub(super) text: String,
}

#[derive(Default)]
pub(super) struct Variable {
    pub(super) confirmed: Option<u64>,
    pub(super) maybe: Vec<u64>,
}

/// The memory of the polls of a task, whose script looks for one thing at a time.
#[derive(Default)]
pub(super) struct Polls {
    /// When the first poll was, by position in the script.
    pub(super) first: Vec<(usize, u64)>,
    /// The latest poll of each attempt that has found nothing: one that lost its lease may continue looking for a
    /// while.
    pub(super) latest: BTreeMap<u32, Polled>,
}

/// A poll that found nothing.
#[derive(Clone, Copy)]
pub(super) struct Polled {
    pub(super) first_ms: u64,
    pub(super) every: Every,
    /// When it had ended.
    pub(super) at_ms: u64,
}

impl Checks {
    pub(crate) fn new(kernel: Arc<Kernel>, plan: &Plan) -> Self {
        let settings = &plan.settings;
        Self {
            kernel,
            seq: 0,
            violation: None,
            traces: Vec::new(),
            observed: Observed::default(),
            disturbed_until_ms: Vec::new(),
            lease_ms: settings.lease_ms,
            is_calm: plan.is_calm(),
            heartbeat_ms: settings.heartbeat_ms,
            settings: *settings,
            latency_ms: plan.latency_ms,
            skew_ms: plan.skew_ms_max(),
            chaos_ms: plan.chaos_ms,
            times: plan.schedule.clone().map(Times::new),
            told: Vec::new(),
            open_max: settings.open_tasks_max as usize,
            owner_attempts: plan.owner_attempts,
            tool_attempts: plan.tool_attempts,
            attempts: Attempts::default(),
            calls: plan.calls.clone(),
            killed_at_ms: Vec::new(),
            resuming: Vec::new(),
            over: false,
        }
    }

    /// The first promise that was broken.
    pub(crate) const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// The actor whose turn it is.
    pub(super) fn actor(&self) -> Actor {
        self.kernel.actor()
    }

    /// The time, in milliseconds since the world began.
    pub(super) fn now_ms(&self) -> u64 {
        self.kernel.now_ms()
    }

    pub(crate) const fn take_down(&mut self) {
        self.over = true;
    }

    pub(crate) fn fail(&mut self, promise: Promise, what: String) {
        if !self.over {
            let at_ms = self.kernel.now_ms();
            self.violation.get_or_insert(Violation { promise, at_ms, what });
        }
    }

    pub(crate) fn differs(&mut self, what: &str) {
        self.fail(Promise::EqualsTheModel, what.to_owned());
    }

    pub(crate) fn disturb(&mut self, actor: Actor, until_ms: u64) {
        if self.disturbed_until_ms.len() <= actor {
            self.disturbed_until_ms.resize(actor + 1, 0);
        }
        self.disturbed_until_ms[actor] = self.disturbed_until_ms[actor].max(until_ms);
    }

    /// An actor begins a delivery, and knows when it is killed.
    pub(crate) fn is_killed_at(&mut self, actor: Actor, at_ms: u64) {
        if self.killed_at_ms.len() <= actor {
            self.killed_at_ms.resize(actor + 1, None);
        }
        self.killed_at_ms[actor] = Some(at_ms);
    }

    pub(super) fn disturbed_until_ms(&self, actor: Actor) -> u64 {
        self.disturbed_until_ms.get(actor).copied().unwrap_or(0)
    }

    /// The name of the task in the story.
    pub(crate) fn name(&self, key: &TaskKey) -> String {
        self.traces
            .iter()
            .position(|trace| trace.key == *key)
            .map_or_else(|| "a task that is not stored".to_owned(), task_name)
    }

    pub(super) fn position(&self, key: &TaskKey) -> Option<usize> {
        self.traces.iter().position(|trace| trace.key == *key)
    }

    pub(super) fn trace(&mut self, key: &TaskKey) -> Option<&mut Trace> {
        self.traces.iter_mut().find(|trace| trace.key == *key)
    }
}

impl Trace {
    pub(super) fn attempt(&mut self, number: u32) -> Option<&mut Attempt> {
        self.attempts.iter_mut().find(|attempt| attempt.number == number)
    }

    pub(super) fn latest(&self) -> Option<&Arc<Task>> {
        self.versions.last().map(|(_, task)| task)
    }
}

/// Whether a client had the record deleted before its time.
pub(super) fn was_forgotten(task: &Task) -> bool {
    task.ended_at.is_some_and(|ended_at| task.expires_at < ended_at.plus_ms(task.terms.retention_ms))
}

/// The caller, the time, and its clock.
#[derive(Clone, Copy)]
pub(crate) struct Observation {
    pub(crate) client: usize,
    pub(crate) owner: OwnerId,
    pub(crate) begun_ms: u64,
    pub(crate) begun: Timestamp,
    pub(crate) at_ms: u64,
}

/// The earlier views of clients.
#[derive(Default)]
pub(super) struct Observed {
    /// The end that each client saw.
    pub(super) ends: Vec<(usize, Task)>,
    /// The highest attempt that each client saw.
    pub(super) seen: Vec<(usize, TaskKey, u32)>,
    /// Tasks and idempotency keys that belong together, according to the replies to clients.
    pub(super) keys: Vec<(OwnerId, u8, TaskKey)>,
}

/// The memory of a task as a parent.
#[derive(Default)]
pub(super) struct Calls {
    /// The attempt whose tool waits for these children, and since when.
    pub(super) waits: Option<(u32, u64)>,
    /// The children whose ends an attempt has got.
    pub(super) heard: Vec<TaskId>,
}

/// The memory of a schedule.
pub(super) struct Times {
    pub(super) plan: SchedulePlan,
    /// When polls that handled everything began and had ended.
    pub(super) polls: Vec<(u64, u64)>,
}

impl Times {
    const fn new(plan: SchedulePlan) -> Self {
        Self { plan, polls: Vec::new() }
    }
}

/// A request to resume a task, while it is under way.
pub(super) struct Resuming {
    pub(super) actor: Actor,
    pub(super) failed: TaskKey,
    pub(super) from: Option<String>,
    /// The latest write when it began.
    pub(super) seq: u64,
}

/// The work of a failed task, as the task that continues it has to treat it.
#[derive(Default)]
pub(super) struct Inherited {
    /// The steps that do not run again.
    pub(super) kept: Vec<String>,
    /// The steps that run again, with the values that are not valid any more.
    pub(super) redone: Vec<(String, String)>,
}

/// A run of a step's work: its attempt, and the latest write when it began.
#[derive(Clone)]
pub(super) struct StepRun {
    pub(super) step: String,
    pub(super) attempt: u32,
    pub(super) seq: u64,
}
