//! `tasks/get`, `tasks/update`, `tasks/cancel`, and Longhaul's own `dev.longhaul/tasks/inspect`, `…/resume` and
//! `…/list`: the parameters are read once, and the answer comes straight from the engine.

use std::collections::BTreeMap;

use http::{Response, StatusCode};
use longhaul_core::{TaskId, TaskKey, strict_json};
use longhaul_engine::Engine;
use rmcp::ErrorData;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{inspect, resume};
use crate::Body;
use crate::protocol_version::Endpoint;
use crate::reply::{self, errors};
use crate::request::incoming::Incoming;
use crate::state::Shared;
use crate::views::{filtered, task as view};

/// The result of `tasks/update` and `tasks/cancel`.
const ACKNOWLEDGED: &str = r#"{"resultType":"complete"}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Update,
    Cancel,
    Inspect,
    Resume,
}

/// A request that passed all checks.
enum Wanted {
    Get(String),
    Update(String, BTreeMap<String, String>),
    Cancel(String),
    Inspect(String, inspect::Params),
    Resume(String, resume::Params),
}

pub(super) async fn answer(method: Method, call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let wanted = match check(method, call) {
        Ok(wanted) => wanted,
        Err((status, error)) => return reply::error_with(status, Some(&call.id), &error),
    };
    let shared = endpoint.shared();
    let engine = &shared.engine;
    let outcome = match wanted {
        Wanted::Get(id) => get(shared, call, &id).await,
        Wanted::Update(id, answers) => update(engine, call, &id, &answers).await,
        Wanted::Cancel(id) => cancel(engine, call, &id).await,
        Wanted::Inspect(id, params) => inspect(shared, call, &id, &params).await,
        // Boxed: the future of each other request would be as large.
        Wanted::Resume(id, params) => Box::pin(resumed(call, endpoint, &id, params)).await,
    };
    reply::outcome(&call.id, outcome)
}

async fn get(shared: &Shared, call: &Incoming<'_>, id: &str) -> Result<String, ErrorData> {
    let task = shared.polls.poll(&key(call, id)?).await.map_err(|error| error.or(errors::of_poll))?;
    view::render(&shared.engine, &task).await
}

async fn inspect(
    shared: &Shared,
    call: &Incoming<'_>,
    id: &str,
    params: &inspect::Params,
) -> Result<String, ErrorData> {
    inspect::inspect(shared, &key(call, id)?, params).await
}

async fn resumed(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    id: &str,
    params: resume::Params,
) -> Result<String, ErrorData> {
    resume::resume(call, endpoint, &key(call, id)?, params).await
}

async fn update(
    engine: &Engine,
    call: &Incoming<'_>,
    id: &str,
    answers: &BTreeMap<String, String>,
) -> Result<String, ErrorData> {
    engine.answer(&key(call, id)?, answers).await.map_err(errors::of_answer)?;
    Ok(ACKNOWLEDGED.to_owned())
}

async fn cancel(engine: &Engine, call: &Incoming<'_>, id: &str) -> Result<String, ErrorData> {
    engine.cancel(&key(call, id)?).await.map_err(errors::of_poll)?;
    Ok(ACKNOWLEDGED.to_owned())
}

/// The key of the caller's task with this id. A text that is not a task id is answered like a task that does not exist.
fn key(call: &Incoming<'_>, task_id: &str) -> Result<TaskKey, ErrorData> {
    let id: TaskId = task_id.parse().map_err(|_no_task_id| errors::task_not_found())?;
    Ok(TaskKey::new(call.owner, id))
}

/// Fails with `-32602` if the parameters are malformed, and otherwise with `-32021` if the client did not declare the
/// Tasks extension.
fn check(method: Method, call: &Incoming<'_>) -> Result<Wanted, (StatusCode, ErrorData)> {
    let malformed = || {
        let error = ErrorData::invalid_params(format!("the params of {} are malformed", call.method), None);
        (StatusCode::OK, error)
    };
    let id = call.members.text("taskId").ok_or_else(malformed)?;
    let wanted = match method {
        Method::Get => Wanted::Get(id),
        Method::Cancel => Wanted::Cancel(id),
        Method::Update => Wanted::Update(id, answers(call).ok_or_else(malformed)?),
        Method::Inspect => Wanted::Inspect(id, call.params().ok_or_else(malformed)?),
        Method::Resume => Wanted::Resume(id, call.params().ok_or_else(malformed)?),
    };
    check_capability(call)?;
    Ok(wanted)
}

fn check_capability(call: &Incoming<'_>) -> Result<(), (StatusCode, ErrorData)> {
    let declared = call.supports_tasks();
    if declared { Ok(()) } else { Err((StatusCode::BAD_REQUEST, errors::tasks_not_declared())) }
}

/// The client's answers, each as its JSON text.
fn answers(call: &Incoming<'_>) -> Option<BTreeMap<String, String>> {
    let answers: BTreeMap<String, &RawValue> = strict_json::from_str(call.members.get("inputResponses")?.get()).ok()?;
    Some(answers.into_iter().map(|(key, answer)| (key, answer.get().to_owned())).collect())
}

pub(super) async fn list(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    match check_capability(call) {
        Ok(()) => reply::outcome(&call.id, page(call, endpoint.shared()).await),
        Err((status, error)) => reply::error_with(status, Some(&call.id), &error),
    }
}

async fn page(call: &Incoming<'_>, shared: &Shared) -> Result<String, ErrorData> {
    let mut page = filtered::page(call, shared).await?;
    page.insert("resultType".to_owned(), "complete".into());
    Ok(Value::from(page).to_string())
}
