//! The attempts of a task, and what it recorded, as tables. Of many entries one group is shown at a time.

use longhaul_client::text::line;
use maud::{Markup, html};
use serde_json::Value;

use crate::ask::{PageRequest, link_to_task};
use crate::clock::{exact_ms, in_words_ms, written};
use crate::pages::parts;
use crate::timeline::{Axis, End, Entry, Timeline, bar};

/// A longer name of an entry stands in no address.
const NAME_BYTES_MAX: usize = 2_048;

/// Entries of a group.
const GROUP: usize = 200;

/// So many attempts are in the table: the last ones.
const ATTEMPTS_MAX: usize = 100;

/// Characters of a value in a row.
const VALUE_MAX: usize = 120;

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
                            td { (written(attempt.from_ms)) }
                            td class="n" { (exact_ms(attempt.to_ms - attempt.from_ms)) }
                            td class="n" { (attempt.entries) }
                            td {
                                (attempt.end.words())
                                @if let Some(reason) = &attempt.reason { ": " (line(reason, 300)) }
                            }
                            td class="n" { @if let Some(next) = next { (in_words_ms(next - attempt.to_ms)) } }
                        }
                    }
                }
            } }
        }
    }
}

/// A group of what was recorded.
pub(super) fn table(ask: &PageRequest, timeline: &Timeline, axis: &Axis) -> Markup {
    let groups = timeline.entries.chunks(GROUP).count().max(1);
    let asked: Option<usize> = ask.value("group").and_then(|group| group.parse().ok());
    let group = asked.unwrap_or(groups).clamp(1, groups);
    let shown = timeline.entries.chunks(GROUP).nth(group - 1).unwrap_or_default();
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

/// The way to the other groups.
fn nav(ask: &PageRequest, timeline: &Timeline, group: usize) -> Markup {
    let all = timeline.entries.len();
    html! {
        nav class="groups" aria-label="Groups of journal entries" {
            @for (index, _) in timeline.entries.chunks(GROUP).enumerate() {
                @let number = (index + 1).to_string();
                @let here = index + 1 == group;
                a href={ (ask.link_with(&[("group", Some(&number))])) "#journal" }
                    aria-current=[here.then_some("true")] {
                    (index * GROUP + 1) "–" ((index + 1).saturating_mul(GROUP).min(all))
                }
            }
        }
    }
}

fn row(ask: &PageRequest, entry: &Entry, timeline: &Timeline, axis: &Axis) -> Markup {
    let is_of_dead = entry.attempt.is_some_and(|number| {
        timeline
            .attempts
            .iter()
            .any(|attempt| attempt.number == number && matches!(attempt.end, End::Died | End::Failed))
    });
    let named = format!("{}:{}", entry.kind, entry.name);
    html! {
        tr class=[is_of_dead.then_some("attempt-died")] {
            td { @if let Some(attempt) = entry.attempt { (attempt) } }
            th scope="row" title=[entry.at_ms.map(written)] {
                @if entry.kind != "step" { span class="dim" { (line(&entry.kind, 20)) " " } }
                @if named.len() <= NAME_BYTES_MAX {
                    a href={ (ask.link_with(&[("entry", Some(&named))])) "#entry" } { (line(&entry.name, 100)) }
                } @else { (line(&entry.name, 100)) }
            }
            td class="axis" { (bar(entry, axis)) }
            td class="n" { @if let Some(took) = entry.took_ms { (exact_ms(took)) } }
            td class="value" {
                @match entry.shown["child"].as_str() {
                    Some(child) => { "called " a href=(link_to_task(child)) { (line(child, 100)) } },
                    None => (value(&entry.shown)),
                }
            }
        }
    }
}

/// The beginning of a value, or how long one is that the server leaves out.
fn value(shown: &Value) -> String {
    if shown["cut"] == true {
        return format!("{} bytes", shown["bytes"]);
    }
    line(&shown["value"].to_string(), VALUE_MAX)
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
                Some(entry) => (parts::json(&entry["value"])),
                None => p { "The journal has no such entry." },
            }
        }
    }
}
