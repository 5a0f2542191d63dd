//! The open questions of tasks, each with a form to answer it.

use futures::stream::{self, StreamExt};
use http::StatusCode;
use longhaul_client::form::{About, accept, decline};
use longhaul_client::text::{block, count, line};
use longhaul_client::{Error, Question, Status, Task};
use maud::{Markup, html};
use serde_json::json;

use crate::ask::{PageRequest, link, link_to_task};
use crate::form::{self, FieldError, Form, Prefill};
use crate::limits::{ASKED_AT_A_TIME, ASKING_TASKS_MAX, HEADING_MAX, MESSAGE_MAX};
use crate::page::{Done, Page};
use crate::parts;
use crate::posted::Posted;
use crate::problem::Problem;
use crate::source::{Filter, Row, updated_ms};

/// The name of this page.
const NAME: &str = "questions";

/// A task that asks something, and its tool if that is known.
struct Asking {
    task: Task,
    tool: Option<String>,
}

/// A form that was not accepted: of which question, and what does not fit.
struct Refused<'p> {
    asked: String,
    posted: &'p Posted,
    wrong: Vec<FieldError>,
}

/// The open questions: all of them, or those of one task.
pub(crate) async fn page(ask: &PageRequest) -> Result<Page, Problem> {
    let (number, asking) = asking(ask, ask.value("id")).await?;
    Ok(shown(ask, number, &asking, None))
}

/// How many tasks ask, without their questions: some servers keep a request open for each question that is requested.
pub(crate) async fn live(ask: &PageRequest) -> Result<Page, Problem> {
    let is_meant = |row: &&Row| ask.value("id").is_none_or(|id| row.task.id == id);
    let number = rows(ask).await?.iter().filter(is_meant).count();
    Ok(with_badge(ask, number, Page::new("Questions").live("count", head(ask, number))))
}

/// The tasks that wait for answers.
async fn rows(ask: &PageRequest) -> Result<Vec<Row>, Problem> {
    let filter = Filter { status: Some(Status::InputRequired), ..Filter::default() };
    Ok(ask.source().tasks(&filter).await?.rows)
}

/// How many tasks ask, and those of them that are shown.
async fn asking(ask: &PageRequest, of_task: Option<&str>) -> Result<(usize, Vec<Asking>), Problem> {
    if let Some(id) = of_task {
        let task = ask.source().task(id).await?;
        return Ok((usize::from(task.status == Status::InputRequired), vec![Asking { task, tool: None }]));
    }
    let rows = rows(ask).await?;
    let number = rows.len();
    let looks = rows.into_iter().take(ASKING_TASKS_MAX).map(|row| async move {
        let task = ask.source().task(&row.task.id).await;
        task.map(|task| Asking { task, tool: row.tool })
    });
    // A task that cannot be read now asks nothing that could be answered now.
    let seen = stream::iter(looks).buffered(ASKED_AT_A_TIME).filter_map(|look| async { look.ok() });
    Ok((number, seen.filter(|asking| std::future::ready(!asking.task.questions.is_empty())).collect().await))
}

/// The forms of a task's questions, for its own page.
pub(super) fn of_task(ask: &PageRequest, task: &Task) -> Markup {
    let asking = Asking { task: task.clone(), tool: None };
    html! {
        @for (index, one) in task.questions.iter().enumerate() {
            (question(ask, &asking, one, &format!("q{index}"), None))
        }
    }
}

/// A short text that changes with the questions of a task.
pub(super) fn fingerprint_of(task: &Task) -> String {
    form::fingerprint(&task.questions.iter().map(fingerprint).collect::<String>())
}

fn head(ask: &PageRequest, number: usize) -> Markup {
    html! {
        h1 { "Questions" }
        p {
            @if number == 0 { "Nothing is asked now." }
            @else { (count(number, "task asks", "tasks ask")) " something." }
            @if ask.value("id").is_some() {
                " " a href=(link(NAME, &[])) { "All open questions" }
            } @else if number > 0 {
                " " a href=(link(NAME, &[])) { "Show those that came since" }
            }
        }
    }
}

fn shown(ask: &PageRequest, number: usize, all: &[Asking], refused: Option<&Refused<'_>>) -> Page {
    let open = all.iter().flat_map(|asking| asking.task.questions.iter().map(move |question| (asking, question)));
    let forms = html! {
        @for (index, (asking, question)) in open.enumerate() {
            (self::question(ask, asking, question, &format!("q{index}"), refused))
        }
    };
    with_badge(ask, number, Page::new("Questions").live("count", head(ask, number)).still("questions", forms))
}

/// The page with the number of tasks that ask, unless it counts one task only.
fn with_badge(ask: &PageRequest, number: usize, page: Page) -> Page {
    if ask.value("id").is_none() { page.badge(number) } else { page }
}

fn question(
    ask: &PageRequest,
    asking: &Asking,
    question: &Question,
    place: &str,
    refused: Option<&Refused<'_>>,
) -> Markup {
    let message = question.params["message"].as_str().unwrap_or("The task asks something.");
    let heading = line(message, HEADING_MAX);
    let whole = block(message, MESSAGE_MAX);
    let tool = asking.tool.as_deref().map(|tool| line(tool, 80));
    let refused = refused.filter(|refused| refused.asked == fingerprint(question));
    html! {
        section class="card question" aria-labelledby={ (place) "-title" } {
            h2 id={ (place) "-title" } { (heading) }
            p class="dim" {
                "Asked by " a href=(link_to_task(&asking.task.id)) {
                    @match &tool { Some(tool) => (tool), None => (parts::id(&asking.task.id)) }
                } ", "
                (parts::age(updated_ms(&asking.task), ask.now_ms)) " ago"
            }
            @if whole != heading { p class="text" { (whole) } }
            @match question.about() {
                About::Form(schema) => {
                    @let form = Form::written_as(schema, refused.map_or_else(|| ask.value("as"), |refused|
                        refused.posted.value("as")));
                    @let filled = refused.map_or(Prefill::Defaults, |refused|
                        Prefill::Typed(refused.posted, &refused.wrong));
                    (act_form(ask, asking, question, &html! {
                        @if form.is_json() { input type="hidden" name="as" value="json"; }
                        (form.show(place, filled))
                    }, "Answer"))
                    @if !form.is_json() {
                        p class="dim" {
                            a href=(link(NAME, &[("id", &asking.task.id), ("as", "json")])) { "Answer with JSON \
                                instead" }
                        }
                    }
                },
                About::Address(url) => (act_form(ask, asking, question, &address(url), "I have done it")),
                About::Other => {
                    p { "This is answered by a client that can do “" (line(&question.method, 80)) "”. The console \
                        shows it only." }
                    (parts::json(&question.params))
                },
            }
        }
    }
}

/// The URL that an answer is sent to. A person who answers on the page of a task returns to it.
fn action(ask: &PageRequest, asking: &Asking) -> String {
    if ask.name() == NAME { ask.link_with(&[]) } else { link(NAME, &[("id", &asking.task.id)]) }
}

fn act_form(ask: &PageRequest, asking: &Asking, question: &Question, fields: &Markup, answer: &str) -> Markup {
    html! {
        form class="form" method="post" action=(action(ask, asking)) novalidate {
            (ask.token_field())
            input type="hidden" name="task" value=(asking.task.id);
            input type="hidden" name="asked" value=(fingerprint(question));
            fieldset class="plain" disabled[ask.is_read_only()] {
                (fields)
                @if !ask.is_read_only() {
                    p class="actions" {
                        button name="act" value="answer" { (answer) }
                        button class="quiet" name="act" value="decline" title="The task learns that you decline" {
                            "Decline" }
                        button class="quiet" name="act" value="dismiss" title="The task learns that you do not choose"
                            { "Dismiss" }
                    }
                }
            }
        }
    }
}

/// A URL to visit: the whole URL as text, and its host. Only a URL for browsers is a link.
fn address(url: &str) -> Markup {
    let parsed = url::Url::parse(url).ok();
    let host = parsed.as_ref().and_then(url::Url::host_str);
    let is_link = parsed.as_ref().is_some_and(|parsed| matches!(parsed.scheme(), "http" | "https"));
    html! {
        p { "Open this address if you trust " strong { (line(host.unwrap_or("it"), 255)) } ". This \
            console cannot see what you enter there." }
        p class="text" {
            @if is_link {
                a href=(url) target="_blank" rel="noopener noreferrer" { (line(url, MESSAGE_MAX)) }
            } @else {
                (line(url, MESSAGE_MAX))
            }
        }
    }
}

/// The fingerprint by which a form finds its question again. Some servers give a question another key each time that it
/// is read. A key alone would let the answer to one question be given to the next.
fn fingerprint(question: &Question) -> String {
    form::fingerprint(&format!("{}\n{}", question.method, question.params))
}

/// Answers a question, or declines to.
pub(crate) async fn act(ask: &PageRequest, posted: &Posted) -> Result<Done, Problem> {
    let (Some(id), Some(asked), Some(act)) = (posted.value("task"), posted.value("asked"), posted.value("act")) else {
        return Err(Problem::not_found("The console does not offer this action."));
    };
    let task = ask.source().task(id).await?;
    let Some(question) = task.questions.iter().find(|question| fingerprint(question) == asked) else {
        let why = "Nothing was sent: the task does not ask this, or not any more. It may have been answered elsewhere.";
        return Err(Problem::new(StatusCode::CONFLICT, "Not asked any more", why));
    };
    let (what, did, answer) = match (act, question.about()) {
        ("decline", About::Form(_) | About::Address(_)) => ("decline", "declined", decline()),
        ("dismiss", About::Form(_) | About::Address(_)) => ("dismiss", "dismissed", json!({"action": "cancel"})),
        ("answer", About::Address(_)) => ("answer", "answered", json!({"action": "accept"})),
        ("answer", About::Form(schema)) => match Form::written_as(schema, posted.value("as")).read(posted) {
            Ok(content) => ("answer", "answered", accept(content)),
            Err(wrong) => return again(ask, &task, posted, asked, wrong),
        },
        _ => return Err(Problem::not_found("The console does not offer this action.")),
    };
    match ask.source().answer(id, question, answer).await {
        Err(Error::Refused(refusal)) if what == "answer" => {
            let why = format!("the server refuses the answer: {}", refusal.message);
            drop(ask.shared().acted::<()>(what, Some(id), Err(Problem::forbidden(&why))));
            again(ask, &task, posted, asked, vec![FieldError { field: None, why }])
        }
        done => {
            ask.shared().acted(what, Some(id), done.map_err(Problem::from))?;
            let to = if ask.value("id").is_some() {
                ("task", vec![("id", id), ("did", did)])
            } else {
                (NAME, vec![("did", did)])
            };
            Ok(Done::To(link(to.0, &to.1)))
        }
    }
}

/// The form again, with the typed values.
fn again(
    ask: &PageRequest,
    task: &Task,
    posted: &Posted,
    asked: &str,
    wrong: Vec<FieldError>,
) -> Result<Done, Problem> {
    let refused = Refused { asked: asked.to_owned(), posted, wrong };
    let task = Task {
        questions: task.questions.iter().filter(|one| fingerprint(one) == asked).cloned().collect(),
        ..task.clone()
    };
    let page = shown(ask, 1, &[Asking { task, tool: None }], Some(&refused)).status(StatusCode::UNPROCESSABLE_ENTITY);
    Ok(Done::Page(Box::new(page)))
}
