//! `longhaul watch`, `result`, `cancel` and `answer`: how tasks end, and what they wait for.

use std::sync::Arc;
use std::time::Duration;

use longhaul_client::form::{About, accept, check, decline};
use longhaul_client::{Client, Error, Question, Refusal, Status, Task};
use serde_json::{Value, json};

use super::found::{Tasks, not_found, one};
use crate::args::{Global, Saved};
use crate::exit::{Exit, Stop};
use crate::follow::{Followed, Follower, Watched, ask, over, patiently};
use crate::form::Asked;
use crate::limits::TERMINAL_BYTES_MAX;
use crate::out::{self, block, line};
use crate::save::save;
use crate::screen::Screen;
use crate::server::{Sessions, target};
use crate::{arguments, clock, render};

/// Waits for the end of tasks.
pub(super) async fn watch(global: &Global, ids: &[String], wait: Option<Duration>) -> Result<Exit, Stop> {
    let sessions = Sessions::of(target(global)?);
    let screen = if global.json { Screen::Json } else { Screen::new() };
    let follower = Follower { screen, come_back: global.come_back(), first: Duration::ZERO };
    let begun = clock::instant();
    let tasks = tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => return Err(Stop::interrupted()),
        tasks = Tasks::connect(sessions, ids, connect_again) => tasks?,
        () = over(wait) => return Err(follower.wait_is_over(ids)),
    };
    let wait = wait.map(|wait| wait.saturating_sub(begun.elapsed()));
    let followed = follower.follow(&tasks.watched, wait).await;
    tasks.sessions.close().await;
    let mut followed = followed?;
    for ((one, id), known) in followed.iter_mut().zip(ids).zip(&tasks.known) {
        if let Followed::Stopped(stop) = one {
            let why = std::mem::replace(stop, Stop::interrupted());
            *stop = not_found(why, id, known.as_ref());
        }
    }
    if global.json { exits(global, ids, followed) } else { finish(global, ids, followed) }
}

/// Connects also to a server that is being restarted.
async fn connect_again(sessions: &mut Sessions, session: Option<&str>) -> Result<Arc<Client>, Error> {
    let tell = |error: &Error, failures| {
        if failures == 1 {
            out::say(&format!("{}; trying again", line(&error.to_string())));
        }
    };
    patiently(async || sessions.client(session).await, tell).await
}

/// With each change written already, only how it ended.
fn exits(global: &Global, ids: &[String], followed: Vec<Followed>) -> Result<Exit, Stop> {
    let mut worst = Exit::Well;
    for (one, id) in followed.into_iter().zip(ids) {
        worst = worst.max(match one {
            Followed::Ended(task) => exit_of(&task),
            Followed::Unanswered(task) => unanswered(global, id, &task),
            Followed::Left => Exit::Interrupted,
            Followed::Stopped(stop) => stopped(id, stop, ids.len())?,
        });
    }
    Ok(worst)
}

/// Says why one of several tasks is not waited for any more; that of a single one is how the command ends.
fn stopped(id: &str, stop: Stop, of: usize) -> Result<Exit, Stop> {
    if of == 1 || stop.why.is_empty() {
        return Err(stop);
    }
    out::say(&format!("error: {}: {}", line(id), block(&stop.why)));
    Ok(stop.exit)
}

/// Writes how tasks ended: the result of a single one, a line for each of several.
pub(super) fn finish(global: &Global, ids: &[String], followed: Vec<Followed>) -> Result<Exit, Stop> {
    let is_single = ids.len() == 1;
    let mut worst = Exit::Well;
    for (one, id) in followed.into_iter().zip(ids) {
        let exit = match one {
            Followed::Ended(task) if is_single => return ended(global, &task),
            Followed::Ended(task) => {
                out::result(&format!("{} {}", line(id), task.status.name()))?;
                exit_of(&task)
            }
            Followed::Unanswered(task) => unanswered(global, id, &task),
            Followed::Left => Exit::Interrupted,
            Followed::Stopped(stop) => stopped(id, stop, ids.len())?,
        };
        worst = worst.max(exit);
    }
    Ok(worst)
}

/// Says what a task asks, and how to answer it.
fn unanswered(global: &Global, id: &str, task: &Task) -> Exit {
    let asked = task.questions.iter().map(|question| render::question(id, question));
    let mut asked: Vec<String> = asked.map(|text| format!("{text}{}", global.come_back())).collect();
    if asked.is_empty() {
        asked.push("the server does not show what it asks".to_owned());
    }
    let asked = asked.join("\n  ");
    out::say(&format!("the task {} needs an answer, and there is no terminal to ask at\n  {asked}", line(id)));
    Exit::Unanswered
}

fn exit_of(task: &Task) -> Exit {
    match (task.status, &task.end) {
        (Status::Cancelled, _) => Exit::Cancelled,
        (Status::Completed, Some(Ok(result))) if result["isError"] != Value::Bool(true) => Exit::Well,
        _ => Exit::Failed,
    }
}

fn ended(global: &Global, task: &Task) -> Result<Exit, Stop> {
    match (task.status, &task.end) {
        (Status::Cancelled, _) => Err(Stop::new(Exit::Cancelled, "the task was cancelled")),
        (_, Some(ended)) => end(global, &task.id, ended),
        (_, None) => {
            let why = task.message.clone().unwrap_or_else(|| "the server shows no result of the task".to_owned());
            Err(Stop::new(Exit::Failed, why))
        }
    }
}

/// Writes what a call came to: a result to the standard output, why there is none to the standard error.
pub(super) fn end(global: &Global, id: &str, ended: &Result<Value, Refusal>) -> Result<Exit, Stop> {
    let result = match ended {
        Ok(result) => result,
        Err(refusal) => return Err(Stop::new(Exit::Failed, render::refusal(refusal))),
    };
    let is_error = result["isError"] == Value::Bool(true);
    let text = text_of(global, result);
    if is_error && !global.json {
        return Err(Stop::new(Exit::Failed, text));
    }
    if out::is_to_terminal() && text.len() > TERMINAL_BYTES_MAX {
        let bytes = text.len();
        return Err(Stop::usage(if id.is_empty() {
            format!("the result has {bytes} bytes, which are too many for a terminal: send it to a file with `> FILE`")
        } else {
            format!("the result has {bytes} bytes, which are too many for a terminal: longhaul result {id} -o FILE")
        }));
    }
    let exit = if is_error { Exit::Failed } else { Exit::Well };
    let written = if global.json { out::json(result) } else { out::result(&text) };
    match written {
        // A reader that has gone does not make the call right.
        Err(stop) if stop.exit != Exit::Well => Err(stop),
        Ok(()) | Err(_) => Ok(exit),
    }
}

/// A result as JSON, or its contents.
fn text_of(global: &Global, result: &Value) -> String {
    if global.json { result.to_string() } else { render::result(result) }
}

/// Writes the result of a task that has ended, to a file if one is named.
pub(super) async fn result(global: &Global, id: &str, saved: &Saved) -> Result<Exit, Stop> {
    let task = one(global, id, async |_client, task, _known| Ok(task)).await?;
    if !task.status.is_end() {
        let status = task.status.name();
        let why = format!("the task is {status}: `longhaul watch {id}` waits for its end");
        return Err(Stop::new(Exit::WaitOver, why));
    }
    let (Some(path), Some(Ok(result))) = (&saved.output, &task.end) else { return ended(global, &task) };
    let contents: Vec<Value> = result["content"].as_array().cloned().unwrap_or_default();
    save(path, saved, &contents, || text_of(global, result), global.json)?;
    Ok(exit_of(&task))
}

/// Asks the server to cancel tasks.
pub(super) async fn cancel(global: &Global, ids: &[String]) -> Result<Exit, Stop> {
    let sessions = Sessions::of(target(global)?);
    let tasks = Tasks::connect(sessions, ids, async |sessions, session| sessions.client(session).await).await?;
    let mut worst = Exit::Well;
    for (Watched { id, client }, known) in tasks.watched.iter().zip(&tasks.known) {
        match client.cancel(id).await {
            Ok(()) => out::say(&format!("asked to cancel {}", line(id))),
            Err(error) => {
                let stop = not_found(error.into(), id, known.as_ref());
                out::say(&format!("error: {}", block(&stop.why)));
                worst = worst.max(stop.exit);
            }
        }
    }
    tasks.sessions.close().await;
    Ok(worst)
}

/// Answers a question of a task: with the given values, or in a form.
pub(super) async fn give(global: &Global, id: &str, given: &[String], key: Option<&str>) -> Result<Exit, Stop> {
    one(global, id, async |client, task, _known| {
        let question = find(&task, key)?;
        let answer = if given.is_empty() { at_terminal(id, question).await? } else { content(question, given)? };
        client.answer(id, question, answer).await?;
        out::say("answered");
        Ok(Exit::Well)
    })
    .await
}

/// Declines to answer a question of a task.
pub(super) async fn refuse(global: &Global, id: &str, key: Option<&str>) -> Result<Exit, Stop> {
    one(global, id, async |client, task, _known| {
        let question = find(&task, key)?;
        if matches!(question.about(), About::Other) {
            return Err(Stop::new(Exit::Unanswered, render::question(id, question)));
        }
        client.answer(id, question, decline()).await?;
        out::say("declined");
        Ok(Exit::Well)
    })
    .await
}

fn find<'t>(task: &'t Task, key: Option<&str>) -> Result<&'t Question, Stop> {
    let keys: Vec<&str> = task.questions.iter().map(|question| question.key.as_str()).collect();
    let listed = || line(&keys.join(", "));
    match (key, task.questions.as_slice()) {
        (_, []) => Err(Stop::usage(format!("the task asks nothing: it is {}", task.status.name()))),
        (None, [question]) => Ok(question),
        (None, _) => Err(Stop::usage(format!("the task asks several things; name one with --question: {}", listed()))),
        (Some(key), all) => {
            let missing = || Stop::usage(format!("the task does not ask `{key}`, but: {}", listed()));
            all.iter().find(|question| question.key == key).ok_or_else(missing)
        }
    }
}

fn content(question: &Question, given: &[String]) -> Result<Value, Stop> {
    match question.about() {
        About::Form(schema) => {
            let content = arguments::read(given, schema).map_err(Stop::usage)?;
            check(&content, schema).map_err(Stop::usage)?;
            Ok(accept(content))
        }
        About::Address(_) => Ok(json!({"action": "accept"})),
        About::Other => Err(Stop::new(Exit::Unanswered, render::question("", question))),
    }
}

async fn at_terminal(id: &str, question: &Question) -> Result<Value, Stop> {
    let cannot =
        || Stop::new(Exit::Unanswered, format!("there is no terminal to ask at\n  {}", render::question(id, question)));
    if !out::can_ask() {
        return Err(cannot());
    }
    match ask(&Screen::Lines, question).await {
        Asked::Answer(answer) => Ok(answer),
        Asked::Later => Err(Stop::interrupted()),
        Asked::CannotAsk => Err(cannot()),
    }
}
