//! One task: its progress, its history, its arguments and its result.

use longhaul_client::text::{block, is_plain, line};
use longhaul_client::{Error, Progress, Refusal, Status, Task};
use maud::{Markup, html};
use serde_json::Value;

use crate::ask::{PageRequest, link};
use crate::clock::{in_words_ms, moment_ms};
use crate::limits::{CONTENTS_MAX, LABEL_MAX, RESULT_TEXT_MAX};
use crate::page::{Page, tab};
use crate::pages::{acts, questions};
use crate::parts;
use crate::problem::Problem;
use crate::source::{created_ms, updated_ms};
use crate::timeline::{Axis, Timeline, picture, problems, summary};

mod entries;

/// Its page.
pub(crate) async fn page(ask: &PageRequest) -> Result<Page, Problem> {
    let id = ask.value("id").ok_or_else(|| Problem::not_found("Which task? Its id is missing in the address."))?;
    let source = ask.source();
    let (task, shown) = futures::try_join!(source.task(id), async {
        match source.inspect(id).await {
            Ok(shown) => Ok(Some(shown)),
            Err(Error::Unsupported(_)) => Ok(None),
            Err(error) => Err(error),
        }
    })?;
    let timeline = shown.as_ref().and_then(|shown| Timeline::of(shown, ask.now_ms));
    let record = shown.unwrap_or_default();
    let mut page = Page::new(&title(&task, &record)).live("head", head(ask, &task, &record));
    if !task.questions.is_empty() && ask.owner().is_none() {
        page = page.still("asked", questions::of_task(ask, &task));
    }
    page = page.live("timeline", history(timeline.as_ref()));
    page = page.live("end", end(&task));
    if !record.is_null() {
        page = page.still("request", request(ask, id, &record).await?);
    }
    if let Some(timeline) = timeline.filter(|timeline| !timeline.entries.is_empty()) {
        page = page.live("journal", entries::table(ask, &timeline, &Axis::of(&timeline)));
    }
    if let Some(entry) = ask.value("entry") {
        page = page.still("entry", entries::one(&record, entry));
    }
    page = page.still("lines", lines(ask, &task));
    if !ask.is_read_only() && !record.is_null() && is_plain(id) {
        page = page.still("again", acts::again_form(ask, id)?);
        if task.status == Status::Failed {
            page = page.still("resume", acts::resume_form(ask, id)?);
        }
    }
    if let Some(tool) = record["tool"].as_str().filter(|_| !ask.is_read_only()) {
        page = page.still("edit", edit(ask, id, tool));
    }
    Ok(if task.status.is_end() { page.settled() } else { page })
}

/// The way to a form with the same arguments, which may be changed before the call.
fn edit(ask: &PageRequest, id: &str, tool: &str) -> Markup {
    let owner = ask.owner().map(|owner| ("owner", owner));
    let query: Vec<(&str, &str)> = [("tool", tool), ("from", id)].into_iter().chain(owner).collect();
    html! { p { a href=(link("tools", &query)) { "Call again with other arguments" } } }
}

fn history(timeline: Option<&Timeline>) -> Markup {
    let Some(timeline) = timeline else {
        return html! {
            section class="card" { h2 { "Timeline" } p class="dim" { "This server does not show the stored \
                data of its tasks." } }
        };
    };
    let (axis, said) = (Axis::of(timeline), summary(timeline));
    html! {
        section class="card" aria-labelledby="h-timeline" {
            h2 id="h-timeline" { "Timeline" }
            p { (said) }
            @let wrong = problems(timeline);
            @if !wrong.is_empty() {
                ul class="wrongs" { @for one in wrong { li { (one) } } }
            }
            (picture(timeline, &axis, &said))
            @if timeline.guessed_attempts > 0 || timeline.unknown_attempts > 0 {
                p class="dim" {
                    "The server keeps the last 16 attempts: what is shown of older ones comes from their steps."
                    @if timeline.unknown_attempts > 0 { " " (timeline.unknown_attempts) " of them recorded nothing." }
                }
            }
            (entries::attempts(timeline))
        }
    }
}

fn end(task: &Task) -> Markup {
    let Some(end) = &task.end else { return html! {} };
    html! {
        section class="card" aria-labelledby="h-end" {
            @match end {
                Ok(result) => {
                    h2 id="h-end" { @if result["isError"] == true { "Result: an error of the tool" } @else { "Result" }
                        }
                    @for content in result["content"].as_array().into_iter().flatten().take(CONTENTS_MAX) {
                        (contents(content)) }
                    details { summary { "As JSON" } (parts::json(result)) }
                }
                Err(Refusal { code, message, data }) => {
                    h2 id="h-end" { "Error" }
                    pre class="wrong" { (block(message, RESULT_TEXT_MAX)) }
                    p class="dim" { "Code " (code) }
                    @if let Some(data) = data { (parts::json(data)) }
                }
            }
        }
    }
}

/// A part of a result: its text, or its type.
fn contents(content: &Value) -> Markup {
    let text = |pointer: &str| content.pointer(pointer).and_then(Value::as_str);
    let kind = line(text("/type").unwrap_or("content"), 40);
    let mime = line(text("/mimeType").or_else(|| text("/resource/mimeType")).unwrap_or("of no type"), 80);
    html! {
        @if let Some(text) = text("/text").or_else(|| text("/resource/text")) {
            pre { (block(text, RESULT_TEXT_MAX)) }
        } @else if let Some(data) = text("/data").or_else(|| text("/resource/blob")) {
            p class="dim" { (kind) ", " (mime) ", " (data.len()) " bytes in base64" }
        } @else {
            p class="dim" { (kind) " " (line(text("/uri").unwrap_or(&mime), 300)) }
        }
    }
}

/// Its arguments and its variables.
async fn request(ask: &PageRequest, id: &str, record: &Value) -> Result<Markup, Problem> {
    let arguments = match (&record["arguments"], ask.value("arguments")) {
        (cut, Some("whole")) if cut["cut"] == true => parts::json(&Value::Object(ask.source().called(id).await?.1)),
        (cut, _) if cut["cut"] == true => html! {
            p { (cut["bytes"].to_string()) " bytes. " a href=(ask.link_with(&[("arguments", Some("whole"))])) { "Show \
                them" } }
        },
        (shown, _) => parts::json(&shown["value"]),
    };
    Ok(html! {
        section class="card" aria-labelledby="h-request" { h2 id="h-request" { "Arguments" } (arguments) }
    })
}

/// Commands that show the same task in a terminal.
fn lines(ask: &PageRequest, task: &Task) -> Markup {
    let (id, url) = (shell(&task.id), shell(ask.source().url()));
    let body = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": task.id,
        "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "curl", "version": "8"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}}});
    let curl = [
        format!("curl -s {url}"),
        "-H 'content-type: application/json'".to_owned(),
        "-H 'accept: application/json, text/event-stream'".to_owned(),
        "-H 'mcp-protocol-version: 2026-07-28'".to_owned(),
        "-H 'mcp-method: tasks/get'".to_owned(),
        format!("-H {}", shell(&format!("mcp-name: {}", task.id))),
        format!("-d {}", shell(&body.to_string())),
    ];
    html! {
        section class="card" aria-labelledby="h-lines" {
            h2 id="h-lines" { "Elsewhere" }
            p class="dim" { "Credentials such as tokens are missing here: add them yourself." }
            pre data-copy { (line(&format!("longhaul show {id} --journal --server {url}"), 1_000)) }
            pre data-copy { (block(&curl.join(" \\\n  "), 4_000)) }
            p { a href=(ask.link_to_task(&task.id)) { "Link to this page" } }
        }
    }
}

fn shell(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The title of the browser's tab: the tool and the progress.
fn title(task: &Task, record: &Value) -> String {
    let tool = record["tool"].as_str().map_or_else(|| "Task".to_owned(), |tool| line(tool, 60));
    format!("{tool}: {}", parts::words(task.status))
}

/// Status, bar, message, and the times that matter.
fn head(ask: &PageRequest, task: &Task, record: &Value) -> Markup {
    let tool = record["tool"].as_str().map(|tool| line(tool, 100));
    html! {
        div class="title" data-title=(tab(&title(task, record))) {
            h1 { (tool.as_deref().unwrap_or("Task")) }
            (parts::state(task, record["wakesAt"].as_str().and_then(moment_ms), ask.now_ms))
            span class="id" title=(line(&task.id, 200)) { (line(&task.id, 100)) }
            (parts::copy(&task.id))
            @if !ask.is_read_only() && !task.status.is_end() && is_plain(&task.id) { (acts::cancel_form(ask, &task.id))
                }
        }
        section class="card" aria-label="State" {
            @if let Some(message) = &task.message { p class="message" { (block(message, 4_000)) } }
            @if let Some(progress) = task.progress().filter(|_| !task.status.is_end()) { (bar(&progress)) }
            @if task.status == Status::InputRequired && !ask.is_read_only() && ask.owner().is_none() {
                // Another question has another URL, so that an open page loads its form.
                @let asked = questions::fingerprint_of(task);
                p { a class="button" href={ (link("task", &[("id", &task.id), ("asks", &asked)])) "#asked" } {
                    "Answer its question" } }
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
            if task.status == Status::InputRequired {
                rows.extend(moment("wakesAt").map(|ms| ("Waits until", ms, ahead(ms))));
            }
            rows.extend(moment("deadlineAt").map(|ms| ("Deadline", ms, ahead(ms))));
        }
    }
    rows.extend(moment("expiresAt").map(|ms| ("Kept until", ms, ahead(ms))));
    html! {
        @for (name, ms, relative) in rows {
            div { dt { (name) } dd { (relative) " " span class="dim" { "(" (parts::moment(ms, ask.now_ms)) ")" } } }
        }
        @for (key, value) in record["labels"].as_object().into_iter().flatten() {
            @let label = format!("{key}={}", value.as_str().unwrap_or_default());
            @let owner = ask.owner().map(|owner| ("owner", owner));
            @let query: Vec<_> = [("label", label.as_str())].into_iter().chain(owner).collect();
            div { dt { "Label" } dd { a href=(link("", &query)) { (line(&label, LABEL_MAX)) } } }
        }
        @if let Some(owner) = ask.owner() {
            div { dt { "Owner" } dd title=(line(owner, 80)) { (parts::short_owner(owner)) } }
        }
        @if let Some(parent) = record["parent"].as_str() {
            div { dt { "Called by" } dd { a href=(ask.link_to_task(parent)) { (parts::id(parent)) } } }
        }
        @if let Some(failed) = record["resumes"]["taskId"].as_str() {
            div { dt { "Resumes" } dd {
                a href=(ask.link_to_task(failed)) { (parts::id(failed)) }
                @if let Some(by) = record["resumes"]["by"].as_str() { ", by " (line(by, 100)) }
            } }
        }
        @if let Some(attempt) = record["attempt"].as_u64() { div { dt { "Attempts" } dd { (attempt) } } }
        @if let Some(failures @ 1..) = record["failures"].as_u64() {
            div { dt { "Failures in a row" } dd class="wrong" { (failures) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_every_word_as_it_is() {
        assert_eq!(shell("a'; rm -rf $HOME"), r"'a'\''; rm -rf $HOME'");
    }
}
