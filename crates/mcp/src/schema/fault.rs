//! What is wrong with arguments, in words for models and their users. Whatever a client sent is clipped.

use serde_json::Value;

use crate::nearest::nearest;

/// Characters of a client's text that are repeated, at most.
const QUOTED_MAX: usize = 60;

/// Characters of a path, at most.
const PATH_MAX: usize = 200;

/// Values or names that are listed, at most.
const LISTED_MAX: usize = 10;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// How deep inside the arguments it is.
    pub(super) depth: usize,
    /// What makes the value one that the schema did not mean at all.
    pub(super) mismatch: Option<Mismatch>,
    pub(super) sentence: String,
}

/// How a value can be one that a schema did not mean at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mismatch {
    /// It has another type.
    Type,
    /// It is none of the values of an `enum` or a `const`.
    Value,
}

/// A place in the arguments.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Field(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl Path<'_> {
    pub(super) fn depth(&self) -> usize {
        match self {
            Self::Root => 0,
            Self::Field(parent, _) | Self::Item(parent, _) => parent.depth() + 1,
        }
    }

    /// For example `` `rows[3].name` ``; `what` if it is the root.
    pub(super) fn words_or(&self, what: &str) -> String {
        match self {
            Self::Root => what.to_owned(),
            Self::Field(..) | Self::Item(..) => {
                let mut text = String::new();
                self.write(&mut text);
                format!("`{}`", clipped(&text, PATH_MAX))
            }
        }
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Root => {}
            Self::Item(parent, number) => {
                parent.write(text);
                text.push_str(&format!("[{number}]"));
            }
            Self::Field(parent, name) => {
                parent.write(text);
                let is_plain =
                    !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
                match (is_plain, text.is_empty()) {
                    (true, true) => text.push_str(&clipped(name, QUOTED_MAX)),
                    (true, false) => text.push_str(&format!(".{}", clipped(name, QUOTED_MAX))),
                    (false, _) => text.push_str(&format!("[{}]", quoted(name))),
                }
            }
        }
    }
}

/// The first characters of a text, and a sign that there are more.
fn clipped(text: &str, max: usize) -> String {
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

/// What to say of a name that is not known: what is known, and what may have been meant.
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
