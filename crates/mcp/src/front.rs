//! What stands before `rmcp`: reads each request once, asks the dialects in their order, and passes on what is left.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use longhaul_core::OwnerId;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, RequestId};
use tracing::Span;

use crate::Body;
use crate::caller::RequestSpan;
use crate::dialects::{Generation, IN_ORDER, VERSION_HEADER, own_revision};
use crate::durable::Shared;
use crate::guard::{Panicked, catch};
use crate::incoming::{Client, Incoming, Notice};
use crate::message::Message;
use crate::server::Inner;
use crate::session::{self, Session};
use crate::{asking, reply};

pub(crate) mod headers;

/// What JSON-RPC clients expect of a session that is not there.
const SESSION_NOT_FOUND: ErrorCode = ErrorCode(-32_001);

/// The front of one server.
pub(crate) struct Front {
    inner: Arc<dyn Inner>,
    shared: Arc<Shared>,
}

impl Front {
    pub(crate) fn new(inner: Arc<dyn Inner>, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    /// The engine, the policies and the settings.
    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The handler itself, for those who speak with it past HTTP.
    pub(crate) const fn inner(&self) -> &Arc<dyn Inner> {
        &self.inner
    }

    /// Refuses a tool that is not there.
    ///
    /// # Errors
    /// `-32602`
    pub(crate) fn must_have(&self, tool: &str) -> Result<(), ErrorData> {
        self.inner.must_have(tool)
    }

    pub(crate) async fn respond(&self, request: Request<Bytes>, owner: OwnerId) -> Response<Body> {
        catch(self.route(request, owner)).await.unwrap_or_else(|Panicked(words)| {
            tracing::error!(panic = words, "answering a request panicked");
            let error = ErrorData::internal_error("the server could not answer", None);
            reply::error_with(StatusCode::INTERNAL_SERVER_ERROR, None, &error)
        })
    }

    async fn route(&self, mut request: Request<Bytes>, owner: OwnerId) -> Response<Body> {
        match *request.method() {
            Method::POST => {}
            Method::GET => return self.resume(&request, owner).await,
            _ => return reply::method_not_allowed(),
        }
        let body = request.body().clone();
        let message = match Message::read(&body) {
            Ok(message) => message,
            Err(error) => return reply::error_with(StatusCode::BAD_REQUEST, None, &error),
        };
        headers::widen_accept(request.headers_mut());
        request.extensions_mut().insert(owner);
        let client = match self.client(&request, &owner, &message) {
            Ok(client) => client,
            Err(error) => return reply::error_with(StatusCode::NOT_FOUND, id_of(&message), &error),
        };
        match message {
            Message::Request { id, method, params } => {
                let call = Incoming { id, method, params, owner, client: &client, http: &request };
                self.answer(&call).await
            }
            Message::Notification { method, params } => {
                let notice = Notice { method, params, owner, client: &client };
                for dialect in IN_ORDER {
                    dialect.hear(&notice, self).await;
                }
                self.pass_on(request, None).await
            }
            Message::Reply { id, outcome } => asking::take(&self.shared, owner, id, outcome).await,
        }
    }

    async fn answer(&self, call: &Incoming<'_>) -> Response<Body> {
        for dialect in IN_ORDER {
            if let Some(answer) = dialect.answer(call, self).await {
                return answer;
            }
        }
        let answer = self.pass_on(call.http.clone(), Some(&call.id)).await;
        self.decorated(call, answer).await
    }

    /// The stream that a client goes on reading after its connection was closed.
    async fn resume(&self, request: &Request<Bytes>, owner: OwnerId) -> Response<Body> {
        let last = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
        let Some(last) = last else { return reply::method_not_allowed() };
        for dialect in IN_ORDER {
            if let Some(answer) = dialect.resume(last, owner, self).await {
                return answer;
            }
        }
        let error = ErrorData::invalid_request("there is no such stream", None);
        reply::error_with(StatusCode::NOT_FOUND, None, &error)
    }

    /// Who sent the message, as far as the request and its session tell.
    ///
    /// # Errors
    /// A session that is not ours, or was changed.
    fn client(&self, request: &Request<Bytes>, owner: &OwnerId, message: &Message<'_>) -> Result<Client, ErrorData> {
        let begins = matches!(message, Message::Request { method, .. } if method == "initialize");
        if begins || Generation::of(request.headers()) == Generation::PerRequest {
            return Ok(Client::new(request, None));
        }
        let Some(sealed) = request.headers().get(session::HEADER) else { return Ok(Client::new(request, None)) };
        let session = sealed.to_str().ok().and_then(|sealed| Session::open(sealed, &self.shared.sealer, owner));
        match session {
            Some(session) => Ok(Client::new(request, Some(session))),
            None => Err(ErrorData::new(SESSION_NOT_FOUND, "session not found; send a new initialize", None)),
        }
    }

    /// Hands a request to `rmcp`.
    pub(crate) async fn pass_on(&self, mut request: Request<Bytes>, id: Option<&RequestId>) -> Response<Body> {
        serve_as_known(request.headers_mut());
        request.extensions_mut().insert(RequestSpan(Span::current()));
        let answer = self.inner.answer(request).await;
        if reply::speaks_json_rpc(&answer) { answer } else { reply::reworded(answer, id).await }
    }

    /// The answer of `rmcp`, with what the dialects change in it.
    pub(crate) async fn decorated(&self, call: &Incoming<'_>, answer: Response<Body>) -> Response<Body> {
        let decorators: Vec<_> = IN_ORDER.iter().filter(|dialect| dialect.decorates(call)).collect();
        if decorators.is_empty() || answer.status() != StatusCode::OK || !reply::is_json(&answer) {
            return answer;
        }
        let (mut parts, body) = answer.into_parts();
        let text = reply::read(body).await;
        let mut message: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let Some(result) = message.get_mut("result").and_then(|result| result.as_object_mut()) else {
            return Response::from_parts(parts, reply::body(text));
        };
        for dialect in decorators {
            dialect.decorate(call, self, result);
        }
        parts.headers.remove(http::header::CONTENT_LENGTH);
        Response::from_parts(parts, reply::body(message.to_string()))
    }
}

/// Names a revision that `rmcp` knows in place of a dialect's own.
fn serve_as_known(headers: &mut HeaderMap) {
    let named = headers.get(VERSION_HEADER).and_then(|value| value.to_str().ok());
    if let Some(own) = named.and_then(own_revision) {
        headers.insert(VERSION_HEADER, HeaderValue::from_static(own.served_as));
    }
}

const fn id_of<'a>(message: &'a Message<'_>) -> Option<&'a RequestId> {
    match message {
        Message::Request { id, .. } => Some(id),
        Message::Notification { .. } | Message::Reply { .. } => None,
    }
}
