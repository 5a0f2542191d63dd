//! What stands before `rmcp`: reads each request once, answers what is not `rmcp`'s own, and passes on the rest.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use longhaul_core::OwnerId;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, RequestId};
use serde_json::value::RawValue;

use crate::Body;
use crate::body::json;
use crate::dialects::Dialect;
use crate::durable::{RawResult, Shared};
use crate::guard::{Panicked, catch};
use crate::server::Inner;
use message::{Message, TaskParams};

mod envelope;
mod headers;
mod listen;
mod message;
mod refusal;
mod stream;

/// The front of one server.
pub(crate) struct Front {
    inner: Arc<dyn Inner>,
    shared: Arc<Shared>,
}

/// Methods of older revisions that `2026-07-28` has no more. `rmcp` would serve some of them where a handler has them.
const REMOVED: [&str; 5] = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

impl Front {
    pub(crate) fn new(inner: Arc<dyn Inner>, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    pub(crate) async fn respond(&self, request: Request<Bytes>, owner: OwnerId) -> Response<Body> {
        catch(self.route(request, owner)).await.unwrap_or_else(|Panicked(words)| {
            tracing::error!(panic = words, "answering a request panicked");
            let error = ErrorData::internal_error("the server could not answer", None);
            refusal::answer(StatusCode::INTERNAL_SERVER_ERROR, None, &error)
        })
    }

    async fn route(&self, mut request: Request<Bytes>, owner: OwnerId) -> Response<Body> {
        if request.method() != Method::POST {
            return refusal::method_not_allowed();
        }
        let body = request.body().clone();
        let message = match Message::read(&body) {
            Ok(message) => message,
            Err(error) => return refusal::answer(StatusCode::BAD_REQUEST, None, &error),
        };
        headers::widen_accept(request.headers_mut());
        request.extensions_mut().insert(owner);
        let Message::Request { id, method, params } = message else {
            return self.pass_on(request, None).await;
        };
        match Dialect::of(request.headers()) {
            Dialect::TasksExtension => self.answer_modern(request, owner, id, &method, params).await,
            // The handshake belongs to older revisions, whatever its headers leave out.
            Dialect::Plain if method == "initialize" && envelope::claims_metadata(params) => {
                no_such_method(&id, &method)
            }
            Dialect::Plain => self.pass_on(request, Some(id)).await,
        }
    }

    async fn answer_modern(
        &self,
        mut request: Request<Bytes>,
        owner: OwnerId,
        id: RequestId,
        method: &str,
        params: Option<&RawValue>,
    ) -> Response<Body> {
        match method {
            removed if REMOVED.contains(&removed) => no_such_method(&id, removed),
            "subscriptions/listen" => match listen::task_ids(params) {
                Some(ids) => listen::open(&self.shared, request.headers(), owner, id, params, ids).await,
                None => self.pass_on(request, Some(id)).await,
            },
            "tasks/get" => {
                headers::insert_name(request.headers_mut(), TaskParams::read(params));
                self.poll(request, id).await
            }
            "tasks/update" | "tasks/cancel" => {
                headers::insert_name(request.headers_mut(), TaskParams::read(params));
                self.pass_on(request, Some(id)).await
            }
            _ => self.pass_on(request, Some(id)).await,
        }
    }

    /// `tasks/get`: everything that `rmcp` checks is checked there, and the result goes out as it is stored.
    async fn poll(&self, mut request: Request<Bytes>, id: RequestId) -> Response<Body> {
        let raw = RawResult::default();
        request.extensions_mut().insert(raw.clone());
        let answer = self.pass_on(request, Some(id.clone())).await;
        match raw.take() {
            None => answer,
            Some(result) => {
                let id = serde_json::to_string(&id).unwrap_or_default();
                json(StatusCode::OK, format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
            }
        }
    }

    async fn pass_on(&self, request: Request<Bytes>, id: Option<RequestId>) -> Response<Body> {
        let answer = self.inner.answer(request).await;
        if refusal::speaks_json_rpc(&answer) { answer } else { refusal::reworded(answer, id.as_ref()).await }
    }
}

fn no_such_method(id: &RequestId, method: &str) -> Response<Body> {
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None);
    refusal::answer(StatusCode::NOT_FOUND, Some(id), &error)
}
