//! Messages as older revisions have them. Members that a revision does not know are left out, or shown in another form
//! if there is one.

use longhaul_core::strict_json;
use longhaul_core::verbatim::Object;
use rmcp::ErrorData;
use serde_json::{Map, Value, json};

use crate::reply::errors;
use crate::revision::own_revision;

/// The first revision with structured content and links to resources in results.
const STRUCTURED_SINCE: &str = "2025-06-18";

/// The first revision with audio content.
const AUDIO_SINCE: &str = "2025-03-26";

/// The first revision whose elicitation has more than one mode, and today's forms.
const MODES_SINCE: &str = "2025-11-25";

/// The first revision with structured content that is not an object.
const ANY_STRUCTURE_SINCE: &str = "2026-07-28";

/// The revision whose results these clients know.
fn served_as(revision: &str) -> &str {
    own_revision(revision).map_or(revision, |own| own.served_as)
}

/// Whether `revision` knows results with this structured content, and all else that a result may have.
pub(crate) fn is_known(revision: &str, structured: Option<&Value>) -> bool {
    let revision = served_as(revision);
    let is_object = structured.is_none_or(Value::is_object);
    revision >= STRUCTURED_SINCE && (is_object || revision >= ANY_STRUCTURE_SINCE)
}

/// Changes a result of a tool to the form of `revision`.
pub(crate) fn result(revision: &str, result: &mut Map<String, Value>) {
    if is_known(revision, result.get("structuredContent")) {
        return;
    }
    let structured = result.shift_remove("structuredContent");
    let content = result.entry("content").or_insert_with(|| json!([]));
    let Some(blocks) = content.as_array_mut() else { return };
    blocks.iter_mut().for_each(|block| content_block(served_as(revision), block));
    if let Some(structured) = structured.filter(|_| blocks.is_empty()) {
        blocks.push(text(structured.to_string()));
    }
}

/// The same of a result that is a text: it stays as it is if the revision has all of it.
pub(crate) fn result_text(revision: &str, text: String) -> Result<String, ErrorData> {
    let unreadable = |error| errors::internal("the handler's result could not be read", &error);
    let structured = Object::read(&text).map_err(unreadable)?.get("structuredContent").map(|structured| {
        let is_object = structured.starts_with('{');
        if is_object { json!({}) } else { Value::Null }
    });
    if is_known(revision, structured.as_ref()) {
        return Ok(text);
    }
    let mut members = strict_json::from_str(&text).map_err(unreadable)?;
    result(revision, &mut members);
    Ok(Value::Object(members).to_string())
}

/// Leaves out of a tool in a list what its results are, if `revision` does not know such results.
pub(crate) fn output_schema(revision: &str, tool: &mut Map<String, Value>) {
    let is_object = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("object");
    if served_as(revision) < ANY_STRUCTURE_SINCE && tool.get("outputSchema").is_some_and(|schema| !is_object(schema)) {
        tool.shift_remove("outputSchema");
    }
}

/// Changes a content block to the form of `revision`: kinds that it does not know become text.
pub(crate) fn content_block(revision: &str, block: &mut Value) {
    let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    let replaced = match field("type") {
        "resource_link" if revision < STRUCTURED_SINCE => text(format!("{}: {}", field("name"), field("uri"))),
        "audio" if revision < AUDIO_SINCE => text(format!("[audio, {}]", field("mimeType"))),
        _ => {
            if let Some(block) = block.as_object_mut().filter(|_| revision < STRUCTURED_SINCE) {
                block.shift_remove("_meta");
            }
            return;
        }
    };
    *block = replaced;
}

fn text(text: String) -> Value {
    json!({"type": "text", "text": text})
}

/// Changes a request of the server to the form of `revision`. Fails with `-32600` for a question that the revision has
/// no form for.
pub(crate) fn request(revision: &str, method: &str, params: &mut Map<String, Value>) -> Result<(), ErrorData> {
    if method != "elicitation/create" || revision >= MODES_SINCE {
        return Ok(());
    }
    match params.shift_remove("mode").as_ref().and_then(Value::as_str) {
        None | Some("form") => {}
        Some(mode) => return Err(unknown(&format!("elicitation in the mode `{mode}`"))),
    }
    let Some(schema) = params.get_mut("requestedSchema").and_then(Value::as_object_mut) else { return Ok(()) };
    schema.retain(|name, _| matches!(name.as_str(), "type" | "properties" | "required"));
    let fields = schema.get_mut("properties").and_then(Value::as_object_mut);
    fields.into_iter().flatten().try_for_each(|(name, field)| form_field(name, field))
}

/// A field of a form: a string, a number, yes or no, or one of some strings.
fn form_field(name: &str, field: &mut Value) -> Result<(), ErrorData> {
    let Some(field) = field.as_object_mut() else { return Ok(()) };
    if let Some(choices) = field.shift_remove("oneOf") {
        let all =
            |name: &str| choices.as_array().into_iter().flatten().filter_map(|one| one.get(name)).cloned().collect();
        let (values, names): (Vec<Value>, Vec<Value>) = (all("const"), all("title"));
        if values.len() == names.len() {
            field.insert("enumNames".to_owned(), names.into());
        }
        field.insert("enum".to_owned(), values.into());
    }
    match field.get("type").and_then(Value::as_str) {
        Some("array") => return Err(unknown(&format!("a question with several answers, as `{name}` is"))),
        Some("integer" | "number" | "boolean") if field.contains_key("enum") => return Err(unknown(&choice(name))),
        Some("boolean") => {}
        Some("string" | "integer" | "number") => drop(field.shift_remove("default")),
        None if field.contains_key("enum") => {}
        _ => return Err(unknown(&choice(name))),
    }
    Ok(())
}

fn choice(name: &str) -> String {
    format!("a property such as `{name}`, which is not a string, a number, a boolean or a choice of strings")
}

fn unknown(what: &str) -> ErrorData {
    ErrorData::invalid_request(format!("the client's revision of MCP does not have {what}"), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revised(revision: &str, mut of: Value) -> Value {
        result(revision, of.as_object_mut().unwrap());
        of
    }

    #[test]
    fn structured_content_that_is_not_an_object_is_left_out_where_it_is_not_known() {
        let list = json!({"content": [], "structuredContent": [1, 2]});
        for revision in ["2025-06-18", "2025-11-25", "next"] {
            assert_eq!(revised(revision, list.clone()), json!({"content": [{"type": "text", "text": "[1,2]"}]}));
            let shown = json!({"content": [{"type": "text", "text": "two"}], "structuredContent": 7});
            assert_eq!(revised(revision, shown), json!({"content": [{"type": "text", "text": "two"}]}));
            let object = json!({"content": [], "structuredContent": {"a": 1}});
            assert_eq!(revised(revision, object.clone()), object);
        }
        assert_eq!(revised("2026-07-28", list.clone()), list);
    }

    #[test]
    fn a_form_is_refused_by_the_name_of_the_property_that_a_revision_does_not_have() {
        let asked = |revision: &str, field: Value| {
            let mut params = json!({"message": "?", "requestedSchema": {"properties": {"zeta": field}}});
            let revised = request(revision, "elicitation/create", params.as_object_mut().unwrap());
            revised.map(|()| params["requestedSchema"]["properties"]["zeta"].clone())
        };
        for field in [
            json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
            json!({"type": "integer", "enum": [1, 2]}),
            json!({"type": ["string", "null"]}),
            json!({"type": "array", "items": {"type": "string"}}),
        ] {
            assert_eq!(asked("2025-11-25", field.clone()).unwrap(), field);
            let refused = asked("2025-06-18", field.clone()).unwrap_err();
            assert!(refused.message.contains("`zeta`"), "{field}: {refused}");
        }
        for field in [json!({"type": "integer", "maximum": 2}), json!({"type": "string", "enum": ["a"]})] {
            assert_eq!(asked("2025-06-18", field.clone()).unwrap(), field);
        }
    }

    #[test]
    fn the_schema_of_such_content_is_left_out_too() {
        let tool = |schema: Value| json!({"name": "a", "outputSchema": schema});
        let listed = |revision: &str, mut tool: Value| {
            output_schema(revision, tool.as_object_mut().unwrap());
            tool
        };
        let (list, object) = (tool(json!({"type": "array"})), tool(json!({"type": "object"})));
        assert_eq!(listed("2025-11-25", list.clone()), json!({"name": "a"}));
        assert_eq!(listed("2025-11-25", object.clone()), object);
        assert_eq!(listed("2026-07-28", list.clone()), list);
    }
}
