//! One entry of the audit log.

use crate::{OwnerId, TaskId, TaskKey};

use crate::audit::TARGET;

/// The action that a caller requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// To have a call accepted as a task.
    Accept,
    /// To answer questions of a task.
    Answer,
    /// To cancel a task.
    Cancel,
    /// To resume a failed task.
    Resume,
    /// To send the value of a callback, with its token.
    Callback,
    /// To send a request: is logged only if it is refused.
    Request,
    /// To be identified: is logged only if the caller was not.
    LogIn,
}

impl Event {
    pub(crate) const ALL: [Self; 7] =
        [Self::Accept, Self::Answer, Self::Cancel, Self::Resume, Self::Callback, Self::Request, Self::LogIn];

    /// As it is in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Answer => "answer",
            Self::Cancel => "cancel",
            Self::Resume => "resume",
            Self::Callback => "callback",
            Self::Request => "request",
            Self::LogIn => "login",
        }
    }
}

/// The outcome of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done,
    /// It was done before: this is a retry.
    Repeated,
    /// There was nothing to do any more.
    Unchanged,
    /// The caller does not have this task.
    NotFound,
    /// The caller may not do it, or not now.
    Refused,
    /// The caller was not verified.
    Denied,
    /// The store did not answer, so the outcome is unknown.
    Unavailable,
}

impl Outcome {
    pub(crate) const ALL: [Self; 7] =
        [Self::Done, Self::Repeated, Self::Unchanged, Self::NotFound, Self::Refused, Self::Denied, Self::Unavailable];

    /// As it is in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Repeated => "repeated",
            Self::Unchanged => "unchanged",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
        }
    }

    /// Whether identical entries of this outcome are counted instead of written one by one. A caller who is refused can
    /// send as many requests as the network carries.
    #[must_use]
    pub fn is_counted(text: &str) -> bool {
        [Self::Refused, Self::Denied].iter().any(|outcome| outcome.as_str() == text)
    }
}

/// One entry. The [`CallerSpan`](crate::audit::CallerSpan) around it holds the sender.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    event: Event,
    outcome: Outcome,
    reason: Option<&'a str>,
    scopes: Option<&'a str>,
    owner: Option<OwnerId>,
    task: Option<TaskId>,
    tool: Option<&'a str>,
}

impl<'a> Entry<'a> {
    /// An entry without details.
    #[must_use]
    pub const fn new(event: Event, outcome: Outcome) -> Self {
        Self { event, outcome, reason: None, scopes: None, owner: None, task: None, tool: None }
    }

    /// The reason of a refusal or denial. It never repeats the request.
    #[must_use]
    pub const fn because(self, reason: &'a str) -> Self {
        Self { reason: Some(reason), ..self }
    }

    /// The scopes that the caller lacks, separated by spaces.
    #[must_use]
    pub const fn without_scopes(self, scopes: &'a str) -> Self {
        Self { scopes: Some(scopes), ..self }
    }

    /// For whom.
    #[must_use]
    pub const fn by(self, owner: OwnerId) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// With which task.
    #[must_use]
    pub const fn task(self, key: &TaskKey) -> Self {
        Self { owner: Some(key.owner), task: Some(key.id), ..self }
    }

    /// With which tool.
    #[must_use]
    pub const fn tool(self, tool: &'a str) -> Self {
        Self { tool: Some(tool), ..self }
    }

    /// Writes it, if the operator wants an audit log.
    pub fn log(&self) {
        tracing::info!(
            target: TARGET,
            event = self.event.as_str(),
            outcome = self.outcome.as_str(),
            reason = self.reason,
            scopes = self.scopes,
            owner = self.owner.map(display),
            task_id = self.task.map(display),
            tool = self.tool,
        );
    }
}

/// Writes what has been counted and not written yet, because the process is about to end.
pub fn flush() {
    tracing::info!(target: TARGET, flush = true);
}
