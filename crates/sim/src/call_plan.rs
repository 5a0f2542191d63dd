//! The calls of a world: their tools, and their terms.

use longhaul_core::{Cleanup, Policy, RequestedTerms, Terms};

/// A call that a client makes.
#[derive(Clone, Debug)]
pub struct CallPlan {
    /// Its caller.
    pub owner: usize,
    /// The idempotency key, if any.
    pub key: Option<u8>,
    /// Bytes of the request.
    pub request_bytes: usize,
    /// The script of the tool.
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
    /// The time before which it is not to start, in milliseconds since the world began; `None` for at once.
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

/// The next action of a tool. Times in milliseconds.
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
    /// A question next to other work, until one of the two is ready.
    AskBeside(Beside),
    /// A race, or a timeout.
    Race(Racers),
    /// Polls until something is there, which is so long after the first poll; the pauses grow from the second time to
    /// the third.
    Poll(u64, u64, u64),
    /// A step whose work fails this often, with pauses of this length.
    Tries(u32, u64),
    /// A step of the first length, which fails unless the task continues a failed one, alongside a step of the second
    /// length. A step after both notes the outcome. Then the tool fails if its step has.
    Fails(u64, u64),
    /// Registers the compensation of a step, and runs the step, which takes so long.
    Undoable(u64),
    /// Waits for a signal, which is recorded so long after the tool requested it.
    Signal(u64),
    /// Calls these tools at once, as tasks of their own: the calls from the first number, so many of them.
    Call(usize, usize),
    /// The same, and fails so long after, in the same attempt, regardless of how they ended.
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

/// The action of a tool next to a question. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Sleeps this long, and does a step, so many times.
    Reminders(u64, u32),
    /// Polls until something is there, which is so long after the first poll, with pauses of the second time.
    Polls(u64, u64),
    /// Waits for a signal, which is recorded so long after the tool requested it.
    Signal(u64),
    /// Calls this tool.
    Call(usize),
}

/// The branches of a race. Times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Racers {
    /// A step of the first length, and a sleep.
    StepOrSleep(u64, u64),
    /// The same, where the step has a compensation.
    UndoableOrSleep(u64, u64),
    /// A question, and a sleep, after which the tool does a step and continues to wait for the same answer.
    AskWithReminder(u64),
    /// A step of the first length, and a sleep. If the sleep ends first, the tool asks, and then continues with the
    /// step.
    StepThenAsk(u64, u64),
    /// A race of a step and a question, and a sleep.
    Nested(u64, u64),
    /// Two steps with a pause, all three of the first length, with a timeout. The second step has a
    /// compensation.
    InTime(u64, u64),
}

impl CallPlan {
    /// The script of its tool, if there is one.
    #[must_use]
    pub fn ops(&self) -> &[Op] {
        if let Tool::Script(ops) = &self.tool { ops } else { &[] }
    }

    /// How long the tool takes if nothing goes wrong and answers come at once.
    #[must_use]
    pub fn work_ms(&self) -> u64 {
        if let Tool::Plain(ms) = self.tool { ms } else { self.ops().iter().map(|op| op.ms()).sum() }
    }

    /// The terms that are agreed with its caller.
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

    /// Whether a step makes the tool fail.
    pub(crate) fn fails_in_a_step(&self) -> bool {
        self.ops().iter().any(|op| matches!(op, Op::Fails(..)))
    }

    /// Whether the tool registers compensations.
    pub(crate) fn is_undoable(&self) -> bool {
        self.ops().iter().any(|op| matches!(op, Op::Undoable(_) | Op::Race(_)))
    }

    /// Whether the tool ends on its own, sooner or later.
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
            Self::TwoSteps(..) | Self::TwoAsks | Self::Undoable(_) => 2,
            Self::Tries(fails, _) => 1 + fails as usize,
            Self::Call(_, count) | Self::CallAndGiveUp(_, count, _) => 2 * count,
            Self::AskOrSleep(_) | Self::Fails(..) => 3,
            Self::Race(_) => 6,
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
            Self::Work(ms)
            | Self::Step(ms, _)
            | Self::Undoable(ms)
            | Self::Sleep(ms)
            | Self::AskOrSleep(ms)
            | Self::Signal(ms) => ms,
            Self::AskBeside(Beside::Reminders(ms, count)) => ms * count as u64,
            Self::AskBeside(Beside::Polls(there_ms, every_ms)) => there_ms + every_ms,
            Self::AskBeside(Beside::Signal(ms)) => ms,
            Self::TwoSteps(one, two) => one + two,
            Self::Fails(one, two) => 2 * one + two,
            Self::Race(
                Racers::StepOrSleep(ms, other_ms)
                | Racers::UndoableOrSleep(ms, other_ms)
                | Racers::StepThenAsk(ms, other_ms)
                | Racers::Nested(ms, other_ms)
                | Racers::InTime(ms, other_ms),
            ) => ms * 3 + other_ms,
            Self::Race(Racers::AskWithReminder(ms)) => ms,
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
