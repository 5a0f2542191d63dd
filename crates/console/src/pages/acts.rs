//! Actions on tasks: cancel them, resume them, or make the same calls again.

use longhaul_client::text::{count, line};
use longhaul_client::{Call, Called, Error, Tool};
use maud::{Markup, html};

use super::filter;
use crate::ask::{PageRequest, link, link_to_task};
use crate::limits::ACTED_TASKS_MAX;
use crate::log_in::random;
use crate::page::{Done, Page};
use crate::posted::Posted;
use crate::problem::Problem;
use crate::source::{Listed, Row};

/// The name of this form in its path.
const NAME: &str = "act";

/// The button that cancels one task.
pub(super) fn cancel_form(ask: &PageRequest, id: &str) -> Markup {
    html! {
        form method="post" action=(of_owner(ask)) class="inline" {
            (ask.token_field())
            input type="hidden" name="id" value=(id);
            button class="danger" name="act" value="cancel" { "Cancel" }
        }
    }
}

/// The button that makes one call again. It does so once, however often it is pressed on the same page.
pub(super) fn again_form(ask: &PageRequest, id: &str) -> Result<Markup, Problem> {
    Ok(html! {
        form method="post" action=(of_owner(ask)) class="inline" {
            (ask.token_field())
            (key_field()?)
            input type="hidden" name="id" value=(id);
            button class="quiet" name="act" value="again" { "Call again with the same arguments" }
        }
    })
}

/// The URL of an action on a task of the shown owner.
fn of_owner(ask: &PageRequest) -> String {
    link(NAME, &ask.owner().map(|owner| ("owner", owner)).into_iter().collect::<Vec<_>>())
}

/// The form that resumes one failed task. It does so once, however often it is sent from the same page.
pub(super) fn resume_form(ask: &PageRequest, id: &str) -> Result<Markup, Problem> {
    Ok(html! {
        form method="post" action=(link(NAME, &[])) class="inline" {
            (ask.token_field())
            (key_field()?)
            input type="hidden" name="id" value=(id);
            label { "From step " input name="from" placeholder="the first that failed"; }
            button name="act" value="resume" { "Resume as a new task" }
        }
    })
}

/// The key by which a server recognises a call that is sent twice.
pub(super) fn key_field() -> Result<Markup, Problem> {
    let key = random().map_err(|error| Problem::from(Error::Unexpected(error.to_string())))?;
    Ok(html! { input type="hidden" name="key" value=(key); })
}

/// Runs the action for all named tasks, or for as many as possible.
pub(super) async fn act(ask: &PageRequest, posted: &Posted) -> Result<Done, Problem> {
    if posted.value("act") == Some("cancel-filtered") {
        return cancel_filtered(ask, posted).await;
    }
    let mut ids: Vec<&str> = posted.values("id").collect();
    ids.dedup();
    if ids.len() > ACTED_TASKS_MAX {
        return Err(Problem::not_found("Too many tasks at a time: 200 at most."));
    }
    match (posted.value("act"), ids.as_slice()) {
        (Some("cancel" | "again"), []) => Ok(Done::To(link("", &[("did", "none")]))),
        (Some("cancel"), [id]) => {
            cancel(ask, id).await?;
            Ok(Done::To(format!("{}&did=cancelled", ask.link_to_task(id))))
        }
        (Some("resume"), [id]) => resume(ask, id, posted).await,
        (Some("again"), [id]) => again(ask, id, posted.value("key"), &ask.source().tools().await?).await,
        (Some(what @ ("cancel" | "again")), ids) => {
            let mut all = All::default();
            let tools = if what == "again" { ask.source().tools().await? } else { Vec::new() };
            for id in ids {
                let done = match what {
                    "cancel" => cancel(ask, id).await,
                    _ => again(ask, id, posted.value("key"), &tools).await.map(drop),
                };
                all.count(id, done);
            }
            Ok(all.done(if what == "cancel" { "cancelled" } else { what }))
        }
        _ => Err(Problem::not_found("The console does not offer this action.")),
    }
}

async fn cancel(ask: &PageRequest, id: &str) -> Result<(), Problem> {
    let done = ask.source().cancel(id).await.map_err(Problem::from);
    ask.shared().acted("cancel", Some(id), done)
}

/// Cancels all unfinished tasks that the filter of the address takes, once a person has seen how many there are.
async fn cancel_filtered(ask: &PageRequest, posted: &Posted) -> Result<Done, Problem> {
    let listed = ask.source().tasks(&filter::of(ask)).await?;
    let open: Vec<&Row> = listed.rows.iter().filter(|row| !row.task.status.is_end()).collect();
    let back = ask.link_with(&[]).replacen(&link(NAME, &[]), &link("", &[]), 1);
    // The number is that of the page that asked. If more tasks began since, the person is asked again.
    let sure = posted.value("sure").and_then(|sure| sure.parse::<usize>().ok());
    if sure.is_none_or(|sure| open.len() > sure) {
        return Ok(Done::Page(Box::new(
            Page::new("Cancel these tasks?").still("sure", confirm(ask, &open, &listed, &back)),
        )));
    }
    let mut all = All::default();
    for row in open {
        let done = ask.source_of(row).cancel(&row.task.id).await.map_err(Problem::from);
        all.count(&row.task.id, ask.shared().acted("cancel", Some(&row.task.id), done));
    }
    Ok(all.done("cancelled"))
}

fn confirm(ask: &PageRequest, open: &[&Row], listed: &Listed, back: &str) -> Markup {
    html! {
        h1 { "Cancel these tasks?" }
        section class="card" {
            p { (count(open.len(), "unfinished task matches", "unfinished tasks match")) ": "
                (filter::in_words(ask)) "." }
            @if let Some(newest) = listed.newest {
                p { "Only the newest " (newest) " tasks were read. Repeat this for older ones." }
            }
            @if !open.is_empty() {
                form method="post" action=(ask.link_with(&[])) class="inline" {
                    (ask.token_field())
                    input type="hidden" name="sure" value=(open.len());
                    button class="danger" name="act" value="cancel-filtered" {
                        "Cancel " (count(open.len(), "task", "tasks"))
                    }
                }
            }
            p { a href=(back) { "Back to the tasks" } }
        }
    }
}

async fn resume(ask: &PageRequest, id: &str, posted: &Posted) -> Result<Done, Problem> {
    let from = posted.value("from").filter(|from| !from.is_empty());
    let key = posted.value("key").map(|key| format!("longhaul-console-{key}-{id}"));
    let resumed = ask.source().resume(id, from, key.as_deref()).await.map_err(Problem::from);
    let task = ask.shared().acted("resume", Some(id), resumed)?;
    Ok(Done::To(format!("{}&did=resumed", ask.link_to_task(&task.id))))
}

async fn again(ask: &PageRequest, id: &str, key: Option<&str>, tools: &[Tool]) -> Result<Done, Problem> {
    let called = call_again(ask, id, key, tools).await;
    Ok(match ask.shared().acted("again", Some(id), called)? {
        Called::Task(task) => Done::To(link("task", &[("id", &task.id), ("did", "again")])),
        Called::Result(result) => Done::Page(Box::new(Page::new("Result").still(
            "result",
            html! {
                h1 { "Called again" }
                section class="card" {
                    p { "The server made no task of it, and answered at once." }
                    (crate::parts::json(&result))
                }
                p { a href=(link_to_task(id)) { "Back to the task" } }
            },
        ))),
        Called::Unanswered(question) => {
            let why = format!("The tool asks for `{}` before it begins, and was given up.", line(&question.method, 80));
            return Err(Problem::new(http::StatusCode::BAD_GATEWAY, "Not called", why));
        }
    })
}

async fn call_again(ask: &PageRequest, id: &str, key: Option<&str>, tools: &[Tool]) -> Result<Called, Problem> {
    let source = ask.source();
    let (tool, arguments) = source.called(id).await?;
    let listed = tools.iter().find(|one| one.name == tool).cloned();
    let key = key.map(|key| format!("longhaul-console-{key}-{id}"));
    Ok(source.call(&Call { key, listed, ..Call::new(&tool, arguments) }).await?)
}

/// The outcome of an action on many tasks.
#[derive(Default)]
struct All {
    done: usize,
    failed: Vec<(String, String)>,
}

impl All {
    fn count(&mut self, id: &str, done: Result<(), Problem>) {
        match done {
            Ok(()) => self.done += 1,
            Err(problem) => self.failed.push((line(id, 80), problem.sentence().to_owned())),
        }
    }

    fn done(self, did: &str) -> Done {
        if self.failed.is_empty() {
            return Done::To(link("", &[("did", did), ("n", &self.done.to_string())]));
        }
        Done::Page(Box::new(Page::new("Not all were done").still(
            "failed",
            html! {
                h1 { "Not all were done" }
                section class="card problem" role="alert" {
                    p { (count(self.done, "task was", "tasks were")) " done. The server says about the others:" }
                    ul { @for (id, why) in &self.failed { li { code { (id) } ": " (why) } } }
                }
                p { a href=(link("", &[])) { "Back to the tasks" } }
            },
        )))
    }
}
