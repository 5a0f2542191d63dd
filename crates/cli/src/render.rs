//! Tools, tasks and results in words, and the recorded data of a task.

use std::time::Duration;

use longhaul_client::form::{About, Kind, fields};
use longhaul_client::time::in_words;
use longhaul_client::{Question, Refusal, Task, Tool};
use serde_json::{Value, json};

use crate::clock;
use crate::form::message;
use crate::limits::VALUE_CHARS_MAX;
use crate::out::{block, line};

/// For example `countdown(seconds: number, steps?: integer)`.
pub(crate) fn signature(tool: &Tool) -> String {
    line(&format!("{}({})", tool.name, tool.arguments()))
}

/// The contents of a result: text as it is, and a description of all else.
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

/// The contents of a resource in words.
pub(crate) fn contents(read: &Value) -> String {
    embedded(read).iter().map(content).collect::<Vec<_>>().join("\n")
}

/// The contents of a resource, as the contents of a result embed them.
pub(crate) fn embedded(read: &Value) -> Vec<Value> {
    let all = read["contents"].as_array().into_iter().flatten();
    all.map(|contents| json!({"type": "resource", "resource": contents})).collect()
}

/// One content of a result or a message.
pub(crate) fn content(block: &Value) -> String {
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

/// The labels of a task, such as `customer=acme stage=import`.
pub(crate) fn labels(task: &Task) -> String {
    line(&task.labels().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "))
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
    rows.extend(Some(labels(task)).filter(|labels| !labels.is_empty()).map(|labels| ("labels", labels)));
    rows.extend(moment("createdAt").map(|text| ("created", text)));
    rows.extend(moment("lastUpdatedAt").map(|text| ("updated", text)));
    let ttl = task.raw.get("ttlMs").or_else(|| task.raw.get("ttl")).and_then(Value::as_u64);
    rows.extend(ttl.map(|ms| ("kept", format!("{} from its creation", in_words(Duration::from_millis(ms))))));
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

/// The recorded data of a task: its attempts and its journal, a line each.
pub(crate) fn record(shown: &Value) -> String {
    let all = |name: &str| shown[name].as_array().into_iter().flatten();
    let mut lines = vec![format!("tool      {}", line(shown["tool"].as_str().unwrap_or("-")))];
    lines.push(format!("arguments {}", value(&shown["arguments"])));
    lines.extend(shown["parent"].as_str().map(|parent| format!("called by {}", line(parent))));
    let resumes = |resumes: &Value| {
        let by = resumes["by"].as_str().map(|by| format!(", by {}", line(by))).unwrap_or_default();
        Some(format!("resumes   {}{by}", line(resumes["taskId"].as_str()?)))
    };
    lines.extend(resumes(&shown["resumes"]));
    lines.push("attempts".to_owned());
    lines.extend(all("attempts").map(attempt));
    lines.push("journal".to_owned());
    lines.extend(all("journal").map(entry));
    lines.join("\n")
}

fn attempt(attempt: &Value) -> String {
    let from = attempt["from"].as_str().unwrap_or_default();
    let took = attempt["to"].as_str().and_then(|to| clock::between(from, to)).unwrap_or_else(|| "runs".to_owned());
    let end = match attempt["end"].as_str() {
        Some("timer") => "sleeps",
        Some("input") => "asks",
        Some("yield") => "gave back",
        Some("failed") => "failed",
        Some("died") => "died",
        Some("task") => "ended the task",
        Some(other) => other,
        None => "has not ended",
    };
    let reason = attempt["reason"].as_str().map(|reason| format!(": {reason}")).unwrap_or_default();
    line(&format!("  {:>4}  {from}  {took:>8}  {end}{reason}", attempt["attempt"].to_string()))
}

fn entry(entry: &Value) -> String {
    let text = |name: &str| entry[name].as_str().unwrap_or("-");
    let took = entry["tookMs"].as_u64().map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
    let (attempt, kind, name) = (entry["attempt"].as_u64().unwrap_or_default(), text("kind"), text("name"));
    let value = entry["child"].as_str().map_or_else(|| value(entry), |child| format!("called {child}"));
    line(&format!("  {attempt:>4}  {}  {took:>8}  {kind} {name}  {value}", text("at")))
}

/// The value of a field, cut; how long it is if the server left it out.
fn value(field: &Value) -> String {
    if field["cut"] == true {
        return format!("({} bytes)", field["bytes"]);
    }
    let text = line(&field["value"].to_string());
    match text.char_indices().nth(VALUE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {

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

    #[test]
    fn attempts_and_entries_are_lines_that_a_terminal_cannot_obey() {
        let shown = json!({
            "tool": "etl", "arguments": {"bytes": 9, "value": {"a": "\u{1b}[2J"}}, "parent": "01a2\u{1b}",
            "resumes": {"taskId": "01a1", "by": "ann"},
            "attempts": [
                {"attempt": 1, "from": "2026-11-23T04:00:00Z", "to": "2026-11-23T04:00:03Z", "end": "died"},
                {"attempt": 2, "from": "2026-11-23T04:00:03Z", "to": null, "end": null}
            ],
            "journal": [
                {"kind": "step", "name": "fetch", "at": "2026-11-23T04:00:01Z", "tookMs": 412, "attempt": 1, "value":
                    17},
                {"kind": "step", "name": "rows", "bytes": 70_211, "cut": true},
                {"kind": "step", "name": "eu", "at": "2026-11-23T04:00:02Z", "tookMs": 3, "attempt": 1, "value": {},
                    "child": "01a3"}
            ]
        });
        let expected = [
            "tool      etl",
            r#"arguments {"a":"\u001b[2J"}"#,
            r"called by 01a2\u{1b}",
            "resumes   01a1, by ann",
            "attempts",
            "     1  2026-11-23T04:00:00Z       3 s  died",
            "     2  2026-11-23T04:00:03Z      runs  has not ended",
            "journal",
            "     1  2026-11-23T04:00:01Z    412 ms  step fetch  17",
            "     0  -         -  step rows  (70211 bytes)",
            "     1  2026-11-23T04:00:02Z      3 ms  step eu  called 01a3",
        ];
        assert_eq!(record(&shown).lines().collect::<Vec<_>>(), expected);
    }
}
