//! What several pages show in the same way.

use longhaul_client::text::{block, line};
use longhaul_client::{Progress, Status, Task};
use maud::{Markup, html};
use serde_json::Value;

use crate::clock;

/// Characters of JSON or text that a page shows of one value.
const VALUE_MAX: usize = 32 << 10;

/// A status, as a word with a colour.
pub(crate) fn status(status: Status) -> Markup {
    html! { span class={ "status " (status.name()) } { (words(status)) } }
}

pub(crate) const fn words(status: Status) -> &'static str {
    match status {
        Status::Working => "working",
        Status::InputRequired => "needs an answer",
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Cancelled => "cancelled",
    }
}

/// How long ago a moment was, with the moment itself for who points at it.
pub(crate) fn age(at_ms: Option<i64>, now_ms: i64) -> Markup {
    html! {
        @if let Some(at_ms) = at_ms {
            time datetime=(clock::written(at_ms)) title=(clock::written(at_ms)) { (clock::in_words_ms(now_ms - at_ms)) }
        } @else { "–" }
    }
}

/// A bar of what a task has done, if it says how much.
pub(crate) fn bar(task: &Task) -> Markup {
    let progress = task.progress().filter(|_| !task.status.is_end());
    html! {
        @if let Some(Progress { done, total: Some(total), .. }) = progress {
            progress value=(done) max=(total) aria-label="Progress" {}
        }
    }
}

/// A JSON value, written so that people can read it.
pub(crate) fn json(value: &Value) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { pre { code { (block(&text, VALUE_MAX)) } } }
}

/// A message that is one line in a list.
pub(crate) fn message(task: &Task) -> String {
    line(task.message.as_deref().unwrap_or_default(), 300)
}
