//! Health: the tasks that run, wait or have failed, from the list of tasks and their records.

use longhaul_client::text::{count, line};
use longhaul_client::{Status, Task};
use maud::{Markup, html};
use serde_json::Value;

use crate::ask::{PageRequest, link};
use crate::clock::{in_words_ms, time_of_day};
use crate::limits::{OLDEST_MAX, RECORDS_MAX};
use crate::page::Page;
use crate::parts;
use crate::problem::Problem;
use crate::source::{Filter, Listed, Row, moment_of, says, told, updated_ms};
use crate::state::{OtherServer, Processes};

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
            (tile("Working", listed.counts[0], &to_status(ask, Status::Working), &attempts.words()))
            (tile("Waiting for answers", listed.counts[1], &to_status(ask, Status::InputRequired),
                &oldest(ask, &listed.rows)))
            (ended(ask, &listed.rows, Status::Completed))
            (ended(ask, &listed.rows, Status::Failed))
        }
        (servers(&ask.servers()))
        (deadlines(ask, &listed.rows))
        (waiting(ask, &listed.rows))
        (failures(ask, &listed.rows))
        (computed(ask, &listed, &attempts))
    };
    let page = Page::new("Health").live("health", part);
    Ok(if ask.owner().is_none() { page.badge(listed.counts[1]) } else { page })
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
        let Ok(record) = ask.source_of(row).record(&row.task.id).await else { continue };
        attempts.looked_at += 1;
        let last = record["attempts"].as_array().and_then(|attempts| attempts.last());
        attempts.running += usize::from(last.is_some_and(|attempt| attempt["end"] == Value::Null));
    }
    attempts
}

/// The URL of the list of tasks of a status and of the shown owners.
fn to_status(ask: &PageRequest, status: Status) -> String {
    let owner = ask.owner().map(|owner| ("owner", owner));
    link("", &[("status", status.name())].into_iter().chain(owner).collect::<Vec<_>>())
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
            h2 { a href=(to_status(ask, status)) { (name) } }
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

/// The other servers that the tools need: those that cannot be used first.
fn servers(servers: &[OtherServer]) -> Markup {
    let mut servers: Vec<&OtherServer> = servers.iter().collect();
    servers.sort_by_key(|server| server.why.is_none());
    html! {
        @if !servers.is_empty() {
            section class="card" {
                h2 { "Servers behind this one" }
                div class="scroll" { table {
                    thead { tr {
                        th scope="col" { "Server" } th scope="col" class="n" { "Processes" }
                        th scope="col" class="n" { "Restarts" } th scope="col" { "State" }
                    } }
                    tbody { @for server in servers { (server_row(server)) } }
                } }
            }
        }
    }
}

fn server_row(server: &OtherServer) -> Markup {
    html! {
        tr {
            th scope="row" { (line(&server.name, 60)) }
            @match server.processes {
                Some(Processes { starting, running, restarts }) => {
                    td class="n" { (running) @if starting > 0 { " + " (starting) " starting" } }
                    td class="n" { (restarts) }
                }
                None => { td class="n" { "–" } td class="n" { "–" } }
            }
            td class="message" {
                @match &server.why {
                    Some(why) => span class="wrong" { "cannot be used now: " (line(why, 400)) },
                    None => "ready",
                }
            }
        }
    }
}

/// The unfinished tasks whose deadlines come next.
fn deadlines(ask: &PageRequest, rows: &[Row]) -> Markup {
    let deadline = |row: &Row| moment_of(&row.task, "deadlineAt");
    let mut open: Vec<&Row> = rows.iter().filter(|row| deadline(row).is_some()).collect();
    open.sort_by_key(|row| deadline(row));
    let left = |task: &Task| match moment_of(task, "deadlineAt").map(|at| at - ask.now_ms) {
        Some(left_ms @ 1..) => html! { "in " (in_words_ms(left_ms)) },
        _ => html! { "passed" },
    };
    named(ask, "Next deadlines", "Deadline", &open, left)
}

/// The tasks that have waited longest for an answer.
fn waiting(ask: &PageRequest, rows: &[Row]) -> Markup {
    let mut asked: Vec<&Row> = rows.iter().filter(|row| row.task.status == Status::InputRequired).collect();
    asked.sort_by_key(|row| updated_ms(&row.task));
    named(ask, "Waiting longest for an answer", "Since", &asked, |task| parts::age(updated_ms(task), ask.now_ms))
}

/// The latest tasks that failed.
fn failures(ask: &PageRequest, rows: &[Row]) -> Markup {
    let mut failed: Vec<&Row> = rows.iter().filter(|row| row.task.status == Status::Failed).collect();
    failed.sort_by_key(|row| std::cmp::Reverse(updated_ms(&row.task)));
    named(ask, "Failed last", "Since", &failed, |task| parts::age(updated_ms(task), ask.now_ms))
}

fn named(ask: &PageRequest, name: &str, time: &str, rows: &[&Row], shown: impl Fn(&Task) -> Markup) -> Markup {
    html! {
        @if !rows.is_empty() {
            section class="card" {
                h2 { (name) }
                div class="scroll" { table {
                    thead { tr {
                        th scope="col" { "Task" } th scope="col" { "Tool" } th scope="col" { "Message" }
                        th scope="col" class="n" { (time) }
                    } }
                    tbody {
                        @for row in rows.iter().take(OLDEST_MAX) {
                            tr {
                                th scope="row" class="id" { a href=(ask.link_to_row(row)) {
                                    (parts::id(&row.task.id)) } }
                                td class="tool" { (line(row.tool.as_deref().unwrap_or("–"), 60)) }
                                @let said = says(&row.task);
                                td class="message" {
                                    (said.as_deref().or(told(&row.task, "title")).unwrap_or_default())
                                }
                                td class="n" { (shown(&row.task)) }
                            }
                        }
                    }
                } }
            }
        }
    }
}

/// The source of the figures, so that readers do not overrate them.
fn computed(ask: &PageRequest, listed: &Listed, attempts: &Attempts) -> Markup {
    html! {
        p class="dim computed" {
            @let newest = if listed.newest.is_some() { "newest " } else { "" };
            "Computed from the " (newest) (count(listed.rows.len(), "task", "tasks")) " that the server lists for "
            @if ask.owner().is_none() {
                "this caller now: those of other callers, and those that have expired, are not among them. "
            } @else { "all owners now. Tasks that have expired are not among them. " }
            "A task's last change stands for the time of its end. "
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
