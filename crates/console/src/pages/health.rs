//! Health: the tasks that run, wait or have failed, from the list of tasks and their records.

use longhaul_client::text::{count, line};
use longhaul_client::{Status, Task};
use maud::{Markup, html};
use serde_json::Value;

use crate::ask::{PageRequest, link, link_to_task};
use crate::clock::{in_words_ms, time_of_day};
use crate::limits::{OLDEST_MAX, RECORDS_MAX};
use crate::page::Page;
use crate::parts;
use crate::problem::Problem;
use crate::source::{Filter, Listed, Row, created_ms, updated_ms};

/// The hour in pieces of five minutes.
const PIECES: usize = 12;

/// A piece, in milliseconds.
const PIECE_MS: i64 = 300_000;

pub(crate) async fn page(ask: &PageRequest) -> Result<Page, Problem> {
    let listed = ask.source().tasks(&Filter::default()).await?;
    let attempts = attempts(ask, &listed.rows).await;
    let part = html! {
        h1 { "Health" }
        div class="tiles" {
            (tile("Working", listed.counts[0], &link("", &[("status", "working")]), &attempts.words()))
            (tile("Waiting for answers", listed.counts[1], &link("", &[("status", "input_required")]),
                &oldest(ask, &listed.rows)))
            (ended(ask, &listed.rows, Status::Completed))
            (ended(ask, &listed.rows, Status::Failed))
        }
        (degraded(&ask.degraded()))
        (waiting(ask, &listed.rows))
        (failures(ask, &listed.rows))
        (computed(&listed, &attempts))
    };
    Ok(Page::new("Health").live("health", part))
}

/// The running attempts.
#[derive(Default)]
struct Attempts {
    running: usize,
    looked_at: usize,
    working: usize,
}

impl Attempts {
    fn words(&self) -> String {
        match self.looked_at {
            0 => String::new(),
            looked_at if looked_at == self.working => {
                format!("{} now", count(self.running, "attempt runs", "attempts run"))
            }
            looked_at => {
                format!("{} now, of the newest {looked_at}", count(self.running, "attempt runs", "attempts run"))
            }
        }
    }
}

async fn attempts(ask: &PageRequest, rows: &[Row]) -> Attempts {
    let mut attempts = Attempts::default();
    for row in rows.iter().filter(|row| row.task.status == Status::Working) {
        attempts.working += 1;
        if attempts.working > RECORDS_MAX {
            continue;
        }
        let Ok(record) = ask.source().record(&row.task.id).await else { continue };
        attempts.looked_at += 1;
        let last = record["attempts"].as_array().and_then(|attempts| attempts.last());
        attempts.running += usize::from(last.is_some_and(|attempt| attempt["end"] == Value::Null));
    }
    attempts
}

fn tile(name: &str, number: usize, to: &str, more: &str) -> Markup {
    html! {
        section class="card tile" {
            h2 { a href=(to) { (name) } }
            p class="figure" { (number) }
            p class="dim" { (more) }
        }
    }
}

/// How long the oldest question has waited.
fn oldest(ask: &PageRequest, rows: &[Row]) -> String {
    let waits = rows.iter().filter(|row| row.task.status == Status::InputRequired);
    let oldest = waits.filter_map(|row| updated_ms(&row.task)).min();
    oldest.map_or_else(|| "nobody is asked".to_owned(), |at| format!("the oldest for {}", in_words_ms(ask.now_ms - at)))
}

/// How many ended in a way within the hour, with a plot.
fn ended(ask: &PageRequest, rows: &[Row], status: Status) -> Markup {
    let mut pieces = [0_usize; PIECES];
    for at in rows.iter().filter(|row| row.task.status == status).filter_map(|row| updated_ms(&row.task)) {
        let index = usize::try_from((ask.now_ms - at).max(0) / PIECE_MS).unwrap_or(usize::MAX);
        if let Some(piece) = pieces.iter_mut().rev().nth(index) {
            *piece += 1;
        }
    }
    let all: usize = pieces.iter().sum();
    let name = if status == Status::Failed { "Failed in the last hour" } else { "Completed in the last hour" };
    html! {
        section class="card tile" {
            h2 { a href=(link("", &[("status", status.name())])) { (name) } }
            p class="figure" { (all) }
            (plot(ask, status, &pieces))
        }
    }
}

fn plot(ask: &PageRequest, status: Status, pieces: &[usize; PIECES]) -> Markup {
    let most = pieces.iter().copied().max().unwrap_or(0).max(1);
    let said = format!("In pieces of five minutes, oldest first: {}", pieces.map(|piece| piece.to_string()).join(", "));
    html! {
        svg class="plot" viewBox="0 0 120 30" preserveAspectRatio="none" role="img" aria-label=(said) {
            line class="rule" x1="0" x2="120" y1="29.5" y2="29.5" {}
            @for (index, number) in pieces.iter().enumerate() {
                @let height = if *number == 0 { 0 } else { (number * 28 / most).max(2) };
                @let ago = i64::try_from(PIECES - index).unwrap_or_default() * PIECE_MS;
                rect class={ "ended " (status.name()) } x=(index * 10 + 1) y=(29 - height) width="8" height=(height) {
                    title { (number) " since " (time_of_day(ask.now_ms - ago)) }
                }
            }
        }
    }
}

/// The parts of the server that cannot be used now.
fn degraded(parts: &[(String, String)]) -> Markup {
    html! {
        @if !parts.is_empty() {
            section class="card" {
                h2 { "Cannot be used now" }
                div class="scroll" { table {
                    thead { tr { th scope="col" { "Server" } th scope="col" { "Reason" } } }
                    tbody {
                        @for (part, why) in parts {
                            tr { th scope="row" { (line(part, 60)) } td class="message" { (line(why, 400)) } }
                        }
                    }
                } }
            }
        }
    }
}

/// The tasks that have waited longest for an answer.
fn waiting(ask: &PageRequest, rows: &[Row]) -> Markup {
    let mut asked: Vec<&Row> = rows.iter().filter(|row| row.task.status == Status::InputRequired).collect();
    asked.sort_by_key(|row| updated_ms(&row.task));
    named(ask, "Waiting longest for an answer", &asked, updated_ms)
}

/// The latest tasks that failed.
fn failures(ask: &PageRequest, rows: &[Row]) -> Markup {
    let mut failed: Vec<&Row> = rows.iter().filter(|row| row.task.status == Status::Failed).collect();
    failed.sort_by_key(|row| std::cmp::Reverse(updated_ms(&row.task)));
    named(ask, "Failed last", &failed, |task| updated_ms(task).or(created_ms(task)))
}

fn named(ask: &PageRequest, name: &str, rows: &[&Row], since: impl Fn(&Task) -> Option<i64>) -> Markup {
    html! {
        @if !rows.is_empty() {
            section class="card" {
                h2 { (name) }
                div class="scroll" { table {
                    thead { tr {
                        th scope="col" { "Task" } th scope="col" { "Tool" } th scope="col" { "Message" }
                        th scope="col" class="n" { "Since" }
                    } }
                    tbody {
                        @for row in rows.iter().take(OLDEST_MAX) {
                            tr {
                                th scope="row" class="id" { a href=(link_to_task(&row.task.id)) {
                                    (parts::id(&row.task.id)) } }
                                td class="tool" { (line(row.tool.as_deref().unwrap_or("–"), 60)) }
                                td class="message" { (parts::message(&row.task)) }
                                td class="n" { (parts::age(since(&row.task), ask.now_ms)) }
                            }
                        }
                    }
                } }
            }
        }
    }
}

/// The source of the figures, so that readers do not overrate them.
fn computed(listed: &Listed, attempts: &Attempts) -> Markup {
    html! {
        p class="dim computed" {
            @let newest = if listed.newest.is_some() { "newest " } else { "" };
            "Computed from the " (newest) (count(listed.rows.len(), "task", "tasks")) " that the server lists for this \
                caller now: those of other callers, and those that have expired, are not among them. A task's last \
                change stands for the time of its end. "
            @if attempts.looked_at < attempts.working {
                "Whether an attempt runs was looked up for " (attempts.looked_at) " of " (attempts.working) " tasks \
                    that are \
                    working."
            } @else {
                "Whether an attempt runs is in the records of the tasks that are working."
            }
        }
    }
}
