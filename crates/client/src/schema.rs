//! What the parts of a JSON schema mean for whoever fills it in.

use serde_json::Value;

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
///
/// # Errors
/// What is expected.
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
