//! Forms: what a question is about, which fields a schema has, and whether a value fits one.

use serde_json::{Map, Value, json};

use crate::task::Question;

/// So many values are named when none of them was given.
const NAMED_MAX: usize = 10;

/// What a question is about.
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
    /// What it is about.
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

/// The answer of somebody who does not want to answer.
#[must_use]
pub fn decline() -> Value {
    json!({"action": "decline"})
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name in the object that the form makes.
    pub name: String,
    /// What people call it.
    pub title: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether it may not be left out.
    pub is_required: bool,
    /// Whether `null` is a value of it.
    pub is_nullable: bool,
    /// What it is if nobody says otherwise.
    pub default: Option<Value>,
    /// What goes into it.
    pub kind: Kind,
    /// Its schema, with references followed.
    pub schema: Value,
}

/// What goes into a field.
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
    /// What people call it.
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
            kind: kind(property),
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

fn kind(schema: &Value) -> Kind {
    match (choices(schema), type_of(schema)) {
        (Some(choices), _) => Kind::One(choices),
        (None, Some("boolean")) => Kind::Switch,
        (None, Some("array")) => choices(&schema["items"]).map_or(Kind::Text, Kind::Some),
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
    let choice = |one: &Value| {
        let value = one.get("const")?.clone();
        let title = one["title"].as_str().map_or_else(|| title_of(&value), str::to_owned);
        Some(Choice { value, title })
    };
    listed.iter().map(choice).collect()
}

impl Field {
    /// A text as the field's value.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        let value = typed(text, &self.schema).map_err(|expected| format!("it must be {expected}"))?;
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

/// The schema behind a reference, and behind a choice between something and nothing.
#[must_use]
pub fn resolved<'s>(mut schema: &'s Value, root: &'s Value) -> &'s Value {
    // References may go round.
    for _ in 0..8 {
        let choices = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
        // Those with values are a choice of the user's, which is left as it is.
        let choices = choices.filter(|all| all.iter().all(|one| one.get("const").is_none()));
        let choice = choices.and_then(|all| all.iter().find(|one| one["type"] != "null"));
        let reference = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.strip_prefix('#')?));
        match reference.or(choice.filter(|_| schema["type"].is_null())) {
            Some(next) => schema = next,
            None => break,
        }
    }
    schema
}

/// The type that a schema wants; nothing if it does not say one.
#[must_use]
pub fn type_of(schema: &Value) -> Option<&str> {
    let listed = || schema["type"].as_array()?.iter().filter_map(Value::as_str).find(|name| *name != "null");
    schema["type"].as_str().or_else(listed)
}

/// A text as the value that its schema wants.
pub fn typed(text: &str, schema: &Value) -> Result<Value, &'static str> {
    let json = |fits: fn(&Value) -> bool| serde_json::from_str(text).ok().filter(fits);
    match type_of(schema) {
        Some("integer") => json(|value| value.is_i64() || value.is_u64()).ok_or("a whole number"),
        Some("number") => json(Value::is_number).ok_or("a number"),
        Some("boolean") => json(Value::is_boolean).ok_or("true or false"),
        Some("array") => json(Value::is_array).ok_or("a JSON array, such as '[\"a\", \"b\"]'"),
        Some("object") => json(Value::is_object).ok_or("a JSON object, such as '{\"a\": 1}'"),
        _ => Ok(text.into()),
    }
}

/// Whether a value has the schema's type, keeps its limits, and has its format.
fn check_limits(schema: &Value, value: &Value) -> Result<(), String> {
    let fits = match type_of(schema) {
        Some("integer") => value.is_i64() || value.is_u64(),
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
        "date-time" => (is_moment(text), "a moment, such as 2026-11-23T08:00:00Z"),
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(format!("it must be {expected}")) }
}

fn is_email(text: &str) -> bool {
    let parts = text.rsplit_once('@');
    parts.is_some_and(|(name, host)| !name.is_empty() && !host.is_empty()) && !text.contains(char::is_whitespace)
}

/// `jiff` also reads moments as dates, and other spellings.
fn is_date(text: &str) -> bool {
    text.len() == "2026-11-23".len() && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_moment(text: &str) -> bool {
    text.get(..10).is_some_and(is_date) && text.parse::<jiff::Timestamp>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(property: Value, value: Value) -> Result<(), String> {
        let schema = json!({"properties": {"a": property}, "required": ["a"]});
        check(&Map::from_iter([("a".to_owned(), value)]), &schema)
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (property, value, expected) in [
            (json!({"type": "string", "minLength": 2}), json!("x"), "`a`: it must be at least 2 characters"),
            (json!({"type": "integer", "maximum": 3}), json!(4), "`a`: it must be at most 3"),
            (json!({"type": "integer"}), json!(1.5), "`a`: it must be of the type integer"),
            (json!({"type": "boolean"}), json!("x"), "`a`: it must be true or false"),
            (json!({"type": "string", "enum": ["p", "q"]}), json!("r"), "`a`: it must be one of \"p\", \"q\""),
            (json!({"oneOf": [{"const": "p", "title": "P"}]}), json!("r"), "`a`: it must be one of \"p\""),
            (json!({"type": "array", "items": {"enum": ["p"]}}), json!(["q"]), "`a`: it must be one of \"p\""),
        ] {
            assert_eq!(checked(property, value), Err(expected.to_owned()));
        }
        assert_eq!(checked(json!({"type": "string"}), json!("x")), Ok(()));
        assert_eq!(checked(json!({"type": ["string", "null"]}), Value::Null), Ok(()));
        assert_eq!(checked(json!({"anyOf": [{"enum": ["p"]}, {"type": "null"}]}), Value::Null), Ok(()));
        assert_eq!(
            check(&Map::new(), &json!({"properties": {"a": {}}, "required": ["a"]})),
            Err("`a` is missing".into())
        );
    }

    #[test]
    fn fields_have_titles_and_choices() {
        let schema = json!({"properties": {
            "x": {"type": "string", "enum": ["p", "q"], "enumNames": ["P", "Q"]}, "y": {"type": "boolean", "title":
                "Y?"}
        }});
        let all = fields(&schema);
        assert_eq!((all[0].title.as_str(), all[1].title.as_str(), &all[1].kind), ("x", "Y?", &Kind::Switch));
        let Kind::One(choices) = &all[0].kind else { panic!("{all:?}") };
        assert_eq!(choices[1], Choice { value: json!("q"), title: "Q".to_owned() });
    }

    #[test]
    fn required_fields_come_first_in_the_order_of_their_names_in_the_schema() {
        let schema = json!({"properties": {"a": {}, "b": {}, "y": {}, "z": {}}, "required": ["z", "b"]});
        let names: Vec<String> = fields(&schema).into_iter().map(|field| field.name).collect();
        assert_eq!(names, ["z", "b", "a", "y"]);
    }

    #[test]
    fn a_choice_of_many_names_some() {
        let all: Vec<String> = (0..10_000).map(|number| format!("v{number}")).collect();
        let why = checked(json!({"enum": all}), json!("x")).unwrap_err();
        assert!(why.ends_with("\"v9\" and 9990 more"), "{why}");
    }

    #[test]
    fn what_stands_beside_a_reference_belongs_to_the_field() {
        let schema = json!({"properties": {"a": {"$ref": "#/$defs/a", "description": "What for.", "default": 2}},
            "$defs": {"a": {"type": "integer", "title": "A"}}});
        let all = fields(&schema);
        assert_eq!((all[0].title.as_str(), all[0].description.as_deref()), ("A", Some("What for.")));
        assert_eq!((&all[0].default, type_of(&all[0].schema)), (&Some(json!(2)), Some("integer")));
    }

    #[test]
    fn a_question_is_a_form_an_address_or_something_else() {
        let about = |method: &str, params: Value| Question { key: "k".to_owned(), method: method.to_owned(), params };
        let form = about("elicitation/create", json!({"requestedSchema": {"type": "object"}}));
        assert!(matches!(form.about(), About::Form(schema) if schema["type"] == "object"));
        let address = about("elicitation/create", json!({"mode": "url", "url": "https://example.com"}));
        assert!(matches!(address.about(), About::Address("https://example.com")));
        assert!(matches!(about("sampling/createMessage", json!({})).about(), About::Other));
    }

    #[test]
    fn formats_are_checked() {
        for (format, good, bad) in [
            ("email", &["ada@example.com", "a@b@c"][..], &["", "ada", "@", "a@", "@b", "a b@c"][..]),
            ("uri", &["https://example.com/?a=b#c", "urn:isbn:1"], &["", "example.com", "/a", "https://"]),
            (
                "date",
                &["2026-11-23", "2024-02-29"],
                &["", "2026-02-29", "2026-13-01", "23.11.2026", "2026-11-23T01:02:03"],
            ),
            (
                "date-time",
                &["2026-11-23T08:00:00Z", "2026-11-23T08:00:00.5+01:00"],
                &["", "2026-11-23", "2026-11-23T08:00:00", "2026-11-23T25:00:00Z"],
            ),
            ("unknown", &["", "x"], &[]),
        ] {
            let fits = |text: &str| check_limits(&json!({"type": "string", "format": format}), &json!(text)).is_ok();
            for text in good {
                assert!(fits(text), "{format} {text:?}");
            }
            for text in bad {
                assert!(!fits(text), "{format} {text:?}");
            }
        }
    }

    #[test]
    fn arrays_have_their_number_of_values() {
        let schema = json!({"type": "array", "minItems": 1, "maxItems": 2});
        assert_eq!(check_limits(&schema, &json!([])), Err("it must be at least 1 value".to_owned()));
        assert_eq!(check_limits(&schema, &json!([1, 2])), Ok(()));
        assert_eq!(check_limits(&schema, &json!([1, 2, 3])), Err("it must be at most 2 values".to_owned()));
        assert_eq!(check_limits(&schema, &json!({})), Err("it must be of the type array".to_owned()));
    }
}
