//! What an operation asks its client: requests on the stream that answers a look at the status.

use std::convert::Infallible;

use futures::stream::iter;
use http::Response;
use longhaul_core::ports::Left;
use longhaul_core::{Ask, MailboxId, Task};
use rmcp::ErrorData;
use serde_json::{Map, Value, json};

use super::asks;
use crate::asking::{self, Asked};
use crate::front::Front;
use crate::incoming::Incoming;
use crate::{Body, reply, sse};

/// A question is sent again to a client that has not answered it for so long: it may have got lost.
const AGAIN_MS: u64 = 60_000;

/// The answer that tells the status, after everything that is to be asked.
pub(super) async fn before(
    call: &Incoming<'_>,
    front: &Front,
    token: &str,
    task: &Task,
    status: &str,
) -> Response<Body> {
    let mut frames = Vec::new();
    for ask in asks(task) {
        if !is_due(front, task, ask).await {
            continue;
        }
        match request(call, front, token, task, ask) {
            Ok(request) => frames.push(sse::event(&request)),
            Err(error) => return reply::error(&call.id, &error),
        }
    }
    if frames.is_empty() {
        return reply::result(&call.id, status);
    }
    frames.push(sse::event(&reply::result_text(&call.id, status)));
    sse::response(iter(frames.into_iter().map(|frame| Ok::<_, Infallible>(http_body::Frame::data(frame)))))
}

/// Whether nobody has sent this question lately. Clients look at the status again and again, perhaps through several
/// instances.
async fn is_due(front: &Front, task: &Task, ask: &Ask) -> bool {
    let engine = &front.shared().engine;
    let ports = engine.ports();
    let mailbox = MailboxId::of(&[b"operation ask", task.id.as_bytes(), ask.key.as_bytes()]);
    // By this text an answer of the store that was lost is told from another instance's.
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

fn request(call: &Incoming<'_>, front: &Front, token: &str, task: &Task, ask: &Ask) -> Result<String, ErrorData> {
    let id = Asked::Task(task.id, ask.key.clone()).id(front.shared(), &call.owner)?;
    let mut request: Map<String, Value> = serde_json::from_str(&ask.request).unwrap_or_default();
    asking::relate(&mut request, task.id);
    if let Some(params) = request.get_mut("params").and_then(Value::as_object_mut) {
        params.insert("_operation".to_owned(), json!({"token": token}));
    }
    Ok(asking::message(&id, request))
}
