//! Sentences about arguments, for models and their users. The client's values are clipped.

use jsonschema::paths::{Location, LocationSegment};
use serde_json::Value;

use crate::nearest::nearest;

/// Characters of a client's text that are repeated, at most.
const QUOTED_MAX: usize = 60;

/// Characters of a path, at most.
const PATH_MAX: usize = 200;

/// Values or names that are listed, at most.
const LISTED_MAX: usize = 10;

/// The elements of a list, or the values of an object.
pub(super) fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.as_array().into_iter().flatten();
    list.chain(value.as_object().into_iter().flat_map(|object| object.values()))
}

/// A place in the arguments, for example `` `rows[3].name` ``; `root` if it is all of them.
pub(super) fn path(at: &Location, root: &str) -> String {
    let mut text = String::new();
    for segment in at.segments() {
        match segment {
            LocationSegment::Index(number) => text.push_str(&format!("[{number}]")),
            LocationSegment::Property(name) if !is_plain(&name) => text.push_str(&format!("[{}]", quoted(&name))),
            LocationSegment::Property(name) if text.is_empty() => text.push_str(&clipped(&name, QUOTED_MAX)),
            LocationSegment::Property(name) => text.push_str(&format!(".{}", clipped(&name, QUOTED_MAX))),
        }
    }
    if text.is_empty() { root.to_owned() } else { format!("`{}`", clipped(&text, PATH_MAX)) }
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'))
}

/// The first characters of a text, and a sign that there are more.
pub(super) fn clipped(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A text in quotes, without control characters.
fn quoted(text: &str) -> String {
    Value::from(clipped(text, QUOTED_MAX).replace(|c: char| c.is_control(), " ")).to_string()
}

/// A value as part of a sentence. A list or an object is not repeated.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => quoted(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => clipped(&value.to_string(), QUOTED_MAX),
    }
}

/// "a", "a or b", "a, b or c", or the first of many.
pub(super) fn one_of(choices: &[String]) -> String {
    let shown = choices.get(..LISTED_MAX).unwrap_or(choices);
    match shown {
        [] => "nothing".to_owned(),
        [only] => only.clone(),
        [first @ .., last] if shown.len() == choices.len() => format!("{} or {last}", first.join(", ")),
        many => format!("{}, …", many.join(", ")),
    }
}

/// The known names, and the one that may have been meant by `unknown`.
pub(super) fn known<'a>(unknown: &str, names: impl Iterator<Item = &'a String> + Clone) -> String {
    let listed: Vec<String> =
        names.clone().take(LISTED_MAX + 1).map(|name| format!("`{}`", clipped(name, QUOTED_MAX))).collect();
    if listed.is_empty() {
        return "none is expected".to_owned();
    }
    let expected = one_of(&listed);
    // A long name is compared by its beginning: the comparison takes the product of both lengths.
    let names = names.take(LISTED_MAX * LISTED_MAX).map(|name| clipped(name, QUOTED_MAX));
    match nearest(&clipped(unknown, QUOTED_MAX), names) {
        Some(nearest) => format!("did you mean `{nearest}`? Expected: {expected}"),
        None => format!("expected: {expected}"),
    }
}

/// The type called `name`, as part of a sentence.
pub(super) fn of_type(name: &str) -> &str {
    match name {
        "boolean" => "true or false",
        "integer" => "an integer",
        "number" => "a number",
        "string" => "a string",
        "array" => "an array",
        "object" => "an object",
        other => other,
    }
}
