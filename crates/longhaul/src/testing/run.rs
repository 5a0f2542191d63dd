//! A run that has come to its end.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::{EntryKind, Progress, Recording, Status, strict_json};
use rmcp::ErrorData;
use rmcp::model::CallToolResult;
use serde_json::{Map, Value};

use super::TestError;
use super::error::unexpected;
use super::script::{Moment, Script, Seen};

/// How the task has to end without a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Completed, or cancelled as the test said.
    Success,
    /// Failed.
    Failure,
    /// In any way.
    Any,
}

/// A run that has ended, and everything that is recorded about it.
#[derive(Clone)]
pub struct Run {
    pub(super) status: Status,
    pub(super) has_timed_out: bool,
    pub(super) result: Option<Value>,
    pub(super) error: Option<Value>,
    pub(super) journal: Vec<JournalEntry>,
    pub(super) variables: Map<String, Value>,
    pub(super) asked: Vec<String>,
    pub(super) progress: Option<Progress>,
    pub(super) attempts: u32,
    pub(super) elapsed: Duration,
    pub(super) cleanups: Vec<Result<(), String>>,
    pub(super) script: Arc<Script>,
}

/// An entry of a task's journal.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JournalEntry {
    /// A step, a failed try of it, the time at which a sleep ends or polls began, or an answer.
    pub kind: EntryKind,
    /// The name, by kind. A step has its name, and a failed try also its number. A sleep has its name and its number
    /// among those of this name. Polls have `since` and their name. A question has its key.
    pub name: String,
    /// The recorded value.
    pub value: Value,
    /// When it was recorded, by which attempt, and how long the step's work took, in the time of the test.
    pub recording: Option<Recording>,
}

impl Run {
    /// How the task ended.
    #[must_use]
    pub const fn status(&self) -> Status {
        self.status
    }

    /// The tool's result, if the task was completed.
    ///
    /// # Errors
    /// [`TestError::Unexpected`] if it is not a result of this version of `rmcp`.
    pub fn result(&self) -> Result<Option<CallToolResult>, TestError> {
        self.result.clone().map(strict_json::from_value).transpose().map_err(unexpected)
    }

    /// The error with which the task failed.
    #[must_use]
    pub fn error(&self) -> Option<ErrorData> {
        strict_json::from_value(self.error.clone()?).ok()
    }

    /// The text that a client shows: the text blocks of the result, one below the other, or the message of the error.
    #[must_use]
    pub fn text(&self) -> String {
        if let Some(message) = self.error.as_ref().and_then(|error| error.get("message")?.as_str()) {
            return message.to_owned();
        }
        self.result.as_ref().and_then(Value::as_object).map(texts).unwrap_or_default()
    }

    /// The structured content of the result.
    #[must_use]
    pub fn structured(&self) -> Option<&Value> {
        self.result.as_ref()?.get("structuredContent")
    }

    /// The recorded steps, in the order in which they were recorded.
    #[must_use]
    pub fn steps(&self) -> Vec<String> {
        steps(&self.journal)
    }

    /// How often the work of this step began: for a [`poll_until`](longhaul_mcp::TaskContext::poll_until), how often
    /// the tool looked.
    #[must_use]
    pub fn times(&self, step: &str) -> u32 {
        self.script.times(step)
    }

    /// Everything that was recorded, in its order.
    #[must_use]
    pub fn journal(&self) -> &[JournalEntry] {
        &self.journal
    }

    /// The tool's variables, as it left them.
    #[must_use]
    pub const fn variables(&self) -> &Map<String, Value> {
        &self.variables
    }

    /// The keys of the questions that the user saw, in their order.
    #[must_use]
    pub fn asked(&self) -> &[String] {
        &self.asked
    }

    /// The last progress.
    #[must_use]
    pub const fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// How often a worker claimed the task: attempts that ended, and attempts that crashed.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The time that passed from the call to the end, as the task saw it.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// How each try of the cleanup ended, in order. An error is that of the server's
    /// [`clean_up`](crate::Server::clean_up), or names the compensations that were given up.
    pub fn cleanups(&self) -> &[Result<(), String>] {
        &self.cleanups
    }

    /// Fails the test unless this is the [text](Self::text): with the task's end and its journal.
    #[track_caller]
    pub fn assert_text(&self, text: &str) {
        assert_eq!(self.text(), text, "{}", self.report());
    }

    /// Fails the test unless this is the [structured content](Self::structured), as `assert_text` does.
    #[track_caller]
    pub fn assert_structured(&self, content: &Value) {
        assert_eq!(self.structured(), Some(content), "{}", self.report());
    }

    /// Fails the test unless the task failed with an error whose message has this part, as `assert_text` does.
    #[track_caller]
    pub fn assert_error(&self, part: &str) {
        let is_it = self.status == Status::Failed && self.text().contains(part);
        assert!(is_it, "the task has no error with `{part}`\n{}", self.report());
    }

    /// Fails the test unless these are the [recorded steps](Self::steps), as `assert_text` does.
    #[track_caller]
    pub fn assert_steps(&self, steps: &[&str]) {
        assert_eq!(self.steps(), steps, "{}", self.report());
    }

    /// The task's end, its result or error, and its journal: for the message of a failed test.
    #[must_use]
    pub fn report(&self) -> String {
        let mut lines = vec![format!("the task ended: {}", self.end()), format!("attempts: {}", self.attempts)];
        for JournalEntry { kind, name, value, .. } in &self.journal {
            lines.push(format!("{} `{name}`: {value}", kind.as_str()));
        }
        lines.join("\n")
    }

    /// Whether the task ended as the test expects.
    pub(super) fn check_end(&self, expected: End) -> Result<(), TestError> {
        match (expected, self.status) {
            (End::Success, Status::Failed) => Err(TestError::Failed { message: self.text(), report: self.report() }),
            (End::Failure, Status::Completed | Status::Cancelled) => Err(TestError::DidNotFail { end: self.end() }),
            (End::Success | End::Failure | End::Any, _) => Ok(()),
        }
    }

    /// Whether the tool asked all of these. One that was cancelled may not have come to them.
    pub(super) fn check_asked(&self, answered: impl IntoIterator<Item = String>) -> Result<(), TestError> {
        let is_unasked = |key: &String| self.status != Status::Cancelled && !self.asked.contains(key);
        let questions: Vec<String> = answered.into_iter().filter(is_unasked).collect();
        if questions.is_empty() { Ok(()) } else { Err(TestError::NeverAsked { questions, end: self.end() }) }
    }

    /// The steps of each attempt.
    pub(super) fn seen(&self) -> Vec<Vec<Seen>> {
        self.script.attempts()
    }

    /// Whether the tool failed, and then succeeded when it was replayed to undo its work.
    pub(super) fn replay_differs(&self) -> bool {
        self.script.replay_differs()
    }

    /// The points at which the process could have died.
    pub(super) fn moments(&self) -> Vec<Moment> {
        let mut moments = vec![Moment::Begin];
        for (kind, name) in self.script.recorded() {
            if kind == EntryKind::Step && self.times(&name) > 0 {
                moments.push(Moment::BeforeStep(name.clone()));
            }
            if kind != EntryKind::Answer {
                moments.push(Moment::BeforeRecord(kind, name.clone()));
                moments.push(Moment::AfterRecord(kind, name.clone()));
            }
            if kind == EntryKind::Step {
                moments.push(Moment::Stop(name));
            }
        }
        if matches!(self.status, Status::Completed | Status::Failed) {
            moments.push(Moment::End);
        }
        if self.is_cleaned() {
            moments.push(Moment::AfterCleanup);
        }
        moments
    }

    /// Whether it is unknown, after a crash at this point, if the work of a step has run that runs at most once.
    pub(super) fn may_have_run(&self, moment: &Moment) -> bool {
        let mark = match moment {
            Moment::BeforeStep(step) | Moment::BeforeRecord(EntryKind::Step, step) => format!("{step}#0"),
            Moment::AfterRecord(EntryKind::Try, name) => name.clone(),
            Moment::Begin
            | Moment::BeforeRecord(..)
            | Moment::AfterRecord(..)
            | Moment::Stop(_)
            | Moment::End
            | Moment::AfterCleanup => return false,
        };
        mark.ends_with("#0") && self.script.recorded().contains(&(EntryKind::Try, mark))
    }

    /// Whether the server cleaned up it.
    pub(super) fn is_cleaned(&self) -> bool {
        self.cleanups.last().is_some_and(Result::is_ok)
    }

    /// The task's end, and its result or error.
    pub(super) fn end(&self) -> String {
        let end = self.result.as_ref().or(self.error.as_ref()).map(ToString::to_string).unwrap_or_default();
        format!("{} {end}", self.status.as_str()).trim_end().to_owned()
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run").field("end", &self.end()).field("journal", &self.journal).finish_non_exhaustive()
    }
}

/// The text blocks of a result, one below the other.
pub(super) fn texts(result: &Map<String, Value>) -> String {
    let contents = result.get("content").and_then(Value::as_array);
    let texts = contents.into_iter().flatten().filter_map(|content| content.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

pub(super) fn steps(journal: &[JournalEntry]) -> Vec<String> {
    journal.iter().filter(|entry| entry.kind == EntryKind::Step).map(|entry| entry.name.clone()).collect()
}
