//! `tools/call` that becomes a task at once.

use http::Response;
use longhaul_core::RequestedTerms;
use rmcp::model::{CallToolResult, ContentBlock};

use crate::Body;
use crate::call::accepted;
use crate::call::answered::written;
use crate::policy::{Start, TaskPolicy};
use crate::protocol_version::Endpoint;
use crate::reply;
use crate::request::envelope::Refusal;
use crate::request::incoming::Incoming;
use crate::views::task as view;

/// Answers the first request of a call whose client gets the task itself, without waiting for it. All others go to the
/// durable handler, which may ask their clients or report progress to them.
pub(super) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    let is_later_round = ["inputResponses", "requestState"].iter().any(|name| call.members.get(name).is_some());
    if is_later_round || !call.supports_tasks() {
        return None;
    }
    let tool = call.members.text("name")?;
    let policy = endpoint.shared().policies.get(&tool).filter(|policy| becomes_task_at_once(policy))?;
    if let Err(error) = endpoint.backend().must_have(&tool).await {
        return Some(reply::error(&call.id, &error));
    }
    let arguments = match accepted::arguments(call, endpoint, &tool) {
        Ok(arguments) => arguments,
        Err(Refusal { status, error }) => return Some(reply::error_with(status, Some(&call.id), &error)),
    };
    let arguments = match accepted::checked(endpoint, &tool, arguments).await {
        Ok(arguments) => arguments,
        // A result, so that the client's model reads it and can correct itself.
        Err(refused) => {
            let refused = CallToolResult::error(vec![ContentBlock::text(refused.message)]);
            return Some(reply::outcome(&call.id, written(call.client.revision(), refused.into())));
        }
    };
    let task = accepted::task(call, endpoint, (&tool, &policy), arguments, RequestedTerms::default()).await;
    Some(reply::outcome(
        &call.id,
        task.and_then(|task| view::render_created(&task, endpoint.shared().engine.ports().clock.now())),
    ))
}

fn becomes_task_at_once(policy: &TaskPolicy) -> bool {
    policy.start == Start::AtOnce
        && policy.may_be_seen_as_task()
        && policy.handle_after_ms() == 0
        && policy.questions_within_ms() == 0
}
