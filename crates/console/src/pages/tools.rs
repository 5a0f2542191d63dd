//! The tools of the server, each with a form to call it.

use http::StatusCode;
use longhaul_client::text::{block, count, line};
use longhaul_client::{Call, Called, Error, Tool};
use maud::{Markup, html};
use serde_json::Value;

use crate::ask::{PageRequest, link};
use crate::form::{FieldError, Form, Prefill, fingerprint};
use crate::limits::{DESCRIPTION_MAX, LISTED_TOOLS_MAX, SHORT_DESCRIPTION_MAX, TOOL_NAME_MAX, TOOL_TEXT_MAX};
use crate::log_in::random;
use crate::page::{Done, Page};
use crate::parts;
use crate::posted::Posted;
use crate::problem::Problem;

/// The name of this page.
const NAME: &str = "tools";

/// The annotations of a tool, and their words.
const HINTS: [(&str, &str); 3] = [
    ("readOnlyHint", "It changes nothing, the server says."),
    ("destructiveHint", "It may destroy something, the server says."),
    ("idempotentHint", "Calling it twice does no more than calling it once, the server says."),
];

/// The list of tools, or one tool.
pub(crate) async fn page(ask: &PageRequest) -> Result<Page, Problem> {
    let tools = ask.source().tools().await?;
    match ask.value("tool") {
        Some(name) => {
            let tool = find(&tools, name)?;
            let called = match ask.value("from") {
                Some(id) => Some(ask.source().called(id).await?.1),
                None => None,
            };
            let filled = called.as_ref().map_or(Prefill::Defaults, Prefill::Values);
            Ok(shown(ask, tool, ask.value("as"), filled, None))
        }
        None => Ok(listed(&tools)),
    }
}

fn find<'t>(tools: &'t [Tool], name: &str) -> Result<&'t Tool, Problem> {
    let found = tools.iter().find(|tool| tool.name == name);
    found.ok_or_else(|| Problem::not_found("The server has no tool of this name."))
}

fn listed(tools: &[Tool]) -> Page {
    let rows = html! {
        h1 { "Tools" }
        p { (count(tools.len(), "tool", "tools")) "." }
        ul class="tools" {
            @for tool in tools.iter().take(LISTED_TOOLS_MAX) {
                li class="card" {
                    h2 { a href=(link(NAME, &[("tool", &tool.name)])) { (line(&tool.name, TOOL_NAME_MAX)) } }
                    p { (line(tool.description(), SHORT_DESCRIPTION_MAX)) }
                    @let arguments = tool.arguments();
                    p class="dim" {
                        @if arguments.is_empty() { "no arguments" } @else { (line(&arguments, SHORT_DESCRIPTION_MAX)) }
                    }
                }
            }
        }
        @if tools.len() > LISTED_TOOLS_MAX { p { "The first " (LISTED_TOOLS_MAX) " are shown." } }
    };
    Page::new("Tools").still("tools", rows)
}

fn shown(
    ask: &PageRequest,
    tool: &Tool,
    written_as: Option<&str>,
    filled: Prefill<'_>,
    result: Option<&Value>,
) -> Page {
    let schema = tool.schema();
    let form = Form::written_as(schema, written_as);
    let hints = HINTS.iter().filter(|(hint, _)| tool.raw["annotations"][hint] == Value::Bool(true));
    let html = html! {
        p { a href=(link(NAME, &[])) { "All tools" } }
        h1 { (line(&tool.name, TOOL_NAME_MAX)) }
        p class="text" { (block(tool.description(), DESCRIPTION_MAX)) }
        @for (_, words) in hints { p class="dim" { (words) } }
        form class="card form" method="post" action=(link(NAME, &[])) novalidate {
            (ask.token_field())
            input type="hidden" name="tool" value=(tool.name);
            // A form that is sent twice by mistake is one call.
            input type="hidden" name="key" value=(random().unwrap_or_default());
            @if form.is_json() { input type="hidden" name="as" value="json"; }
            fieldset class="plain" disabled[ask.is_read_only()] {
                (form.show("argument", filled))
                @if !ask.is_read_only() { p class="actions" { button { "Call" } } }
            }
        }
        @if form.is_json() && !Form::of(schema).is_json() {
            p class="dim" {
                a href=(ask.link_with(&[("as", None), ("tool", Some(&tool.name))])) { "Fill in a form instead" }
            }
        } @else if !form.is_json() {
            p class="dim" {
                a href=(ask.link_with(&[("as", Some("json")), ("tool", Some(&tool.name))])) {
                    "Write the arguments as JSON instead"
                }
            }
        }
    };
    let page = Page::new("Tool").still("tool", html);
    match result {
        Some(result) => page.still("result", answered(result)),
        None => page,
    }
}

/// The result of a call that did not become a task.
fn answered(result: &Value) -> Markup {
    let is_error = result["isError"] == Value::Bool(true);
    let content = result["content"].as_array().into_iter().flatten();
    let texts = content.filter_map(|block| block["text"].as_str());
    html! {
        section class="card result" aria-labelledby="result-title" tabindex="-1" autofocus {
            h2 id="result-title" { @if is_error { "The tool answers with an error" } @else { "The tool answers" } }
            @for text in texts { pre tabindex="0" { (block(text, TOOL_TEXT_MAX)) } }
            details {
                summary { "The whole result" }
                (parts::json(result))
            }
        }
    }
}

/// Calls a tool.
pub(crate) async fn act(ask: &PageRequest, posted: &Posted) -> Result<Done, Problem> {
    let tools = ask.source().tools().await?;
    let tool = find(&tools, posted.value("tool").unwrap_or_default())?;
    let again = |wrong: &[FieldError]| {
        let page = shown(ask, tool, posted.value("as"), Prefill::Typed(posted, wrong), None);
        Ok(Done::Page(Box::new(page.status(StatusCode::UNPROCESSABLE_ENTITY))))
    };
    let arguments = match Form::written_as(tool.schema(), posted.value("as")).read(posted) {
        Ok(arguments) => arguments,
        Err(wrong) => return again(&wrong),
    };
    let key = posted.value("key").filter(|key| !key.is_empty());
    let key = key.map(|key| format!("{key}-{}", fingerprint(&Value::Object(arguments.clone()).to_string())));
    let call = Call { key, listed: Some(tool.clone()), ..Call::new(&tool.name, arguments) };
    match ask.source().call(&call).await {
        Ok(Called::Task(task)) => {
            ask.shared().acted("call", Some(&task.id), Ok(()))?;
            Ok(Done::To(link("task", &[("id", &task.id), ("did", "called")])))
        }
        Ok(Called::Result(result)) => {
            ask.shared().acted("call", None, Ok(()))?;
            Ok(Done::Page(Box::new(shown(ask, tool, posted.value("as"), Prefill::Typed(posted, &[]), Some(&result)))))
        }
        Ok(Called::Unanswered(question)) => {
            let method = line(&question.method, 80);
            let why = format!(
                "the tool asks ({method}) before it answers, which `longhaul call` can do and the console cannot"
            );
            drop(ask.shared().acted::<()>("call", None, Err(Problem::forbidden(&why))));
            again(&[FieldError { field: None, why }])
        }
        Err(Error::Refused(refusal)) => {
            let why = format!("the server refuses the call: {}", refusal.message);
            drop(ask.shared().acted::<()>("call", None, Err(Problem::forbidden(&why))));
            again(&[FieldError { field: None, why }])
        }
        Err(error) => ask.shared().acted("call", None, Err(Problem::from(error))),
    }
}
