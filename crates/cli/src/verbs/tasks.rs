//! `longhaul tasks` and `longhaul show`.

use std::collections::HashMap;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use longhaul_client::{Client, Error, Status, Task};
use serde_json::{Value, json};

use super::one;
use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::follow::interval;
use crate::out::{self, line};
use crate::record::Record;
use crate::server::{connect, target};
use crate::{clock, shown};

/// Of a server without a list, so many tasks are asked for.
const ASKED_MAX: usize = 50;

/// A list is not read more often.
const REFRESH_MIN: Duration = Duration::from_secs(2);

/// Which tasks to show.
pub(super) struct Filter {
    pub(super) status: Option<Status>,
    pub(super) tool: Option<String>,
}

impl Filter {
    fn takes(&self, task: &Task, tool: Option<&String>) -> bool {
        let status = self.status.is_none_or(|status| task.status == status);
        status && self.tool.as_ref().is_none_or(|wanted| tool == Some(wanted))
    }
}

/// Tasks, and the tools of those that this machine began.
struct Seen {
    tasks: Vec<Task>,
    tools: HashMap<String, String>,
}

/// Lists the tasks once.
pub(super) async fn list(global: &Global, filter: &Filter) -> Result<Exit, Stop> {
    let target = target(global)?;
    let client = connect(&target, None).await?;
    show_all(global, &see(&client, target.url.as_str(), filter).await?);
    Ok(Exit::Well)
}

/// Lists the tasks again and again, until Ctrl-C.
pub(super) async fn watch(global: &Global, filter: &Filter) -> Result<Exit, Stop> {
    let target = target(global)?;
    let client = connect(&target, None).await?;
    let refresh = async {
        loop {
            let pause = match see(&client, target.url.as_str(), filter).await {
                Ok(seen) => {
                    clear(global);
                    show_all(global, &seen);
                    seen.tasks.iter().map(interval).max().unwrap_or(REFRESH_MIN).max(REFRESH_MIN)
                }
                Err(error) if error.may_pass() => {
                    out::say(&format!("{}; trying again", line(&error.to_string())));
                    REFRESH_MIN * 5
                }
                Err(error) => return Stop::from(error),
            };
            clock::pause(pause).await;
        }
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => Err(Stop::interrupted()),
        stop = refresh => Err(stop),
    }
}

/// Makes room for the next list on a terminal.
#[expect(clippy::print_stdout, reason = "what a terminal is to obey")]
fn clear(global: &Global) {
    if out::is_to_terminal() && !global.json {
        print!("\u{1b}[H\u{1b}[2J");
    }
}

async fn see(client: &Client, server: &str, filter: &Filter) -> Result<Seen, Error> {
    let known: Vec<_> = Record::of_user().all().into_iter().filter(|entry| entry.server == server).collect();
    let listed = match client.tasks().await {
        Err(Error::Unsupported(_)) => {
            let mut found = Vec::new();
            for entry in known.iter().rev().take(ASKED_MAX) {
                match client.task(&entry.id).await {
                    Ok(task) => found.push(task),
                    // It has expired.
                    Err(Error::Refused(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            found
        }
        listed => listed?,
    };
    let tools: HashMap<String, String> = known.into_iter().map(|entry| (entry.id, entry.tool)).collect();
    let tasks = listed.into_iter().filter(|task| filter.takes(task, tools.get(&task.id))).collect();
    Ok(Seen { tasks, tools })
}

fn show_all(global: &Global, seen: &Seen) {
    if global.json {
        let tasks: Vec<&serde_json::Map<String, Value>> = seen.tasks.iter().map(|task| &task.raw).collect();
        return out::json(&json!({"tasks": tasks}));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["TASK", "STATUS", "TOOL", "AGE", "MESSAGE"]);
    for task in &seen.tasks {
        let age = task.raw.get("createdAt").and_then(Value::as_str).map(clock::age).unwrap_or_default();
        let tool = seen.tools.get(&task.id).map_or("-", String::as_str);
        let message = task.message.as_deref().unwrap_or_default();
        table.add_row([&line(&task.id), task.status.name(), &line(tool), &age, &line(message)]);
    }
    let rows: Vec<String> = table.lines().map(|row| row.trim().to_owned()).collect();
    out::result(&rows.join("\n"));
}

/// Shows one task.
pub(super) async fn show(global: &Global, id: &str) -> Result<Exit, Stop> {
    let (_client, task, known) = one(global, id).await?;
    if global.json {
        out::json(&Value::Object(task.raw));
    } else {
        out::result(&shown::task(&task, known.as_ref().map(|entry| entry.tool.as_str())));
    }
    Ok(Exit::Well)
}
