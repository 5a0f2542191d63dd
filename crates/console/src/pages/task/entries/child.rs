//! The entries of a task that called another one: the call, and how the called task ended.

use longhaul_client::Status;
use longhaul_client::text::line;
use maud::{Markup, html};
use serde_json::Value;

use crate::limits::CHILD_ANSWER_MAX;
use crate::parts;
use crate::timeline::{Entry, Timeline};

/// The members of an end whose strings are JSON.
const TEXTS: [&str; 2] = ["completed", "detail"];

/// A task that was called.
pub(super) struct Child<'t> {
    /// The step that called it.
    pub(super) step: &'t str,
    pub(super) id: &'t str,
    end: Option<&'t Value>,
}

/// The task that an entry is about: as the step that called it, or as the record of its end.
pub(super) fn of<'t>(entry: &'t Entry, timeline: &'t Timeline) -> Option<Child<'t>> {
    let called = |entry: &'t Entry| entry.shown["child"].as_str();
    let id = match entry.kind.as_str() {
        "step" => called(entry)?,
        "fact" => entry.name.as_str(),
        _ => return None,
    };
    let step = timeline.entries.iter().find(|step| step.kind == "step" && called(step) == Some(id))?;
    let end = timeline.entries.iter().find(|end| end.kind == "fact" && end.name == id);
    Some(Child { step: &step.name, id, end: end.map(|end| &end.shown) })
}

impl Child<'_> {
    /// A link to its page, how it ended, and what it answered.
    pub(super) fn html(&self, page: &str) -> Markup {
        let end = self.end.map(|end| &end["value"]);
        let status = match end.and_then(name_of) {
            Some("completed" | "tooLarge") => Some(Status::Completed),
            Some("failed") => Some(Status::Failed),
            Some("cancelled") => Some(Status::Cancelled),
            Some(_) | None => None,
        };
        html! {
            a href=(page) { (parts::id(self.id)) }
            @if let Some(status) = status { " " (parts::status(status)) }
            @if let Some(answer) = end.and_then(answer) { " " (line(&answer, CHILD_ANSWER_MAX)) }
        }
    }
}

/// How a task ended, as the journal of its caller names it: by a member, or as a text.
fn name_of(end: &Value) -> Option<&str> {
    let member = || end.as_object()?.keys().next().map(String::as_str);
    end.as_str().or_else(member)
}

/// The first text of a result, or why there is none.
fn answer(end: &Value) -> Option<String> {
    let end = readable(end);
    let text = end["completed"].pointer("/content/0/text").or_else(|| end.pointer("/failed/message"));
    match (text.and_then(Value::as_str), name_of(&end)) {
        (Some(text), _) => Some(text.to_owned()),
        (None, Some("gone")) => Some("expired before its end was seen".to_owned()),
        (None, Some("tooLarge")) => Some("its result is too large for a step".to_owned()),
        (None, _) => None,
    }
}

/// A value in which the JSON strings of an end are parsed.
pub(super) fn readable(value: &Value) -> Value {
    let Some(object) = value.as_object().filter(|object| object.len() <= TEXTS.len()) else { return value.clone() };
    let member = |(name, value): (&String, &Value)| {
        let text = value.as_str().filter(|_| TEXTS.contains(&name.as_str()));
        let parsed = text.and_then(|text| serde_json::from_str(text).ok());
        let shown = match parsed {
            Some(parsed) => parsed,
            None if name == "failed" => readable(value),
            None => value.clone(),
        };
        (name.clone(), shown)
    };
    Value::Object(object.iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shown(end: Option<Value>) -> String {
        let mut journal = vec![json!({"kind": "step", "name": "eu", "attempt": 1, "child": "c"})];
        journal.extend(end.map(|end| json!({"kind": "fact", "name": "c", "attempt": 0, "value": end})));
        let record = json!({"task": {"createdAt": "2026-11-23T04:05:30Z"}, "journal": journal});
        let timeline = Timeline::of(&record, 0).unwrap();
        let all: Vec<String> =
            timeline.entries.iter().map(|entry| of(entry, &timeline).unwrap().html("/").into_string()).collect();
        assert!(all.iter().all(|one| one == &all[0]), "{all:?}");
        all[0].clone()
    }

    #[test]
    fn a_call_and_its_end_show_a_link_and_how_the_called_task_ended() {
        let link = r#"<a href="/">c</a>"#;
        let status = |name: &str| format!(r#"{link} <span class="status {name}">{name}</span>"#);
        let completed = json!({"completed": r#"{"content":[{"type":"text","text":"42 <rows>"}]}"#});
        let failed = json!({"failed": {"message": "the disk is full", "detail": null}});
        for (end, expected) in [
            (None, link.to_owned()),
            (Some(completed), format!("{} 42 &lt;rows&gt;", status("completed"))),
            (Some(failed), format!("{} the disk is full", status("failed"))),
            (Some(json!("cancelled")), status("cancelled")),
            (
                Some(json!({"tooLarge": {"bytes": 9}})),
                format!("{} its result is too large for a step", status("completed")),
            ),
            (Some(json!("gone")), format!("{link} expired before its end was seen")),
            (Some(json!({"other": 3})), link.to_owned()),
        ] {
            assert_eq!(shown(end.clone()), expected, "{end:?}");
        }
    }

    #[test]
    fn the_texts_of_an_end_are_shown_as_json() {
        let end = json!({"failed": {"message": "no", "detail": r#"{"code":7}"#}});
        assert_eq!(readable(&end), json!({"failed": {"message": "no", "detail": {"code": 7}}}));
        assert_eq!(readable(&json!({"completed": "{\"a\":1}"})), json!({"completed": {"a": 1}}));
        for other in [json!(3), json!({"completed": "not json"}), json!({"a": "{}", "completed": "x", "c": 1})] {
            assert_eq!(readable(&other), other);
        }
    }
}
