//! Parts that several pages share.

use longhaul_client::text::{block, line};
use longhaul_client::{Progress, Status, Task};
use maud::{Markup, html};
use serde_json::Value;

use crate::clock;
use crate::limits::{ID_END, ID_MAX, VALUE_CHARS_MAX};

/// The distance, in milliseconds, up to which a time is written without its day.
const NEAR_MS: i64 = 72_000_000;

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

/// The state of a task; for a sleeping one, until when it sleeps.
pub(crate) fn state(task: &Task, wakes_ms: Option<i64>, now_ms: i64) -> Markup {
    let sleeps_until = wakes_ms.filter(|wakes_ms| task.status == Status::Working && *wakes_ms > now_ms);
    html! {
        @match sleeps_until {
            None => (status(task.status)),
            Some(wakes_ms) => {
                span class="status working asleep" title="It continues earlier if the awaited value arrives" {
                    "asleep until " (moment(wakes_ms, now_ms))
                }
                span class="dim in" { " (in " (clock::in_words_ms(wakes_ms - now_ms)) ")" }
            }
        }
    }
}

/// A time: its time of day if it is near, otherwise with its day. Scripts show it in the reader's time zone.
pub(crate) fn moment(at_ms: i64, now_ms: i64) -> Markup {
    let is_near = (at_ms - now_ms).abs() < NEAR_MS;
    let (form, text) =
        if is_near { ("minute", clock::minute_of_day(at_ms)) } else { ("day", clock::day_and_minute(at_ms)) };
    html! { time title=(clock::written(at_ms)) data-at=(at_ms) data-as=(form) { (text) } }
}

/// A time to the second.
pub(crate) fn exact_moment(at_ms: i64) -> Markup {
    let text = clock::written(at_ms);
    html! { time title=(text) data-at=(at_ms) data-as="whole" { (text) } }
}

/// The end of a long id. Its beginning is the time, which many ids have in common. A tooltip shows the whole id.
pub(crate) fn id(id: &str) -> Markup {
    let is_long = id.len() > ID_MAX && id.is_ascii();
    let end = id.get(id.len().saturating_sub(ID_END)..).filter(|_| is_long);
    html! {
        @match end {
            Some(end) => span title=(line(id, 200)) { "…" (line(end, ID_END)) },
            None => (line(id, 80)),
        }
    }
}

/// A button that copies an id. Only scripts show it.
pub(crate) fn copy(whole: &str) -> Markup {
    html! {
        " "
        button type="button" class="copy-id" data-text=(line(whole, 200)) title="Copy the id" aria-label="Copy the id"
            hidden {
            svg viewBox="0 0 16 16" width="13" height="13" aria-hidden="true" {
                rect x="5.5" y="5.5" width="8" height="9" rx="1.5" {}
                path d="M10.5 3.5v-1a1 1 0 0 0-1-1h-6a1 1 0 0 0-1 1v8a1 1 0 0 0 1 1h.5" {}
            }
        }
    }
}

/// The beginning of an owner's key, which is a hash.
pub(crate) fn short_owner(owner: &str) -> String {
    format!("{}…", line(owner, 80).chars().take(ID_END).collect::<String>())
}

/// How long ago a time was, with the time itself in a tooltip.
pub(crate) fn age(at_ms: Option<i64>, now_ms: i64) -> Markup {
    html! {
        @if let Some(at_ms) = at_ms {
            time title=(clock::written(at_ms)) data-at=(at_ms) data-as="title" { (clock::in_words_ms(now_ms - at_ms)) }
        } @else { "–" }
    }
}

/// A bar of a task's progress, if the task reports a total.
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
    html! { pre { code { (block(&text, VALUE_CHARS_MAX)) } } }
}
