//! `longhaul answer`.

use longhaul_client::form::{About, accept, check, decline};
use longhaul_client::{Question, Task};
use serde_json::{Value, json};

use super::one;
use crate::args::Global;
use crate::exit::{Exit, Stop};
use crate::follow::ask;
use crate::form::Asked;
use crate::screen::Screen;
use crate::{arguments, out, render};

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
    let listed = || out::line(&keys.join(", "));
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
