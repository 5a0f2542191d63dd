//! SEP-1391, "Asynchronous Tool Execution": operations, named by tokens. Its clients name the revision `next`.
//!
//! A token that the client chose names the task. The task's id is derived from owner and token, so that any instance
//! finds it with one read. The id's time is 0 then, and such tasks are the last in every list. A token that the server
//! chose is the task's id.

use async_trait::async_trait;
use futures::stream::iter;
use http::Response;
use longhaul_core::ports::Left;
use longhaul_core::{Ask, MailboxId, Task, Timestamp};
use rmcp::ErrorData;
use serde_json::{Map, Value, json};

use crate::Body;
use crate::policy::{AfterFetch, Need};
use crate::protocol_version::{Endpoint, ProtocolVersion};
use crate::reply::{self, errors, sse};
use crate::request::incoming::{Incoming, Notice};
use crate::revision::{Generation, NEXT};
use crate::tool_calls::asking;
use crate::views::fields::{self, Outcome};
use crate::views::revised;

mod call;
mod cancel;
mod wire;

use wire::{not_retrieved, operation};

/// The first revision that has tasks of its own, and says of each tool whether it supports them.
const TASKS_SINCE: &str = "2025-11-25";

/// A question is sent again to a client that has not answered it for this long: it may have been lost.
const AGAIN_MS: u64 = 60_000;

pub(crate) struct Operations;

#[async_trait]
impl ProtocolVersion for Operations {
    async fn answer(&self, call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
        match (call.client.revision(), &*call.method) {
            (NEXT, "tools/call") => call::answer(call, endpoint).await,
            (NEXT, "tools/async/status") => Some(status(call, endpoint).await),
            (NEXT, "tools/async/result") => Some(reply::outcome(&call.id, result(call, endpoint).await)),
            (_, "tools/call") if knows_no_tasks(call) => refuse_async_only(call, endpoint),
            (_, _) => None,
        }
    }

    async fn on_notification(&self, notice: &Notice<'_>, endpoint: &Endpoint) {
        if notice.client.revision() == NEXT && notice.method == "notifications/cancelled" {
            cancel::on_notification(notice, endpoint).await;
        }
    }

    fn patches(&self, call: &Incoming<'_>) -> bool {
        call.method == "tools/list" && (call.client.revision() == NEXT || knows_no_tasks(call))
    }

    fn patch(&self, call: &Incoming<'_>, endpoint: &Endpoint, result: &mut Map<String, Value>) {
        let Some(tools) = result.get_mut("tools").and_then(Value::as_array_mut) else { return };
        let policies = &endpoint.shared().policies;
        let policy = |tool: &Value| policies.get(tool.get("name")?.as_str()?);
        if call.client.revision() == NEXT {
            let async_tools = tools.iter_mut().filter(|tool| policy(tool).is_some());
            for fields in async_tools.filter_map(Value::as_object_mut) {
                fields.insert("invocationMode".to_owned(), "async".into());
            }
        } else {
            tools.retain(|tool| policy(tool).is_none_or(|policy| policy.need != Need::Required));
        }
    }
}

/// Whether the client's revision has no tasks of any kind.
fn knows_no_tasks(call: &Incoming<'_>) -> bool {
    let revision = call.client.revision();
    call.client.generation() == Generation::Handshake && revision != NEXT && revision < TASKS_SINCE
}

/// "Long-running operation called by an outdated client": a tool that is not in the list that it sees.
fn refuse_async_only(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    let name = call.members.text("name")?;
    let policy = endpoint.shared().policies.get(&name)?;
    match policy.need {
        Need::Optional | Need::OnWorker => None,
        Need::Required => {
            let message =
                format!("the tool `{name}` runs only as an operation or a task, and this revision supports neither");
            Some(reply::error(&call.id, &ErrorData::invalid_request(message, None)))
        }
    }
}

/// Whether the retention of the result has expired. The record may still exist.
fn is_past_retention(task: &Task, now: Timestamp) -> bool {
    task.ended_at.is_some_and(|ended_at| now >= ended_at.plus_ms(task.terms.retention_ms))
}

/// `tools/async/status`. If the operation waits for its client, its questions are sent before the status.
async fn status(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let (token, task) = match operation(call, endpoint).await {
        Ok(found) => found,
        Err(error) => return reply::error(&call.id, &error),
    };
    let engine = &endpoint.shared().engine;
    let status = if is_past_retention(&task, engine.ports().clock.now()) {
        Ok(wire::expired(&token))
    } else {
        wire::status(engine, &token, &task).await.map_err(errors::of_load)
    };
    match status {
        Ok(status) => after_questions(call, endpoint, &token, &task, &status).await,
        Err(error) => reply::error(&call.id, &error),
    }
}

/// `tools/async/result`: what the plain call would have answered.
async fn result(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<String, ErrorData> {
    let (token, task) = operation(call, endpoint).await?;
    let shared = endpoint.shared();
    if is_past_retention(&task, shared.engine.ports().clock.now()) {
        return Err(not_retrieved("Operation has expired"));
    }
    let result = match Outcome::of(&shared.engine, &task).await.map_err(errors::of_load)? {
        None => return Err(not_retrieved(&format!("Operation is still {}", wire::word(&task)))),
        Some(Outcome::Cancelled) => return Err(not_retrieved("Operation was canceled")),
        Some(Outcome::Error(error)) => return Err(errors::for_older(error)),
        Some(Outcome::Result(mut result)) => {
            revised::result(NEXT, &mut result);
            result
        }
    };
    if shared.policies.get(&task.tool).is_some_and(|policy| policy.after_fetch == AfterFetch::Forget) {
        // If this fails, the result expires later.
        if let Err(error) = shared.engine.forget(&task.key()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a fetched operation was not forgotten");
        }
    }
    Ok(json!({"result": result, "_operation": {"token": token}}).to_string())
}

/// The answer with the status, after the progress if the request has a token for that, and after all questions that are
/// to be asked.
async fn after_questions(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    token: &str,
    task: &Task,
    status: &str,
) -> Response<Body> {
    let mut frames = Vec::new();
    let token_for_progress = call.meta.whole().get_progress_token();
    if let (Some(token), Some(progress)) = (token_for_progress, wire::progress(task)) {
        frames.push(sse::event(fields::progress_notification(&token, progress, [])));
    }
    for ask in task.state.asks() {
        let request = match question(endpoint, token, task, ask) {
            Ok(request) => request,
            Err(error) => return reply::error(&call.id, &error),
        };
        if is_due(endpoint, task, ask).await {
            frames.push(sse::event(&request));
        }
    }
    if frames.is_empty() {
        return reply::result(&call.id, status);
    }
    frames.push(sse::event(reply::result_text(&call.id, status)));
    sse::response(iter(frames))
}

/// Whether no instance has sent this question recently. Clients ask for the status again and again, perhaps on several
/// instances.
async fn is_due(endpoint: &Endpoint, task: &Task, ask: &Ask) -> bool {
    let engine = &endpoint.shared().engine;
    let ports = engine.ports();
    let mailbox = MailboxId::of(&[b"operation ask", task.id.as_bytes(), ask.key.as_bytes()]);
    // This text shows whether an earlier write is our own, whose answer was lost, or another instance's.
    let own = ports.ids.lease_token().to_string();
    match engine.leave(&task.owner, &mailbox, &own, ports.clock.now().plus_ms(AGAIN_MS)).await {
        Ok(Left::First) => true,
        Ok(Left::Earlier(sent_by)) => sent_by == own,
        Err(error) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "a question may be sent again too soon");
            // Rather twice than never.
            true
        }
    }
}

/// The message that asks; it names the operation by its token.
fn question(endpoint: &Endpoint, token: &str, task: &Task, ask: &Ask) -> Result<String, ErrorData> {
    let mut asked = asking::question(endpoint.shared(), task, ask)?;
    asked.params.insert("_operation".to_owned(), json!({"token": token}));
    Ok(asked.message())
}
