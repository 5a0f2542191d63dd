//! The outcome of a load, and whether its promises were kept.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::Ordering;

use longhaul_core::{Payload, TaskKey};

use super::super::kernel::{EPOCH_MS, RunEnd};
use super::super::partitions::{Throughput, Usage};
use super::callers::request_of;
use super::plan::{Attempts, LoadPlan};
use super::ports::held;
use super::store::{Row, result_of};
use super::tally::Tally;
use super::world::LoadWorld;

impl LoadPlan {
    /// Its peculiarity.
    fn words(&self) -> String {
        let keys = self.keys.then_some(", with idempotency keys");
        let steps = (self.steps > 0).then_some(", ten steps each");
        let table = (self.throughput == Throughput::NEW_TABLE).then_some(", a new table");
        let attempts = (self.attempts == Attempts::OF_A_NEW_QUEUE).then_some(", workers as Lambda starts them");
        let limit = (self.open_tasks_max <= 10_000).then_some(", 10,000 unfinished tasks at most");
        [keys, steps, table, attempts, limit].into_iter().flatten().collect()
    }
}

/// The result of a load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadReport {
    /// The load.
    pub plan: LoadPlan,
    /// A hash of the whole order of events.
    pub hash: u64,
    /// How many calls were accepted a second, in the second half of the time in which calls were made.
    pub accepted: f64,
    /// How many tasks ended a second then.
    pub ended: f64,
    /// Tries of calls that were refused because the store did not answer, although it was asked several times.
    pub unavailable: u64,
    /// Tries of calls that were refused because their owner has too many unfinished tasks.
    pub too_many_open: u64,
    /// Calls that were refused each time.
    pub given_up: u64,
    /// Polls that were refused.
    pub polls_failed: u64,
    /// Messages that were visible at a time, at most.
    pub queued_max: usize,
    /// From the first try of a call to the end of its task: half of all, and 99 of 100, in milliseconds.
    pub latency_ms: (u64, u64),
    /// When the last task ended, in seconds after the first call.
    pub over_s: u64,
    /// How many calls were accepted.
    pub tasks: usize,
    /// How often a worker had a message, for each task.
    pub deliveries: f64,
    /// The units that the calls to the store used.
    pub usage: Usage,
    /// The first promise that was not kept.
    pub broken: Option<String>,
}

impl LoadReport {
    /// The head of a table of reports.
    pub const HEAD: &str = "| owners | calls a second | accepted | ended | units of a task | calls to the table that \
                            were refused | \
                            calls that were refused | ends not counted | hottest key in a second | queued | s to the \
                            end |\n\
                            | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |";

    pub(super) fn of(world: &LoadWorld, end: RunEnd) -> Self {
        let (records, tally) = (held(&world.records), world.tally());
        let seconds = f64::from(world.plan.seconds) / 2.0;
        let then = tally.last_ms / 2..tally.last_ms;
        let ends = |row: &Row| row.task.ended_at.map(|at| at.as_ms() - EPOCH_MS);
        let ended_in_time = records.rows().filter_map(ends).filter(|at_ms| then.contains(at_ms)).count();
        let mut latencies: Vec<u64> = records
            .rows()
            .filter_map(|row| Some(ends(row)?.saturating_sub(tally.tasks.get(&row.task.key())?.1)))
            .collect();
        latencies.sort_unstable();
        let part = |percent: usize| latencies.get((latencies.len() * percent / 100).min(latencies.len().max(1) - 1));
        let delivered = world.attempts.load(Ordering::Relaxed) as f64;
        Self {
            plan: world.plan.clone(),
            hash: world.kernel.hash(),
            accepted: tally.accepted_in_time as f64 / seconds,
            ended: ended_in_time as f64 / seconds,
            unavailable: tally.unavailable,
            too_many_open: tally.too_many_open,
            given_up: tally.given_up,
            polls_failed: tally.polls_failed,
            queued_max: held(&world.waiting).visible_max,
            latency_ms: (part(50).copied().unwrap_or(0), part(99).copied().unwrap_or(0)),
            over_s: records.rows().filter_map(ends).max().unwrap_or(0) / 1_000,
            deliveries: delivered / latencies.len().max(1) as f64,
            tasks: tally.tasks.len(),
            usage: world.partitions.usage(),
            broken: broken(records.rows(), &tally, end),
        }
    }
}

/// The first promise that was not kept: each accepted call has one task, which ended once, with the call's own result.
fn broken<'a>(rows: impl Iterator<Item = &'a Row>, tally: &Tally, end: RunEnd) -> Option<String> {
    if end != RunEnd::Over {
        return Some(format!("the run ended otherwise than it should: {end:?}"));
    }
    let rows: HashMap<TaskKey, &Row> = rows.map(|row| (row.task.key(), row)).collect();
    let mut calls = HashSet::new();
    for (key, (call, _)) in &tally.tasks {
        let Some(row) = rows.get(key) else { return Some(format!("call {call} was accepted, and is not stored")) };
        if !calls.insert(*call) {
            return Some(format!("call {call} was accepted twice"));
        }
        if row.ends != 1 {
            return Some(format!("the task of call {call} ended {} times: {:?}", row.ends, row.task.state));
        }
        let expected = Payload::Inline(request_of(*call));
        if result_of(&row.task) != Some(&expected) {
            return Some(format!("the task of call {call} has not its result: {:?}", row.task.state));
        }
    }
    None
}

impl fmt::Display for LoadReport {
    /// One row of a table.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usage = &self.usage;
        let refused: Vec<String> = usage.refused.iter().map(|(what, calls)| format!("{what}: {calls}")).collect();
        let refused = if refused.is_empty() { "none".to_owned() } else { refused.join(", ") };
        let hottest =
            usage.hottest.map_or_else(String::new, |(what, write, read)| format!("{what}: {write} w, {read} r"));
        let more = self.plan.words();
        let tasks = (self.tasks.max(1)) as f64;
        let seconds = |ms: u64| ms as f64 / 1_000.0;
        write!(f, "| {} | {}{more} | {:.0} | {:.0} ", self.plan.owners, self.plan.rate, self.accepted, self.ended)?;
        write!(f, "| {:.2} w, {:.2} r ", usage.write as f64 / tasks, usage.read as f64 / tasks)?;
        write!(f, "| {refused} | {} | {} ", self.unavailable + self.too_many_open, usage.uncounted)?;
        let (half, most) = self.latency_ms;
        write!(f, "| {hottest} | {} | {:.1}, {:.1} |", self.queued_max, seconds(half), seconds(most))
    }
}
