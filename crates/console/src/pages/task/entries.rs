//! The attempts of a task and its journal, as tables. A long journal is shown one group at a time.

use longhaul_client::text::line;
use maud::{Markup, html};
use serde_json::Value;

use crate::ask::PageRequest;
use crate::clock::{exact_ms, in_words_ms, written};
use crate::limits::{ATTEMPTS_MAX, ENTRIES_IN_A_GROUP, ENTRY_NAME_BYTES_MAX, ENTRY_VALUE_MAX};
use crate::parts;
use crate::timeline::{Axis, Entry, Timeline, bar};

mod child;

/// Names that tools give to failures.
const FAILURES: [&str; 3] = ["failed", "err", "error"];

pub(super) fn attempts(timeline: &Timeline) -> Markup {
    let from = timeline.attempts.len().saturating_sub(ATTEMPTS_MAX);
    let until = timeline.attempts.iter().skip(1).map(|attempt| Some(attempt.from_ms)).chain([None]);
    html! {
        details id="attempts" {
            summary { "Attempts (" (timeline.attempts.len()) ")" }
            div class="scroll" { table {
                thead { tr {
                    th scope="col" { "Attempt" } th scope="col" { "Began" } th scope="col" class="n" { "Ran" }
                    th scope="col" class="n" { "Recorded" } th scope="col" { "How it ended" } th scope="col" class="n"
                        { "Then waited" }
                } }
                tbody {
                    @for (attempt, next) in timeline.attempts.iter().zip(until).skip(from) {
                        tr class={ "attempt-" (attempt.end.class()) } {
                            th scope="row" { (attempt.number) }
                            td { (parts::exact_moment(attempt.from_ms)) }
                            td class="n" { (exact_ms(attempt.to_ms - attempt.from_ms)) }
                            td class="n" { (attempt.entries) }
                            td {
                                (attempt.end.words())
                                @if let Some(reason) = &attempt.reason { ": " (line(reason, 300)) }
                                @if attempt.held_until_ms > attempt.to_ms {
                                    "; " (exact_ms(attempt.held_until_ms - attempt.to_ms)) " lost or without a server"
                                }
                            }
                            td class="n" { @if let Some(next) = next { (in_words_ms(next - attempt.held_until_ms)) } }
                        }
                    }
                }
            } }
        }
    }
}

/// A group of journal entries.
pub(super) fn table(ask: &PageRequest, timeline: &Timeline, axis: &Axis) -> Markup {
    let groups = timeline.entries.chunks(ENTRIES_IN_A_GROUP).count().max(1);
    let asked: Option<usize> = ask.value("group").and_then(|group| group.parse().ok());
    let group = asked.unwrap_or(groups).clamp(1, groups);
    let shown = timeline.entries.chunks(ENTRIES_IN_A_GROUP).nth(group - 1).unwrap_or_default();
    html! {
        section class="card" aria-labelledby="h-journal" {
            h2 id="h-journal" { "Journal" }
            @if groups > 1 { (nav(ask, timeline, group)) }
            div class="scroll" { table class="journal" {
                thead { tr {
                    th scope="col" { "Attempt" } th scope="col" { "Entry" } th scope="col" class="axis" { "When" }
                    th scope="col" class="n" { "Took" } th scope="col" { "Value" }
                } }
                tbody { @for entry in shown { (row(ask, entry, timeline, axis)) } }
            } }
        }
    }
}

/// The links to the other groups.
fn nav(ask: &PageRequest, timeline: &Timeline, group: usize) -> Markup {
    let all = timeline.entries.len();
    html! {
        nav class="groups" aria-label="Groups of journal entries" {
            @for (index, _) in timeline.entries.chunks(ENTRIES_IN_A_GROUP).enumerate() {
                @let number = (index + 1).to_string();
                @let here = index + 1 == group;
                a href={ (ask.link_with(&[("group", Some(&number))])) "#journal" }
                    aria-current=[here.then_some("true")] {
                    (index * ENTRIES_IN_A_GROUP + 1) "–" ((index + 1).saturating_mul(ENTRIES_IN_A_GROUP).min(all))
                }
            }
        }
    }
}

fn row(ask: &PageRequest, entry: &Entry, timeline: &Timeline, axis: &Axis) -> Markup {
    let named = format!("{}:{}", entry.kind, entry.name);
    let child = child::of(entry, timeline);
    let (kind, name) = match &child {
        Some(child) if entry.kind == "fact" => ("end of", child.step),
        Some(_) | None => (entry.kind.as_str(), entry.name.as_str()),
    };
    html! {
        tr {
            td { @if let Some(attempt) = entry.attempt { (attempt) } }
            th scope="row" title=[entry.at_ms.map(written)] {
                @if kind != "step" { span class="dim" { (line(kind, 20)) " " } }
                @if named.len() <= ENTRY_NAME_BYTES_MAX {
                    a href={ (ask.link_with(&[("entry", Some(&named))])) "#entry" } { (line(name, 100)) }
                } @else { (line(name, 100)) }
            }
            td class="axis" { (bar(entry, axis)) }
            td class="n" { @if let Some(took) = entry.took_ms { (exact_ms(took)) } }
            td class="value" {
                @match &child {
                    Some(child) => (child.html(&ask.link_to_task(child.id))),
                    None => (value(&entry.kind, &entry.shown)),
                }
            }
        }
    }
}

/// The beginning of a value, or how long one is that the server leaves out.
fn value(kind: &str, shown: &Value) -> Markup {
    if shown["cut"] == true {
        return html! { (shown["bytes"].to_string()) " bytes" };
    }
    let value = &shown["value"];
    match (kind, value.as_i64(), failure(value)) {
        ("timer", Some(ms), _) => parts::exact_moment(ms),
        (_, _, Some((name, why))) => {
            html! { span class="wrong" { (line(name, 20)) ": " (line(&text(why), ENTRY_VALUE_MAX)) } }
        }
        (_, _, None) => html! { (line(&value.to_string(), ENTRY_VALUE_MAX)) },
    }
}

/// A failure that a tool recorded, such as `{"Failed": "no route"}`.
fn failure(value: &Value) -> Option<(&str, &Value)> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let (name, why) = object.iter().next()?;
    // The failure of a step, as the server records it.
    let name = name.strip_prefix("dev.longhaul/").unwrap_or(name);
    FAILURES.iter().any(|failure| name.eq_ignore_ascii_case(failure)).then_some((name, why))
}

/// A value as people write it: a text without quotation marks.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One entry with its value.
pub(super) fn one(record: &Value, named: &str) -> Markup {
    let is_named = |entry: &&Value| {
        let text = |name: &str| entry[name].as_str().unwrap_or_default();
        named.split_once(':').is_some_and(|(kind, name)| text("kind") == kind && text("name") == name)
    };
    let entry = record["journal"].as_array().into_iter().flatten().find(is_named);
    html! {
        section class="card" aria-labelledby="h-entry" {
            h2 id="h-entry" { "Entry " (line(named, 200)) }
            @match entry {
                Some(entry) if entry["cut"] == true => p {
                    (entry["bytes"].to_string()) " bytes, which the server leaves out here."
                },
                Some(entry) if entry["kind"] == "timer" && entry["value"].is_i64() => p {
                    (value("timer", entry))
                },
                Some(entry) => (parts::json(&child::readable(&entry["value"]))),
                None => p { "The journal does not have this entry." },
            }
        }
    }
}
