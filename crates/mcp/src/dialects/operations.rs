//! SEP-1391, "Asynchronous Tool Execution": operations, named by tokens. Its clients name the revision `next`.
//!
//! A token that the client gave is the name of the task: the task's id follows from owner and token, so that any
//! instance finds it with one read. The id's time is 0 then, and such tasks are the last of every list. A token that
//! the server gave is the task's id.

use async_trait::async_trait;
use http::Response;
use longhaul_core::{OwnerId, State, Task, TaskId, TaskKey, Timestamp};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Dialect, Generation, OwnRevision};
use crate::durable::Shared;
use crate::front::Front;
use crate::incoming::{Incoming, Notice};
use crate::outcome::Outcome;
use crate::policy::{AfterFetch, Need};
use crate::{Body, derived, errors, reply};

mod call;
mod cancel;
mod questions;
mod wire;

/// The revision that its clients name.
const NEXT: &str = "next";

/// The first revision that has tasks of its own, and says of each tool whether it takes part.
const TASKS_SINCE: &str = "2025-11-25";

/// The dialect.
pub(crate) struct Operations;

#[async_trait]
impl Dialect for Operations {
    fn own_revision(&self) -> Option<OwnRevision> {
        Some(OwnRevision { name: NEXT, served_as: "2025-11-25" })
    }

    async fn answer(&self, call: &Incoming<'_>, front: &Front) -> Option<Response<Body>> {
        match (call.client.revision(), &*call.method) {
            (NEXT, "tools/call") => call::answer(call, front).await,
            (NEXT, "tools/async/status") => Some(status(call, front).await),
            (NEXT, "tools/async/result") => Some(reply::outcome(&call.id, result(call, front).await)),
            (_, "tools/call") if knows_no_tasks(call) => refuse_async_only(call, front),
            (_, _) => None,
        }
    }

    async fn hear(&self, notice: &Notice<'_>, front: &Front) {
        if notice.client.revision() == NEXT && notice.method == "notifications/cancelled" {
            cancel::hear(notice, front).await;
        }
    }

    fn decorates(&self, call: &Incoming<'_>) -> bool {
        call.method == "tools/list" && (call.client.revision() == NEXT || knows_no_tasks(call))
    }

    fn decorate(&self, call: &Incoming<'_>, front: &Front, result: &mut Map<String, Value>) {
        let Some(tools) = result.get_mut("tools").and_then(Value::as_array_mut) else { return };
        let policies = &front.shared().policies;
        let policy = |tool: &Value| policies.get(tool.get("name")?.as_str()?);
        if call.client.revision() == NEXT {
            let async_tools = tools.iter_mut().filter(|tool| policy(tool).is_some());
            for fields in async_tools.filter_map(Value::as_object_mut) {
                fields.insert("invocationMode".to_owned(), "async".into());
            }
        } else {
            tools.retain(|tool| policy(tool).is_none_or(|policy| policy.need() == Need::Optional));
        }
    }
}

/// Whether the client's revision has no tasks of any kind.
fn knows_no_tasks(call: &Incoming<'_>) -> bool {
    let revision = call.client.revision();
    call.client.generation() == Generation::Handshake && revision != NEXT && revision < TASKS_SINCE
}

/// "Long-running operation called by an outdated client": a tool that it was not shown.
fn refuse_async_only(call: &Incoming<'_>, front: &Front) -> Option<Response<Body>> {
    let Named { name } = call.params()?;
    let policy = front.shared().policies.get(&name)?;
    match policy.need() {
        Need::Optional => None,
        Need::Required => {
            let message = format!("the tool `{name}` runs only as an operation or a task, which this revision has not");
            Some(reply::error(&call.id, &ErrorData::invalid_request(message, None)))
        }
    }
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct WithToken {
    token: String,
}

/// The place of the operation that the client gave this token.
fn place(owner: &OwnerId, token: &str) -> TaskKey {
    derived::place(owner, Timestamp::from_ms(0), &[b"operation", token.as_bytes()])
}

/// The task of this token: the one that the client named, or the one whose id it is.
async fn find(shared: &Shared, owner: &OwnerId, token: &str) -> Result<Task, PollError> {
    match shared.engine.poll(&place(owner, token)).await {
        Err(PollError::NotFound) => match token.parse::<TaskId>() {
            Ok(id) => shared.engine.poll(&TaskKey::new(*owner, id)).await,
            Err(_no_id) => Err(PollError::NotFound),
        },
        found => found,
    }
}

/// The token and the task that a request is about.
async fn operation(call: &Incoming<'_>, front: &Front) -> Result<(String, Task), ErrorData> {
    let WithToken { token } = call.params().ok_or_else(|| not_retrieved("`token` is missing or no string"))?;
    match find(front.shared(), &call.owner, &token).await {
        Ok(task) => Ok((token, task)),
        Err(PollError::NotFound) => Err(not_retrieved("Operation not found")),
        Err(error @ PollError::Unavailable(_)) => Err(errors::of_poll(error)),
    }
}

fn not_retrieved(why: &str) -> ErrorData {
    ErrorData::invalid_params(format!("Failed to retrieve operation: {why}"), None)
}

/// Whether the time that the result was to be kept for is over. The record may be there still.
fn is_past_keeping(task: &Task, now: Timestamp) -> bool {
    task.ended_at.is_some_and(|ended_at| now >= ended_at.plus_ms(task.terms.keep_ms))
}

/// `tools/async/status`. Where the operation waits for its client, what it asks goes before the status.
async fn status(call: &Incoming<'_>, front: &Front) -> Response<Body> {
    let (token, task) = match operation(call, front).await {
        Ok(found) => found,
        Err(error) => return reply::error(&call.id, &error),
    };
    let engine = &front.shared().engine;
    let told = if is_past_keeping(&task, engine.ports().clock.now()) {
        Ok(wire::expired(&token))
    } else {
        wire::status(engine, &token, &task).await.map_err(errors::of_load)
    };
    match told {
        Ok(told) => questions::before(call, front, &token, &task, &told).await,
        Err(error) => reply::error(&call.id, &error),
    }
}

/// `tools/async/result`: what the plain call would have answered.
async fn result(call: &Incoming<'_>, front: &Front) -> Result<String, ErrorData> {
    let (token, task) = operation(call, front).await?;
    let shared = front.shared();
    if is_past_keeping(&task, shared.engine.ports().clock.now()) {
        return Err(not_retrieved("Operation has expired"));
    }
    let result = match Outcome::of(&shared.engine, &task).await.map_err(errors::of_load)? {
        None => return Err(not_retrieved(&format!("Operation is still {}", wire::word(&task)))),
        Some(Outcome::Cancelled) => return Err(not_retrieved("Operation was canceled")),
        Some(Outcome::Error(error)) => return Err(errors::for_older(error)),
        Some(Outcome::Result(result)) => result,
    };
    if shared.policies.get(&task.tool).is_some_and(|policy| policy.after_fetch() == AfterFetch::Forget) {
        // Where this fails, the result expires in its time.
        if let Err(error) = shared.engine.forget(&task.key()).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "a fetched operation was not forgotten");
        }
    }
    Ok(json!({"result": result, "_operation": {"token": token}}).to_string())
}

/// What is asked at the moment.
fn asks(task: &Task) -> &[longhaul_core::Ask] {
    match &task.state {
        State::InputRequired { asks, .. } => asks,
        State::Queued
        | State::Running { .. }
        | State::Sleeping { .. }
        | State::Completed { .. }
        | State::Failed { .. }
        | State::Cancelled => &[],
    }
}
