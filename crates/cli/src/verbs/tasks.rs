//! `longhaul tasks` and `longhaul show`.

use std::collections::HashMap;
use std::time::Duration;

use comfy_table::{ContentArrangement, Table, presets};
use longhaul_client::{Client, Error, Listed, Task, TaskFilter};
use serde_json::{Value, json};

use super::one;
use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::follow::{back_off, interval};
use crate::out::{self, line};
use crate::record::{Entry, Record};
use crate::server::{connect, target};
use crate::{clock, render};

/// Of a server without a list, so many tasks are asked for.
const ASKED_MAX: usize = 50;

/// No page of a list is read more often.
const REFRESH_MIN: Duration = Duration::from_secs(2);

/// Of a list that is shown again and again, the first page with at least so many tasks is the last.
const WATCHED: usize = 50;

/// Tasks with their tools, as far as the server or this machine knows them.
struct Seen {
    tasks: Vec<(Task, Option<String>)>,
    /// How often the server was asked.
    requests: u32,
}

impl Seen {
    /// How long to wait before the next look, so that the server is not asked faster than it wants to be.
    fn pause(&self) -> Duration {
        let slowest = self.tasks.iter().map(|(task, _)| interval(task)).max().unwrap_or(REFRESH_MIN);
        slowest.max(REFRESH_MIN).saturating_mul(self.requests.max(1))
    }
}

pub(super) async fn list(global: &Global, filter: &TaskFilter) -> Result<Exit, Stop> {
    let target = target(global)?;
    let client = connect(&target, None).await?;
    show_all(global, &see(&client, target.url.as_str(), filter, usize::MAX).await?);
    Ok(Exit::Well)
}

/// Lists the tasks again and again, until Ctrl-C.
pub(super) async fn watch(global: &Global, filter: &TaskFilter) -> Result<Exit, Stop> {
    let target = target(global)?;
    let client = connect(&target, None).await?;
    let refresh = async {
        let mut failures = 0_u32;
        loop {
            let pause = match see(&client, target.url.as_str(), filter, WATCHED).await {
                Ok(seen) => {
                    failures = 0;
                    clear(global);
                    show_all(global, &seen);
                    seen.pause()
                }
                Err(error) if error.may_pass() => {
                    out::say(&format!("{}; trying again", line(&error.to_string())));
                    failures = failures.saturating_add(1);
                    back_off(failures, &error)
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

/// The tasks that `filter` takes; of long lists not much more than `enough` of them.
async fn see(client: &Client, server: &str, filter: &TaskFilter, enough: usize) -> Result<Seen, Error> {
    let known: Vec<_> = Record::of_user().all().into_iter().filter(|entry| entry.server == server).collect();
    let Listed { tasks, pages } = match client.list(filter, enough).await {
        Err(Error::Unsupported(_)) => ask_for_each(client, &known).await?,
        listed => listed?,
    };
    let tools: HashMap<String, String> = known.into_iter().map(|entry| (entry.id, entry.tool)).collect();
    let mut seen = Seen { tasks: Vec::new(), requests: pages };
    for task in tasks.into_iter().filter(|task| filter.takes(task)) {
        let tool = task.tool().or_else(|| tools.get(&task.id).map(String::as_str)).map(str::to_owned);
        if filter.tool.is_none() || filter.tool == tool {
            seen.tasks.push((task, tool));
        }
    }
    Ok(seen)
}

/// The tasks that this machine began, of a server without a list.
async fn ask_for_each(client: &Client, known: &[Entry]) -> Result<Listed, Error> {
    let mut listed = Listed { tasks: Vec::new(), pages: 0 };
    for entry in known.iter().rev().take(ASKED_MAX) {
        listed.pages += 1;
        match client.task(&entry.id).await {
            Ok(task) => listed.tasks.push(task),
            // It has expired.
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listed)
}

fn show_all(global: &Global, seen: &Seen) {
    if global.json {
        let tasks: Vec<&serde_json::Map<String, Value>> = seen.tasks.iter().map(|(task, _)| &task.raw).collect();
        return out::json(&json!({"tasks": tasks}));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(["TASK", "STATUS", "TOOL", "AGE", "MESSAGE"]);
    for (task, tool) in &seen.tasks {
        let age = task.raw.get("createdAt").and_then(Value::as_str).map(clock::age).unwrap_or_default();
        let tool = tool.as_deref().unwrap_or("-");
        let error = task.reports_error().then_some("the tool reported an error");
        let message = task.message.as_deref().or(error).unwrap_or_default();
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
        out::result(&render::task(&task, known.as_ref().map(|entry| entry.tool.as_str())));
    }
    Ok(Exit::Well)
}

/// Shows all that is on record of a task.
pub(super) async fn inspect(global: &Global, id: &str) -> Result<Exit, Stop> {
    let (client, task, known) = one(global, id).await?;
    let shown = client.inspect(id).await?;
    if global.json {
        out::json(&shown);
    } else {
        let task = render::task(&task, known.as_ref().map(|entry| entry.tool.as_str()));
        out::result(&format!("{task}\n{}", render::record(&shown)));
    }
    Ok(Exit::Well)
}
