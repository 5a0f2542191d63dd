//! `tools/call` that starts an operation.

use http::Response;
use longhaul_core::{IdSource, RequestedTerms, Task, TaskId, TaskKey};
use longhaul_engine::{AcceptError, Accepted, Call, Idempotency};
use rmcp::ErrorData;
use rmcp::model::JsonObject;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::cancel;
use super::wire::{self, find_by_id, key_of_token};
use crate::call::arguments;
use crate::protocol_version::Endpoint;
use crate::reply::{self, errors};
use crate::request::incoming::Incoming;
use crate::signing::derived;
use crate::tool_calls::accept::{self, Arguments, Brought};
use crate::{Body, TaskPolicy};

const TOKEN_BYTES_MAX: usize = 256;

#[derive(Deserialize)]
struct Params {
    name: Option<String>,
    arguments: Option<JsonObject>,
    operation: Option<Wanted>,
    /// The proposal's own example has name and arguments in here.
    request: Option<Box<Self>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    token: Option<String>,
    #[serde(default, deserialize_with = "given")]
    keep_alive: Option<Value>,
}

/// `null` has a meaning here.
fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// Starts an operation; `None` if the tool is synchronous.
pub(super) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    let Some(Params { name, arguments, operation, request }) = call.params() else { return unreadable(call, endpoint) };
    let inner = request.and_then(|inner| Some((inner.name?, inner.arguments)));
    let (name, arguments) = name.map(|name| (name, arguments)).or(inner)?;
    let policy = endpoint.shared().policies.get(&name)?;
    let started = start(call, endpoint, (&name, &policy), arguments, operation.unwrap_or_default()).await;
    Some(reply::outcome(&call.id, started))
}

/// A call of an asynchronous tool that cannot be read: it must not run as a synchronous one.
fn unreadable(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    let name = call.members.text("name")?;
    endpoint.shared().policies.get(&name)?;
    let message =
        "Failed to start operation: `arguments` and `operation` must be objects, and `operation.token` a string";
    Some(reply::error(&call.id, &ErrorData::invalid_params(message, None)))
}

async fn start(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    (tool, policy): (&str, &TaskPolicy),
    arguments: Option<JsonObject>,
    wanted: Wanted,
) -> Result<String, ErrorData> {
    endpoint.backend().must_have(tool).await?;
    let arguments = arguments::checked(endpoint, tool, Arguments { given: None, read: arguments }).await?;
    let requested =
        RequestedTerms { ttl_ms: None, retention_ms: wanted.keep_alive.as_ref().map(retention_ms).transpose()? };
    let (shared, ports) = (endpoint.shared(), endpoint.shared().engine.ports());
    let key = match &wanted.token {
        Some(token) => unused_key(call, endpoint, token).await?,
        None => TaskKey::new(call.owner, ports.ids.task_id(ports.clock.now())),
    };
    let mut new = accept::call_of(shared, call, (tool, policy), (arguments, Brought::default()), requested)?;
    if let Some(token) = &wanted.token {
        new.idempotency = call.scope.bind(Some(idempotency(new.idempotency, token, &*ports.ids)))?;
    }
    let task = accept_as(endpoint, key.id, new).await?;
    let token = wanted.token.unwrap_or_else(|| task.id.to_string());
    cancel::note(call, endpoint, task.id).await;
    Ok(wire::accepted(&token, &task, policy.immediate, ports.clock.now()).to_string())
}

async fn accept_as(endpoint: &Endpoint, id: TaskId, new: Call) -> Result<Task, ErrorData> {
    match endpoint.shared().engine.accept_as(id, new).await {
        Ok(Accepted::New(task) | Accepted::Existing(task)) => Ok(task),
        Err(AcceptError::KeyReused) => Err(token_used()),
        Err(error) => Err(errors::of_accept(error)),
    }
}

/// Seconds to keep the result; `null` is "unlimited", which is as long as the server allows.
fn retention_ms(keep_alive: &Value) -> Result<u64, ErrorData> {
    if keep_alive.is_null() {
        return Ok(u64::MAX);
    }
    let seconds = keep_alive.as_f64().filter(|seconds| *seconds >= 0.0);
    let seconds = seconds.and_then(|seconds| std::time::Duration::try_from_secs_f64(seconds).ok());
    let seconds = seconds.ok_or_else(|| {
        ErrorData::invalid_params("`operation.keepAlive` must be a number of seconds, or null for no limit", None)
    })?;
    Ok(u64::try_from(seconds.as_millis()).unwrap_or(u64::MAX))
}

/// The key that belongs to a token of the client. No task that still exists may have it.
async fn unused_key(call: &Incoming<'_>, endpoint: &Endpoint, token: &str) -> Result<TaskKey, ErrorData> {
    if token.is_empty() || token.len() > TOKEN_BYTES_MAX {
        let message = format!("`operation.token` must have 1 to {TOKEN_BYTES_MAX} bytes");
        return Err(ErrorData::invalid_params(message, None));
    }
    let key = key_of_token(endpoint.shared(), &call.owner, &call.scope, token)?;
    // A token that is the id of another task would name two tasks.
    if find_by_id(endpoint.shared(), &call.owner, token).await.is_ok() {
        return Err(token_used());
    }
    Ok(key)
}

fn token_used() -> ErrorData {
    ErrorData::invalid_params("Failed to start operation: the token was already used", None)
}

/// The value that distinguishes two calls with one token. A token is valid for one call. Without the caller's own
/// idempotency key every call is a new one, and a client whose answer was lost asks for the status of its token.
fn idempotency(own: Option<Idempotency>, token: &str, ids: &dyn IdSource) -> Idempotency {
    let mut random = [0; 32];
    ids.fill(&mut random);
    let fingerprint = own.map_or(random, |own| derived::hash(&[own.key.as_bytes(), &own.fingerprint]));
    let token = longhaul_core::OwnerId::from_bytes(derived::hash(&[b"operation", token.as_bytes()]));
    Idempotency { key: format!("operation:{token}"), fingerprint }
}
