//! `longhaul watch`, `result`, `cancel` and `answer`: how tasks end, and what they wait for.

use std::path::Path;
use std::time::Duration;

use longhaul_client::form::{About, accept, check, decline};
use longhaul_client::{Question, Refusal, Status, Task};
use serde_json::{Value, json};

use super::{come_back, connect_to, not_found, one};
use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::follow::{Followed, Follower, ask};
use crate::form::Asked;
use crate::out::{self, block, line};
use crate::screen::Screen;
use crate::{arguments, render};

/// Waits for the end of tasks.
pub(super) async fn watch(global: &Global, ids: &[String], wait: Option<Duration>) -> Result<Exit, Stop> {
    let (client, known) = connect_to(global, ids).await?;
    let screen = if global.json { Screen::Json } else { Screen::new() };
    let follower = Follower { client: &client, screen, come_back: come_back(global), first: Duration::ZERO };
    let mut followed = follower.follow(ids, wait).await?;
    for ((one, id), known) in followed.iter_mut().zip(ids).zip(&known) {
        if let Followed::Stopped(stop) = one {
            let why = std::mem::replace(stop, Stop::interrupted());
            *stop = not_found(why, id, known.as_ref());
        }
    }
    if global.json { exits(followed) } else { finish(global, ids, followed) }
}

/// With each change written already, only how it ended.
fn exits(followed: Vec<Followed>) -> Result<Exit, Stop> {
    let mut worst = Exit::Well;
    for one in followed {
        worst = worst.max(match one {
            Followed::Ended(task) => exit_of(&task),
            Followed::Unanswered(_) => Exit::Unanswered,
            Followed::Left => Exit::Interrupted,
            Followed::Stopped(stop) => return Err(stop),
        });
    }
    Ok(worst)
}

/// Writes how tasks ended: the result of a single one, a line for each of several.
pub(super) fn finish(global: &Global, ids: &[String], followed: Vec<Followed>) -> Result<Exit, Stop> {
    let is_single = ids.len() == 1;
    let mut worst = Exit::Well;
    for (one, id) in followed.into_iter().zip(ids) {
        let exit = match one {
            Followed::Ended(task) if is_single => return ended(global, &task),
            Followed::Ended(task) => {
                out::result(&format!("{} {}", line(id), task.status.name()));
                exit_of(&task)
            }
            Followed::Unanswered(task) => {
                let asked = task.questions.iter().map(|question| render::question(id, question));
                let asked = asked.map(|text| format!("{text}{}", come_back(global))).collect::<Vec<_>>().join("\n  ");
                out::say(&format!("the task {} needs an answer, and nobody can be asked here\n  {asked}", line(id)));
                Exit::Unanswered
            }
            Followed::Left => Exit::Interrupted,
            Followed::Stopped(stop) if is_single => return Err(stop),
            Followed::Stopped(stop) => {
                out::say(&format!("error: {}: {}", line(id), block(&stop.why)));
                stop.exit
            }
        };
        worst = worst.max(exit);
    }
    Ok(worst)
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
    let text = if global.json { result.to_string() } else { render::result(result) };
    if is_error && !global.json {
        return Err(Stop::new(Exit::Failed, text));
    }
    if out::is_to_terminal() && text.len() > out::TERMINAL_BYTES_MAX {
        let bytes = text.len();
        return Err(Stop::usage(if id.is_empty() {
            format!("the result has {bytes} bytes, which are too many for a terminal: send it to a file with `> FILE`")
        } else {
            format!("the result has {bytes} bytes, which are too many for a terminal: longhaul result {id} -o FILE")
        }));
    }
    out::result(&text);
    Ok(if is_error { Exit::Failed } else { Exit::Well })
}

/// Writes the result of a task that has ended, to a file if one is named.
pub(super) async fn result(global: &Global, id: &str, output: Option<&Path>) -> Result<Exit, Stop> {
    let (_client, task, _known) = one(global, id).await?;
    if !task.status.is_end() {
        let status = task.status.name();
        let why = format!("the task is {status}: `longhaul watch {id}` waits for its end");
        return Err(Stop::new(Exit::WaitOver, why));
    }
    let (Some(path), Some(Ok(result))) = (output, &task.end) else { return ended(global, &task) };
    let text = if global.json { result.to_string() } else { render::result(result) };
    std::fs::write(path, text)
        .map_err(|error| Stop::new(Exit::Unexpected, format!("`{}` cannot be written: {error}", path.display())))?;
    Ok(exit_of(&task))
}

/// Asks the server to cancel tasks.
pub(super) async fn cancel(global: &Global, ids: &[String]) -> Result<Exit, Stop> {
    let (client, known) = connect_to(global, ids).await?;
    let mut worst = Exit::Well;
    for (id, known) in ids.iter().zip(&known) {
        match client.cancel(id).await {
            Ok(()) => out::say(&format!("asked to cancel {}", line(id))),
            Err(error) => {
                let stop = not_found(error.into(), id, known.as_ref());
                out::say(&format!("error: {}", block(&stop.why)));
                worst = worst.max(stop.exit);
            }
        }
    }
    Ok(worst)
}

/// Answers a question of a task: with what is given, or in a form.
pub(super) async fn give(global: &Global, id: &str, given: &[String], key: Option<&str>) -> Result<Exit, Stop> {
    let (client, task, _known) = one(global, id).await?;
    let question = find(&task, key)?;
    let answer = if given.is_empty() { at_terminal(id, question).await? } else { content(question, given)? };
    client.answer(id, question, answer).await?;
    out::say("answered");
    Ok(Exit::Well)
}

/// Declines to answer a question of a task.
pub(super) async fn refuse(global: &Global, id: &str, key: Option<&str>) -> Result<Exit, Stop> {
    let (client, task, _known) = one(global, id).await?;
    let question = find(&task, key)?;
    if matches!(question.about(), About::Other) {
        return Err(Stop::new(Exit::Unanswered, render::question(id, question)));
    }
    client.answer(id, question, decline()).await?;
    out::say("declined");
    Ok(Exit::Well)
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
        || Stop::new(Exit::Unanswered, format!("nobody can be asked here\n  {}", render::question(id, question)));
    if !out::can_ask() {
        return Err(cannot());
    }
    match ask(&Screen::Lines, question).await {
        Asked::Answer(answer) => Ok(answer),
        Asked::Later => Err(Stop::interrupted()),
        Asked::CannotAsk => Err(cannot()),
    }
}
