//! How people enter the value of a field.

use longhaul_client::form::{Choice, Field, Kind, type_of};
use serde_json::Value;

/// Boxes to tick, at most.
const BOXES_MAX: usize = 12;

/// Values to choose from in a list. If there are more, they are typed.
const LISTED_MAX: usize = 500;

/// A longer text gets several lines, in characters.
const LINE_MAX: u64 = 255;

/// How people enter a value.
pub(super) enum Entry<'f> {
    /// A text or a number in one line, or one of many values.
    Line,
    /// A text of several lines.
    Lines,
    /// JSON of some type.
    Json,
    /// JSON of any type, or a text.
    Any,
    /// A box to tick.
    Tick,
    /// Yes, no, or nothing of both.
    YesOrNo,
    /// One of a list.
    One(&'f [Choice]),
    /// Some of a list, each with a box.
    Boxes(&'f [Choice]),
    /// Some of a long list.
    Several(&'f [Choice]),
}

impl<'f> Entry<'f> {
    pub(super) fn of(field: &'f Field) -> Self {
        match &field.kind {
            Kind::Switch if field.is_nullable || !(field.is_required || has_default(field)) => Self::YesOrNo,
            Kind::Switch => Self::Tick,
            Kind::One(choices) if choices.len() <= LISTED_MAX => Self::One(choices),
            Kind::One(_) => Self::Line,
            Kind::Some(choices) if choices.len() <= BOXES_MAX => Self::Boxes(choices),
            Kind::Some(choices) if choices.len() <= LISTED_MAX => Self::Several(choices),
            Kind::Some(_) => Self::Json,
            Kind::Text => of_type(&field.schema, field.default.as_ref()),
        }
    }
}

fn has_default(field: &Field) -> bool {
    matches!(field.default, Some(Value::Bool(_)))
}

fn of_type<'f>(schema: &Value, default: Option<&Value>) -> Entry<'f> {
    match type_of(schema) {
        Some("integer" | "number" | "boolean") => Entry::Line,
        Some("string") => {
            let has_lines = default.and_then(Value::as_str).is_some_and(|text| text.contains('\n'));
            let is_long = schema["maxLength"].as_u64().is_some_and(|most| most > LINE_MAX);
            if has_lines || (is_long && schema["format"].is_null()) { Entry::Lines } else { Entry::Line }
        }
        Some(_) => Entry::Json,
        None => Entry::Any,
    }
}

/// The value that a list has for what was posted: it as JSON, or as the text that it is.
pub(super) fn choice_of(choices: &[Choice], text: &str) -> Result<Value, String> {
    let given: Option<Value> = serde_json::from_str(text).ok();
    let as_json = choices.iter().find(|choice| given.as_ref() == Some(&choice.value));
    let found = as_json.or_else(|| choices.iter().find(|choice| choice.value.as_str() == Some(text.trim())));
    found.map(|choice| choice.value.clone()).ok_or_else(|| "it must be one of the values in the list".to_owned())
}
