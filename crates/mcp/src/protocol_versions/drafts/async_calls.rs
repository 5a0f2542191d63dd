//! The draft of asynchronous tool calls ("Async Tool Calls"): calls that are joined, waited for and cancelled by token,
//! in addition to the synchronous ones of any revision with a handshake. The server declares them in the handshake.
//!
//! The token of a call is its task's id. A call that was not accepted has a token too, which is the signed reason.

use async_trait::async_trait;
use http::Response;
use longhaul_core::{RequestedTerms, strict_json};
use longhaul_engine::{AcceptError, PollError};
use rmcp::ErrorData;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::Body;
use crate::call::arguments;
use crate::protocol_version::{Endpoint, ProtocolVersion};
use crate::reply::{self, errors};
use crate::request::incoming::{Incoming, Notice};
use crate::revision::Generation;
use crate::signing::signer::Purpose;
use crate::state::Shared;
use crate::tool_calls::accept::{self, Brought};

mod get;
mod wire;

use wire::{Named, named, no_such_call, task};

/// The first revision whose tools have annotations.
const ANNOTATIONS_SINCE: &str = "2025-03-26";

pub(crate) struct AsyncCalls;

#[async_trait]
impl ProtocolVersion for AsyncCalls {
    async fn answer(&self, call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
        if call.client.generation() != Generation::Handshake {
            return None;
        }
        match &*call.method {
            "tools/async/call" => Some(reply::outcome(&call.id, begin(call, endpoint).await)),
            "tools/async/join" => Some(reply::outcome(&call.id, join(call, endpoint).await)),
            "tools/async/get" => Some(get::answer(call, endpoint).await),
            // The draft says that this is a notification; a client that sends a request gets an answer.
            "tools/async/cancel" => Some(reply::outcome(&call.id, cancel(call, endpoint).await)),
            "resources/read" => wire::read_resource(call, endpoint).await,
            _ => None,
        }
    }

    async fn on_notification(&self, notice: &Notice<'_>, endpoint: &Endpoint) {
        if notice.method != "tools/async/cancel" || notice.client.generation() != Generation::Handshake {
            return;
        }
        let params = notice.params.and_then(|params| strict_json::from_str::<Named>(params.get()).ok());
        let key = params.and_then(|Named { token, .. }| token.key(&notice.owner));
        if let Some(key) = key
            && let Err(error @ PollError::Unavailable(_)) = endpoint.shared().engine.cancel(&key).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "a call was not cancelled");
        }
    }

    fn patches(&self, call: &Incoming<'_>) -> bool {
        call.client.generation() == Generation::Handshake && matches!(&*call.method, "initialize" | "tools/list")
    }

    fn patch(&self, call: &Incoming<'_>, endpoint: &Endpoint, result: &mut Map<String, Value>) {
        if call.method == "initialize" {
            declare(endpoint.shared(), result);
        } else if call.client.revision() >= ANNOTATIONS_SINCE {
            let tools = result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten();
            tools.filter_map(Value::as_object_mut).for_each(|tool| prefer(endpoint.shared(), tool));
        }
    }
}

/// Declares such calls in the handshake, with how long a result can be kept.
fn declare(shared: &Shared, result: &mut Map<String, Value>) {
    let longest_ms = shared.policies.kept_ms_max();
    let capabilities = result.get_mut("capabilities").and_then(Value::as_object_mut);
    if let (Some(longest_ms), Some(capabilities)) = (longest_ms, capabilities) {
        capabilities.insert("async".to_owned(), json!({"maxKeepAliveTime": longest_ms / 1_000}));
    }
}

fn prefer(shared: &Shared, tool: &mut Map<String, Value>) {
    let is_ours = tool.get("name").and_then(Value::as_str).is_some_and(|name| shared.policies.get(name).is_some());
    let annotations = is_ours.then(|| tool.entry("annotations").or_insert_with(|| json!({})));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert("preferAsync".to_owned(), true.into());
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Called {
    name: String,
    keep_alive: Option<u64>,
}

/// `tools/async/call`.
async fn begin(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<String, ErrorData> {
    let malformed = "tools/async/call takes a `name`, `arguments` and `keepAlive`, a whole number of seconds";
    let Called { name, keep_alive } = call.params().ok_or_else(|| ErrorData::invalid_params(malformed, None))?;
    let arguments = arguments::read(call, endpoint, &name)?;
    endpoint.backend().must_have(&name).await?;
    let Some(policy) = endpoint.shared().policies.get(&name) else {
        return rejected(call, endpoint, &format!("the tool `{name}` runs synchronously; use tools/call"));
    };
    let arguments = arguments::checked(endpoint, &name, arguments).await?;
    let requested =
        RequestedTerms { ttl_ms: None, retention_ms: keep_alive.map(|seconds| seconds.saturating_mul(1_000)) };
    let shared = endpoint.shared();
    match shared
        .engine
        .accept(accept::call_of(shared, call, (&name, &policy), (arguments, Brought::default()), requested)?)
        .await
    {
        Ok(accepted) => Ok(wire::accepted(&accepted.into_task(), shared.engine.ports().clock.now())),
        // What may succeed if it is sent again is not an outcome of the call.
        Err(error @ (AcceptError::Unavailable(_) | AcceptError::TooManyNew { .. })) => Err(errors::of_accept(error)),
        Err(why) => rejected(call, endpoint, &why.to_string()),
    }
}

/// The answer to a call that was not accepted; its token gives the reason to any client that asks for the result.
fn rejected(call: &Incoming<'_>, endpoint: &Endpoint, why: &str) -> Result<String, ErrorData> {
    let token = endpoint.shared().signer.sign(Purpose::Rejection, &call.owner, &why)?;
    Ok(json!({"accepted": false, "token": token}).to_string())
}

/// `tools/async/join`: any client of the owner may join, and may extend the retention of the result.
async fn join(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<String, ErrorData> {
    let Named { token, keep_alive, .. } = named(call)?;
    let shared = endpoint.shared();
    if token.rejection(shared, &call.owner).is_some() {
        return Ok(json!({"accepted": false, "token": token}).to_string());
    }
    let mut task = task(call, endpoint, &token).await?;
    if let Some(seconds) = keep_alive {
        let longest_ms =
            shared.policies.get(&task.tool).map_or(task.terms.retention_ms, |policy| policy.terms.ttl_ms_max);
        let retention_ms = seconds.saturating_mul(1_000).min(longest_ms);
        task = shared.engine.extend_retention(&task.key(), retention_ms).await.map_err(errors::of_poll)?;
    }
    Ok(wire::accepted(&task, shared.engine.ports().clock.now()))
}

async fn cancel(call: &Incoming<'_>, endpoint: &Endpoint) -> Result<String, ErrorData> {
    let Named { token, .. } = named(call)?;
    let key = token.key(&call.owner).ok_or_else(no_such_call)?;
    match endpoint.shared().engine.cancel(&key).await {
        Ok(_) => Ok("{}".to_owned()),
        Err(PollError::NotFound) => Err(no_such_call()),
        Err(error @ PollError::Unavailable(_)) => Err(errors::of_poll(error)),
    }
}
