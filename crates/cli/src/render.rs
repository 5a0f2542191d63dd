//! Tools, tasks and results in words.

use longhaul_client::form::{About, Kind, fields, resolved, type_of};
use longhaul_client::{Question, Refusal, Task, Tool};
use serde_json::Value;

use crate::clock;
use crate::form::message;
use crate::out::{block, line};

/// For example `countdown(seconds: number, steps?: integer)`.
pub(crate) fn signature(tool: &Tool) -> String {
    let schema = tool.schema();
    let required = schema["required"].as_array();
    let argument = |(name, property): (&String, &Value)| {
        let kind = type_of(resolved(property, schema)).unwrap_or("any");
        let mark = if required.is_some_and(|all| all.iter().any(|one| one == name)) { "" } else { "?" };
        format!("{name}{mark}: {kind}")
    };
    let arguments: Vec<String> = schema["properties"].as_object().into_iter().flatten().map(argument).collect();
    line(&format!("{}({})", tool.name, arguments.join(", ")))
}

/// The contents of a result: texts as they are, of all else what it is.
pub(crate) fn result(result: &Value) -> String {
    let blocks = result["content"].as_array();
    let mut parts: Vec<String> = blocks.into_iter().flatten().map(content).collect();
    if parts.is_empty()
        && let Some(structured) = result.get("structuredContent")
    {
        parts.push(format!("{structured:#}"));
    }
    parts.join("\n")
}

fn content(block: &Value) -> String {
    let kind = block["type"].as_str().unwrap_or("content");
    let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str);
    let mime = text("/mimeType").or_else(|| text("/resource/mimeType")).unwrap_or("of no type");
    match (text("/text").or_else(|| text("/resource/text")), text("/data").or_else(|| text("/resource/blob"))) {
        (Some(text), _) => text.to_owned(),
        (None, Some(data)) => format!("[{kind}, {mime}, {} bytes in base64: --json has them]", data.len()),
        (None, None) => format!("[{kind} {}]", text("/uri").unwrap_or(mime)),
    }
}

/// An error of a task.
pub(crate) fn refusal(refusal: &Refusal) -> String {
    block(&format!("{} ({})", refusal.message, refusal.code))
}

/// A question and its fields, and how to answer it.
pub(crate) fn question(task: &str, question: &Question) -> String {
    let mut text = format!("it asks: {}", message(question));
    match question.about() {
        About::Form(schema) => {
            let mut given = String::new();
            for field in fields(schema) {
                let values = match &field.kind {
                    Kind::One(choices) | Kind::Some(choices) => {
                        let all: Vec<String> = choices.iter().map(|choice| line(&choice.value.to_string())).collect();
                        format!(", one of {}", all.join(", "))
                    }
                    Kind::Text | Kind::Switch => String::new(),
                };
                let need = if field.is_required { "" } else { ", optional" };
                let name = line(&field.name);
                text.push_str(&format!("\n    {name}: {}{need}{values}", line(&field.title)));
                given.push_str(&format!(" {name}=…"));
            }
            text.push_str(&format!("\n  answer: longhaul answer {}{given}", line(task)));
        }
        About::Address(url) => text.push_str(&format!("\n    at {}", line(url))),
        About::Other => text.push_str(&format!("\n    by {}, which this command does not do", line(&question.method))),
    }
    text
}

/// All that is known of a task.
pub(crate) fn task(task: &Task, tool: Option<&str>) -> String {
    let mut rows = vec![("task", line(&task.id)), ("status", task.status.name().to_owned())];
    let moment = |name: &str| {
        let moment = task.raw.get(name).and_then(Value::as_str)?;
        Some(format!("{} ({} ago)", line(moment), clock::age(moment)))
    };
    rows.extend(tool.map(|tool| ("tool", line(tool))));
    rows.extend(task.message.as_deref().map(|message| ("message", line(message))));
    rows.extend(moment("createdAt").map(|text| ("created", text)));
    rows.extend(moment("lastUpdatedAt").map(|text| ("updated", text)));
    let ttl = task.raw.get("ttlMs").or_else(|| task.raw.get("ttl")).and_then(Value::as_u64);
    rows.extend(ttl.map(|ms| ("kept", format!("{} from its creation", in_words(ms)))));
    let variables = task.raw.get("_meta").and_then(|meta| meta.get("dev.longhaul/variables"));
    rows.extend(variables.map(|all| ("variables", line(&all.to_string()))));
    match &task.end {
        Some(Ok(_)) => rows.push(("result", format!("longhaul result {}", line(&task.id)))),
        Some(Err(error)) => rows.push(("error", refusal(error))),
        None => {}
    }
    rows.extend(task.questions.iter().map(|asked| ("question", question(&task.id, asked))));
    let rows: Vec<String> = rows.into_iter().map(|(name, value)| format!("{name:<10}{value}")).collect();
    rows.join("\n")
}

fn in_words(ms: u64) -> String {
    clock::in_words(std::time::Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn results_are_their_texts_and_else_what_they_are() {
        let shown = json!({"content": [{"type": "text", "text": "a"}, {"type": "image", "mimeType": "image/png",
            "data": "AAAA"},
            {"type": "resource_link", "uri": "file:///a"}]});
        assert_eq!(
            result(&shown),
            "a\n[image, image/png, 4 bytes in base64: --json has them]\n[resource_link file:///a]"
        );
        assert_eq!(result(&json!({"content": [], "structuredContent": {"a": 1}})), "{\n  \"a\": 1\n}");
    }
}
