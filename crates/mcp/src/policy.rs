//! What the author of a tool says about its tasks.

use std::time::Duration;

use longhaul_core::Policy;

/// Whether and on which terms calls of a tool become tasks.
///
/// ```
/// use std::time::Duration;
/// use longhaul_mcp::TaskPolicy;
///
/// let policy = TaskPolicy::optional().run_at_most(Duration::from_secs(2 * 3600)).keep_result(Duration::from_secs(86_400));
/// # let _ = policy;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskPolicy {
    need: Need,
    start: Start,
    terms: Policy,
    immediate: Option<&'static str>,
    after_fetch: AfterFetch,
}

/// What becomes of a result once its client has fetched it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFetch {
    /// It stays as long as was agreed on.
    Keep,
    /// It is forgotten.
    Forget,
}

/// What becomes of a call by a client that knows no tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is answered within a bound, and with a job after it.
    Optional,
    /// It is refused.
    Required,
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
    /// A task for clients that know tasks. All others wait for the answer within a bound, and get a job id after it; a
    /// task is beneath in any case, so that the work outlives whoever waits.
    #[must_use]
    pub fn optional() -> Self {
        Self {
            need: Need::Optional,
            start: Start::AtOnce,
            terms: Policy::default(),
            immediate: None,
            after_fetch: AfterFetch::Keep,
        }
    }

    /// Always a task, and no job: clients of revision `2026-07-28` that did not declare the Tasks extension are told that
    /// they have to, and so are calls of `2025-11-25` that do not ask for a task. Clients of older revisions are not
    /// shown the tool.
    #[must_use]
    pub fn required() -> Self {
        Self { need: Need::Required, ..Self::optional() }
    }

    /// The tool asks the client before it becomes a task: a call without input responses runs plainly, so that the tool
    /// can answer with its questions at once; the call that brings the answers becomes the task.
    #[must_use]
    pub const fn after_input(mut self) -> Self {
        self.start = Start::AfterInput;
        self
    }

    /// How long a task may take from its creation to its end, waits included; then it fails. Half an hour by default.
    #[must_use]
    pub fn run_at_most(mut self, time: Duration) -> Self {
        self.terms.run_ms_max = ms(time);
        self
    }

    /// How long the result is kept after the end, at the least. Half an hour by default.
    #[must_use]
    pub fn keep_result(mut self, time: Duration) -> Self {
        self.terms.keep_ms = ms(time);
        self
    }

    /// Time to live from creation, where the caller asks for none; never less than the longest run and the keeping of
    /// its result. An hour by default.
    #[must_use]
    pub fn ttl(mut self, time: Duration) -> Self {
        self.terms.ttl_ms = ms(time);
        self
    }

    /// The longest time to live that a caller may ask for. A day by default.
    #[must_use]
    pub fn ttl_at_most(mut self, time: Duration) -> Self {
        self.terms.ttl_ms_max = ms(time);
        self
    }

    /// How often polling makes sense for this tool. Without it, and for tasks older than ten seconds, the interval
    /// grows with the task's age.
    #[must_use]
    pub fn poll_every(mut self, time: Duration) -> Self {
        self.terms.poll_ms = Some(ms(time));
        self
    }

    /// How often in a row the tool may crash, without having recorded a step in between, before its task fails. Three
    /// by default.
    #[must_use]
    pub const fn tries(mut self, tries: u32) -> Self {
        self.terms.tries_max = tries;
        self
    }

    /// What a model reads at once, while the task is under way, where its client has a place for that: the
    /// `model-immediate-response` of MCP `2025-11-25` and the immediate content of operations.
    #[must_use]
    pub const fn immediate(mut self, text: &'static str) -> Self {
        self.immediate = Some(text);
        self
    }

    /// Forgets the task as soon as its client has fetched the result, in the designs that have an end of fetching: the
    /// operations of SEP-1391. Results that others may read, such as those of a shared owner, should stay.
    #[must_use]
    pub const fn forget_once_fetched(mut self) -> Self {
        self.after_fetch = AfterFetch::Forget;
        self
    }

    /// The terms, for the engine.
    #[must_use]
    pub const fn terms(&self) -> &Policy {
        &self.terms
    }

    pub(crate) const fn need(&self) -> Need {
        self.need
    }

    /// What a model reads at once.
    pub(crate) const fn immediate_text(&self) -> Option<&'static str> {
        self.immediate
    }

    pub(crate) const fn after_fetch(&self) -> AfterFetch {
        self.after_fetch
    }

    pub(crate) const fn start(&self) -> Start {
        self.start
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
