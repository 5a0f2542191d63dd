//! What an operation asks its client: requests on the stream that answers a look at the status.

use std::convert::Infallible;

use futures::stream::iter;
use http::Response;
use longhaul_core::ports::Recorded;
use longhaul_core::{Ask, Entry, EntryKind, Payload, Task, Timestamp};
use rmcp::ErrorData;
use serde_json::{Map, Value, json};

use super::lookup::asks;
use crate::Body;
use crate::dialect::Endpoint;
use crate::shared::asking::{self, Asked};
use crate::shared::incoming::Incoming;
use crate::shared::{derived, reply, sse};

/// A question is sent again to a client that has not answered it for so long: it may have got lost.
const AGAIN_MS: u64 = 60_000;

/// The answer that tells the status, after everything that is to be asked.
pub(super) async fn before(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    token: &str,
    task: &Task,
    status: &str,
) -> Response<Body> {
    let mut frames = Vec::new();
    for ask in asks(task) {
        if !is_due(endpoint, task, ask).await {
            continue;
        }
        match request(call, endpoint, token, task, ask) {
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
async fn is_due(endpoint: &Endpoint, task: &Task, ask: &Ask) -> bool {
    let ports = endpoint.shared().engine.ports();
    let span = ports.clock.now().as_ms() / AGAIN_MS;
    let at = Timestamp::from_ms(span * AGAIN_MS);
    let place = derived::place(&task.owner, at, &[b"operation ask", task.id.as_bytes(), ask.key.as_bytes()]);
    let entry = Entry { kind: EntryKind::Answer, name: "sent".to_owned(), value: Payload::Inline(String::new()) };
    match ports.store.record(&place, &entry).await {
        Ok(Recorded::First) => true,
        Ok(Recorded::Earlier(_)) => false,
        // Rather twice than never.
        Err(_) => true,
    }
}

fn request(call: &Incoming<'_>, endpoint: &Endpoint, token: &str, task: &Task, ask: &Ask) -> Result<String, ErrorData> {
    let id = Asked::Task(task.id, ask.key.clone()).id(endpoint.shared(), &call.owner)?;
    let mut request: Map<String, Value> = serde_json::from_str(&ask.request).unwrap_or_default();
    asking::relate(&mut request, task.id);
    if let Some(params) = request.get_mut("params").and_then(Value::as_object_mut) {
        params.insert("_operation".to_owned(), json!({"token": token}));
    }
    Ok(asking::message(&id, request))
}
