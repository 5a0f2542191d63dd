//! Results of a server, read leniently. A member that cannot be understood is left out, and the log says so.

use std::borrow::Cow;

use longhaul_core::strict_json;
use longhaul_core::verbatim::{KEY, Object, changed, elements, written_as};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResult, CompleteResult, CreateTaskResult, CustomResult, ErrorCode, GetPromptResult, GetTaskResult,
    InputRequiredResult, MetaObject, ProtocolVersion, ReadResourceResult, ResultType, ServerResult, TaskPayload,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::questions;
use crate::verbatim;

/// The members without which one of a list is nothing.
const LISTS: [(&str, &str, &[&str]); 4] = [
    ("tools/list", "tools", &["name", "inputSchema"]),
    ("prompts/list", "prompts", &["name"]),
    ("resources/list", "resources", &["uri", "name"]),
    ("resources/templates/list", "resourceTemplates", &["uriTemplate", "name"]),
];

/// The result of a request, of which this is the text.
///
/// # Errors
/// Why it cannot be understood.
pub(super) fn read(server: &str, method: &str, text: &str) -> Result<ServerResult, String> {
    if let Some((_, items, needed)) = LISTS.iter().find(|(list, ..)| *list == method) {
        return of_a_list(server, (items, needed), text);
    }
    if let Some(result) = unread(method, text) {
        return result;
    }
    match (method, strict_json::from_str(text).map_err(|error| error.to_string())?) {
        ("initialize", Value::Object(members)) => of_initialize(server, members),
        (_, Value::Null) => Ok(ServerResult::empty(())),
        (_, result) => strict_json::from_value(result).map_err(|error| error.to_string()),
    }
}

/// A result that goes to its client as it is; `None` if it does not.
///
/// # Errors
/// Why it cannot.
pub(super) fn unread(method: &str, text: &str) -> Option<Result<ServerResult, String>> {
    let (needed, mut result): (_, ServerResult) = match method {
        "tools/call" | "tasks/result" => return Some(of_a_call(text)),
        "prompts/get" => ("messages", GetPromptResult::default().into()),
        "resources/read" => ("contents", ServerResult::ReadResourceResult(ReadResourceResult::new(Vec::new()))),
        "completion/complete" => ("completion", ServerResult::CompleteResult(CompleteResult::default())),
        // Its questions may not be what `rmcp` knows.
        "tasks/get" => return questions::carrying_all(text).map(|text| typed::<GetTaskResult>(&text)),
        _ => return None,
    };
    let object = Object::read(text).ok()?;
    if object.get("resultType") == Some("\"input_required\"") {
        return None;
    }
    if object.get(needed).is_none() {
        return Some(Err(format!("its result has no `{needed}`")));
    }
    add_text(&mut result, text);
    Some(Ok(result))
}

/// The answer to a call. A task of revision `2025-11-25`, whose kind is not named, stays as it is.
///
/// # Errors
/// Why it cannot be understood.
pub(super) fn of_a_call(text: &str) -> Result<ServerResult, String> {
    let Ok(object) = Object::read(text) else { return of_a_tool(text).map(ServerResult::CallToolResult) };
    let task = object.get("task").and_then(|task| Object::read(task).ok()?.get("taskId"));
    let kind = object.get("resultType").map_or(Ok("complete".to_owned()), strict_json::from_str);
    match (task, kind.as_deref().unwrap_or("complete")) {
        (Some(id), _) if id.starts_with('"') => typed::<CustomResult>(text),
        (_, "complete") => of_a_tool(text).map(ServerResult::CallToolResult),
        (_, "input_required") => typed::<InputRequiredResult>(questions::carrying_all(text).as_deref().unwrap_or(text)),
        (_, "task") => typed::<CreateTaskResult>(text),
        (_, other) => Err(format!("its `resultType` is `{other}`, which is not known")),
    }
}

/// The result of a tool, as its text. One that has nothing in it is a result too.
///
/// # Errors
/// Why it cannot be understood.
pub(super) fn of_a_tool(text: &str) -> Result<CallToolResult, String> {
    let text = if text.trim() == "null" { "{}" } else { text };
    let object = Object::read(text);
    let object =
        object.map_err(|_no_object| format!("its result is {}, and not the result of a tool", kind_of(text)))?;
    let as_text = |error: serde_json::Error| error.to_string();
    let (mut read, mut text) = (CallToolResult::default(), Cow::Borrowed(text));
    read.result_type = object.get("resultType").map(|_| ResultType::COMPLETE);
    if let Some(content) = content(object.get("content"))? {
        text = Cow::Owned(Object::read(&text).map_err(as_text)?.with("content", &content));
    }
    read.is_error = match object.get("isError") {
        None => None,
        Some("true" | "\"true\"") => Some(true),
        Some(_) => Some(false),
    };
    if let Some(said) = object.get("isError").filter(|said| !matches!(*said, "true" | "false")) {
        let whole = Object::read(&text).map_err(as_text)?;
        let changed = if said.starts_with('"') {
            whole.with("isError", if read.is_error == Some(true) { "true" } else { "false" })
        } else {
            whole.without("isError")
        };
        text = Cow::Owned(changed);
    }
    verbatim::set(&mut read.meta, text.into_owned());
    Ok(read)
}

/// The content of a result, if it is to be another one: a list of blocks.
///
/// # Errors
/// If nothing can be made of it.
fn content(content: Option<&str>) -> Result<Option<String>, String> {
    let blocks = match content {
        None | Some("null") => Vec::new(),
        Some(block) if block.starts_with(['{', '"']) => vec![block],
        Some(list) => elements(list).map_err(|_no_list| format!("the `content` of its result is {}", kind_of(list)))?,
    };
    if content.is_some_and(|content| content.starts_with('[')) && blocks.iter().all(|block| block.starts_with('{')) {
        return Ok(None);
    }
    let blocks = blocks.into_iter().map(|block| match strict_json::from_str(block) {
        Ok(Value::Object(_)) => block.to_owned(),
        Ok(Value::String(text)) => json!({"type": "text", "text": text}).to_string(),
        _ => json!({"type": "text", "text": block}).to_string(),
    });
    Ok(Some(format!("[{}]", blocks.collect::<Vec<_>>().join(","))))
}

fn typed<T: DeserializeOwned + Into<ServerResult>>(text: &str) -> Result<ServerResult, String> {
    strict_json::from_str::<T>(text).map(Into::into).map_err(|error| error.to_string())
}

/// Has a result that was read from a text be sent on as that text.
pub(super) fn add_text(result: &mut ServerResult, text: &str) {
    match result {
        ServerResult::GetPromptResult(result) => {
            result.messages.clear();
            verbatim::set(&mut result.meta, text.to_owned());
        }
        ServerResult::ReadResourceResult(result) => {
            result.contents.clear();
            verbatim::set(&mut result.meta, text.to_owned());
        }
        ServerResult::CompleteResult(result) => verbatim::set(&mut result.meta, text.to_owned()),
        ServerResult::GetTaskResult(result) => {
            let (end, name) = match &mut result.task.payload {
                TaskPayload::Completed { result } => (result, "result"),
                TaskPayload::Failed { error } => (error, "error"),
                _ => return,
            };
            if let Some(text) = Object::read(text).ok().and_then(|task| task.get(name)) {
                *end = Map::from_iter([(KEY.to_owned(), text.into())]);
            }
        }
        ServerResult::ListToolsResult(list) => {
            add_texts(list.tools.iter_mut().map(|item| &mut item.meta).collect(), text, "tools");
        }
        ServerResult::ListPromptsResult(list) => {
            add_texts(list.prompts.iter_mut().map(|item| &mut item.meta).collect(), text, "prompts");
        }
        ServerResult::ListResourcesResult(list) => {
            add_texts(list.resources.iter_mut().map(|item| &mut item.meta).collect(), text, "resources");
        }
        ServerResult::ListResourceTemplatesResult(list) => {
            let metas = list.resource_templates.iter_mut().map(|item| &mut item.meta);
            add_texts(metas.collect(), text, "resourceTemplates");
        }
        _ => {}
    }
}

fn add_texts(items: Vec<&mut Option<MetaObject>>, text: &str, list: &str) {
    let texts = Object::read(text).ok().and_then(|object| elements(object.get(list)?).ok()).unwrap_or_default();
    if texts.len() == items.len() {
        items.into_iter().zip(texts).for_each(|(meta, text)| verbatim::set(meta, text.to_owned()));
    }
}

/// A list without those of its members that cannot be understood.
fn of_a_list(server: &str, (items, needed): (&str, &[&str]), text: &str) -> Result<ServerResult, String> {
    let Ok(Value::Object(mut members)) = strict_json::from_str(text) else {
        return Err(format!("its result is {}", kind_of(text)));
    };
    let listed = match members.remove(items) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(listed)) => listed,
        Some(other) => return Err(format!("its `{items}` are {}", kind(&other))),
    };
    let texts = Object::read(text).ok().and_then(|object| elements(object.get(items)?).ok()).unwrap_or_default();
    let read = |listed: Vec<Value>| {
        let list = json!({ items: listed });
        strict_json::from_value::<ServerResult>(list).ok().filter(|list| !matches!(list, ServerResult::CustomResult(_)))
    };
    let (mut kept, mut kept_texts) = (Vec::new(), Vec::new());
    for (item, text) in listed.into_iter().zip(texts) {
        if read(vec![item.clone()]).is_some() {
            kept.push(item);
            kept_texts.push(text.to_owned());
            continue;
        }
        let name = item.get("name").or_else(|| item.get("uri")).and_then(Value::as_str).unwrap_or("?").to_owned();
        match without_bad_members(item, needed, &|item| read(vec![item]).is_some()) {
            Ok((item, left_out)) => {
                tracing::warn!(server, items, name, left_out = left_out.join(", "), "members of a list are left out");
                let changed = item.as_object().and_then(|item| changed(text, item).ok());
                kept_texts.push(changed.unwrap_or_else(|| item.to_string()));
                kept.push(item);
            }
            Err(why) => tracing::warn!(server, items, name, why, "one of a list is left out"),
        }
    }
    let mut list = Map::from_iter([(items.to_owned(), Value::Array(kept))]);
    for (name, value) in members {
        list.insert(name.clone(), value);
        if strict_json::from_value::<ServerResult>(Value::Object(list.clone())).is_ok_and(|list| is_list(&list)) {
            continue;
        }
        tracing::warn!(server, items, name, "a member of a list's answer is left out");
        list.remove(&name);
    }
    let mut list = strict_json::from_value(Value::Object(list)).map_err(|error| error.to_string())?;
    add_text(&mut list, &format!("{{\"{items}\":[{}]}}", kept_texts.join(",")));
    Ok(list)
}

const fn is_list(result: &ServerResult) -> bool {
    matches!(
        result,
        ServerResult::ListToolsResult(_)
            | ServerResult::ListPromptsResult(_)
            | ServerResult::ListResourcesResult(_)
            | ServerResult::ListResourceTemplatesResult(_)
    )
}

/// An object without its bad members, and their names. A member that is an object loses only bad ones of its own.
///
/// # Errors
/// Which member is missing or wrong without which it is nothing.
fn without_bad_members(
    item: Value,
    needed: &[&str],
    is_good: &dyn Fn(Value) -> bool,
) -> Result<(Value, Vec<String>), String> {
    let Value::Object(members) = item else { return Err(format!("it is {}", kind(&item))) };
    let (least, others): (Map<_, _>, Map<_, _>) =
        members.into_iter().partition(|(name, _)| needed.contains(&name.as_str()));
    if let Some(missing) = needed.iter().find(|name| least.get(**name).is_none_or(Value::is_null)) {
        return Err(format!("it has no `{missing}`"));
    }
    if !is_good(Value::Object(least.clone())) {
        let kinds = least.iter().map(|(name, value)| format!("`{name}` is {}", kind(value)));
        return Err(kinds.collect::<Vec<_>>().join(", "));
    }
    let (mut good, mut left_out) = (least, Vec::new());
    for (name, value) in others {
        good.insert(name.clone(), value);
        if is_good(Value::Object(good.clone())) {
            continue;
        }
        let Some(Value::Object(inner)) = good.remove(&name) else {
            left_out.push(format!("`{name}`"));
            continue;
        };
        let fits = |inner: Value| {
            let mut with = good.clone();
            with.insert(name.clone(), inner);
            is_good(Value::Object(with))
        };
        match without_bad_members(Value::Object(inner), &[], &fits) {
            Ok((inner, names)) => {
                good.insert(name.clone(), inner);
                left_out.extend(names.into_iter().map(|inner| format!("{inner} of `{name}`")));
            }
            Err(_) => left_out.push(format!("`{name}`")),
        }
    }
    Ok((Value::Object(good), left_out))
}

/// The answer to `initialize`. A server that does not say what it has is asked for it all the same.
fn of_initialize(server: &str, mut members: Map<String, Value>) -> Result<ServerResult, String> {
    let mut object = |name: &str| match members.remove(name) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    };
    let (capabilities, mut info) = (object("capabilities"), object("serverInfo"));
    for (name, usual) in [("name", server), ("version", "unknown")] {
        if !info.get(name).is_some_and(Value::is_string) {
            info.insert(name.to_owned(), usual.into());
        }
    }
    // An unknown revision is read as the newest one that has `initialize`.
    let version = members.get("protocolVersion").and_then(Value::as_str);
    if !version.is_some_and(|version| ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version)) {
        let usual = ProtocolVersion::LATEST_WITH_INITIALIZE;
        tracing::warn!(server, version, taken_for = usual.as_str(), "a server speaks an unknown revision");
        members.insert("protocolVersion".to_owned(), usual.as_str().into());
    }
    members.extend([("capabilities".to_owned(), json!({})), ("serverInfo".to_owned(), Value::Object(info))]);
    let is_good = |members: Value| {
        let read = strict_json::from_value::<ServerResult>(members);
        read.is_ok_and(|result| matches!(result, ServerResult::InitializeResult(_)))
    };
    let needed = ["protocolVersion", "capabilities", "serverInfo"];
    let (good, mut left_out) = without_bad_members(Value::Object(members), &needed, &is_good)?;
    let with = |capabilities: Value| {
        let mut good = good.clone();
        good.as_object_mut().and_then(|good| good.insert("capabilities".to_owned(), capabilities));
        good
    };
    let fits = |capabilities: Value| is_good(with(capabilities));
    let (capabilities, bad) = without_bad_members(Value::Object(capabilities), &[], &fits)?;
    left_out.extend(bad);
    if !left_out.is_empty() {
        tracing::warn!(server, left_out = left_out.join(", "), "members of the answer to `initialize` are left out");
    }
    strict_json::from_value(with(capabilities)).map_err(|error| error.to_string())
}

/// An error, with the parts that can be understood.
pub(super) fn error_data(error: Value, text: Option<&str>) -> ErrorData {
    let Value::Object(members) = error else {
        let message = error.as_str().map_or_else(|| error.to_string(), str::to_owned);
        return ErrorData::internal_error(message, None);
    };
    let code = members.get("code").and_then(|code| {
        let number = code.as_i64().or_else(|| code.as_str()?.parse().ok());
        // Some programs write all numbers with a point.
        let number = number.or_else(|| code.to_string().strip_suffix(".0")?.parse().ok())?;
        i32::try_from(number).ok()
    });
    let message = match members.get("message") {
        Some(Value::String(message)) if !message.trim().is_empty() => message.clone(),
        None | Some(Value::Null | Value::String(_)) => "an error without a message".to_owned(),
        Some(other) => other.to_string(),
    };
    let mut error = ErrorData::new(code.map_or(ErrorCode::INTERNAL_ERROR, ErrorCode), message, None);
    add_data(&mut error, text);
    error
}

/// Has the data of an error be sent on as its text has it.
pub(super) fn add_data(error: &mut ErrorData, text: Option<&str>) {
    let data = text.and_then(|text| Object::read(text).ok()?.get("data"));
    error.data = data.and_then(|data| written_as(data).ok());
}

fn kind_of(text: &str) -> &'static str {
    strict_json::from_str(text).map_or("not JSON", |value| kind(&value))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object that cannot be understood",
    }
}
