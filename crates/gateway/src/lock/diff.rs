//! The changes between two lock files, as a text.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::catalog::Listed;
use crate::verbatim::Item;

/// The parts of a server by their names, each with its values by JSON pointer.
type Parts = BTreeMap<String, BTreeMap<String, String>>;

pub(super) fn of(old: &BTreeMap<String, Listed>, new: &BTreeMap<String, Listed>) -> String {
    let mut text = String::new();
    for name in keys(old, new) {
        let shown = visible(name);
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => parts_differ(&mut text, &shown, &parts(old), &parts(new)),
            (None, _) => line(&mut text, format_args!("+ {shown}: the server is new")),
            (Some(_), None) => line(&mut text, format_args!("- {shown}: the server is gone")),
        }
    }
    text
}

fn parts_differ(text: &mut String, server: &str, old: &Parts, new: &Parts) {
    for part in keys(old, new) {
        match (old.get(part), new.get(part)) {
            (Some(old), Some(new)) => values_differ(text, &format!("{server}: {part}"), old, new),
            (None, _) => line(text, format_args!("+ {server}: {part} is new")),
            (Some(_), None) => line(text, format_args!("- {server}: {part} is gone")),
        }
    }
}

fn values_differ(text: &mut String, part: &str, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) {
    for pointer in keys(old, new) {
        let none = String::new();
        let (before, now) = (old.get(pointer).unwrap_or(&none), new.get(pointer).unwrap_or(&none));
        if before == now {
            continue;
        }
        line(text, format_args!("  {part} {}", visible(pointer)));
        for change in TextDiff::from_lines(before, now).iter_all_changes() {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => continue,
            };
            line(text, format_args!("{sign}     {}", visible(change.value().trim_end_matches('\n'))));
        }
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.push_str(&line.to_string());
    text.push('\n');
}

fn keys<'m, V>(one: &'m BTreeMap<String, V>, other: &'m BTreeMap<String, V>) -> BTreeSet<&'m String> {
    one.keys().chain(other.keys()).collect()
}

/// The parts of a server that a lock file pins.
fn parts(listed: &Listed) -> Parts {
    let tools = listed.tools.iter().map(|tool| (format!("tool `{}`", visible(&tool.name)), values(&tool.json().ok())));
    let prompts = listed.prompts.iter();
    let prompts = prompts.map(|prompt| (format!("prompt `{}`", visible(&prompt.name)), values(&prompt.json().ok())));
    let templates = listed.templates.iter();
    let templates =
        templates.map(|it| (format!("resource template `{}`", visible(&it.uri_template)), values(&it.json().ok())));
    let itself = ("itself".to_owned(), values(&listed.info));
    let chosen = (!listed.choice.is_empty()).then(|| ("choice of tools".to_owned(), values(&listed.choice)));
    tools.chain(prompts).chain(templates).chain([itself]).chain(chosen).collect()
}

/// Every text, number and so on in a value, by its JSON pointer.
fn values(of: &impl Serialize) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    // Everything in a lock file has come from JSON.
    collect(&serde_json::to_value(of).unwrap_or_default(), String::new(), &mut values);
    values
}

fn collect(value: &Value, pointer: String, values: &mut BTreeMap<String, String>) {
    let child = |key: &str| format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(members) if !members.is_empty() => {
            members.iter().for_each(|(key, value)| collect(value, child(key), values));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(index, value)| collect(value, child(&index.to_string()), values));
        }
        Value::String(text) => drop(values.insert(pointer, text.clone())),
        other => drop(values.insert(pointer, other.to_string())),
    }
}

/// The text with everything escaped that a terminal does not show as it is. That includes control characters, marks
/// that change the direction, and characters without any width. Descriptions are read by models, which see them.
fn visible(text: &str) -> String {
    let escaped = |next: char| match next {
        '"' | '\'' | '\\' => next.to_string(),
        _ => next.escape_debug().to_string(),
    };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Lock;

    fn lock(tools: &Value) -> Lock {
        let info = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}});
        let text = json!({"version": 1, "servers": {"git": {"info": info, "tools": tools}}}).to_string();
        Lock::from_json(&text).unwrap()
    }

    fn tool(name: &str, description: &str) -> Value {
        json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
    }

    #[test]
    fn the_order_of_a_list_is_no_change() {
        let (log, commit) = (tool("log", "Shows"), tool("commit", "Records"));
        assert_eq!(lock(&json!([log, commit])).diff(&lock(&json!([commit, log]))), "");
    }

    #[test]
    fn what_came_went_and_changed_is_told() {
        let old = lock(&json!([tool("log", "Shows"), tool("commit", "Records\nchanges")]));
        let new = lock(&json!([tool("push", "Sends"), tool("commit", "Records\nall \u{1b}[8mfiles\u{200b}")]));
        let expected = "  git: tool `commit` /description\n-     changes\n+     all \\u{1b}[8mfiles\\u{200b}\n- git: \
                        tool `log` is gone\n+ git: tool `push` is new\n";
        assert_eq!(old.diff(&new), expected);
    }

    #[test]
    fn a_schema_and_a_hint_are_compared_by_their_places() {
        let old = lock(&json!([tool("log", "Shows")]));
        let mut changed = tool("log", "Shows");
        changed["inputSchema"]["properties"]["a/b"] = json!({"type": "string"});
        changed["annotations"] = json!({"readOnlyHint": true});
        let diff = old.diff(&lock(&json!([changed])));
        assert!(diff.contains("  git: tool `log` /annotations/readOnlyHint\n+     true\n"), "{diff}");
        assert!(diff.contains("/inputSchema/properties/a~1b/type\n+     string\n"), "{diff}");
    }
}
