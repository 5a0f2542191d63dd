//! How far a task is.

use longhaul_client::{Progress, Status, Task};
use maud::{Markup, html};
use serde_json::Value;

use crate::ask::{PageRequest, link, link_to_task};
use crate::clock::{in_words_ms, moment_ms, written};
use crate::pages::{acts, parts};
use crate::source::{created_ms, updated_ms};
use crate::text::{block, is_plain, line};

/// Status, bar, message, and the moments that matter.
pub(super) fn head(ask: &PageRequest, task: &Task, record: &Value) -> Markup {
    let tool = record["tool"].as_str().map(|tool| line(tool, 100));
    html! {
        div class="title" {
            h1 { (tool.as_deref().unwrap_or("Task")) }
            (parts::status(task.status))
            span class="id" { (line(&task.id, 100)) }
            @if !ask.is_read_only() && !task.status.is_end() && is_plain(&task.id) { (acts::cancel_form(ask, &task.id))
                }
        }
        section class="card" aria-label="State" {
            @if let Some(message) = &task.message { p class="message" { (block(message, 4_000)) } }
            @if let Some(progress) = task.progress().filter(|_| !task.status.is_end()) { (bar(&progress)) }
            @if task.status == Status::InputRequired && !ask.is_read_only() {
                p { a class="button" href=(link("questions", &[("id", &task.id)])) { "Answer its question" } }
            }
            dl class="facts" { (facts(ask, task, record)) }
            @if let Some(failure) = record["lastFailure"].as_str() {
                p class="wrong" { "Last failure: " (line(failure, 1_000)) }
            }
            @if !record["variables"].is_null() {
                details open { summary { "Variables" } (parts::json(&record["variables"]["value"])) }
            }
        }
    }
}

fn bar(progress: &Progress) -> Markup {
    let percent = progress.total.filter(|total| *total > 0.0).map(|total| progress.done / total * 100.0);
    html! {
        @if let (Some(total), Some(percent)) = (progress.total, percent) {
            p class="wide" {
                progress value=(progress.done) max=(total) aria-label="Progress" {}
                span { (format!("{percent:.0} %")) }
            }
        }
    }
}

fn facts(ask: &PageRequest, task: &Task, record: &Value) -> Markup {
    let moment = |name: &str| record[name].as_str().and_then(moment_ms);
    let ago = |ms: i64| format!("{} ago", in_words_ms(ask.now_ms - ms));
    let ahead = |ms: i64| match ms - ask.now_ms {
        left @ 0.. => format!("in {}", in_words_ms(left)),
        over => format!("{} ago", in_words_ms(over.saturating_neg())),
    };
    let mut rows: Vec<(&str, i64, String)> = Vec::new();
    rows.extend(created_ms(task).map(|ms| ("Created", ms, ago(ms))));
    match moment("endedAt") {
        Some(ms) => rows.push(("Ended", ms, ago(ms))),
        None => {
            rows.extend(updated_ms(task).map(|ms| ("Changed", ms, ago(ms))));
            if record["startedAt"].is_null() {
                rows.extend(moment("notBefore").map(|ms| ("Starts", ms, ahead(ms))));
            }
            rows.extend(moment("deadlineAt").map(|ms| ("Deadline", ms, ahead(ms))));
        }
    }
    rows.extend(moment("expiresAt").map(|ms| ("Kept until", ms, ahead(ms))));
    html! {
        @for (name, ms, relative) in rows {
            div { dt { (name) } dd { time datetime=(written(ms)) title=(written(ms)) { (relative) } } }
        }
        @if let Some(parent) = record["parent"].as_str() {
            div { dt { "Called by" } dd { a href=(link_to_task(parent)) { (line(parent, 100)) } } }
        }
        @if let Some(attempt) = record["attempt"].as_u64() { div { dt { "Attempts" } dd { (attempt) } } }
        @if let Some(failures @ 1..) = record["failures"].as_u64() {
            div { dt { "Failures in a row" } dd class="wrong" { (failures) } }
        }
    }
}
