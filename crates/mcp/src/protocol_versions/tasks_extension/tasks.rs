//! `tasks/get`, `tasks/update`, `tasks/cancel`, and Longhaul's own `dev.longhaul/tasks/inspect`, `…/resume` and
//! `…/list`: the parameters are read once, and the answer comes straight from the engine.

use std::collections::BTreeMap;

use http::{Response, StatusCode};
use longhaul_core::{OwnerId, TaskId, TaskKey, strict_json};
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
use crate::views::subject::Subject;
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

impl Wanted {
    fn id(&self) -> &str {
        match self {
            Self::Get(id) | Self::Update(id, _) | Self::Cancel(id) | Self::Inspect(id, _) | Self::Resume(id, _) => id,
        }
    }
}

pub(super) async fn answer(method: Method, call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let wanted = match check(method, call) {
        Ok(wanted) => wanted,
        Err((status, error)) => return reply::error_with(status, Some(&call.id), &error),
    };
    let shared = endpoint.shared();
    let owner = match Subject::of(call, shared).map(Subject::one) {
        Ok(owner) => owner,
        Err(refused) => return *refused,
    };
    // Only the owner answers its tasks' questions, and no task belongs to all owners.
    let owner = owner.filter(|owner| *owner == call.owner || !matches!(wanted, Wanted::Update(..)));
    let engine = &shared.engine;
    let outcome = match (key(owner, wanted.id()), wanted) {
        (Err(error), _) => Err(error),
        (Ok(key), Wanted::Get(_)) => get(shared, &key).await,
        (Ok(key), Wanted::Update(_, answers)) => update(engine, &key, &answers).await,
        (Ok(key), Wanted::Cancel(_)) => cancel(engine, &key).await,
        (Ok(key), Wanted::Inspect(_, params)) => inspect::inspect(shared, &key, &params).await,
        // Boxed: the future of each other request would be as large.
        (Ok(key), Wanted::Resume(_, params)) => Box::pin(resume::resume(call, endpoint, &key, params)).await,
    };
    reply::outcome(&call.id, outcome)
}

async fn get(shared: &Shared, key: &TaskKey) -> Result<String, ErrorData> {
    let task = shared.polls.poll(key).await.map_err(|error| error.or(errors::of_poll))?;
    view::render(&shared.engine, &task).await
}

async fn update(engine: &Engine, key: &TaskKey, answers: &BTreeMap<String, String>) -> Result<String, ErrorData> {
    engine.answer(key, answers).await.map_err(errors::of_answer)?;
    Ok(ACKNOWLEDGED.to_owned())
}

async fn cancel(engine: &Engine, key: &TaskKey) -> Result<String, ErrorData> {
    engine.cancel(key).await.map_err(errors::of_poll)?;
    Ok(ACKNOWLEDGED.to_owned())
}

/// The key of an owner's task with this id. A text that is not a task id is answered like a task that does not exist.
fn key(owner: Option<OwnerId>, task_id: &str) -> Result<TaskKey, ErrorData> {
    let id: TaskId = task_id.parse().map_err(|_no_task_id| errors::task_not_found())?;
    owner.map(|owner| TaskKey::new(owner, id)).ok_or_else(errors::task_not_found)
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
        Ok(()) => match Subject::of(call, endpoint.shared()) {
            Ok(subject) => reply::outcome(&call.id, page(call, subject, endpoint.shared()).await),
            Err(refused) => *refused,
        },
        Err((status, error)) => reply::error_with(status, Some(&call.id), &error),
    }
}

async fn page(call: &Incoming<'_>, subject: Subject, shared: &Shared) -> Result<String, ErrorData> {
    let mut page = filtered::page(call, subject, shared).await?;
    page.insert("resultType".to_owned(), "complete".into());
    Ok(Value::from(page).to_string())
}
