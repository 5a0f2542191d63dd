//! Results of a server, read leniently. A member that cannot be understood is left out, and the log says so.

use longhaul_core::strict_json;
use rmcp::model::{
    CallToolResult, ContentBlock, CreateTaskResult, CustomResult, InputRequiredResult, MetaObject, ResultType,
    ServerResult,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// The members without which one of a list is nothing.
const LISTS: [(&str, &str, &[&str]); 4] = [
    ("tools/list", "tools", &["name", "inputSchema"]),
    ("prompts/list", "prompts", &["name"]),
    ("resources/list", "resources", &["uri", "name"]),
    ("resources/templates/list", "resourceTemplates", &["uriTemplate", "name"]),
];

/// The result of a request.
///
/// # Errors
/// Why it cannot be understood.
pub(super) fn read(server: &str, method: &str, result: Value) -> Result<ServerResult, String> {
    if method == "tools/call" {
        return of_a_call(server, result);
    }
    if let Some((_, items, needed)) = LISTS.iter().find(|(list, ..)| *list == method) {
        let Value::Object(members) = result else { return Err(format!("its result is {}", kind(&result))) };
        return of_a_list(server, (items, needed), members);
    }
    match (method, result) {
        ("initialize", Value::Object(members)) => of_initialize(server, members),
        (_, Value::Null) => Ok(ServerResult::empty(())),
        (_, result) => strict_json::from_value(result).map_err(|error| error.to_string()),
    }
}

/// The answer to a call. A task of revision `2025-11-25`, whose kind is not named, stays as it is.
fn of_a_call(server: &str, result: Value) -> Result<ServerResult, String> {
    if result.pointer("/task/taskId").is_some_and(Value::is_string) {
        return Ok(ServerResult::CustomResult(CustomResult::new(result)));
    }
    match result.get("resultType").and_then(Value::as_str).unwrap_or("complete") {
        "complete" => of_a_tool(server, result).map(ServerResult::CallToolResult),
        "input_required" => typed::<InputRequiredResult>(result),
        "task" => typed::<CreateTaskResult>(result),
        other => Err(format!("its `resultType` is `{other}`, which is not known")),
    }
}

/// The result of a tool. One that has nothing in it is a result too.
///
/// # Errors
/// Why it cannot be understood.
pub(super) fn of_a_tool(server: &str, result: Value) -> Result<CallToolResult, String> {
    let mut members = match result {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        other => return Err(format!("its result is {}, and not the result of a tool", kind(&other))),
    };
    let content = match members.remove("content") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(blocks)) => blocks,
        Some(block @ (Value::Object(_) | Value::String(_))) => vec![block],
        Some(other) => return Err(format!("the `content` of its result is {}", kind(&other))),
    };
    let mut read = CallToolResult::default();
    read.result_type = members.contains_key("resultType").then_some(ResultType::COMPLETE);
    read.content = content.into_iter().map(|block| content_block(server, block)).collect();
    read.structured_content = members.remove("structuredContent");
    read.is_error =
        members.remove("isError").and_then(|value| value.as_bool().or_else(|| value.as_str()?.parse().ok()));
    read.meta = members.remove("_meta").and_then(|meta| strict_json::from_value::<MetaObject>(meta).ok());
    Ok(read)
}

fn typed<T: DeserializeOwned + Into<ServerResult>>(result: Value) -> Result<ServerResult, String> {
    strict_json::from_value::<T>(result).map(Into::into).map_err(|error| error.to_string())
}

/// The members that make a block of content what it is.
const OF_CONTENT: [&str; 7] = ["type", "text", "data", "mimeType", "uri", "name", "resource"];

/// A block without those of its members whose values are not known. One of a kind that is not known is passed on as its
/// JSON text.
fn content_block(server: &str, block: Value) -> ContentBlock {
    if let Value::String(text) = block {
        return ContentBlock::text(text);
    }
    let read = |block: Value| strict_json::from_value::<ContentBlock>(block).ok();
    if let Some(block) = read(block.clone()) {
        return block;
    }
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let needed: Vec<&str> = OF_CONTENT.into_iter().filter(|name| block.get(name).is_some()).collect();
    let good = without_bad_members(block.clone(), &needed, &|block| read(block).is_some());
    if let Ok((Some(good), left_out)) = good.map(|(good, left_out)| (read(good), left_out)) {
        tracing::warn!(server, kind, left_out = left_out.join(", "), "members of content are left out");
        return good;
    }
    tracing::warn!(server, kind, "content of an unknown kind is passed on as its JSON text");
    ContentBlock::text(block.to_string())
}

/// A list without those of its members that cannot be understood.
fn of_a_list(
    server: &str,
    (items, needed): (&str, &[&str]),
    mut members: Map<String, Value>,
) -> Result<ServerResult, String> {
    let listed = match members.remove(items) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(listed)) => listed,
        Some(other) => return Err(format!("its `{items}` are {}", kind(&other))),
    };
    let read = |listed: Vec<Value>| {
        let list = json!({ items: listed });
        strict_json::from_value::<ServerResult>(list).ok().filter(|list| !matches!(list, ServerResult::CustomResult(_)))
    };
    let mut kept = Vec::new();
    for item in listed {
        if read(vec![item.clone()]).is_some() {
            kept.push(item);
            continue;
        }
        let name = item.get("name").or_else(|| item.get("uri")).and_then(Value::as_str).unwrap_or("?").to_owned();
        match without_bad_members(item, needed, &|item| read(vec![item]).is_some()) {
            Ok((item, left_out)) => {
                tracing::warn!(server, items, name, left_out = left_out.join(", "), "members of a list are left out");
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
    strict_json::from_value(Value::Object(list)).map_err(|error| error.to_string())
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
