//! `tools/call` with `params.task`.

use http::Response;
use longhaul_core::{RequestedTerms, strict_json};
use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde_json::Value;

use super::wire;
use crate::call::arguments;
use crate::policy::Need;
use crate::protocol_version::Endpoint;
use crate::reply::{self, errors};
use crate::request::incoming::Incoming;
use crate::tool_calls::accept::{self, Brought};
use crate::{Body, TaskPolicy};

#[derive(Deserialize)]
struct TaskMetadata {
    ttl: Option<f64>,
}

/// Answers a call that asks for a task, or that should have asked for one. All others are plain calls.
pub(super) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    let name = call.members.text("name")?;
    // `null` does not ask for a task.
    let task: Option<Value> = match call.members.get("task") {
        Some(task) => strict_json::from_str(task.get()).ok()?,
        None => None,
    };
    let policy = endpoint.shared().policies.get(&name).filter(|policy| policy.may_be_seen_as_task());
    let outcome = match (task, policy) {
        (None, Some(ref policy)) if policy.need == Need::Required => {
            Err(wrong_support(format!("`{name}` runs only as a task; call it with `task`")))
        }
        (None, _) => return None,
        (Some(_), None) => endpoint
            .backend()
            .must_have(&name)
            .await
            .and_then(|()| Err(wrong_support(format!("`{name}` does not run as a task; call it without `task`")))),
        (Some(task), Some(policy)) => create(call, endpoint, &name, &policy, task).await,
    };
    Some(reply::outcome(&call.id, outcome))
}

async fn create(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    tool: &str,
    policy: &TaskPolicy,
    task: Value,
) -> Result<String, ErrorData> {
    let requested = requested(task)?;
    endpoint.backend().must_have(tool).await?;
    let arguments = arguments::read(call, endpoint, tool)?;
    let arguments = arguments::checked(endpoint, tool, arguments).await?;
    let engine = &endpoint.shared().engine;
    let new = accept::call_of(endpoint.shared(), call, (tool, policy), (arguments, Brought::default()), requested)?;
    let task = engine.accept(new).await.map_err(errors::of_accept)?.into_task();
    Ok(wire::render_created(&task, engine.ports().clock.now(), policy.immediate))
}

/// The requested terms. Fractions of a millisecond are cut off.
fn requested(task: Value) -> Result<RequestedTerms, ErrorData> {
    let bad = || ErrorData::invalid_params("`task` must be an object, and its `ttl` a number of milliseconds", None);
    let TaskMetadata { ttl } = strict_json::from_value(task).map_err(|_malformed| bad())?;
    let ttl_ms = match ttl {
        None => None,
        Some(ttl) if ttl >= 0.0 => Some(whole(ttl)),
        Some(_) => return Err(bad()),
    };
    Ok(RequestedTerms { ttl_ms, retention_ms: None })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative; what is too large becomes the largest value, and is limited by the policy"
)]
const fn whole(ms: f64) -> u64 {
    ms as u64
}

/// The error for clients that ignore `taskSupport`.
fn wrong_support(message: String) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None)
}
