//! The list of tasks: by status, tool, age and text, and the actions on selected tasks.

use longhaul_client::Status;
use longhaul_client::text::{count, is_plain, line};
use maud::{Markup, html};

use super::acts;
use crate::ask::{PageRequest, link, link_to_task};
use crate::limits::{CELL_MAX, FILTER_TOOLS_MAX, TASKS_ON_A_PAGE};
use crate::page::Page;
use crate::parts;
use crate::problem::Problem;
use crate::source::{Filter, Listed, Row, created_ms, updated_ms, wakes_ms};

/// The form that acts on selected rows.
const FORM: &str = "many";

/// Ages that one can choose from: the value, its length in milliseconds, and words.
const AGES: [(&str, i64, &str); 4] = [
    ("10m", 600_000, "the last 10 minutes"),
    ("1h", 3_600_000, "the last hour"),
    ("1d", 86_400_000, "the last day"),
    ("7d", 604_800_000, "the last 7 days"),
];

pub(crate) async fn page(ask: &PageRequest) -> Result<Page, Problem> {
    let listed = ask.source().tasks(&filter(ask)).await?;
    let page = Page::new("Tasks").still("filters", filters(ask, &listed)).live("list", list(ask, &listed));
    Ok(if ask.is_read_only() { page } else { page.still("bulk", bulk(ask)?) })
}

/// The requested filter. This is the one place where the address becomes a filter.
fn filter(ask: &PageRequest) -> Filter {
    Filter {
        status: ask.value("status").and_then(Status::of),
        tool: ask.value("tool").map(str::to_owned),
        age_ms_max: AGES.iter().find(|(value, ..)| ask.value("age") == Some(value)).map(|(_, ms, _)| *ms),
        text: ask.value("q").map(|text| text.trim().chars().take(CELL_MAX).collect::<String>().to_lowercase()),
    }
}

fn filters(ask: &PageRequest, listed: &Listed) -> Markup {
    let chosen = ask.value("tool").filter(|tool| is_plain(tool));
    let text = ask.value("q").map(|text| line(text, CELL_MAX));
    let is_chosen = |tool: &str| chosen == Some(tool);
    html! {
        h1 class="unseen" { "Tasks" }
        form method="get" action=(link("", &[])) class="filters" role="search" {
            @if let Some(status) = ask.value("status").and_then(Status::of) { input type="hidden" name="status"
                value=(status.name()); }
            label { "Search" input type="search" name="q" value=[text] maxlength=(CELL_MAX)
                placeholder="id or message"; }
            label {
                "Tool"
                select name="tool" {
                    option value="" { "all" }
                    @for tool in listed.tools.iter().filter(|tool| is_plain(tool)).take(FILTER_TOOLS_MAX) {
                        option value=(tool) selected[is_chosen(tool)] { (line(tool, 80)) }
                    }
                    @if let Some(tool) = chosen.filter(|tool| !listed.tools.iter().any(|one| one == tool)) {
                        option value=(tool) selected { (line(tool, 80)) }
                    }
                }
            }
            label {
                "Created in"
                select name="age" {
                    option value="" { "all time" }
                    @for (value, _, words) in AGES {
                        option value=(value) selected[ask.value("age") == Some(value)] { (words) }
                    }
                }
            }
            button { "Show" }
        }
    }
}

fn list(ask: &PageRequest, listed: &Listed) -> Markup {
    let all = listed.rows.len();
    let last = all.div_ceil(TASKS_ON_A_PAGE).max(1);
    let number = ask.value("page").and_then(|page| page.parse::<usize>().ok()).unwrap_or(1).clamp(1, last);
    let rows = listed.rows.iter().skip((number - 1) * TASKS_ON_A_PAGE).take(TASKS_ON_A_PAGE);
    html! {
        (tabs(ask, listed))
        @if all == 0 {
            p class="empty" {
                @if ask.link_with(&[]) == link("", &[]) { "There are no tasks yet. New tasks appear here." }
                @else { "No task fits. " a href=(link("", &[])) { "Show all" } }
            }
        } @else {
            div class="scroll" { table class="tasks" {
                caption class="unseen" { "Tasks, newest first" }
                thead { tr {
                    @if !ask.is_read_only() { th scope="col" { span class="unseen" { "Tick" } } }
                    th scope="col" { "Status" } th scope="col" { "Tool" } th scope="col" { "Task" }
                    th scope="col" { "Message" } th scope="col" class="n" { "Age" } th scope="col" class="n" {
                        "Changed" }
                } }
                tbody { @for row in rows { (row_of(ask, row)) } }
            } }
            p class="pages dim" {
                (count(all, "task", "tasks"))
                @if let Some(newest) = listed.newest { " · counted and searched: the newest " (newest) }
                @if last > 1 {
                    ", page " (number) " of " (last) " "
                    @if number > 1 { a rel="prev" href=(ask.link_with(&[("page", Some(&(number - 1).to_string()))])) {
                        "Newer" } " " }
                    @if number < last { a rel="next" href=(ask.link_with(&[("page", Some(&(number + 1).to_string()))]))
                        { "Older" } }
                }
            }
        }
    }
}

/// The statuses, with how many tasks have each.
fn tabs(ask: &PageRequest, listed: &Listed) -> Markup {
    let chosen = ask.value("status").and_then(Status::of);
    let all: usize = listed.counts.iter().sum();
    html! {
        nav class="tabs" aria-label="Status" {
            a href=(ask.link_with(&[("status", None), ("page", None)]))
                aria-current=[chosen.is_none().then_some("true")] {
                "all " span class="count" { (all) }
            }
            @for (status, number) in Status::ALL.into_iter().zip(listed.counts) {
                @let is_here = chosen == Some(status);
                a href=(ask.link_with(&[("status", Some(status.name())), ("page", None)]))
                    aria-current=[is_here.then_some("true")] {
                    (parts::words(status)) " " span class="count" { (number) }
                }
            }
        }
    }
}

fn row_of(ask: &PageRequest, row: &Row) -> Markup {
    let task = &row.task;
    let id = line(&task.id, 80);
    html! {
        tr {
            @if !ask.is_read_only() {
                td { @if is_plain(&task.id) { input type="checkbox" name="id" value=(task.id) form=(FORM) aria-label={
                    "Task " (id) }; } }
            }
            td class="state" { (parts::state(task, wakes_ms(task), ask.now_ms)) }
            td class="tool" { (line(row.tool.as_deref().unwrap_or("–"), 60)) }
            th scope="row" class="id" { a href=(link_to_task(&task.id)) { (parts::id(&task.id)) } }
            td class="message" { (parts::bar(task)) (parts::message(task)) }
            td class="n" { (parts::age(created_ms(task), ask.now_ms)) }
            td class="n" { (parts::age(updated_ms(task), ask.now_ms)) }
        }
    }
}

fn bulk(ask: &PageRequest) -> Result<Markup, Problem> {
    Ok(html! {
        form id=(FORM) method="post" action=(link("act", &[])) class="bulk" aria-label="Ticked tasks" {
            (ask.token_field())
            (acts::key_field()?)
            label class="all" hidden { input type="checkbox" data-tick=(FORM); "all on this page" }
            span class="dim" data-ticked { "Ticked tasks:" }
            button class="danger" name="act" value="cancel" { "Cancel" }
            button class="quiet" name="act" value="again" { "Call again" }
        }
    })
}
