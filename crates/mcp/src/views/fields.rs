//! What all views show of a task in the same way: times, messages, errors, and what a plain call would have answered.

use std::fmt::Write;

use longhaul_core::verbatim::{Object, written_as};
use longhaul_core::{CLEANUP_GIVEN_UP, Cleanup, Failure, FailureKind, Progress, State, Task, Timestamp, strict_json};
use longhaul_engine::{Engine, LoadError};
use rmcp::ErrorData;
use rmcp::model::ProgressToken;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::reply::errors;

/// The JSON-RPC error that a failed task ended with: the tool's own if it returned one, otherwise one that says what
/// went wrong.
pub(crate) async fn error(engine: &Engine, task: &Task, failure: &Failure) -> Result<String, ErrorData> {
    if let Some(detail) = &failure.detail {
        return object(engine.load(&task.key(), detail).await.map_err(errors::of_load)?);
    }
    Ok(json!({"code": -32603, "message": failure.message, "data": {"reason": reason(failure.kind)}}).to_string())
}

/// A stored text, if it is a JSON object: anything else, inserted into an answer, would make the whole answer invalid.
pub(crate) fn object(text: String) -> Result<String, ErrorData> {
    let checked = strict_json::from_str::<&RawValue>(&text).and_then(|value| {
        if value.get().starts_with('{') { Ok(()) } else { Err(serde::de::Error::custom("not a JSON object")) }
    });
    match checked {
        Ok(()) => Ok(text),
        Err(error) => Err(errors::unreadable_result(&error)),
    }
}

/// The same, in the type of `rmcp`. If the stored error cannot be read, the error says so.
pub(crate) async fn error_data(engine: &Engine, task: &Task, failure: &Failure) -> Result<ErrorData, LoadError> {
    let Some(detail) = &failure.detail else {
        let reason = json!({"reason": reason(failure.kind)});
        return Ok(ErrorData::internal_error(failure.message.clone(), Some(reason)));
    };
    let text = engine.load(&task.key(), detail).await?;
    let read = strict_json::from_str(&text).map(|mut error: ErrorData| {
        let data = Object::read(&text).ok().and_then(|text| written_as(text.get("data")?).ok());
        error.data = data.or(error.data);
        error
    });
    Ok(read.unwrap_or_else(|error| errors::unreadable_result(&error)))
}

const fn reason(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Tool => "tool_error",
        FailureKind::RetriesExhausted => "retries_exhausted",
        FailureKind::TimedOut => "timed_out",
        FailureKind::TooLarge => "too_large",
        FailureKind::Corrupt => "corrupt",
        FailureKind::Misuse => "misuse",
    }
}

/// A message about the task's present state, if there is one.
pub(crate) fn status_message(task: &Task) -> Option<String> {
    if let Some(start) = task.awaited_start() {
        return Some(format!("starts at {}", rfc3339(start)));
    }
    let message = match &task.state {
        State::Failed { failure } => Some(failure.message.clone()),
        State::Queued | State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => {
            task.progress.as_ref().map(in_words)
        }
        State::Completed { .. } | State::Cancelled => None,
    };
    match (message, task.cleanup == Cleanup::GivenUp) {
        (Some(message), true) => Some(format!("{message}; {CLEANUP_GIVEN_UP}")),
        (None, true) => Some(CLEANUP_GIVEN_UP.to_owned()),
        (message, false) => message,
    }
}

/// For example "3/10 adding up". Words without a number stay alone.
pub(crate) fn in_words(progress: &Progress) -> String {
    if let (0.0, None, Some(message)) = (progress.done, progress.total, &progress.message)
        && !message.is_empty()
    {
        return message.clone();
    }
    let mut words = digits(progress.done);
    if let Some(total) = progress.total {
        let _infallible = write!(words, "/{}", digits(total));
    }
    if let Some(message) = &progress.message {
        let _infallible = write!(words, " {message}");
    }
    words
}

/// A number without a row of zeros that it does not have: `1e300`.
fn digits(number: f64) -> String {
    const WRITTEN_OUT_MAX: f64 = 1e15;
    if number.abs() < WRITTEN_OUT_MAX { number.to_string() } else { format!("{number:e}") }
}

/// Progress in the words of `notifications/progress`.
pub(crate) fn progress_params(progress: &Progress) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert("progress".to_owned(), progress.done.into());
    params.extend(progress.total.map(|total| ("total".to_owned(), total.into())));
    params.extend(progress.message.as_deref().map(|message| ("message".to_owned(), message.into())));
    params
}

/// A `notifications/progress` message, with what a protocol version adds to its parameters.
pub(crate) fn progress_notification<const N: usize>(
    token: &ProgressToken,
    progress: &Progress,
    added: [(&str, Value); N],
) -> String {
    let mut params = progress_params(progress);
    params.insert("progressToken".to_owned(), json!(token));
    params.extend(added.map(|(name, value)| (name.to_owned(), value)));
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).to_string()
}

/// The key in a task's `_meta` under which clients find the variables that its tool has set.
const VARIABLES: &str = "dev.longhaul/variables";

/// The key in `_meta` under which a protocol version that has no field for progress shows it, as
/// `notifications/progress` does.
pub(crate) const PROGRESS: &str = "dev.longhaul/progress";

/// The key in a task's `_meta` under which clients find its labels.
const LABELS: &str = "dev.longhaul/labels";

/// The labels of the task, as an object; `None` if it has none.
pub(crate) fn labels(task: &Task) -> Option<Value> {
    (!task.labels.is_empty()).then(|| json!(task.labels))
}

/// All that the `_meta` of a task has.
pub(crate) async fn meta(engine: &Engine, task: &Task) -> Result<Map<String, Value>, ErrorData> {
    let parts = [(VARIABLES, variables(engine, task).await?), (LABELS, labels(task))];
    Ok(parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect())
}

/// The variables of the task; `None` if its tool has set none.
pub(crate) async fn variables(engine: &Engine, task: &Task) -> Result<Option<Value>, ErrorData> {
    let Some(variables) = &task.variables else { return Ok(None) };
    let text = engine.load(&task.key(), variables).await.map_err(errors::of_load)?;
    let set: Map<String, Value> = strict_json::from_str(&text)
        .map_err(|error| errors::internal("the variables of this task cannot be read", &error))?;
    Ok(if set.is_empty() { None } else { Some(Value::Object(set)) })
}

/// RFC 3339 with milliseconds, in UTC.
pub(crate) fn rfc3339(moment: Timestamp) -> String {
    let ms = i64::try_from(moment.as_ms()).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX);
    format!("{moment:.3}")
}

#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// With a result of its tool: a `CallToolResult` as older revisions write it.
    Result(Map<String, Value>),
    /// With an error, which a plain call would have answered too; or with a result that can no longer be read.
    Error(ErrorData),
    /// By a request of its client.
    Cancelled,
}

impl Outcome {
    /// The outcome of `task`; `None` if it has not ended.
    pub(crate) async fn of(engine: &Engine, task: &Task) -> Result<Option<Self>, LoadError> {
        match &task.state {
            State::Queued | State::Running { .. } | State::Sleeping { .. } | State::InputRequired { .. } => Ok(None),
            State::Completed { result, .. } => {
                let text = engine.load(&task.key(), result).await?;
                Ok(Some(match strict_json::from_str::<Map<String, Value>>(&text) {
                    Ok(mut result) => {
                        // Older revisions have only one kind of result.
                        result.shift_remove("resultType");
                        Self::Result(result)
                    }
                    Err(error) => Self::Error(errors::unreadable_result(&error)),
                }))
            }
            State::Failed { failure } => Ok(Some(Self::Error(error_data(engine, task, failure).await?))),
            State::Cancelled => Ok(Some(Self::Cancelled)),
        }
    }
}

/// Whether the task failed because its record is damaged, and not because of its tool.
pub(crate) fn is_unreadable(task: &Task) -> bool {
    matches!(&task.state, State::Failed { failure: Failure { kind: FailureKind::Corrupt, .. } })
}

/// All text of a result, for messages that can hold only text.
pub(crate) fn text_of(result: &Map<String, Value>) -> String {
    let blocks = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let texts = blocks.filter_map(|block| block.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_rfc_3339_with_milliseconds() {
        assert_eq!(rfc3339(Timestamp::from_ms(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(Timestamp::from_ms(1_790_000_000_120)), "2026-09-21T14:13:20.120Z");
        assert_eq!(rfc3339(Timestamp::from_ms(u64::MAX)).len(), "9999-12-30T22:00:00.999Z".len());
    }

    #[test]
    fn progress_reads_like_a_fraction() {
        let words = |total, message: Option<&str>| {
            in_words(&Progress { done: 3.0, total, message: message.map(str::to_owned) })
        };
        assert_eq!(words(Some(10.0), Some("adding up")), "3/10 adding up");
        assert_eq!(words(Some(4.5), None), "3/4.5");
        assert_eq!(words(None, Some("rows")), "3 rows");
        assert_eq!(words(Some(1e300), None), "3/1e300");
    }
}
