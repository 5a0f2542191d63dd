//! The plan of a seed: the settings, the actors, what tools and clients do, and how often each fault is injected.

use std::collections::BTreeSet;
use std::fmt;

use longhaul_core::FlowControl;
use longhaul_engine::Settings;

pub use super::call_plan::{Beside, CallPlan, Ending, Op, Racers, Slack, Tool};
pub(crate) use super::call_plan::{call_of, request_of};
use super::fault_profile::FaultProfile;
use super::partitions::Throughput;
use super::schedule_plan::SchedulePlan;

/// A world before it begins. Made from a seed, and made smaller by the shrinker.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it came from, and where all randomness inside the run comes from.
    pub seed: u64,
    /// The operator's settings.
    pub settings: Settings,
    /// The clocks of the API instances, in milliseconds against the true time.
    pub apis: Vec<i64>,
    /// The workers.
    pub workers: Vec<WorkerPlan>,
    /// Which faults are injected, and how often.
    pub fault_profile: FaultProfile,
    /// How long faults are injected, in milliseconds.
    pub chaos_ms: u64,
    /// How many attempts one owner may run at a time, if that is limited.
    pub owner_attempts: Option<u32>,
    /// How many attempts of the tool may run at a time, of all owners together, if that is limited.
    pub tool_attempts: Option<u32>,
    /// Whether the store writes a new task's message with its record.
    pub store_and_queue: StoreAndQueue,
    /// How often clients read filtered lists, in milliseconds; `None` for never.
    pub filtered_lists_ms: Option<u64>,
    /// The longest usual time of one trip to or from a port.
    pub latency_ms: u64,
    /// The calls.
    pub calls: Vec<CallPlan>,
    /// Their callers.
    pub clients: Vec<ClientPlan>,
    /// Whether clients poll the end.
    pub care: Care,
    /// Whether questions are answered in the end.
    pub answers: Answers,
    /// How often a message is delivered before it becomes a dead letter.
    pub receives_max: u32,
    /// The longest delay that the queue takes; it shortens longer ones.
    pub delay_ms_max: u64,
    /// How long the queue hides a delivered message.
    pub visibility_ms: u64,
    /// The actions after all tasks have ended.
    pub after: After,
    /// How many endpoints are notified of each end and of each question.
    pub endpoints: usize,
    /// The schedule, if there is one.
    pub schedule: Option<SchedulePlan>,
    /// How many capacity units the store has, if that is limited.
    pub throughput: Option<Throughput>,
    /// Occasions at which no fault is injected; the list of the shrinker.
    pub spared: BTreeSet<u64>,
}

/// A worker.
#[derive(Clone, Debug)]
pub struct WorkerPlan {
    /// Its clock against the true time.
    pub skew_ms: i64,
    /// How long it may run one delivery, like a function's timeout; `None` if the limit does not exist.
    pub timeout_ms: Option<u64>,
}

/// Whether store and queue are one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAndQueue {
    /// They are two: a record is written, and then its message is sent.
    Apart,
    /// They are one: a new record and its message are written together.
    OneDatabase,
}

/// Whether clients poll the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Every accepted task is polled until it has ended.
    Polls,
    /// No client ever polls. Nothing is lost between record and message, and work has to continue on its own.
    Nobody,
    /// No client ever polls, and messages are lost. The server recovers unfinished tasks.
    Server,
    /// No client ever polls, and processes die between a record and its message. A record stream reports each record
    /// that waits for a worker, and its reader ensures the message.
    Stream,
}

/// Whether questions are answered in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// All of them, when no more faults are injected.
    Come,
    /// None.
    NeverCome,
}

/// The actions after all tasks have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing more.
    Stop,
    /// Time passes until everything has expired, and clients poll again.
    Expiry,
}

/// A client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Its identity.
    pub owner: usize,
    /// Its actions, in this order.
    pub acts: Vec<Act>,
}

/// The next action of a client. Numbers are those of calls; times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Thinks, or is away.
    Think(u64),
    /// Makes the call, and repeats it with the same key if there was no answer.
    Call(usize),
    /// Polls once.
    Poll(usize),
    /// Polls a few times.
    Watch(usize, u32, u64),
    /// Answers what is asked.
    Answer(usize),
    /// Reads what is asked, thinks this long, and answers it, so many times.
    ThinkAndAnswer(usize, u64, u32),
    /// Cancels.
    Cancel(usize),
    /// Wants the result retained for this long after the end.
    ExtendRetention(usize, u64),
    /// Wants the task forgotten.
    Forget(usize),
    /// Lists its tasks.
    List,
    /// Waits until the task has ended, and resumes it if it failed. It does so from the first failed step, or from the
    /// one at this place of the script. From then on the call is the new task's.
    Resume(usize, Option<usize>),
}

impl Plan {
    /// How long an attempt holds its permit, where attempts are limited, if its worker does not know its own end.
    #[must_use]
    pub const fn attempt_ms(&self) -> u64 {
        self.settings.lease_ms * 8
    }

    /// The limits that tasks of this world share.
    #[must_use]
    pub fn flow(&self) -> Option<FlowControl> {
        let limits = |n| FlowControl { concurrency: Some(n), attempt_ms: self.attempt_ms(), ..FlowControl::default() };
        self.tool_attempts.map(limits)
    }

    /// Whether tools wait for signals.
    #[must_use]
    pub fn has_signals(&self) -> bool {
        self.calls
            .iter()
            .flat_map(CallPlan::ops)
            .any(|op| matches!(op, Op::Signal(_) | Op::AskBeside(Beside::Signal(_))))
    }

    /// Whether tools call other tools.
    #[must_use]
    pub fn has_children(&self) -> bool {
        let calls = |op: Op| matches!(op, Op::Call(..) | Op::CallAndGiveUp(..) | Op::AskBeside(Beside::Call(_)));
        self.calls.iter().flat_map(CallPlan::ops).any(|op| calls(*op))
    }

    /// How many requests to resume a task there are.
    pub(crate) fn resumptions(&self) -> usize {
        let acts = self.clients.iter().flat_map(|client| &client.acts);
        acts.filter(|act| matches!(act, Act::Resume(..))).count()
    }

    /// The latest time before which a call is not to start, in milliseconds since the world began.
    #[must_use]
    pub fn last_start_ms(&self) -> u64 {
        self.calls.iter().filter_map(|call| call.not_before_ms).max().unwrap_or(0)
    }

    /// Whether no fault is injected and no client polls, so that everything happens as soon as it can.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.care == Care::Nobody && self.fault_profile.is_none()
    }

    /// The most that two clocks of this world differ, in milliseconds.
    #[must_use]
    pub fn skew_ms_max(&self) -> u64 {
        let clocks = self.apis.iter().copied().chain(self.workers.iter().map(|worker| worker.skew_ms));
        2 * clocks.map(i64::unsigned_abs).max().unwrap_or(0)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = Self { calls: Vec::new(), clients: Vec::new(), spared: BTreeSet::new(), ..self.clone() };
        writeln!(f, "{bare:?}")?;
        for (number, call) in self.calls.iter().enumerate() {
            let made = |client: &ClientPlan| client.acts.contains(&Act::Call(number));
            if self.clients.iter().any(made) {
                writeln!(f, "  call {number}: {call:?}")?;
            }
        }
        for (number, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.acts.is_empty()) {
            writeln!(f, "  client {}: {:?}", number + 1, client.acts)?;
        }
        Ok(())
    }
}
