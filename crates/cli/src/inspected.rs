//! What is on record of a task, as text: its attempts and its journal.

use serde_json::Value;

use crate::clock;
use crate::out::line;

/// A value is cut after so many characters.
const VALUE_MAX: usize = 80;

/// The attempts and the journal, a line each.
pub(crate) fn text(shown: &Value) -> String {
    let all = |name: &str| shown[name].as_array().into_iter().flatten();
    let mut lines = vec![format!("tool      {}", line(shown["tool"].as_str().unwrap_or("-")))];
    lines.push(format!("arguments {}", value(&shown["arguments"])));
    lines.extend(shown["parent"].as_str().map(|parent| format!("called by {}", line(parent))));
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
    match text.char_indices().nth(VALUE_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn attempts_and_entries_are_lines_that_a_terminal_cannot_obey() {
        let shown = json!({
            "tool": "etl", "arguments": {"bytes": 9, "value": {"a": "\u{1b}[2J"}}, "parent": "01a2\u{1b}",
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
            "attempts",
            "     1  2026-11-23T04:00:00Z       3 s  died",
            "     2  2026-11-23T04:00:03Z      runs  has not ended",
            "journal",
            "     1  2026-11-23T04:00:01Z    412 ms  step fetch  17",
            "     0  -         -  step rows  (70211 bytes)",
            "     1  2026-11-23T04:00:02Z      3 ms  step eu  called 01a3",
        ];
        assert_eq!(text(&shown).lines().collect::<Vec<_>>(), expected);
    }
}
