//! `longhaul tools`, `longhaul call`, `longhaul again` and `longhaul resume`.

use std::sync::Arc;

use longhaul_client::form::check_arguments;
use longhaul_client::{Call, Called, Client, Error, Listener, Progress, Question, Target, Task, Tool};
use serde_json::{Map, Value, json};

use super::ends::{end, finish};
use super::found::not_found;
use crate::args::{Global, How, Waits};
use crate::arguments::{self, meant};
use crate::exit::{Exit, Stop};
use crate::follow::{Follower, Watched, ask, interval, over};
use crate::form::Asked;
use crate::out::{self, block, line};
use crate::record::{Entry, Record};
use crate::render::signature;
use crate::screen::{Screen, View};
use crate::server::{connected, target};

pub(super) async fn call(global: &Global, tool: &str, given: &[String], how: &How) -> Result<Exit, Stop> {
    let target = target(global)?;
    connected(&target, None, async |client| {
        let tools = client.tools().await?;
        let listed = find(&tools, tool)?;
        let arguments = arguments::read(given, listed.schema()).map_err(Stop::usage)?;
        check_arguments(&arguments, listed.schema()).map_err(Stop::usage)?;
        make(global, &target, client, listed, arguments, how).await
    })
    .await
}

/// Makes a call again.
pub(super) async fn again(global: &Global, id: &str, how: &How) -> Result<Exit, Stop> {
    let target = target(global)?;
    connected(&target, None, async |client| {
        let (tool, arguments) = match Record::of_user().find(target.url.as_str(), id) {
            Some(Entry { tool, arguments: Some(arguments), .. }) => (tool, arguments),
            Some(_) | None => shown_by_server(client, id).await?,
        };
        let tools = client.tools().await?;
        make(global, &target, client, find(&tools, &tool)?, arguments, how).await
    })
    .await
}

/// Resumes a failed task.
pub(super) async fn resume(global: &Global, id: &str, from: Option<&str>, waits: &Waits) -> Result<Exit, Stop> {
    let target = target(global)?;
    connected(&target, None, async |client| {
        let key = key_of(waits, client)?;
        let not_resumed = |error: Error| {
            let stop = Stop::from(error);
            Stop::new(stop.exit, format!("the task {id} was not resumed: {}", stop.why))
        };
        let task = client.resume_task(id, from, key.as_deref()).await.map_err(not_resumed)?;
        let records = Record::of_user();
        if let Some(failed) = records.find(target.url.as_str(), id) {
            records.add(Entry { id: task.id.clone(), session: client.session(), ..failed }).await;
        }
        if !waits.detach {
            out::say(&format!("task {} resumes {id}", line(&task.id)));
        }
        follow(global, client, &task, waits, Screen::new()).await
    })
    .await
}

/// The idempotency key of a request: the user's, or a new one if the server takes keys.
fn key_of(waits: &Waits, client: &Client) -> Result<Option<String>, Stop> {
    match &waits.key {
        Some(key) => Ok(Some(key.clone())),
        None => client.takes_keys().then(new_key).transpose(),
    }
}

/// The tool and the arguments of a task that this machine did not begin, or whose arguments were too large to be
/// remembered.
async fn shown_by_server(client: &Client, id: &str) -> Result<(String, Map<String, Value>), Stop> {
    client.called(id).await.map_err(|error| match error {
        Error::Unsupported(_) => Stop::usage(format!(
            "this machine does not remember what the task {id} was called with, and the server does not show it"
        )),
        error => not_found(error.into(), id, None),
    })
}

async fn make(
    global: &Global,
    target: &Target,
    client: &Arc<Client>,
    listed: &Tool,
    arguments: Map<String, Value>,
    how: &How,
) -> Result<Exit, Stop> {
    let key = key_of(&how.waits, client)?;
    let not_before = how.start().map_err(Stop::usage)?;
    if not_before.is_some() && !client.starts_later() {
        let why = "the server does not say that calls may start later, and might start this one at once";
        return Err(Stop::usage(why.to_owned()));
    }
    // A server of revision `2026-07-28` sends log messages only to those who ask.
    let meta = global.verbose.then(|| ("io.modelcontextprotocol/logLevel".to_owned(), "debug".into()));
    let meta = meta.into_iter().collect();
    let call = Call { key, listed: Some(listed.clone()), not_before, meta, ..Call::new(&listed.name, arguments) };
    let screen = Screen::new();
    let mut shown = Shown { view: screen.view(""), screen: screen.clone(), has_left: false };
    let given_up =
        |exit, why: &str| Err(Stop::new(exit, format!("{why}: the call was given up before it was answered")));
    let called = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => return given_up(Exit::Interrupted, "interrupted"),
        called = client.call(&call, &mut shown) => called?,
        () = over(how.waits.wait) => return given_up(Exit::WaitOver, "the server makes no task of it"),
    };
    let has_left = shown.has_left;
    drop(shown);
    match called {
        Called::Result(result) => end(global, "", &Ok(result)),
        Called::Unanswered(_) if has_left => Err(Stop::interrupted()),
        Called::Unanswered(question) => {
            let asked = crate::form::message(&question);
            Err(Stop::new(Exit::Unanswered, format!("the tool asks, and there is no terminal to ask at: {asked}")))
        }
        Called::Task(task) => {
            remember(target, client, &call, &task).await;
            if let Some(message) = task.message.as_deref().filter(|_| how.waits.detach && how.is_later()) {
                out::say(&line(message));
            }
            follow(global, client, &task, &how.waits, screen).await
        }
    }
}

async fn remember(target: &Target, client: &Client, call: &Call, task: &Task) {
    let entry = Entry {
        id: task.id.clone(),
        server: target.url.as_str().to_owned(),
        session: client.session(),
        tool: call.tool.clone(),
        arguments: Some(call.arguments.clone()),
    };
    Record::of_user().add(entry).await;
}

async fn follow(
    global: &Global,
    client: &Arc<Client>,
    task: &Task,
    waits: &Waits,
    screen: Screen,
) -> Result<Exit, Stop> {
    if waits.detach {
        let written =
            if global.json { out::json(&Value::Object(task.raw.clone())) } else { out::result(&line(&task.id)) };
        return written.map(|()| Exit::Well);
    }
    let follower = Follower { screen, come_back: global.come_back(), first: interval(task) };
    let watched = Watched { id: task.id.clone(), client: Arc::clone(client) };
    let followed = follower.follow(&[watched], waits.wait).await?;
    finish(global, std::slice::from_ref(&task.id), followed)
}

/// 128 random bits.
fn new_key() -> Result<String, Stop> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Stop::new(Exit::Unexpected, error.to_string()))?;
    Ok(format!("longhaul-{:032x}", u128::from_be_bytes(bytes)))
}

/// A call that has not been answered yet, as its user sees it.
struct Shown {
    view: View,
    screen: Screen,
    /// Whether the user did not want to answer.
    has_left: bool,
}

impl Listener for Shown {
    fn progress(&mut self, progress: Progress) {
        self.view.progress(&progress);
    }

    async fn ask(&mut self, question: &Question) -> Option<Value> {
        if !out::can_ask() {
            return None;
        }
        match ask(&self.screen, question).await {
            Asked::Answer(answer) => Some(answer),
            Asked::Later => {
                self.has_left = true;
                None
            }
            Asked::CannotAsk => None,
        }
    }
}

/// Lists the tools, or shows one.
pub(super) async fn tools(global: &Global, name: Option<&str>) -> Result<Exit, Stop> {
    let tools = connected(&target(global)?, None, async |client| Ok(client.tools().await?)).await?;
    match name {
        Some(name) => show(global, find(&tools, name)?)?,
        None if global.json => {
            out::json(&json!({"tools": tools.iter().map(|tool| &tool.raw).collect::<Vec<&Value>>()}))?;
        }
        None => tools.iter().try_for_each(list)?,
    }
    Ok(Exit::Well)
}

fn find<'t>(tools: &'t [Tool], name: &str) -> Result<&'t Tool, Stop> {
    let known = || tools.iter().map(|tool| &tool.name);
    let missing = || Stop::usage(format!("there is no tool `{name}`{}", meant(name, known())));
    tools.iter().find(|tool| tool.name == name).ok_or_else(missing)
}

fn list(tool: &Tool) -> Result<(), Stop> {
    out::result(&signature(tool))?;
    match tool.description().lines().next() {
        Some(first) => out::result(&format!("    {}", line(first))),
        None => Ok(()),
    }
}

fn show(global: &Global, tool: &Tool) -> Result<(), Stop> {
    if global.json {
        return out::json(&tool.raw);
    }
    out::result(&format!("{}\n\n{}\n", signature(tool), block(tool.description())))?;
    out::result(&format!("{:#}", tool.schema()))
}
