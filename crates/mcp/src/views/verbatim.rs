//! Results, and elements of lists, that have a text of their own. A handler that passes a server's text on puts it into
//! `_meta`. Clients get that text, and not the one that `rmcp` would write. If a client's revision needs another form,
//! only the members concerned are changed in the text.

use longhaul_core::strict_json;
use longhaul_core::verbatim::{KEY, Object, changed, in_one_line};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, MetaObject, ServerResult};
use serde_json::{Map, Value};

use crate::reply::errors;

/// The lists whose elements may have a text of their own.
const LISTS: [&str; 4] = ["tools", "prompts", "resources", "resourceTemplates"];

/// The members of a result that the server adds for a client if the text lacks them.
const ADDED: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// A result of a tool that has this text.
pub(crate) fn result(text: String, is_error: bool) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.is_error = is_error.then_some(true);
    result.meta.get_or_insert_default().0.insert(KEY.to_owned(), text.into());
    result
}

/// The text of a result, if it has one.
pub(crate) fn take(result: &mut CallToolResult) -> Option<String> {
    take_of(&mut result.meta)
}

/// The text of any result.
pub(crate) fn take_of_any(result: &mut ServerResult) -> Option<String> {
    match result {
        ServerResult::CallToolResult(result) => take_of(&mut result.meta),
        ServerResult::GetPromptResult(result) => take_of(&mut result.meta),
        ServerResult::ReadResourceResult(result) => take_of(&mut result.meta),
        ServerResult::CompleteResult(result) => take_of(&mut result.meta),
        _ => None,
    }
}

fn take_of(meta: &mut Option<MetaObject>) -> Option<String> {
    match meta.as_mut()?.0.shift_remove(KEY)? {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// A text as it is stored: with the type that results of older revisions lack.
pub(crate) fn stored(text: &str) -> Result<String, serde_json::Error> {
    let text = in_one_line(text);
    let object = Object::read(&text)?;
    Ok(match object.get("resultType") {
        Some(_) => text.into_owned(),
        None => object.with("resultType", r#""complete""#),
    })
}

/// A text as the client gets it. `written` has the members that the client's revision needs.
pub(crate) fn for_client(text: String, written: &Map<String, Value>) -> Result<String, ErrorData> {
    let unreadable = |error| errors::internal("the handler's result could not be read", &error);
    let mut text = match in_one_line(&text) {
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(text) => text,
    };
    let (has, mut missing) = {
        let object = Object::read(&text).map_err(unreadable)?;
        let has = object.get("resultType").is_some();
        (has, ADDED.iter().filter(|name| object.get(name).is_none()).collect::<Vec<_>>())
    };
    if has && !written.contains_key("resultType") {
        text = Object::read(&text).map_err(unreadable)?.without("resultType");
        missing.retain(|name| **name != "resultType");
    }
    for name in missing {
        if let Some(value) = written.get(*name) {
            text = Object::read(&text).map_err(unreadable)?.with(name, &value.to_string());
        }
    }
    Ok(text)
}

/// Replaces the members that `rmcp` has written by those of the text, so that they can be changed. The text stays there
/// for [`written`].
pub(crate) fn expand(result: &mut Map<String, Value>) {
    expand_one(result);
    for list in LISTS {
        let items = result.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        items.filter_map(Value::as_object_mut).for_each(expand_one);
    }
}

fn expand_one(object: &mut Map<String, Value>) {
    let Some(Value::Object(meta)) = object.get("_meta") else { return };
    let Some(Value::String(text)) = meta.get(KEY) else { return };
    let text = in_one_line(text).into_owned();
    if let Ok(members) = strict_json::from_str::<Map<String, Value>>(&text) {
        let added = ADDED.iter().filter_map(|name| Some(((*name).to_owned(), object.get(*name)?.clone())));
        let added: Vec<_> = added.collect();
        *object = members;
        for (name, value) in added {
            object.entry(name).or_insert(value);
        }
        object.insert(KEY.to_owned(), text.into());
    }
}

/// The JSON text of a result that was [expanded](expand). All that was not changed since is as in its own text.
pub(crate) fn written(mut result: Map<String, Value>) -> Result<String, ErrorData> {
    let unreadable = |error| errors::internal("the handler's result could not be written", &error);
    let mut lists = Vec::new();
    for list in LISTS {
        let Some(Value::Array(items)) = result.get_mut(list) else { continue };
        let texts = std::mem::take(items).into_iter().map(|item| match item {
            Value::Object(item) => written_one(item),
            item => Ok(item.to_string()),
        });
        let texts = texts.collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        lists.push((list, format!("[{}]", texts.join(","))));
    }
    let mut text = written_one(result).map_err(unreadable)?;
    for (list, items) in lists {
        text = Object::read(&text).map_err(unreadable)?.with(list, &items);
    }
    Ok(text)
}

/// The same, with the text of one more member.
pub(crate) fn with_member(result: Map<String, Value>, name: &str, value: &str) -> Result<String, ErrorData> {
    let text = written(result)?;
    let object = Object::read(&text);
    let object = object.map_err(|error| errors::internal("the handler's result could not be written", &error))?;
    Ok(object.with(name, value))
}

fn written_one(mut object: Map<String, Value>) -> Result<String, serde_json::Error> {
    match object.shift_remove(KEY) {
        Some(Value::String(text)) => changed(&text, &object),
        _ => Ok(Value::Object(object).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"{ "x": 1e3, "content": [ {"type":"odd","v":1.0} ], "resultType":"complete" }"#;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_result_is_its_text_with_what_the_revision_needs() {
        let mut carried = result(TEXT.to_owned(), false);
        assert_eq!(take(&mut carried).as_deref(), Some(TEXT));
        assert_eq!(take(&mut carried), None);
        let older = for_client(TEXT.to_owned(), &map(json!({"content": []}))).unwrap();
        assert_eq!(older, r#"{ "x": 1e3, "content": [ {"type":"odd","v":1.0} ] }"#);
        let newer = for_client(older.clone(), &map(json!({"resultType": "complete", "ttlMs": 0}))).unwrap();
        assert!(newer.starts_with(older.trim_end_matches(" }")), "{newer}");
        assert!(newer.ends_with(r#","resultType":"complete","ttlMs":0}"#), "{newer}");
        assert_eq!(stored(TEXT).unwrap(), TEXT);
        assert!(for_client("[1]".to_owned(), &Map::new()).is_err());
    }

    #[test]
    fn what_is_not_changed_in_a_list_stays_as_it_was_written() {
        let tool = r#"{"name":"a","inputSchema":{"multipleOf":1e-2, "x":"\u00e9"},"odd":1.0,"outputSchema":{}}"#;
        let mut listed = map(json!({"ttlMs": 5, "tools": [{"name": "a", "_meta": {KEY: tool}}, {"name": "b"}]}));
        expand(&mut listed);
        let tools = listed["tools"].as_array_mut().unwrap();
        tools[0].as_object_mut().unwrap().shift_remove("outputSchema");
        tools[0]["execution"] = json!({"taskSupport": "optional"});
        let expected = r#"{"ttlMs":5,"tools":[{"name":"a","inputSchema":{"multipleOf":1e-2, "x":"\u00e9"},"odd":1.0,"execution":{"taskSupport":"optional"}},{"name":"b"}]}"#;
        assert_eq!(written(listed).unwrap(), expected);
    }
}
