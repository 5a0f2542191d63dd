//! Forms for types: what `schemars` says about a struct, in the words that MCP has for forms.

use longhaul_core::strict_json;
use rmcp::model::{ElicitationSchema, PrimitiveSchemaDefinition};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use schemars::transform::AddNullable;
use serde_json::{Map, Value, json};

/// The form that asks for a `T`.
///
/// # Errors
/// The first field that no form can ask for, and why.
pub fn form_of<T: JsonSchema>() -> Result<ElicitationSchema, String> {
    let form = T::schema_name();
    let mut settings = SchemaSettings::draft07();
    // A form has no definitions to refer to.
    settings.inline_subschemas = true;
    settings.transforms = vec![Box::new(AddNullable::default())];
    let Value::Object(mut schema) = settings.into_generator().into_root_schema_for::<T>().to_value() else {
        return Err(format!("no form can ask for `{form}`: it is not a struct"));
    };
    let Some(Value::Object(properties)) = schema.get_mut("properties") else {
        return Err(format!("no form can ask for `{form}`: it is not a struct with named fields"));
    };
    for (field, property) in properties {
        in_words_of_forms(property);
        let read: Result<PrimitiveSchemaDefinition, _> = strict_json::from_value(property.clone());
        read.map_err(|_unreadable| format!("no form can ask for the field `{field}` of `{form}`: {}", why(property)))?;
    }
    ElicitationSchema::from_json_schema(schema).map_err(|error| format!("no form can ask for `{form}`: {error}"))
}

fn why(property: &Value) -> &'static str {
    match property.get("type").and_then(Value::as_str) {
        Some("object") => "it has fields of its own, and a form has none inside another; put them into the form itself",
        Some("array") => "a list can only be one of choices: an enum without values in its variants",
        _ => "a form has strings, numbers, booleans, and choices: enums without values in their variants",
    }
}

/// An optional choice is a choice, and a choice whose variants have comments has them as its titles.
fn in_words_of_forms(property: &mut Value) {
    let Value::Object(property) = property else { return };
    property.remove("nullable");
    take_only_alternative(property);
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(choices) = choices(property) {
        property.remove("oneOf");
        property.insert("type".to_owned(), "string".into());
        property.insert("oneOf".to_owned(), choices);
    }
    if let Some(Value::Object(items)) = property.get_mut("items")
        && let Some(choices) = choices(items)
    {
        *items = Map::from_iter([("anyOf".to_owned(), choices)]);
    }
}

/// `anyOf` a schema and null is that schema: the field is not among those that are required.
fn take_only_alternative(property: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = property.get("anyOf") else { return };
    let is_null =
        |schema: &Value| schema.get("type") == Some(&json!("null")) || schema.get("const") == Some(&Value::Null);
    let others: Vec<&Value> = alternatives.iter().filter(|schema| !is_null(schema)).collect();
    let [Value::Object(only)] = others[..] else { return };
    let mut only = only.clone();
    only.remove("nullable");
    property.remove("anyOf");
    for (key, value) in only {
        property.entry(key).or_insert(value);
    }
}

/// The variants of an enum of which some have comments, each with its title.
fn choices(schema: &Map<String, Value>) -> Option<Value> {
    let mut choices = Vec::new();
    for variant in schema.get("oneOf")?.as_array()? {
        let title = variant.get("description").or_else(|| variant.get("title")).and_then(Value::as_str);
        let values = match variant.get("const") {
            Some(value) => vec![value],
            None => variant.get("enum")?.as_array()?.iter().collect(),
        };
        for value in values {
            let value = value.as_str()?;
            choices.push(json!({"const": value, "title": title.unwrap_or(value)}));
        }
    }
    Some(Value::Array(choices))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is read")]
    struct Trip {
        /// Where to?
        city: String,
        nights: Option<u32>,
        class: Class,
        seat: Option<Seat>,
        extras: Vec<Extra>,
        #[schemars(range(min = 1, max = 5))]
        bags: u8,
        insured: bool,
    }

    /// How to travel.
    #[derive(JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[expect(dead_code, reason = "only its schema is read")]
    enum Class {
        /// With a bed
        First,
        Second,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is read")]
    enum Seat {
        Window,
        Aisle,
    }

    #[derive(JsonSchema)]
    #[expect(dead_code, reason = "only its schema is read")]
    enum Extra {
        Meal,
        Bike,
    }

    #[test]
    fn enums_and_optional_fields_are_in_the_words_of_forms() {
        let form = serde_json::to_value(form_of::<Trip>().unwrap()).unwrap();
        let of = |field: &str| form["properties"][field].clone();
        assert_eq!(of("city")["description"], "Where to?");
        assert_eq!(
            of("class")["oneOf"],
            json!([{"const": "second", "title": "second"}, {"const": "first", "title": "With a bed"}])
        );
        assert_eq!((&of("seat")["type"], &of("seat")["enum"]), (&json!("string"), &json!(["Window", "Aisle"])));
        assert_eq!(of("extras")["items"]["enum"], json!(["Meal", "Bike"]));
        assert_eq!(of("nights")["type"], "integer");
        assert_eq!((&of("bags")["minimum"], &of("bags")["maximum"]), (&json!(1), &json!(5)));
        assert_eq!(form["required"], json!(["city", "class", "extras", "bags", "insured"]));
        assert!(!form.to_string().contains("$ref"), "{form}");
    }

    #[test]
    fn a_field_that_no_form_can_ask_for_is_named() {
        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is read")]
        struct Nested {
            trip: Trip,
        }

        #[derive(JsonSchema)]
        #[expect(dead_code, reason = "only its schema is read")]
        struct Listed {
            cities: Vec<String>,
        }

        let refused = form_of::<Nested>().unwrap_err();
        assert!(refused.starts_with("no form can ask for the field `trip` of `Nested`: it has fields"), "{refused}");
        let refused = form_of::<Listed>().unwrap_err();
        assert!(refused.starts_with("no form can ask for the field `cities` of `Listed`: a list"), "{refused}");
        let refused = form_of::<u32>().unwrap_err();
        assert!(refused.contains("not a struct with named fields"), "{refused}");
    }
}
