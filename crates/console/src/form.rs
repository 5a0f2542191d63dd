//! Forms made from JSON schemas, for questions and for a tool's arguments. The typed values are read back as JSON.
//!
//! A schema with properties of single values, and of choices, has a field for each. A nested value is written as JSON
//! in its field. A schema that no fields can show is written as JSON as a whole.

use std::hash::{DefaultHasher, Hash, Hasher};

use longhaul_client::form::{Choice, Field, Kind, check, fields, type_of};
use serde_json::{Map, Value};

use crate::limits::{BOXES_MAX, FORM_FIELDS_MAX, LINE_CHARS_MAX, LISTED_MAX};
use crate::posted::Posted;

mod show;
#[cfg(test)]
mod tests;

/// Members of a schema that define more than fields can show.
const NOT_SHOWN: [&str; 5] = ["$ref", "oneOf", "anyOf", "allOf", "patternProperties"];

/// The field of a form that is written as a whole.
const WHOLE: &str = "json";

/// A form.
pub(crate) struct Form<'s> {
    schema: &'s Value,
    /// Nothing if the whole is written as JSON.
    fields: Option<Vec<Field>>,
}

/// The faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The field's name; `None` if it is about the whole.
    pub(crate) field: Option<String>,
    /// Why, as a sentence about the field without its first letter in upper case.
    pub(crate) why: String,
}

/// The values that a form is filled in with.
#[derive(Clone, Copy)]
pub(crate) enum Prefill<'a> {
    /// The schema's defaults.
    Defaults,
    /// The arguments of an earlier call.
    Values(&'a Map<String, Value>),
    /// The typed values, and their faults.
    Typed(&'a Posted, &'a [FieldError]),
}

impl<'s> Form<'s> {
    /// The form of a schema.
    pub(crate) fn of(schema: &'s Value) -> Self {
        let fields = has_fields(schema).then(|| fields(schema));
        Self { schema, fields }
    }

    /// The same, or one in which the whole is written as JSON, if `json` is asked for.
    pub(crate) fn written_as(schema: &'s Value, wanted: Option<&str>) -> Self {
        if wanted == Some("json") { Self { schema, fields: None } } else { Self::of(schema) }
    }

    /// Whether the whole is written as JSON.
    pub(crate) const fn is_json(&self) -> bool {
        self.fields.is_none()
    }

    /// The typed values, as the object that the schema describes.
    pub(crate) fn read(&self, posted: &Posted) -> Result<Map<String, Value>, Vec<FieldError>> {
        let Some(fields) = &self.fields else {
            let whole = |why| vec![FieldError { field: None, why }];
            return read_whole(posted.value(WHOLE).unwrap_or_default(), self.schema).map_err(whole);
        };
        let (mut content, mut wrong) = (Map::new(), Vec::new());
        for field in fields {
            match read(field, posted) {
                Ok(Some(value)) => drop(content.insert(field.name.clone(), value)),
                Ok(None) => {}
                Err(why) => wrong.push(FieldError { field: Some(field.name.clone()), why }),
            }
        }
        if wrong.is_empty() { Ok(content) } else { Err(wrong) }
    }
}

/// A short text that is the same for the same text, and for hardly any other one. It protects nothing.
pub(crate) fn fingerprint(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn has_fields(schema: &Value) -> bool {
    let properties = schema["properties"].as_object().map_or(0, Map::len);
    let takes_others = matches!(&schema["additionalProperties"], Value::Bool(true) | Value::Object(_));
    let is_open = properties == 0 && takes_others;
    schema.is_object()
        && properties <= FORM_FIELDS_MAX
        && !is_open
        && NOT_SHOWN.iter().all(|name| schema.get(name).is_none())
}

fn read_whole(text: &str, schema: &Value) -> Result<Map<String, Value>, String> {
    let text = if text.trim().is_empty() { "{}" } else { text };
    let content: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let Value::Object(content) = content else {
        return Err("it must be a JSON object, such as {\"a\": 1}".to_owned());
    };
    check(&content, schema).map(|()| content)
}

/// The value of a field; nothing if it is left out.
fn read(field: &Field, posted: &Posted) -> Result<Option<Value>, String> {
    let name = post_name(&field.name);
    let value = match Entry::of(field) {
        Entry::Tick => posted.value(&name).is_some().into(),
        Entry::Boxes(choices) | Entry::Several(choices) => {
            let chosen: Vec<Value> =
                posted.values(&name).map(|text| choice_of(choices, text)).collect::<Result<_, _>>()?;
            if chosen.is_empty() && !field.is_required {
                return Ok(None);
            }
            chosen.into()
        }
        entry => {
            let text = posted.value(&name).unwrap_or_default().replace("\r\n", "\n");
            // Spaces may be a text, but no other value.
            let is_empty = if is_text(field) { text.is_empty() } else { text.trim().is_empty() };
            match (is_empty, field.is_required, field.is_nullable) {
                (true, false, _) => return Ok(None),
                (true, true, true) => Value::Null,
                (true, true, false) => return Err("it is missing".to_owned()),
                (false, ..) => read_text(field, &entry, &text)?,
            }
        }
    };
    field.check(&value).map(|()| Some(value))
}

fn is_text(field: &Field) -> bool {
    matches!(field.kind, Kind::Text) && type_of(&field.schema) == Some("string")
}

fn read_text(field: &Field, entry: &Entry<'_>, text: &str) -> Result<Value, String> {
    match (&field.kind, entry) {
        (Kind::One(choices), _) => choice_of(choices, text),
        (_, Entry::Any) => Ok(serde_json::from_str(text).unwrap_or_else(|_| text.into())),
        _ if is_text(field) => field.read(text),
        _ => field.read(text.trim()),
    }
}

/// The name of a schema's field in the posted form, where line breaks would not arrive as they are.
fn post_name(name: &str) -> String {
    format!("field.{}", name.replace('\r', "\\r").replace('\n', "\\n"))
}

/// How people enter a value.
enum Entry<'f> {
    /// A text or a number in one line, or one of many values.
    Line,
    /// A text of several lines.
    Lines,
    /// JSON of some type.
    Json,
    /// JSON of any type, or a text.
    Any,
    /// A checkbox.
    Tick,
    /// Yes, no, or neither.
    YesOrNo,
    /// One of a list.
    One(&'f [Choice]),
    /// Some of a list, each with a checkbox.
    Boxes(&'f [Choice]),
    /// Some of a long list.
    Several(&'f [Choice]),
}

impl<'f> Entry<'f> {
    fn of(field: &'f Field) -> Self {
        match &field.kind {
            Kind::Switch if field.is_nullable || !(field.is_required || has_default(field)) => Self::YesOrNo,
            Kind::Switch => Self::Tick,
            Kind::One(choices) if choices.len() <= LISTED_MAX => Self::One(choices),
            Kind::One(_) => Self::Line,
            Kind::Some(choices) if choices.len() <= BOXES_MAX => Self::Boxes(choices),
            Kind::Some(choices) if choices.len() <= LISTED_MAX => Self::Several(choices),
            Kind::Some(_) => Self::Json,
            Kind::Text => entry_of_type(&field.schema, field.default.as_ref()),
        }
    }
}

fn has_default(field: &Field) -> bool {
    matches!(field.default, Some(Value::Bool(_)))
}

fn entry_of_type<'f>(schema: &Value, default: Option<&Value>) -> Entry<'f> {
    match type_of(schema) {
        Some("integer" | "number" | "boolean") => Entry::Line,
        Some("string") => {
            let has_lines = default.and_then(Value::as_str).is_some_and(|text| text.contains('\n'));
            let is_long = schema["maxLength"].as_u64().is_some_and(|most| most > LINE_CHARS_MAX);
            if has_lines || (is_long && schema["format"].is_null()) { Entry::Lines } else { Entry::Line }
        }
        Some(_) => Entry::Json,
        None => Entry::Any,
    }
}

/// The value of a list that was posted, as JSON or as plain text.
fn choice_of(choices: &[Choice], text: &str) -> Result<Value, String> {
    let given: Option<Value> = serde_json::from_str(text).ok();
    let as_json = choices.iter().find(|choice| given.as_ref() == Some(&choice.value));
    let found = as_json.or_else(|| choices.iter().find(|choice| choice.value.as_str() == Some(text.trim())));
    found.map(|choice| choice.value.clone()).ok_or_else(|| "it must be one of the values in the list".to_owned())
}
