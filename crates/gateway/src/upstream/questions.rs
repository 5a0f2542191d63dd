//! Forms that a server has its caller asked for. `rmcp` only reads the parts of a form that it has types for. A form
//! that would lose something is refused by the name of its property, and never asked as another form.

use std::borrow::Cow;

use longhaul_core::strict_json;
use longhaul_core::verbatim::{Object, carrying};
use rmcp::ErrorData;
use rmcp::model::{
    CustomRequest, InputRequest, JsonRpcMessage, PrimitiveSchemaDefinition, ServerJsonRpcMessage, ServerRequest,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const ELICITATION: &str = "elicitation/create";

/// The method under which a question is left that cannot be asked.
const UNASKABLE: &str = "dev.longhaul/unaskable";

/// Members of a schema without which a form asks for the same.
const ONLY_DESCRIBE: [&str; 5] = ["$comment", "deprecated", "examples", "readOnly", "writeOnly"];

/// The message, as it was read from `text`. A form that would be asked otherwise is left unread in it, so that it is
/// [refused](refusal).
pub(super) fn checked(message: ServerJsonRpcMessage, text: &[u8]) -> ServerJsonRpcMessage {
    #[derive(Deserialize)]
    struct Asked {
        params: Value,
    }
    let JsonRpcMessage::Request(mut request) = message else { return message };
    if matches!(request.request, ServerRequest::ElicitRequest(_))
        && let Ok(Asked { params }) = strict_json::from_slice(text)
        && lossy(&params).is_some()
    {
        request.request = ServerRequest::CustomRequest(CustomRequest::new(UNASKABLE, Some(params)));
    }
    JsonRpcMessage::Request(request)
}

/// Whether a method, as JSON, is one of a question to the caller.
pub(super) fn is_question(method: Option<&str>) -> bool {
    matches!(method, Some(r#""elicitation/create""# | r#""sampling/createMessage""# | r#""roots/list""#))
}

/// The text of a result, each of whose questions carries its own text.
pub(super) fn carrying_all(result: &str) -> Option<String> {
    let whole = Object::read(result).ok()?;
    let requests = Object::read(whole.get("inputRequests")?).ok()?;
    let carried = requests.members().map(|(key, request)| {
        let request = carrying(request).map_or(Cow::Borrowed(request), Cow::Owned);
        format!("{}:{request}", Value::from(key))
    });
    Some(whole.with("inputRequests", &format!("{{{}}}", carried.collect::<Vec<_>>().join(","))))
}

/// Whether a request was left as one that cannot be asked.
pub(super) fn is_unaskable(request: &ServerRequest) -> bool {
    matches!(request, ServerRequest::CustomRequest(request)
        if matches!(request.method.as_str(), UNASKABLE | ELICITATION))
}

/// Checks the questions that a result asks.
///
/// # Errors
/// Which of them cannot be asked.
pub(super) fn all_askable(requests: Option<&str>) -> Result<(), String> {
    let requests = requests.and_then(|requests| strict_json::from_str::<Map<String, Value>>(requests).ok());
    for request in requests.unwrap_or_default().values() {
        let params = request.get("params").filter(|_| request.get("method").is_some_and(|name| name == ELICITATION));
        if params.and_then(lossy).is_some() {
            return Err(refusal(params).message.into_owned());
        }
    }
    Ok(())
}

/// A question of a server's task; `None` if the question has an unknown shape.
///
/// # Errors
/// That its form cannot be asked.
pub(super) fn of_task(method: &str, params: Value) -> Result<Option<InputRequest>, ErrorData> {
    if method == ELICITATION && lossy(&params).is_some() {
        return Err(refusal(Some(&params)));
    }
    let request = json!({"method": method, "params": params}).to_string();
    Ok(strict_json::from_str(carrying(&request).as_deref().unwrap_or(&request)).ok())
}

/// Why a form is not asked.
pub(super) fn refusal(params: Option<&Value>) -> ErrorData {
    let why = match params.and_then(lossy) {
        Some(name) => format!(
            "the property `{name}` cannot be asked for: forms of MCP have strings, numbers, booleans and choices of \
             strings, and not all that its schema says"
        ),
        None => "the question cannot be read".to_owned(),
    };
    ErrorData::invalid_params(why, None)
}

/// The first property of a form of which `rmcp` would lose something.
fn lossy(params: &Value) -> Option<&str> {
    let properties = params.pointer("/requestedSchema/properties")?.as_object()?;
    let is_lossy = |schema: &Value| {
        let read = strict_json::from_value::<PrimitiveSchemaDefinition>(schema.clone());
        let written = read.ok().and_then(|read| serde_json::to_value(read).ok());
        !written.is_some_and(|written| has_all(&written, schema))
    };
    properties.iter().find(|(_, schema)| is_lossy(schema)).map(|(name, _)| name.as_str())
}

/// Whether `value` has all that `other` has.
fn has_all(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(value), Value::Object(other)) => {
            let says_something = |name: &str| !ONLY_DESCRIBE.contains(&name) && !name.starts_with("x-");
            let other = other.iter().filter(|(name, _)| says_something(name));
            other.into_iter().all(|(name, other)| value.get(name).is_some_and(|value| has_all(value, other)))
        }
        (Value::Array(value), Value::Array(other)) => {
            value.len() == other.len() && value.iter().zip(other).all(|(value, other)| has_all(value, other))
        }
        (Value::Number(value), Value::Number(other)) => value.as_f64() == other.as_f64(),
        (value, other) => value == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(schema: &Value) -> Value {
        let properties = json!({"a": {"type": "string"}, "v": schema});
        json!({"message": "?", "requestedSchema": {"type": "object", "properties": properties}})
    }

    #[test]
    fn a_form_is_asked_as_it_is_or_refused_by_the_name_of_its_property() {
        for schema in [
            json!({"type": "string", "minLength": 1, "maxLength": 3, "format": "email", "title": "T"}),
            json!({"type": "integer", "minimum": 1, "maximum": 3}),
            json!({"type": "number", "minimum": 0.5, "description": "d", "x-order": 1}),
            json!({"type": "boolean", "default": true}),
            json!({"type": "string", "enum": ["z", "a"]}),
            json!({"type": "string", "oneOf": [{"const": "z", "title": "Z"}]}),
        ] {
            assert_eq!(lossy(&form(&schema)), None, "{schema}");
            assert!(of_task(ELICITATION, form(&schema)).unwrap().is_some(), "{schema}");
        }
        for schema in [
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"type": "integer", "enum": [1, 2]}),
            json!({"type": "string", "pattern": "^a"}),
            json!({"type": "object", "properties": {}}),
            json!({"$ref": "#/$defs/a"}),
        ] {
            let refused = of_task(ELICITATION, form(&schema)).unwrap_err();
            assert!(refused.message.contains("the property `v`"), "{schema}: {refused}");
        }
    }

    #[test]
    fn a_question_that_nobody_knows_is_none() {
        assert!(of_task("odd/odd", json!({})).unwrap().is_none());
    }

    #[test]
    fn a_message_with_such_a_form_is_left_unread() {
        let message = |schema: &Value| {
            let text = json!({"jsonrpc": "2.0", "id": 1, "method": ELICITATION, "params": form(schema)}).to_string();
            let read: ServerJsonRpcMessage = serde_json::from_str(&text).unwrap();
            match checked(read, text.as_bytes()) {
                JsonRpcMessage::Request(request) => request.request,
                other => panic!("{other:?}"),
            }
        };
        assert!(matches!(message(&json!({"type": "integer"})), ServerRequest::ElicitRequest(_)));
        assert!(matches!(message(&json!({"type": "integer", "enum": [1]})), ServerRequest::CustomRequest(_)));
    }
}
