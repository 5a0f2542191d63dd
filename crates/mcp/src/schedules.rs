//! Makes the calls of schedules when they are due.
//!
//! Nothing is planned ahead. Any process, at any time, computes the latest time of each schedule, and makes its task
//! unless the task exists. The id of the task is derived from the schedule and the time, so that two processes that
//! check at the same time make one task. A note in a mailbox says that a time was handled, even if the task has been
//! deleted. The note stays for longer than a missed run may be late.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::ports::Left;
use longhaul_core::{
    Identity, MailboxId, OwnerId, Principal, Status, Task, TaskFilter, TaskId, TaskKey, Timestamp, limits,
};
use longhaul_engine::{CollectError, LeaveError, PollError};
use rmcp::ErrorData;
use serde_json::Value;

use crate::AnonymousCallers;
use crate::schedule::{Overlap, Schedule, Times};
use crate::signing::derived::named_openly;
use crate::state::Shared;
use crate::tool_calls::accept;

/// How late a run may be before it counts as missed: workers check once a minute.
const LATE_MS_MAX: u64 = 120_000;

/// How much longer a note stays than a missed run may be late, so that a clock may be set back.
const NOTED_MS: u64 = 2 * 86_400_000;

/// How many pages of unfinished tasks are read to find one of a schedule.
const PAGES_MAX: usize = 10;

pub(crate) struct Schedules {
    shared: Arc<Shared>,
    plans: Vec<Plan>,
}

/// One schedule, and what this process knows of it.
struct Plan {
    schedule: Schedule,
    times: Times,
    owner: OwnerId,
    known: Mutex<Known>,
}

#[derive(Clone, Copy, Default)]
struct Known {
    /// When the first server had this schedule.
    since: Option<Timestamp>,
    handled: Option<Timestamp>,
}

/// The result of one check of the schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Looked {
    /// Tasks that were accepted, or found to be.
    pub accepted: usize,
    /// Runs that were left out because the last task has not ended.
    pub skipped: usize,
    /// Runs that are due and could not be handled: check again soon.
    pub failed: usize,
    /// The next time of any schedule.
    pub next_at: Option<Timestamp>,
}

/// Why a run could not be handled.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("the call was not accepted: {}", .0.message)]
    Refused(ErrorData),
    #[error("calls of the tool do not become tasks")]
    NeverATask,
    #[error(transparent)]
    Note(#[from] LeaveError),
    #[error(transparent)]
    Notes(#[from] CollectError),
    #[error(transparent)]
    Tasks(#[from] PollError),
}

enum Handled {
    Before,
    Accepted,
    Skipped,
}

/// The owner of the notes, and of the tasks of schedules without an owner where callers are identified. No caller is
/// this owner.
fn nobody() -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "longhaul", subject: "schedules", tenant: "" })
}

impl Schedules {
    /// The `schedules` that have times, which is all of them: the start of the server has checked that.
    pub(crate) fn new(shared: Arc<Shared>, schedules: &[Schedule]) -> Self {
        let unsaid = match shared.settings.anonymous_callers {
            AnonymousCallers::OneUser => OwnerId::of(Identity::Anonymous),
            AnonymousCallers::AnonymousCallers => nobody(),
        };
        let plans = schedules.iter().filter_map(|schedule| {
            let times = Times::of(schedule)
                .inspect_err(|fault| tracing::error!(schedule = schedule.name, %fault, "a schedule is not kept"))
                .ok()?;
            let owner = schedule.owner.unwrap_or(unsaid);
            Some(Plan { schedule: schedule.clone(), times, owner, known: Mutex::default() })
        });
        Self { plans: plans.collect(), shared }
    }

    pub(crate) fn are_none(&self) -> bool {
        self.plans.is_empty()
    }

    pub(crate) async fn look(&self) -> Looked {
        let mut looked = Looked::default();
        for plan in &self.plans {
            match self.handle(plan).await {
                Ok(Handled::Before) => {}
                Ok(Handled::Accepted) => looked.accepted += 1,
                Ok(Handled::Skipped) => looked.skipped += 1,
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(schedule = plan.schedule.name, error, "a scheduled run is tried again");
                    looked.failed += 1;
                }
            }
            let next_at = plan.times.next(self.now());
            looked.next_at = looked.next_at.into_iter().chain(next_at).min();
        }
        looked
    }

    /// Handles the latest time of a schedule, if it is not too long ago. Earlier times are left out: a worker that
    /// checks every minute has handled each of them, and if several were missed, only the latest starts.
    async fn handle(&self, plan: &Plan) -> Result<Handled, RunError> {
        let now = self.now();
        let Some(time) = plan.times.latest(now) else { return Ok(Handled::Before) };
        if plan.known().handled == Some(time) {
            return Ok(Handled::Before);
        }
        // Asked in any case: it is the first look that notes since when there is this schedule.
        let is_older = self.is_older(plan, time, now).await?;
        let handled = if is_older || now.since_ms(time) > plan.window_ms() {
            Handled::Before
        } else {
            self.run_once(plan, time).await?
        };
        plan.note(|known| known.handled = Some(time));
        Ok(handled)
    }

    /// Whether `time` was before any server had this schedule: a new one, or one with a changed line, does not begin in
    /// the past.
    async fn is_older(&self, plan: &Plan, time: Timestamp, now: Timestamp) -> Result<bool, RunError> {
        let since = match plan.known().since {
            Some(since) => since,
            None => {
                let schedule = &plan.schedule;
                let zone = schedule.time_zone.as_deref().unwrap_or_default();
                let words = ["schedule since", &schedule.name, &schedule.cron, zone].map(str::as_bytes);
                let since =
                    self.leave(&MailboxId::of(&words), &now.as_ms().to_string(), limits::TTL_MS_CEILING).await?;
                Timestamp::from_ms(since.parse().unwrap_or_default())
            }
        };
        plan.note(|known| known.since = Some(since));
        // A clock that was ahead once must not stop a schedule until then.
        Ok(time < since && since <= now)
    }

    async fn run_once(&self, plan: &Plan, time: Timestamp) -> Result<Handled, RunError> {
        if self.noted(plan, time).await?.is_some() {
            return Ok(Handled::Before);
        }
        let running = match plan.schedule.overlap {
            Overlap::Allow => None,
            Overlap::Skip => self.running(plan, time).await?,
        };
        let (name, tool) = (&plan.schedule.name, &plan.schedule.tool);
        let (handled, task) = match running {
            Some(task) => {
                tracing::info!(schedule = name, tool, task_id = %task, "a scheduled run is left out: the last task has \
                    not ended");
                (Handled::Skipped, task)
            }
            None => {
                let task = self.accept(plan, time).await?;
                tracing::info!(schedule = name, tool, task_id = %task.id, "a scheduled task is accepted");
                (Handled::Accepted, task.id)
            }
        };
        let text = task.to_string();
        self.leave(&note_of(plan, time), &text, plan.window_ms().saturating_add(NOTED_MS)).await?;
        Ok(handled)
    }

    async fn accept(&self, plan: &Plan, time: Timestamp) -> Result<Task, RunError> {
        let Schedule { tool, arguments, .. } = &plan.schedule;
        let policy = self.shared.policies.get(tool).ok_or(RunError::NeverATask)?;
        let (owner, arguments) = (Principal::from(plan.owner), arguments.as_object().cloned());
        let call =
            accept::own_call(&self.shared, &owner, &policy, (tool, arguments), None).map_err(RunError::Refused)?;
        let accepted = self.shared.engine.accept_as(plan.task(time).id, call).await;
        Ok(accepted.map_err(|error| RunError::Refused(crate::reply::errors::of_accept(error)))?.into_task())
    }

    /// The task of an earlier time that has not ended.
    async fn running(&self, plan: &Plan, time: Timestamp) -> Result<Option<TaskId>, RunError> {
        let Some(before) = plan.times.before(time) else { return Ok(None) };
        let Some(noted) = self.noted(plan, before).await? else { return self.found_running(plan, time).await };
        match self.shared.engine.poll(&TaskKey::new(plan.owner, noted)).await {
            Ok(task) if !task.has_ended() => Ok(Some(noted)),
            Ok(_) | Err(PollError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The same if the time before has no note, because no server was running, or this schedule is new. A task belongs
    /// to the schedule if it has the id that the schedule gives to its time.
    async fn found_running(&self, plan: &Plan, time: Timestamp) -> Result<Option<TaskId>, RunError> {
        let statuses = BTreeSet::from([Status::Working, Status::InputRequired]);
        let filter = TaskFilter { statuses, tool: Some(plan.schedule.tool.clone()), ..TaskFilter::default() };
        let mut before = None;
        for _ in 0..PAGES_MAX {
            let page = self.shared.engine.list_filtered(&plan.owner, &filter, before, limits::PAGE_MAX).await?;
            let own = page.tasks.iter().map(|task| task.id).filter(|id| id.begins_at() < time);
            if let Some(own) = own.into_iter().find(|id| plan.task(id.begins_at()).id == *id) {
                return Ok(Some(own));
            }
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        Ok(None)
    }

    /// The task that was noted for `time`: its own, or the one because of which it was left out.
    async fn noted(&self, plan: &Plan, time: Timestamp) -> Result<Option<TaskId>, RunError> {
        let text = self.shared.engine.collect(&nobody(), &note_of(plan, time)).await?;
        Ok(text.and_then(|text| text.parse().ok()))
    }

    async fn leave(&self, mailbox: &MailboxId, text: &str, for_ms: u64) -> Result<String, RunError> {
        let left = self.shared.engine.leave(&nobody(), mailbox, text, self.now().plus_ms(for_ms)).await?;
        Ok(match left {
            Left::First => text.to_owned(),
            Left::Earlier(earlier) => earlier,
        })
    }

    fn now(&self) -> Timestamp {
        self.shared.engine.ports().clock.now()
    }
}

impl Plan {
    /// The task of a time. A client that knows the schedule can compute its id. Where only the id protects a task,
    /// schedules have an owner of their own.
    fn task(&self, time: Timestamp) -> TaskKey {
        named_openly(&self.owner, time, &[b"schedule", self.schedule.name.as_bytes(), &time.as_ms().to_be_bytes()])
    }

    fn window_ms(&self) -> u64 {
        let asked_ms = u64::try_from(self.schedule.catch_up_within.as_millis()).unwrap_or(u64::MAX);
        asked_ms.clamp(LATE_MS_MAX, limits::TTL_MS_CEILING)
    }

    fn known(&self) -> Known {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Where it is noted that a time was handled.
fn note_of(plan: &Plan, time: Timestamp) -> MailboxId {
    MailboxId::of(&[b"schedule", plan.schedule.name.as_bytes(), plan.owner.as_bytes(), &time.as_ms().to_be_bytes()])
}

/// The arguments of the call: an object, or nothing.
pub(crate) fn arguments_of(schedule: &Schedule) -> Result<Value, String> {
    match &schedule.arguments {
        Value::Null => Ok(Value::Object(serde_json::Map::new())),
        Value::Object(_) => Ok(schedule.arguments.clone()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err("the arguments have to be a JSON object, or null for none".to_owned())
        }
    }
}
