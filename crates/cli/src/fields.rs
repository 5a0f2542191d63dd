//! The fields of a form, as the schema of a question has them, and whether a value fits one.

use serde_json::{Map, Value};

use crate::given::{resolved, type_of, typed};

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) description: Option<String>,
    pub(crate) is_required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) kind: Kind,
    schema: Value,
}

/// What goes into a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
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
pub(crate) struct Choice {
    pub(crate) value: Value,
    pub(crate) title: String,
}

/// The fields that a schema has.
pub(crate) fn fields(schema: &Value) -> Vec<Field> {
    let required = |name: &str| {
        schema["required"].as_array().is_some_and(|all| all.iter().any(|required| required.as_str() == Some(name)))
    };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let field = |(name, property): (&String, &Value)| {
        let property = resolved(property, schema);
        let text = |member: &str| property[member].as_str().map(str::to_owned);
        Field {
            name: name.clone(),
            title: text("title").unwrap_or_else(|| name.clone()),
            description: text("description"),
            is_required: required(name),
            default: property.get("default").cloned(),
            kind: kind(property),
            schema: property.clone(),
        }
    };
    properties.map(field).collect()
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
    ///
    /// # Errors
    /// What is expected.
    pub(crate) fn read(&self, text: &str) -> Result<Value, String> {
        let value = typed(text, &self.schema).map_err(|expected| format!("it must be {expected}"))?;
        self.check(&value).map(|()| value)
    }

    /// Whether a value fits.
    ///
    /// # Errors
    /// What is expected.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        match &self.kind {
            Kind::One(choices) => among(choices, value),
            Kind::Some(choices) => {
                let chosen = value.as_array().ok_or("it must be a JSON array")?;
                chosen.iter().try_for_each(|one| among(choices, one))
            }
            Kind::Switch if !value.is_boolean() => Err("it must be true or false".to_owned()),
            Kind::Switch => Ok(()),
            Kind::Text => self.check_limits(value),
        }
    }

    fn check_limits(&self, value: &Value) -> Result<(), String> {
        let fits = match type_of(&self.schema) {
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("number") => value.is_number(),
            Some("string") => value.is_string(),
            _ => true,
        };
        if !fits {
            return Err(format!("it must be of the type {}", type_of(&self.schema).unwrap_or_default()));
        }
        let limit = |name: &str| self.schema[name].as_f64();
        let (least, most, size, unit) = match value {
            Value::String(text) => {
                let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
                (limit("minLength"), limit("maxLength"), f64::from(length), " characters")
            }
            number => (limit("minimum"), limit("maximum"), number.as_f64().unwrap_or_default(), ""),
        };
        match (least, most) {
            (Some(least), _) if size < least => Err(format!("it must be at least {least}{unit}")),
            (_, Some(most)) if size > most => Err(format!("it must be at most {most}{unit}")),
            _ => Ok(()),
        }
    }
}

fn among(choices: &[Choice], value: &Value) -> Result<(), String> {
    if choices.iter().any(|choice| choice.value == *value) {
        return Ok(());
    }
    let all: Vec<String> = choices.iter().map(|choice| choice.value.to_string()).collect();
    Err(format!("it must be one of {}", all.join(", ")))
}

/// Whether all values fit, and none is missing.
///
/// # Errors
/// What does not fit, by its name.
pub(crate) fn check(content: &Map<String, Value>, schema: &Value) -> Result<(), String> {
    for field in fields(schema) {
        match content.get(&field.name) {
            Some(value) => field.check(value).map_err(|why| format!("`{}`: {why}", field.name))?,
            None if field.is_required => return Err(format!("`{}` is missing", field.name)),
            None => {}
        }
    }
    Ok(())
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
        assert_eq!(
            check(&Map::new(), &json!({"properties": {"a": {}}, "required": ["a"]})),
            Err("`a` is missing".into())
        );
    }

    #[test]
    fn fields_have_titles_and_choices() {
        let schema = json!({"properties": {
            "x": {"type": "string", "enum": ["p", "q"], "enumNames": ["P", "Q"]}, "y": {"type": "boolean", "title": "Y?"}
        }});
        let all = fields(&schema);
        assert_eq!((all[0].title.as_str(), all[1].title.as_str(), &all[1].kind), ("x", "Y?", &Kind::Switch));
        let Kind::One(choices) = &all[0].kind else { panic!("{all:?}") };
        assert_eq!(choices[1], Choice { value: json!("q"), title: "Q".to_owned() });
    }
}
