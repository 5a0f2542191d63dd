//! Forms: what a question is about, which fields a schema has, and whether a value fits one.

use serde_json::{Map, Value, json};

use crate::task::Question;

/// So many values are named when none of them was given.
const NAMED_MAX: usize = 10;

/// The subject of a question.
#[derive(Clone, Copy, Debug)]
pub enum About<'q> {
    /// A form, with its schema.
    Form(&'q Value),
    /// Something to do at this address.
    Address(&'q str),
    /// Something else, such as sampling.
    Other,
}

impl Question {
    /// Its message.
    #[must_use]
    pub fn about(&self) -> About<'_> {
        match (self.method.as_str(), self.params["mode"].as_str(), self.params["url"].as_str()) {
            ("elicitation/create", Some("url"), Some(url)) => About::Address(url),
            ("elicitation/create", ..) => About::Form(&self.params["requestedSchema"]),
            _ => About::Other,
        }
    }
}

/// The answer of a form that was filled in.
#[must_use]
pub fn accept(content: Map<String, Value>) -> Value {
    json!({"action": "accept", "content": content})
}

/// The answer of a user who declines.
#[must_use]
pub fn decline() -> Value {
    json!({"action": "decline"})
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in the object that the form makes.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its description.
    pub description: Option<String>,
    /// Whether it may not be left out.
    pub is_required: bool,
    /// Whether `null` is a value of it.
    pub is_nullable: bool,
    /// Its default.
    pub default: Option<Value>,
    /// The kind of its value.
    pub kind: Kind,
    /// Its schema, with references followed.
    pub schema: Value,
}

/// The kind of a field's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A text that the schema's type is read from.
    Text,
    /// Yes or no.
    Switch,
    /// One of these values, with their titles.
    One(Vec<Choice>),
    /// Some of them.
    Some(Vec<Choice>),
}

/// A value, and what it is called.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The value.
    pub value: Value,
    /// Its title.
    pub title: String,
}

/// The fields that a schema has: those that are required in the order in which it names them, then the others.
#[must_use]
pub fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let place = |field: &Field| required.iter().position(|name| *name == field.name).unwrap_or(usize::MAX);
    let field = |(name, listed): (&String, &Value)| {
        let property = resolved(listed, schema);
        let text = |member: &str| {
            let text = property[member].as_str().or_else(|| listed[member].as_str());
            text.map(str::to_owned)
        };
        Field {
            name: name.clone(),
            title: text("title").unwrap_or_else(|| name.clone()),
            description: text("description"),
            is_required: required.contains(&name.as_str()),
            is_nullable: takes_null(listed) || takes_null(property),
            default: listed.get("default").or_else(|| property.get("default")).cloned(),
            kind: kind(property, schema),
            schema: property.clone(),
        }
    };
    let mut all: Vec<Field> = schema["properties"].as_object().into_iter().flatten().map(field).collect();
    // Other fields keep their order.
    all.sort_by_key(place);
    all
}

fn takes_null(schema: &Value) -> bool {
    let is_null = |name: &Value| *name == "null";
    let listed =
        |member: &str, is: &dyn Fn(&Value) -> bool| schema[member].as_array().is_some_and(|all| all.iter().any(is));
    is_null(&schema["type"])
        || listed("type", &is_null)
        || ["anyOf", "oneOf"].iter().any(|member| listed(member, &|one| is_null(&one["type"])))
}

fn kind(schema: &Value, root: &Value) -> Kind {
    match (choices(schema), type_of(schema)) {
        (Some(choices), _) => Kind::One(choices),
        (None, Some("boolean")) => Kind::Switch,
        (None, Some("array")) => choices(resolved(&schema["items"], root)).map_or(Kind::Text, Kind::Some),
        (None, _) => Kind::Text,
    }
}

/// The values that a schema lists, with titles if it has them.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    let title_of = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = schema["enum"].as_array() {
        let titles = schema["enumNames"].as_array();
        let title = |(index, value): (usize, &Value)| Choice {
            title: titles.and_then(|all| all.get(index)?.as_str()).map_or_else(|| title_of(value), str::to_owned),
            value: value.clone(),
        };
        return Some(values.iter().enumerate().map(title).collect());
    }
    let listed = schema["oneOf"].as_array().or_else(|| schema["anyOf"].as_array())?;
    let mut all = Vec::new();
    for one in listed {
        match (one.get("const"), one["enum"].as_array()) {
            (Some(value), _) => {
                let title = one["title"].as_str().map_or_else(|| title_of(value), str::to_owned);
                all.push(Choice { value: value.clone(), title });
            }
            // Values without a title or a description of their own stand together.
            (None, Some(values)) => {
                all.extend(values.iter().map(|value| Choice { value: value.clone(), title: title_of(value) }));
            }
            (None, None) => return None,
        }
    }
    Some(all)
}

impl Field {
    /// A text as the field's value.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let value = typed(text, &self.schema, &Value::Null).map_err(|expected| format!("it must be {expected}"))?;
        self.check(&value).map(|()| value)
    }

    /// Whether a value fits.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        match &self.kind {
            _ if value.is_null() && self.is_nullable => Ok(()),
            Kind::One(choices) => among(choices, value),
            Kind::Some(choices) => {
                let chosen = value.as_array().ok_or("it must be a JSON array")?;
                chosen.iter().try_for_each(|one| among(choices, one))?;
                check_limits(&self.schema, value)
            }
            Kind::Switch if !value.is_boolean() => Err("it must be true or false".to_owned()),
            Kind::Switch => Ok(()),
            Kind::Text => check_limits(&self.schema, value),
        }
    }
}

fn among(choices: &[Choice], value: &Value) -> Result<(), String> {
    if choices.iter().any(|choice| choice.value == *value) {
        return Ok(());
    }
    let named: Vec<String> = choices.iter().take(NAMED_MAX).map(|choice| choice.value.to_string()).collect();
    let more = choices.len().saturating_sub(NAMED_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Err(format!("it must be one of {}{more}", named.join(", ")))
}

/// Whether all values fit, and none is missing.
pub fn check(content: &Map<String, Value>, schema: &Value) -> Result<(), String> {
    for field in fields(schema) {
        match content.get(&field.name) {
            Some(value) => field.check(value).map_err(|why| format!("`{}`: {why}", field.name))?,
            None if field.is_required => return Err(format!("`{}` is missing", field.name)),
            None => {}
        }
    }
    Ok(())
}

/// Whether the arguments of a tool have the types, and are among the values, that its schema wants. Limits and formats
/// are the server's to check, which has its own words for them.
pub fn check_arguments(arguments: &Map<String, Value>, schema: &Value) -> Result<(), String> {
    for mut field in fields(schema) {
        let Some(value) = arguments.get(&field.name) else { continue };
        field.schema = json!({"type": field.schema["type"]});
        field.check(value).map_err(|why| format!("`{}`: {why}", field.name))?;
    }
    Ok(())
}

/// The schema behind a reference, and behind a choice between something and nothing. A choice between several things is
/// left as it is.
#[must_use]
pub fn resolved<'s>(mut schema: &'s Value, root: &'s Value) -> &'s Value {
    // References may go round.
    for _ in 0..8 {
        let listed = |member: &str| schema[member].as_array().map(Vec::as_slice).unwrap_or_default();
        let [any, one, all] = ["anyOf", "oneOf", "allOf"].map(listed);
        let mut choices = any.iter().chain(one).chain(all).filter(|one| one["type"] != "null");
        let choice = choices.next().filter(|one| one.get("const").is_none() && choices.next().is_none());
        let reference = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
        match reference.or(choice.filter(|_| schema["type"].is_null())) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// The type that a schema wants, as people write it, such as `integer` or `string[]`.
#[must_use]
pub fn type_in_words(schema: &Value, root: &Value) -> String {
    let schema = resolved(schema, root);
    let of_choice = |choice: Choice| match choice.value {
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "boolean",
        Value::Null | Value::Array(_) | Value::Object(_) => "any",
    };
    match type_of(schema) {
        Some("array") => match resolved(&schema["items"], root) {
            items if type_of(items).is_none() && choices(items).is_none() => "array".to_owned(),
            // A list of lists is not taken apart any further.
            items if type_of(items) == Some("array") => "array[]".to_owned(),
            items => format!("{}[]", type_in_words(items, root)),
        },
        Some(name) => name.to_owned(),
        None => {
            let mut types = choices(schema).unwrap_or_default().into_iter().map(of_choice);
            let first = types.next().unwrap_or("any");
            if types.all(|other| other == first) { first } else { "any" }.to_owned()
        }
    }
}

/// The type that a schema wants; nothing if it does not say one.
#[must_use]
pub fn type_of(schema: &Value) -> Option<&str> {
    let listed = || schema["type"].as_array()?.iter().filter_map(Value::as_str).find(|name| *name != "null");
    schema["type"].as_str().or_else(listed)
}

/// A text as the value that its schema requires. References into `root` are followed up to a limit.
pub fn typed(text: &str, schema: &Value, root: &Value) -> Result<Value, &'static str> {
    let schema = resolved(schema, root);
    let json = |fits: fn(&Value) -> bool| serde_json::from_str(text).ok().filter(fits);
    match type_of(schema) {
        Some("integer") => json(is_integer).ok_or("a whole number"),
        Some("number") => json(Value::is_number).ok_or("a number"),
        Some("boolean") => json(Value::is_boolean).ok_or("true or false"),
        Some("array") => json(Value::is_array).ok_or("a JSON array, such as '[\"a\", \"b\"]'"),
        Some("object") => json(Value::is_object).ok_or("a JSON object, such as '{\"a\": 1}'"),
        _ => Ok(text.into()),
    }
}

/// Whether a value is written as an integer. It may be a long one where `serde_json` keeps all digits.
fn is_integer(value: &Value) -> bool {
    value.as_number().is_some_and(|number| !number.is_f64())
}

/// Whether a value has the schema's type, keeps its limits, and has its format.
fn check_limits(schema: &Value, value: &Value) -> Result<(), String> {
    let fits = match type_of(schema) {
        Some("integer") => is_integer(value) || value.as_f64().is_some_and(|value| value.fract() == 0.0),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    if !fits {
        return Err(format!("it must be of the type {}", type_of(schema).unwrap_or_default()));
    }
    between(schema, value)?;
    match (schema["format"].as_str(), value.as_str()) {
        (Some(format), Some(text)) => has_format(text, format),
        _ => Ok(()),
    }
}

fn between(schema: &Value, value: &Value) -> Result<(), String> {
    let limit = |name: &str| schema[name].as_f64();
    let size = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let (least, most, size, unit) = match value {
        Value::String(text) => (limit("minLength"), limit("maxLength"), size(text.chars().count()), " characters"),
        Value::Array(all) => (limit("minItems"), limit("maxItems"), size(all.len()), " values"),
        Value::Number(number) => (limit("minimum"), limit("maximum"), number.as_f64().unwrap_or_default(), ""),
        Value::Null | Value::Bool(_) | Value::Object(_) => return Ok(()),
    };
    let of = |limit: f64| if limit == 1.0 { unit.trim_end_matches('s') } else { unit };
    match (least, most) {
        (Some(least), _) if size < least => Err(format!("it must be at least {least}{}", of(least))),
        (_, Some(most)) if size > most => Err(format!("it must be at most {most}{}", of(most))),
        _ => Ok(()),
    }
}

/// The formats that questions may have. Others are the server's to check.
fn has_format(text: &str, format: &str) -> Result<(), String> {
    let (fits, expected) = match format {
        "email" => (is_email(text), "an e-mail address, such as ada@example.com"),
        "uri" => (url::Url::parse(text).is_ok(), "an address, such as https://example.com"),
        "date" => (is_date(text), "a date, such as 2026-11-23"),
        "date-time" => (is_moment(text), "a time, such as 2026-11-23T08:00:00Z"),
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(format!("it must be {expected}")) }
}

fn is_email(text: &str) -> bool {
    let parts = text.rsplit_once('@');
    parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()) && !text.contains(char::is_whitespace)
}

/// `jiff` also reads times as dates, and other spellings.
fn is_date(text: &str) -> bool {
    text.len() == "2026-11-23".len() && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_moment(text: &str) -> bool {
    text.get(..10).is_some_and(is_date) && text.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests;
