//! Reading answers of AWS, and writing arguments into what takes texts only.

use serde_json::{Map, Value};

use crate::job::JobError;

/// The text at this place of an answer, if it is there and not empty.
pub(crate) fn text<'v>(answer: &'v Value, pointer: &str) -> Option<&'v str> {
    answer.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The same, where the answer to a start must have it.
pub(crate) fn started(operation: &str, answer: &Value, pointer: &str) -> Result<String, JobError> {
    let missing = || JobError::Unanswered(format!("{operation}: the answer has nothing at {pointer}"));
    text(answer, pointer).map(str::to_owned).ok_or_else(missing)
}

/// The elements at this place of an answer.
pub(crate) fn list<'v>(answer: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    answer.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Each argument as a text: a text is itself, and everything else is JSON.
pub(crate) fn arguments(input: &Value) -> impl Iterator<Item = (&String, String)> {
    let arguments = input.as_object().into_iter().flat_map(Map::iter);
    arguments.map(|(name, value)| (name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
}
