//! The list of tasks: by status, tool, age and text, and the actions on selected tasks.

use longhaul_client::text::{count, is_plain, line};
use longhaul_client::{ALL_OWNERS, Status, Task};
use maud::{Markup, html};

use super::acts;
use super::filter::{self, AGES, BEFORE};
use crate::ask::{PageRequest, link};
use crate::clock::{exact_ms, in_words_ms};
use crate::limits::{CELL_MAX, FILTER_TOOLS_MAX, LABEL_MAX, TASKS_ON_A_PAGE};
use crate::page::Page;
use crate::parts;
use crate::problem::Problem;
use crate::source::{Listed, Row, created_ms, moment_of, says, told, updated_ms, wakes_ms};

/// The form that acts on selected rows.
const FORM: &str = "many";

/// Called tasks are indented so many times at most.
const DEPTH_MAX: usize = 4;

/// A deadline is shown in the list if it is nearer than this.
const DEADLINE_NEAR_MS: i64 = 600_000;

pub(crate) async fn page(ask: &PageRequest) -> Result<Page, Problem> {
    let (source, filter) = (ask.source(), filter::of(ask));
    let (listed, is_operator) = futures::try_join!(source.tasks(&filter), source.is_operator())?;
    let page = Page::new("Tasks").still("filters", filters(ask, &listed, is_operator)).live("list", list(ask, &listed));
    let page = if ask.owner().is_none() && ask.value(BEFORE).is_none() { page.badge(listed.counts[1]) } else { page };
    Ok(if ask.is_read_only() { page } else { page.still("bulk", bulk(ask)?) })
}

fn filters(ask: &PageRequest, listed: &Listed, is_operator: bool) -> Markup {
    let chosen = ask.value("tool").filter(|tool| is_plain(tool));
    let text = ask.value("q").map(|text| line(text, CELL_MAX));
    let is_chosen = |tool: &str| chosen == Some(tool);
    html! {
        h1 class="unseen" { "Tasks" }
        form method="get" action=(link("", &[])) class="filters" role="search" {
            @if is_operator {
                @let owner = ask.owner();
                label {
                    "Owner"
                    select name="owner" {
                        option value="" { "me" }
                        option value=(ALL_OWNERS) selected[owner == Some(ALL_OWNERS)] { "all owners" }
                        @if let Some(owner) = owner.filter(|owner| *owner != ALL_OWNERS) {
                            option value=(owner) selected { (parts::short_owner(owner)) }
                        }
                    }
                }
            }
            @if let Some(status) = ask.value("status").and_then(Status::of) { input type="hidden" name="status"
                value=(status.name()); }
            label { "Search" input type="search" name="q" value=[text] maxlength=(CELL_MAX)
                placeholder="id, arguments or message"; }
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
            label { "Label" input name="label" value=[ask.value("label").map(|label| line(label, LABEL_MAX))]
                maxlength=(LABEL_MAX) placeholder="customer=acme"; }
            label {
                "Created in"
                select name="age" {
                    option value="" { "all time" }
                    @for (value, _, words) in AGES {
                        option value=(value) selected[ask.value("age") == Some(value)] { (words) }
                    }
                }
            }
            button data-show { "Show" }
        }
    }
}

fn list(ask: &PageRequest, listed: &Listed) -> Markup {
    let all = listed.rows.len();
    let last = all.div_ceil(TASKS_ON_A_PAGE).max(1);
    let number = ask.value("page").and_then(|page| page.parse::<usize>().ok()).unwrap_or(1).clamp(1, last);
    let rows = listed.rows.iter().skip((number - 1) * TASKS_ON_A_PAGE).take(TASKS_ON_A_PAGE);
    let has_owners = ask.owner().is_some();
    html! {
        (tabs(ask, listed))
        @if all == 0 {
            p class="empty" {
                @if ask.link_with(&[]) == link("", &[]) { "There are no tasks yet. New tasks appear here." }
                @else { "No task fits. " a href=(link("", &[])) { "Show all" } }
            }
        } @else {
            div class="scroll" { table class="tasks" {
                caption class="unseen" { "Tasks, newest first; a called task is below its caller" }
                thead { tr {
                    @if has_boxes(ask) { th scope="col" { span class="unseen" { "Select" } } }
                    th scope="col" { "Status" } th scope="col" { "Call" }
                    @if has_owners { th scope="col" { "Owner" } }
                    th scope="col" { "Id" } th scope="col" class="n" { "Age" } th scope="col" class="n" { "Took" }
                } }
                tbody { @for (row, depth) in in_families(rows.collect()) { (row_of(ask, row, depth)) } }
            } }
        }
        p class="pages dim" {
            @if all > 0 { (count(all, "task", "tasks")) }
            @if let Some(newest) = listed.newest {
                @let read = if ask.value(BEFORE).is_some() { "these" } else { "the newest" };
                " · counted and searched: " (read) " " (newest)
            }
            @if last > 1 { ", page " (number) " of " (last) }
            " "
            @if number > 1 { a rel="prev" href=(ask.link_with(&[("page", Some(&(number - 1).to_string()))])) {
                "Newer" } " " }
            @if number == 1 && ask.value(BEFORE).is_some() { a href=(ask.link_with(&[("page", None), (BEFORE, None)])) {
                "Newest" } " " }
            @if number < last { a rel="next" href=(ask.link_with(&[("page", Some(&(number + 1).to_string()))]))
                { "Older" } }
            @else if let Some(older) = &listed.older {
                a rel="next" href=(ask.link_with(&[("page", None), (BEFORE, Some(older))])) { "Older" }
            }
        }
    }
}

/// The rows with each called task below its caller, if that is on the page, and how deep it is.
fn in_families(rows: Vec<&Row>) -> Vec<(&Row, usize)> {
    let has = |id: &str| rows.iter().any(|row| row.task.id == id);
    let parent = |row: &Row| -> Option<String> {
        told(&row.task, "parent").filter(|parent| *parent != row.task.id && has(parent)).map(str::to_owned)
    };
    let mut shown: Vec<(&Row, usize)> = Vec::new();
    let mut next: Vec<(&Row, usize)> =
        rows.iter().rev().filter(|row| parent(row).is_none()).map(|row| (*row, 0)).collect();
    while let Some((row, depth)) = next.pop() {
        shown.push((row, depth));
        let called = rows.iter().filter(|one| parent(one).as_ref() == Some(&row.task.id));
        next.extend(called.map(|one| (*one, depth + 1)));
    }
    shown
}

/// The statuses, with how many tasks have each.
fn tabs(ask: &PageRequest, listed: &Listed) -> Markup {
    let chosen = ask.value("status").and_then(Status::of);
    let all: usize = listed.counts.iter().sum();
    // In the past, only the tasks of the shown status were read.
    let has_counts = ask.value(BEFORE).is_none();
    html! {
        nav class="tabs" aria-label="Status" {
            a href=(ask.link_with(&[("status", None), ("page", None), (BEFORE, None)]))
                aria-current=[chosen.is_none().then_some("true")] {
                "all" @if has_counts { " " span class="count" { (all) } }
            }
            @for (status, number) in Status::ALL.into_iter().zip(listed.counts) {
                @let is_here = chosen == Some(status);
                a href=(ask.link_with(&[("status", Some(status.name())), ("page", None), (BEFORE, None)]))
                    aria-current=[is_here.then_some("true")] {
                    (parts::words(status)) @if has_counts { " " span class="count" { (number) } }
                }
            }
        }
    }
}

fn row_of(ask: &PageRequest, row: &Row, depth: usize) -> Markup {
    let task = &row.task;
    let id = line(&task.id, 80);
    let title = told(task, "title").map(|title| line(title, CELL_MAX));
    html! {
        tr class=[(depth > 0).then(|| format!("child depth{}", depth.min(DEPTH_MAX)))] {
            @if has_boxes(ask) {
                td { @if is_plain(&task.id) { input type="checkbox" name="id" value=(task.id) form=(FORM) aria-label={
                    "Task " (id) }; } }
            }
            td class="state" { (parts::state(task, wakes_ms(task), ask.now_ms)) }
            th scope="row" class="call" {
                a href=(ask.link_to_row(row)) {
                    strong { (line(row.tool.as_deref().unwrap_or("task"), 60)) }
                    @if let Some(title) = title { " " span class="arguments" { (title) } }
                }
                (said(row, ask.now_ms))
                @for (key, value) in task.labels() {
                    @let label = format!("{key}={value}");
                    @let link = ask.link_with(&[("page", None), (BEFORE, None), ("label", Some(&label))]);
                    a class="dim" href=(link) { (line(&label, LABEL_MAX)) } " "
                }
            }
            @if ask.owner().is_some() {
                @let owner = told(task, "owner").unwrap_or_default();
                td class="owner" {
                    a href=(link("", &[("owner", owner)])) title=(line(owner, 80)) {
                        (told(task, "caller").map_or_else(|| parts::short_owner(owner), |caller| line(caller, 40)))
                    }
                }
            }
            td class="id" { (parts::id(&task.id)) (parts::copy(&task.id)) }
            td class="n" { (parts::age(created_ms(task), ask.now_ms)) }
            td class="n" { (took(task, ask.now_ms)) }
        }
    }
}

/// The second line of a row: the question, the first line of an error, or progress and message; and a near deadline.
fn said(row: &Row, now_ms: i64) -> Markup {
    let task = &row.task;
    let tone = match task.status {
        Status::Failed => "message wrong",
        _ if task.reports_error() => "message wrong",
        Status::InputRequired => "message asks",
        Status::Working | Status::Completed | Status::Cancelled => "message",
    };
    let words = says(task);
    let left_ms = moment_of(task, "deadlineAt").map(|at| at - now_ms);
    let left_ms = left_ms.filter(|left_ms| (1..DEADLINE_NEAR_MS).contains(left_ms));
    html! {
        @if words.is_some() || left_ms.is_some() || task.progress().is_some() {
            span class=(tone) {
                (parts::bar(task))
                @if let Some(words) = words { (words) }
                @if let Some(left_ms) = left_ms {
                    " " span class="wrong" { "deadline in " (in_words_ms(left_ms)) }
                }
            }
        }
    }
}

/// How long a task took, or has taken so far.
fn took(task: &Task, now_ms: i64) -> Markup {
    let ended = moment_of(task, "endedAt").or_else(|| updated_ms(task));
    let until = if task.status.is_end() { ended } else { Some(now_ms) };
    html! {
        @match created_ms(task).zip(until) {
            Some((from, until)) => {
                span class=[(!task.status.is_end()).then_some("dim")] { (exact_ms((until - from).max(0))) }
            }
            None => "–",
        }
    }
}

/// Whether rows can be selected: those of other owners are acted on by a filter, or one by one.
fn has_boxes(ask: &PageRequest) -> bool {
    !ask.is_read_only() && ask.owner().is_none()
}

/// The URL of an action on all tasks that the filter of this page takes.
fn to_filtered(ask: &PageRequest) -> String {
    let here = ask.link_with(&[("page", None), (BEFORE, None)]);
    let query = here.split_once('?').map(|(_, query)| format!("?{query}")).unwrap_or_default();
    format!("{}{query}", link("act", &[]))
}

fn bulk(ask: &PageRequest) -> Result<Markup, Problem> {
    Ok(html! {
        @if has_boxes(ask) {
            form id=(FORM) method="post" action=(link("act", &[])) class="bulk" aria-label="Selected tasks" {
                (ask.token_field())
                (acts::key_field()?)
                label class="all" hidden { input type="checkbox" data-tick=(FORM); "all on this page" }
                span class="dim" data-ticked { "Selected tasks:" }
                button class="danger" name="act" value="cancel" { "Cancel" }
                button class="quiet" name="act" value="again" { "Call again" }
            }
        }
        form method="post" action=(to_filtered(ask)) class="bulk filtered" aria-label="All tasks of this filter" {
            (ask.token_field())
            button class="quiet" name="act" value="cancel-filtered" { "Cancel all that match…" }
        }
    })
}
