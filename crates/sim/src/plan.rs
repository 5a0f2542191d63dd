//! What a seed stands for: the settings, the actors, what tools and clients do, and how often each fault is injected.

use std::collections::BTreeSet;
use std::fmt;

use longhaul_core::{Cleanup, Policy, RequestedTerms, Terms};
use longhaul_engine::Settings;

use super::fault_profile::FaultProfile;
use super::partitions::Throughput;
use super::schedule_plan::SchedulePlan;

/// A world before it begins. Made from a seed, and made smaller by the shrinker.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it came from, and where all randomness inside the run comes from.
    pub seed: u64,
    /// What the operator decided.
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
    /// Whether the store writes a new task's message with its record.
    pub store_and_queue: StoreAndQueue,
    /// How often clients read filtered lists, in milliseconds; `None` for never.
    pub filtered_lists_ms: Option<u64>,
    /// The longest usual time of one trip to or from a port.
    pub latency_ms: u64,
    /// The calls.
    pub calls: Vec<CallPlan>,
    /// Who makes them.
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
    /// What happens when all tasks have ended.
    pub after: After,
    /// How many endpoints are told of each end and of each question.
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
    /// How long it may run one delivery, like a function's timeout; `None` if there is no such limit.
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
    /// Nobody ever polls; nothing is lost between record and message, and work has to continue by itself.
    Nobody,
    /// Nobody ever polls, and messages are lost; the server looks after unfinished tasks.
    Server,
    /// Nobody ever polls, and processes die between a record and its message; somebody hears of each record that waits
    /// for a worker, and sees to its message.
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

/// What happens when all tasks have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing more.
    Stop,
    /// Time passes until everything has expired, and clients poll again.
    Expiry,
}

/// A call that a client makes.
#[derive(Clone, Debug)]
pub struct CallPlan {
    /// Who makes it.
    pub owner: usize,
    /// The idempotency key, if any.
    pub key: Option<u8>,
    /// Bytes of the request.
    pub request_bytes: usize,
    /// What the tool does.
    pub tool: Tool,
    /// How it ends.
    pub ending: Ending,
    /// The longest run.
    pub run_ms: u64,
    /// Whether that is more than enough.
    pub slack: Slack,
    /// How long the result is retained.
    pub retention_ms: u64,
    /// How many consecutive attempts may die.
    pub consecutive_failures_max: u32,
    /// Whether the tool has cleanup.
    pub cleanup: Cleanup,
    /// How often the cleanup fails before it succeeds.
    pub cleanup_fails: u32,
    /// The moment before which it is not to start, in milliseconds since the world began; `None` for at once.
    pub not_before_ms: Option<u64>,
}

/// Whether a tool has more time than it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slack {
    /// It may well time out.
    Little,
    /// Only a mistake makes it time out.
    Plenty,
}

/// A tool.
#[derive(Clone, Debug)]
pub enum Tool {
    /// One that knows of its task.
    Script(Vec<Op>),
    /// One that does not know of its task, and just takes this long.
    Plain(u64),
    /// One that asks by returning questions, this many times.
    Rounds(u32),
}

/// What a tool does next. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Works, outside of any step.
    Work(u64),
    /// A step that takes this long and returns this many bytes.
    Step(u64, usize),
    /// Two concurrent steps.
    TwoSteps(u64, u64),
    /// A sleep.
    Sleep(u64),
    /// A question.
    Ask,
    /// Two concurrent questions.
    TwoAsks,
    /// A question or a timer, whichever comes first.
    AskOrSleep(u64),
    /// A question beside something else, until one of both is there.
    AskBeside(Beside),
    /// Polls until something is there, which is so long after the first poll; the pauses grow from the second time to
    /// the third.
    Poll(u64, u64, u64),
    /// A step whose work fails this often, with pauses of this length.
    Tries(u32, u64),
    /// Waits for a signal, which is recorded so long after the tool told somebody.
    Signal(u64),
    /// Calls these tools at once, as tasks of their own: the calls from the first number, so many of them.
    Call(usize, usize),
    /// The same, and fails so long after, in the same attempt, whatever became of them.
    CallAndGiveUp(usize, usize, u64),
    /// A progress report.
    Progress,
    /// Sets a variable; a large one if it is over the limit of a record.
    Variable(usize),
    /// Panics this many times.
    Crash(u32),
    /// Never returns.
    Hang,
}

/// What a tool does beside a question. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Sleeps this long, and does a step, so many times.
    Reminders(u64, u32),
    /// Polls until something is there, which is so long after the first poll, with pauses of the second time.
    Polls(u64, u64),
    /// Waits for a signal, which is recorded so long after the tool told somebody.
    Signal(u64),
    /// Calls this tool.
    Call(usize),
}

/// How a tool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With a result of this many bytes.
    Result(usize),
    /// With a result that says that the tool failed.
    ToolError,
    /// With an error.
    Error(usize),
}

/// A client.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// Who it is.
    pub owner: usize,
    /// What it does, in this order.
    pub acts: Vec<Act>,
}

/// What a client does next. Numbers are those of calls; times in milliseconds.
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
}

impl Plan {
    /// How long the permit of an attempt is taken whose worker is not told when it ends, where attempts are limited.
    #[must_use]
    pub const fn attempt_ms(&self) -> u64 {
        self.settings.lease_ms * 8
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

    /// The latest moment before which a call is not to start, in milliseconds since the world began.
    #[must_use]
    pub fn last_start_ms(&self) -> u64 {
        self.calls.iter().filter_map(|call| call.not_before_ms).max().unwrap_or(0)
    }

    /// Whether no fault is injected and nobody polls, so that everything happens as soon as it can.
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

impl CallPlan {
    /// What its tool does, if that is a script.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        if let Tool::Script(ops) = &self.tool { ops } else { &[] }
    }

    /// How long the tool takes if nothing goes wrong and answers come at once.
    #[must_use]
    pub fn work_ms(&self) -> u64 {
        if let Tool::Plain(ms) = self.tool { ms } else { self.ops().iter().map(|op| op.ms()).sum() }
    }

    /// What is agreed on with its caller.
    pub(crate) fn terms(&self) -> Terms {
        let policy = Policy {
            run_ms_max: self.run_ms,
            retention_ms: self.retention_ms,
            ttl_ms: 1,
            ttl_ms_max: self.run_ms + self.retention_ms,
            poll_ms: None,
            consecutive_failures_max: self.consecutive_failures_max,
        };
        Terms::negotiate(&policy, RequestedTerms::default())
    }

    /// Whether the longest run is far longer than the tool ever takes.
    #[must_use]
    pub const fn has_time(&self) -> bool {
        matches!(self.slack, Slack::Plenty)
    }

    /// Whether the tool waits for no longer than it may take.
    pub(crate) fn fits(&self) -> bool {
        self.work_ms() <= self.run_ms
    }

    /// Whether the tool ends by itself, sooner or later.
    #[must_use]
    pub fn ends_by_itself(&self) -> bool {
        !self.ops().contains(&Op::Hang)
    }
}

impl Op {
    /// How many journal entries it may leave.
    pub(crate) const fn entries_max(self) -> usize {
        match self {
            Self::Step(..) | Self::Sleep(_) | Self::Ask | Self::Signal(_) => 1,
            Self::TwoSteps(..) | Self::TwoAsks => 2,
            Self::Tries(fails, _) => 1 + fails as usize,
            Self::Call(_, count) | Self::CallAndGiveUp(_, count, _) => 2 * count,
            Self::AskOrSleep(_) => 3,
            Self::AskBeside(Beside::Reminders(_, count)) => 2 + 2 * count as usize,
            Self::AskBeside(Beside::Polls(..) | Beside::Signal(_)) => 3,
            Self::AskBeside(Beside::Call(_)) => 4,
            Self::Poll(_, first_ms, longest_ms) => 1 + (first_ms < longest_ms) as usize,
            Self::Work(_) | Self::Progress | Self::Variable(_) | Self::Crash(_) | Self::Hang => 0,
        }
    }

    const fn ms(self) -> u64 {
        match self {
            Self::CallAndGiveUp(_, _, ms) => ms,
            Self::Work(ms) | Self::Step(ms, _) | Self::Sleep(ms) | Self::AskOrSleep(ms) | Self::Signal(ms) => ms,
            Self::AskBeside(Beside::Reminders(ms, count)) => ms * count as u64,
            Self::AskBeside(Beside::Polls(there_ms, every_ms)) => there_ms + every_ms,
            Self::AskBeside(Beside::Signal(ms)) => ms,
            Self::TwoSteps(one, two) => one + two,
            Self::Tries(fails, pause_ms) => fails as u64 * pause_ms,
            Self::Poll(there_ms, _, longest_ms) => there_ms + longest_ms,
            Self::Ask
            | Self::TwoAsks
            | Self::Call(..)
            | Self::AskBeside(Beside::Call(_))
            | Self::Progress
            | Self::Variable(_)
            | Self::Crash(_)
            | Self::Hang => 0,
        }
    }
}

/// The request of call `number`: its number, and as many bytes as the plan says.
pub(crate) fn request_of(number: usize, bytes: usize) -> String {
    let mut text = format!("{number}|");
    text.extend(std::iter::repeat_n('x', bytes.saturating_sub(text.len())));
    text
}

/// The call that a request belongs to.
pub(crate) fn call_of(request: &str) -> Option<usize> {
    request.split_once('|')?.0.parse().ok()
}
