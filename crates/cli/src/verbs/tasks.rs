//! `longhaul tasks` and `longhaul show`.

use std::collections::HashMap;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use longhaul_client::{Client, Error, Listed, Status, Task, TaskFilter};
use serde_json::{Value, json};

use super::found::one;
use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::follow::{interval, patiently};
use crate::limits::{ASKED_MAX, REFRESH_MIN, WATCHED_AT_ONCE_MAX};
use crate::out::{self, line};
use crate::record::{Entry, Record};
use crate::server::{Sessions, target, unconnected};
use crate::{clock, render};

/// Tasks with their tools, if the server or this machine knows them.
struct Seen {
    tasks: Vec<(Task, Option<String>)>,
    /// How often the server was asked.
    requests: u32,
    /// Whether there are more tasks.
    are_more: bool,
}

impl Seen {
    /// How long to wait before the next poll, so that the server is not asked faster than it allows.
    fn pause(&self) -> Duration {
        let slowest = self.tasks.iter().map(|(task, _)| interval(task)).max().unwrap_or(REFRESH_MIN);
        slowest.max(REFRESH_MIN).saturating_mul(self.requests.max(1))
    }
}

pub(super) async fn list(global: &Global, filter: &TaskFilter, limit: usize) -> Result<Exit, Stop> {
    let mut sessions = Sessions::of(target(global)?);
    let seen = see(&mut sessions, filter, limit).await;
    sessions.close().await;
    let seen = seen.map_err(|error| unconnected(&sessions.target, error))?;
    show_all(global, &seen)?;
    if seen.are_more {
        let shown = seen.tasks.len();
        out::say(&format!("more than these {shown} tasks exist: --limit N shows more, --status and --tool fewer"));
    }
    Ok(Exit::Well)
}

/// The ids of the tasks that have not ended, as many as can be waited for. The user learns if there are none, or more.
pub(super) async fn unfinished(global: &Global) -> Result<Vec<String>, Stop> {
    let mut sessions = Sessions::of(target(global)?);
    let filter = TaskFilter { statuses: vec![Status::Working, Status::InputRequired], ..TaskFilter::default() };
    let seen = see(&mut sessions, &filter, WATCHED_AT_ONCE_MAX + 1).await;
    sessions.close().await;
    let seen = seen.map_err(|error| unconnected(&sessions.target, error))?;
    let mut ids: Vec<String> = seen.tasks.into_iter().map(|(task, _)| task.id).collect();
    if ids.is_empty() {
        out::say("all tasks have ended");
    } else if ids.len() > WATCHED_AT_ONCE_MAX {
        out::say(&format!("more than {WATCHED_AT_ONCE_MAX} tasks have not ended: this waits for the newest of them"));
        ids.truncate(WATCHED_AT_ONCE_MAX);
    }
    Ok(ids)
}

/// Lists the tasks again and again, until Ctrl-C.
pub(super) async fn watch(global: &Global, filter: &TaskFilter, limit: usize) -> Result<Exit, Stop> {
    let mut sessions = Sessions::of(target(global)?);
    // The user has to correct a server that cannot be reached at first.
    sessions.client(None).await.map_err(|error| unconnected(&sessions.target, error))?;
    let refreshed = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err(Stop::interrupted()),
        () = out::reader_gone() => Err(Stop::reader_gone()),
        stop = refresh(global, &mut sessions, filter, limit) => stop,
    };
    sessions.close().await;
    refreshed
}

/// Shows the list again and again.
async fn refresh(global: &Global, sessions: &mut Sessions, filter: &TaskFilter, limit: usize) -> Result<Exit, Stop> {
    loop {
        let tell = |error: &Error, _failures| out::say(&format!("{}; trying again", line(&error.to_string())));
        let seen = patiently(async || see(sessions, filter, limit).await, tell).await?;
        if out::is_to_terminal() && !global.json {
            // Makes room for the next list.
            out::raw("\u{1b}[H\u{1b}[2J")?;
        }
        show_all(global, &seen)?;
        clock::pause(seen.pause()).await;
    }
}

/// The newest tasks that `filter` takes, at most `limit` of them.
async fn see(sessions: &mut Sessions, filter: &TaskFilter, limit: usize) -> Result<Seen, Error> {
    let server = sessions.target.url.as_str();
    let known: Vec<_> = Record::of_user().all().into_iter().filter(|entry| entry.server == server).collect();
    let Listed { tasks, pages, next } = match sessions.client(None).await?.list(filter, limit).await {
        Err(Error::Unsupported(_)) => ask_for_each(sessions, &known).await?,
        listed => listed?,
    };
    let tools: HashMap<String, String> = known.into_iter().map(|entry| (entry.id, entry.tool)).collect();
    let mut seen = Seen { tasks: Vec::new(), requests: pages, are_more: next.is_some() };
    for task in tasks.into_iter().filter(|task| filter.takes(task)) {
        let tool = task.tool().or_else(|| tools.get(&task.id).map(String::as_str)).map(str::to_owned);
        if filter.tool.is_none() || filter.tool == tool {
            seen.tasks.push((task, tool));
        }
    }
    seen.are_more |= seen.tasks.len() > limit;
    seen.tasks.truncate(limit);
    Ok(seen)
}

/// The tasks that this machine began, of a server without a list.
async fn ask_for_each(sessions: &mut Sessions, known: &[Entry]) -> Result<Listed, Error> {
    let mut listed = Listed { tasks: Vec::new(), pages: 0, next: None };
    for entry in known.iter().rev().take(ASKED_MAX) {
        listed.pages += 1;
        match sessions.client(entry.session.as_deref()).await?.task(&entry.id).await {
            Ok(task) => listed.tasks.push(task),
            // It has expired.
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

fn show_all(global: &Global, seen: &Seen) -> Result<(), Stop> {
    if global.json {
        let tasks: Vec<&serde_json::Map<String, Value>> = seen.tasks.iter().map(|(task, _)| &task.raw).collect();
        return out::json(&json!({"tasks": tasks}));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    // Most servers have no labels.
    let has_labels = seen.tasks.iter().any(|(task, _)| task.labels().next().is_some());
    let shown = [true, true, true, true, has_labels, true];
    let header = ["TASK", "STATUS", "TOOL", "AGE", "LABELS", "MESSAGE"];
    table.set_header(header.iter().zip(shown).filter_map(|(name, shown)| shown.then_some(name)));
    for (task, tool) in &seen.tasks {
        let age = task.raw.get("createdAt").and_then(Value::as_str).map(clock::age).unwrap_or_default();
        let tool = tool.as_deref().unwrap_or("-");
        let error = task.reports_error().then_some("the tool reported an error");
        let message = line(task.message.as_deref().or(error).unwrap_or_default());
        let cells = [line(&task.id), task.status.name().to_owned(), line(tool), age, render::labels(task), message];
        table.add_row(cells.iter().zip(shown).filter_map(|(cell, shown)| shown.then_some(cell)));
    }
    let rows: Vec<String> = table.lines().map(|row| row.trim().to_owned()).collect();
    out::result(&rows.join("\n"))
}

/// Shows one task.
pub(super) async fn show(global: &Global, id: &str) -> Result<Exit, Stop> {
    let (task, known) = one(global, id, async |_client, task, known| Ok((task, known))).await?;
    if global.json {
        out::json(&Value::Object(task.raw))?;
    } else {
        out::result(&render::task(&task, known.as_ref().map(|entry| entry.tool.as_str())))?;
    }
    Ok(Exit::Well)
}

/// Shows everything that is recorded about a task.
pub(super) async fn inspect(global: &Global, id: &str) -> Result<Exit, Stop> {
    let inspect = async |client: &Client, task, known| Ok((task, known, client.inspect(id).await?));
    let (task, known, shown): (Task, Option<Entry>, Value) = one(global, id, inspect).await?;
    if global.json {
        out::json(&shown)?;
    } else {
        let task = render::task(&task, known.as_ref().map(|entry| entry.tool.as_str()));
        out::result(&format!("{task}\n{}", render::record(&shown)))?;
    }
    Ok(Exit::Well)
}
