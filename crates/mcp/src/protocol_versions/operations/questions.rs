//! What comes before the status of an operation, on the stream that answers a request for it: its progress, and its
//! questions.

use std::convert::Infallible;

use futures::stream::iter;
use http::Response;
use longhaul_core::ports::Left;
use longhaul_core::{Ask, MailboxId, Task};
use rmcp::ErrorData;
use serde_json::json;

use super::wire;
use crate::Body;
use crate::protocol_version::Endpoint;
use crate::shared::asking;
use crate::shared::incoming::Incoming;
use crate::shared::{reply, sse};
use crate::views::fields;

/// A question is sent again to a client that has not answered it for this long: it may have been lost.
const AGAIN_MS: u64 = 60_000;

/// The answer with the status, after the progress if the request has a token for that, and after all questions that are
/// to be asked.
pub(super) async fn before(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    token: &str,
    task: &Task,
    status: &str,
) -> Response<Body> {
    let mut frames = Vec::new();
    let token_for_progress = match call.meta() {
        Ok(meta) => meta.get_progress_token(),
        Err(error) => return reply::error(&call.id, &error),
    };
    if let (Some(token), Some(progress)) = (token_for_progress, wire::progress(task)) {
        frames.push(sse::event(fields::progress_notification(&token, progress, [])));
    }
    for ask in task.state.asks() {
        let request = match request(endpoint, token, task, ask) {
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
    sse::response(iter(frames.into_iter().map(|frame| Ok::<_, Infallible>(http_body::Frame::data(frame)))))
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
fn request(endpoint: &Endpoint, token: &str, task: &Task, ask: &Ask) -> Result<String, ErrorData> {
    let mut question = asking::question(endpoint.shared(), task, ask)?;
    question.params.insert("_operation".to_owned(), json!({"token": token}));
    Ok(question.message())
}
