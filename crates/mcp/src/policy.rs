//! The policy of a tool for its tasks, as its author sets it.

use std::collections::BTreeSet;
use std::time::Duration;

use longhaul_core::{Policy, limits};
use longhaul_engine::Retry;

mod flow;
mod labels;
mod policies;
mod shared_limits;

pub use policies::Policies;
pub(crate) use policies::{Cleaner, Cleaners};
use shared_limits::{Flow, OfArguments};

/// Whether calls of a tool become tasks, and on which terms. One goes with each name in `Server::task`.
///
/// Start from [`optional`](Self::optional) or [`required`](Self::required), and change what should be different:
///
/// ```
/// # use longhaul_mcp as longhaul;
/// use std::time::Duration;
/// use longhaul::TaskPolicy;
///
/// const HOUR: Duration = Duration::from_secs(3600);
///
/// let policy = TaskPolicy::optional()
///     .run_at_most(2 * HOUR)
///     .retention(24 * HOUR)
///     .ttl_at_most(72 * HOUR)
///     .poll_every(Duration::from_secs(5));
/// # let _ = policy;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskPolicy {
    pub(crate) need: Need,
    pub(crate) start: Start,
    handle_after: Duration,
    questions_within: Duration,
    pub(crate) terms: Policy,
    attempt: Duration,
    pub(crate) immediate: Option<&'static str>,
    pub(crate) after_fetch: AfterFetch,
    pub(crate) arguments: ArgumentCheck,
    scopes: BTreeSet<String>,
    class: Option<String>,
    pub(crate) retry: Retry,
    pub(crate) compensates: bool,
    flow: Flow,
    labels: Vec<(String, OfArguments<String>)>,
}

/// The check of the arguments of a call before it becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentCheck {
    /// The server, against the tool's input schema.
    BySchema,
    /// Only the tool itself.
    ByTool,
}

/// The fate of a result once its client has fetched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFetch {
    /// It stays for the time that was agreed on.
    Keep,
    Forget,
}

/// The treatment of a call by a client that does not know tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is answered within a limited time, and after that with a job id.
    Optional,
    Required,
    /// The same as optional, and clients that know tasks are answered in the same way.
    OnWorker,
}

/// When a call becomes a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// At once.
    AtOnce,
    /// When it carries the client's answers.
    AfterInput,
}

impl TaskPolicy {
    /// A call becomes a task, and clients that know tasks get its id at once. All other clients wait for the answer for
    /// a limited time, 20 seconds by default, and after that get a job id to ask with. Their call is a task too, so the
    /// work continues when they leave.
    #[must_use]
    pub fn optional() -> Self {
        Self {
            need: Need::Optional,
            start: Start::AtOnce,
            handle_after: Duration::ZERO,
            questions_within: Duration::ZERO,
            terms: Policy::default(),
            attempt: Duration::from_millis(limits::ATTEMPT_MS_DEFAULT),
            immediate: None,
            after_fetch: AfterFetch::Keep,
            arguments: ArgumentCheck::BySchema,
            scopes: BTreeSet::new(),
            class: None,
            retry: Retry::default(),
            compensates: false,
            flow: Flow::default(),
            labels: Vec::new(),
        }
    }

    /// A call becomes a task, and clients that cannot have one are refused. Clients of revision `2026-07-28` without
    /// the Tasks extension get an error that says so. Calls of `2025-11-25` that do not ask for a task get the same.
    /// Clients of older revisions do not see the tool.
    #[must_use]
    pub fn required() -> Self {
        Self { need: Need::Required, ..Self::optional() }
    }

    /// The call is answered as a plain call is, to every client, and runs where tasks run. It is for a quick tool that
    /// needs the files, layers, programs, memory or secrets of the workers. The function that answers requests does
    /// not have them. The call is a task on its way, and survives the same crashes. It may take 15 seconds. With a
    /// longer [`run_at_most`](Self::run_at_most), a client whose call takes longer than a job's gets a job id.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskPolicy;
    /// let policy = TaskPolicy::on_worker();
    /// # let _ = policy;
    /// ```
    #[must_use]
    pub fn on_worker() -> Self {
        let policy = Self { need: Need::OnWorker, ..Self::optional() };
        policy.run_at_most(ON_WORKER).retention(ON_WORKER_KEPT).ttl(2 * ON_WORKER_KEPT)
    }

    /// Whether clients that know tasks may have the task of a call.
    pub(crate) const fn may_be_seen_as_task(&self) -> bool {
        match self.need {
            Need::Optional | Need::Required => true,
            Need::OnWorker => false,
        }
    }

    /// The tool asks the client before it becomes a task. A call without answers is a plain call, which can return its
    /// questions at once. The call that brings the answers becomes the task.
    #[must_use]
    pub const fn after_input(mut self) -> Self {
        self.start = Start::AfterInput;
        self
    }

    /// Answers a call with the result itself if the task ends within this time, and with the task's id after it. For
    /// tools that are often quick: a client that knows tasks then needs one request for them instead of two or three.
    /// At once by default.
    ///
    /// The call is a task in either case, and survives the same crashes. A question, too, is answered with the id at
    /// once, unless [`questions_within`](Self::questions_within) says otherwise. A client that leaves before the answer
    /// cancels the task, unless it sent an idempotency key. The wait is never longer than the one for jobs
    /// (`--inline-wait-s`). It counts only in `2026-07-28`, where the server decides what a call becomes. In the other
    /// protocol versions, clients that ask for a task get one.
    #[must_use]
    pub const fn handle_after(mut self, time: Duration) -> Self {
        self.handle_after = time;
        self
    }

    /// Answers a call with the tool's questions themselves if it asks within this time, and the client can be asked.
    /// The client then sends the call again with the answers, as it does for a plain call (multi round-trip requests).
    /// [`handle_after`](Self::handle_after) says how long that call waits for the result. This is for tools that ask
    /// before the work begins: the client gets the task's id after its last answer. Not at all by default: questions
    /// are asked by the task.
    ///
    /// The call is a task from its beginning, and waits for the answers for up to [`run_at_most`](Self::run_at_most). A
    /// first call may wait for the whole time before it gets the id, and gets the result if the task ends
    /// meanwhile. It counts only where `handle_after` does.
    #[must_use]
    pub const fn questions_within(mut self, time: Duration) -> Self {
        self.questions_within = time;
        self
    }

    /// How long a task may take from its creation to its end, waits included; then it fails. A day by default. A sleep,
    /// a callback or a pause between polls that would end after that fails the task when it begins.
    #[must_use]
    pub fn run_at_most(mut self, time: Duration) -> Self {
        self.terms.run_ms_max = ms(time);
        self
    }

    /// How long the tool may run in one piece: from the begin of an attempt, or its first line, to the next wait or
    /// step. A tool that hangs is then stopped and tried again, as if it had crashed. An hour by default. On AWS, the
    /// worker's timeout ends an attempt if it is shorter.
    ///
    /// A tool whose steps are shorter continues in another attempt, for any total time.
    #[must_use]
    pub const fn attempt_at_most(mut self, time: Duration) -> Self {
        self.attempt = time;
        self
    }

    /// How long the result is kept after the end, at least. Three days by default.
    #[must_use]
    pub fn retention(mut self, time: Duration) -> Self {
        self.terms.retention_ms = ms(time);
        self
    }

    /// Time to live from creation if the caller asks for none. Never less than the longest run and the time that the
    /// result is kept, together. Four days by default, or less if [`ttl_at_most`](Self::ttl_at_most) is.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.terms.ttl_ms = ms(time);
        self
    }

    /// The longest time to live that a caller may ask for. Seven days by default.
    #[must_use]
    pub fn ttl_at_most(mut self, time: Duration) -> Self {
        self.terms.ttl_ms_max = ms(time);
        self
    }

    /// The poll interval for clients in the first ten seconds of a task of this tool; a second by default. After that
    /// it grows with the task's age, up to ten seconds, and is never shorter than this.
    #[must_use]
    pub fn poll_every(mut self, time: Duration) -> Self {
        self.terms.poll_ms = Some(ms(time));
        self
    }

    /// How many times in a row the tool may crash, without a step recorded in between, before its task fails. Three by
    /// default.
    #[must_use]
    pub const fn consecutive_failures_max(mut self, failures: u32) -> Self {
        self.terms.consecutive_failures_max = failures;
        self
    }

    /// How often the tool's [steps that fail](crate::TaskContext::try_step) are tried, unless a step says otherwise.
    /// Three times within two seconds by default.
    #[must_use]
    pub const fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Lets the tool register [compensations](crate::TaskContext::on_failure). If its task does not end with success, a
    /// worker replays the tool up to the end of its record, and then runs them. So code between steps may run once more
    /// after the end: keep all that has effects in steps.
    ///
    /// It counts for tasks that are accepted from then on. It costs nothing as long as tasks succeed.
    #[must_use]
    pub const fn compensates(mut self) -> Self {
        self.compensates = true;
        self
    }

    /// A text for the model to read at once, while the task is still running, if the client has a place for it. It is
    /// the `model-immediate-response` of MCP `2025-11-25`, and the immediate content of operations (SEP-1391).
    #[must_use]
    pub const fn immediate(mut self, text: &'static str) -> Self {
        self.immediate = Some(text);
        self
    }

    /// Deletes the task as soon as its client has fetched the result, in the protocol versions that know when that is:
    /// the operations of SEP-1391. Do not use it for results that others may still read, such as other clients of one
    /// owner.
    #[must_use]
    pub const fn forget_once_fetched(mut self) -> Self {
        self.after_fetch = AfterFetch::Forget;
        self
    }

    /// Accepts calls with any arguments. Without this, arguments that do not match the tool's input schema are refused
    /// at once, before there is a task. For tools that take more than their schema says, and for schemas that cannot be
    /// checked.
    #[must_use]
    pub const fn unchecked_arguments(mut self) -> Self {
        self.arguments = ArgumentCheck::ByTool;
        self
    }

    /// Says that callers need this scope to call the tool, in every protocol version. Repeat it for several: all of
    /// them are needed then. Callers without them do not see the tool, and the refusal of a call names the scopes. It
    /// applies to callers with scopes. Callers that were identified without scopes, such as by IAM, may call every
    /// tool. The server does not start with a string that is not a scope (RFC 6749, section 3.3).
    #[must_use]
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.insert(scope.into());
        self
    }

    /// The scopes that callers need.
    #[must_use]
    pub const fn scopes(&self) -> &BTreeSet<String> {
        &self.scopes
    }

    /// Says what kind of worker the tool needs. A deployment may give the class workers of its own, with other memory
    /// and time than those of all others: see docs/deploy.md. Without them, and on a local server, its tools share the
    /// workers with all others.
    ///
    /// A name has a letter first, then letters, digits and hyphens: all lower case, 32 at most. The server does not
    /// start with another one.
    ///
    /// ```
    /// # use longhaul_mcp as longhaul;
    /// # use longhaul::TaskPolicy;
    /// let policy = TaskPolicy::optional().class("heavy");
    /// # assert_eq!(policy.class_name(), Some("heavy"));
    /// ```
    #[must_use]
    pub fn class(mut self, name: impl Into<String>) -> Self {
        self.class = Some(name.into());
        self
    }

    /// The class, if it has one.
    #[must_use]
    pub fn class_name(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// What in the policy cannot be kept, in a sentence that says what to do; `None` if all can.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let terms = &self.terms;
        let days_max = limits::TTL_MS_CEILING / DAY_MS;
        let longest = [
            ("run_at_most", terms.run_ms_max),
            ("retention", terms.retention_ms),
            ("ttl", terms.ttl_ms),
            ("ttl_at_most", terms.ttl_ms_max),
        ];
        if let Some((name, _)) = longest.iter().find(|(_, ms)| *ms > limits::TTL_MS_CEILING) {
            return Some(format!("`{name}` is longer than {days_max} days, which no task is kept"));
        }
        if terms.run_ms_max == 0 {
            return Some("`run_at_most` leaves no time to run: name a time above 0".to_owned());
        }
        if terms.ttl_ms > terms.ttl_ms_max && terms.ttl_ms != limits::TTL_MS_DEFAULT {
            let (ttl, most) = (terms.ttl_ms, terms.ttl_ms_max);
            return Some(format!("`ttl` is {ttl} ms, and `ttl_at_most` allows {most} ms: raise it, or shorten `ttl`"));
        }
        if self.attempt_ms() == 0 {
            return Some("`attempt_at_most` leaves no time to run: name a time above 0".to_owned());
        }
        let (asks_ms, run_ms) = (self.questions_within_ms(), terms.run_ms_max);
        if asks_ms > run_ms {
            return Some(format!(
                "`questions_within` is {asks_ms} ms, and the task ends after {run_ms} ms: raise `run_at_most`"
            ));
        }
        if terms.poll_ms == Some(0) {
            return Some("`poll_every` is 0: name the time between two polls, or leave it out".to_owned());
        }
        if terms.consecutive_failures_max == 0 {
            let why = "`consecutive_failures_max` is 0: with 1 a task fails when its tool crashes for the first time";
            return Some(why.to_owned());
        }
        self.flow_contradiction().or_else(|| self.label_contradiction())
    }

    /// How long an attempt may take, in milliseconds.
    pub(crate) fn attempt_ms(&self) -> u64 {
        ms(self.attempt)
    }

    /// How long a caller who knows tasks waits for the result before it gets the task's id, in milliseconds.
    pub(crate) fn handle_after_ms(&self) -> u64 {
        ms(self.handle_after)
    }

    /// How long the first request of such a call waits for questions, in milliseconds.
    pub(crate) fn questions_within_ms(&self) -> u64 {
        ms(self.questions_within)
    }
}

const DAY_MS: u64 = 86_400_000;

/// How long a call may take that is answered as a plain call: less than the time for which its caller waits.
const ON_WORKER: Duration = Duration::from_secs(15);

/// How long its task is kept: only its caller reads it.
const ON_WORKER_KEPT: Duration = Duration::from_secs(60);

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
