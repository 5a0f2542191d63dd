//! A task as its server shows it.

use serde_json::{Map, Value};

use crate::error::Refusal;

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The server works on it.
    Working,
    /// It waits for answers.
    InputRequired,
    /// It has a result.
    Completed,
    /// It has none.
    Failed,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled];

    /// Its name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The status of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.name() == name)
    }

    /// Whether nothing more happens to the task.
    #[must_use]
    pub const fn is_end(self) -> bool {
        match self {
            Self::Working | Self::InputRequired => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }
}

/// How much of its work a task has done.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// So much.
    pub done: f64,
    /// The total, if it is known.
    pub total: Option<f64>,
    /// Its status message.
    pub message: Option<String>,
}

impl Progress {
    /// The progress in a status message, if it begins with a number as Longhaul's do: `3/10 adding up`.
    #[must_use]
    pub fn of_message(message: &str) -> Option<Self> {
        let (first, rest) = message.split_once(' ').unwrap_or((message, ""));
        let (done, total) = first.split_once('/')?;
        let message = Some(rest.to_owned()).filter(|rest| !rest.is_empty());
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        Some(Self { done: number(done)?, total: Some(number(total)?), message })
    }

    pub(crate) fn of_params(params: &Value) -> Option<Self> {
        Some(Self {
            done: params["progress"].as_f64()?,
            total: params["total"].as_f64(),
            message: params["message"].as_str().map(str::to_owned),
        })
    }
}

/// A question of a server to its caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its name among those of its task or call.
    pub key: String,
    /// Its method, such as `elicitation/create`.
    pub method: String,
    /// Its parameters.
    pub params: Value,
}

/// A task as its server shows it.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// How far it is.
    pub status: Status,
    /// The server's description of its state.
    pub message: Option<String>,
    /// How long to wait until the next poll, in milliseconds.
    pub interval_ms: Option<u64>,
    /// Its questions.
    pub questions: Vec<Question>,
    /// How it ended, once that was fetched.
    pub end: Option<Result<Value, Refusal>>,
    /// All that the server said, as it said it.
    pub raw: Map<String, Value>,
}

impl Task {
    /// Reads what the Tasks extension and revision `2025-11-25` have; `None` if that is not a task.
    #[must_use]
    pub fn read(value: &Value) -> Option<Self> {
        let raw = value.as_object()?.clone();
        let text = |name: &str| raw.get(name).and_then(Value::as_str).map(str::to_owned);
        let status = Status::of(&text("status")?)?;
        let interval = raw.get("pollIntervalMs").or_else(|| raw.get("pollInterval"));
        let end = match status {
            Status::Completed => raw.get("result").cloned().map(Ok),
            Status::Failed => raw.get("error").map(|error| Err(Refusal::of(error))),
            Status::Working | Status::InputRequired | Status::Cancelled => None,
        };
        Some(Self {
            id: text("taskId")?,
            status,
            message: text("statusMessage"),
            interval_ms: interval.and_then(Value::as_u64),
            questions: questions(raw.get("inputRequests")),
            end,
            raw,
        })
    }

    /// The tool that was called, if the server shows it.
    #[must_use]
    pub fn tool(&self) -> Option<&str> {
        self.raw.get("tool").and_then(Value::as_str)
    }

    /// Its labels, if the server shows them: in a list, or in the `_meta` of a task.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let listed = self.raw.get("labels").or_else(|| self.raw.get("_meta")?.get("dev.longhaul/labels"));
        let labels = listed.and_then(Value::as_object).into_iter().flatten();
        labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// Whether a list says that its tool reported an error.
    #[must_use]
    pub fn reports_error(&self) -> bool {
        self.raw.get("isError").is_some_and(|reports| *reports == true)
    }

    /// How far it is, if the server or its message says it.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let said = self.raw.get("progress").and_then(Progress::of_params);
        said.or_else(|| Progress::of_message(self.message.as_deref()?))
    }
}

/// Questions as the Tasks extension and calls with several rounds have them.
pub(crate) fn questions(requests: Option<&Value>) -> Vec<Question> {
    let requests = requests.and_then(Value::as_object).into_iter().flatten();
    let question = |(key, request): (&String, &Value)| Question {
        key: key.clone(),
        method: request["method"].as_str().unwrap_or_default().to_owned(),
        params: request.get("params").cloned().unwrap_or_default(),
    };
    requests.map(question).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_messages_that_begin_with_it() {
        let read = |message| Progress::of_message(message).map(|read| (read.done, read.total, read.message));
        assert_eq!(read("3/10"), Some((3.0, Some(10.0), None)));
        assert_eq!(read("0.5/2 adding up"), Some((0.5, Some(2.0), Some("adding up".to_owned()))));
        for other in ["", "adding up", "3", "3 of 10", "a/b", "1/", "nan/inf"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn a_task_without_an_id_or_with_a_strange_status_is_none() {
        for other in [r#"{"status": "working"}"#, r#"{"taskId": "a", "status": "odd"}"#, "[]", "null"] {
            assert!(Task::read(&serde_json::from_str(other).unwrap()).is_none(), "{other}");
        }
    }
}
