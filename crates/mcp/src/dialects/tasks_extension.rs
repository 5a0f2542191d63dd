//! The Tasks extension of MCP `2026-07-28`. `rmcp` knows it, and calls become tasks inside our handler; here is what
//! `rmcp` does not do.

use async_trait::async_trait;
use http::{Request, Response, StatusCode};
use rmcp::ErrorData;
use rmcp::model::ErrorCode;

use super::{Dialect, Generation};
use crate::Body;
use crate::body::json;
use crate::durable::RawResult;
use crate::front::{Front, headers};
use crate::incoming::Incoming;
use crate::message::TaskParams;
use crate::reply;

mod envelope;
mod listen;
mod stream;
pub(crate) mod wire;

/// The dialect.
pub(crate) struct TasksExtension;

/// Methods of older revisions that `2026-07-28` has no more. `rmcp` would serve some of them where a handler has them.
const REMOVED: [&str; 5] = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

#[async_trait]
impl Dialect for TasksExtension {
    async fn answer(&self, call: &Incoming<'_>, front: &Front) -> Option<Response<Body>> {
        match call.client.generation() {
            Generation::PerRequest => self.answer_modern(call, front).await,
            // The handshake belongs to older revisions, whatever its headers leave out.
            Generation::Handshake if call.method == "initialize" && envelope::claims_metadata(call.params) => {
                Some(no_such_method(call))
            }
            Generation::Handshake => None,
        }
    }
}

impl TasksExtension {
    async fn answer_modern(&self, call: &Incoming<'_>, front: &Front) -> Option<Response<Body>> {
        match &*call.method {
            removed if REMOVED.contains(&removed) => Some(no_such_method(call)),
            "subscriptions/listen" => {
                let ids = listen::task_ids(call.params)?;
                Some(listen::open(call, front.shared(), ids).await)
            }
            "tasks/get" => Some(self.poll(named(call), call, front).await),
            "tasks/update" | "tasks/cancel" => Some(front.pass_on(named(call), Some(&call.id)).await),
            _ => None,
        }
    }

    /// `tasks/get`: everything that `rmcp` checks is checked there, and the result goes out as it is stored.
    async fn poll(&self, mut request: Request<bytes::Bytes>, call: &Incoming<'_>, front: &Front) -> Response<Body> {
        let raw = RawResult::default();
        request.extensions_mut().insert(raw.clone());
        let answer = front.pass_on(request, Some(&call.id)).await;
        match raw.take() {
            None => answer,
            Some(result) => json(StatusCode::OK, reply::result_text(&call.id, &result)),
        }
    }
}

/// The request with the `Mcp-Name` that some clients leave out.
fn named(call: &Incoming<'_>) -> Request<bytes::Bytes> {
    let mut request = call.http.clone();
    headers::insert_name(request.headers_mut(), TaskParams::read(call.params));
    request
}

fn no_such_method(call: &Incoming<'_>) -> Response<Body> {
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, call.method.clone().into_owned(), None);
    reply::error_with(StatusCode::NOT_FOUND, Some(&call.id), &error)
}
