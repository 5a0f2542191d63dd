//! The road of every request. It is read once, offered to the protocol versions in their order, and handed to the
//! author's handler if none of them answers. Only this module has the list of all protocol versions.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use http::{Method, Request, Response, StatusCode};
use longhaul_core::{OwnerId, Principal};
use longhaul_engine::PollError;
use rmcp::ErrorData;
use rmcp::model::{ErrorCode, RequestId};
use serde_json::value::RawValue;
use tracing::Instrument;

use crate::admission::memory;
use crate::backend::Backend;
use crate::protocol_version::{Endpoint, ProtocolVersion};
use crate::protocol_versions::drafts::{async_calls, operations};
use crate::protocol_versions::{core_tasks, handshake, job_tools, tasks_extension};
use crate::reply::{self, errors, sse};
use crate::request::envelope::{self, Refusal};
use crate::request::incoming::{Client, Incoming, Message, Notice};
use crate::request::params::Members;
use crate::revision::Generation;
use crate::signing::session::{self, Scope, Session};
use crate::signing::signer::KeyTexts;
use crate::state::Shared;
use crate::tool_calls::{asking, caller};
use crate::tools::handler::{Panicked, catch};
use crate::{Body, call};

mod access;
mod batch;

use access::Gate;
use batch::{Answering, Kind};

/// The protocol versions, in the order in which they are asked. The handshake takes all that is left of older
/// revisions, so it is the last.
const PROTOCOL_VERSIONS: &[&dyn ProtocolVersion] = &[
    &tasks_extension::TasksExtension,
    &operations::Operations,
    &async_calls::AsyncCalls,
    &job_tools::JobTools,
    &core_tasks::CoreTasks,
    &handshake::Handshake,
];

/// The code that JSON-RPC clients expect for a session that does not exist.
const SESSION_NOT_FOUND: ErrorCode = ErrorCode(-32_001);

#[derive(Clone)]
pub(crate) struct Router {
    endpoint: Arc<Endpoint>,
}

impl Router {
    pub(crate) fn new(backend: Arc<dyn Backend>, shared: Arc<Shared>) -> Self {
        Self { endpoint: Arc::new(Endpoint::new(backend, shared, PROTOCOL_VERSIONS)) }
    }

    pub(crate) async fn respond(&self, request: Request<Bytes>, caller: Principal) -> Response<Body> {
        let shared = self.endpoint.shared();
        let held = match shared.memory.admit(request.body(), &*shared.engine.ports().clock).await {
            Ok(held) => held,
            Err(refused) => return refused,
        };
        // Nothing that reads the request waits for them then.
        if let Some(unavailable) = self.without_keys(request.body()).await {
            return unavailable;
        }
        // The futures of all protocol versions are inside of each other: on the heap, they do not fill the callers'
        // stacks.
        held.until_end_of(Box::pin(self.respond_to(request, caller)).await)
    }

    async fn respond_to(&self, request: Request<Bytes>, caller: Principal) -> Response<Body> {
        catch(self.route(request, caller)).await.unwrap_or_else(panicked)
    }

    async fn route(&self, request: Request<Bytes>, caller: Principal) -> Response<Body> {
        match *request.method() {
            Method::POST if batch::is_batch(request.body()) => self.batch(request, caller).boxed().await,
            Method::POST => self.one(request, caller).await,
            Method::GET => self.stream(&request, &caller).await,
            _ => reply::method_not_allowed(),
        }
    }

    /// Several messages at once. Only one revision has them; the others refuse them like anything else that is not a
    /// message.
    async fn batch(&self, request: Request<Bytes>, caller: Principal) -> Response<Body> {
        match self.client(&request, &caller.owner, false) {
            Err(error) => return reply::error_with(StatusCode::NOT_FOUND, None, &error),
            Ok(client) if client.revision() != batch::REVISION => return self.one(request, caller).boxed().await,
            Ok(_) => {}
        }
        match batch::messages(request.body()) {
            Ok(messages) => {
                if let Some(denied) = self.denied_batch(&messages, &caller) {
                    return denied;
                }
                let parts = messages.into_iter().map(|message| self.part_of_batch(&request, message, caller.clone()));
                batch::answer(parts.collect()).await
            }
            Err(error) => reply::error_with(StatusCode::BAD_REQUEST, None, &error),
        }
    }

    /// The answer to a batch with a message for which its caller lacks scopes. The whole request is refused, because
    /// its status says what to do. A client that comes back with more scopes sends all of it again.
    fn denied_batch(&self, messages: &[Bytes], caller: &Principal) -> Option<Response<Body>> {
        let messages: Vec<_> = messages.iter().filter_map(|message| Message::read(message).ok()).collect();
        Some(self.gate().denies(caller, &messages)?.answer_to_batch(&messages))
    }

    fn gate(&self) -> Gate<'_> {
        Gate(&self.endpoint)
    }

    fn part_of_batch(&self, batch: &Request<Bytes>, message: Bytes, caller: Principal) -> Answering {
        let refused = |id: Option<&RequestId>, error: &ErrorData| {
            std::future::ready(reply::error_with(StatusCode::BAD_REQUEST, id, error)).boxed()
        };
        let mut request = batch.clone();
        *request.body_mut() = message.clone();
        match Message::read(&message) {
            Ok(Message::Request { id, method, .. }) if method == "initialize" => {
                let error = ErrorData::invalid_request("`initialize` must not be in a batch; send it alone", None);
                Answering { answer: refused(Some(&id), &error), kind: Kind::Request }
            }
            Ok(message) => {
                let kind = if message.id().is_some() { Kind::Request } else { Kind::Other };
                let router = self.clone();
                let answer = async move { catch(router.one(request, caller)).await.unwrap_or_else(panicked) };
                // It may become part of a stream, which is polled outside of the request's span.
                Answering { answer: answer.in_current_span().boxed(), kind }
            }
            Err(error) => Answering { answer: refused(None, &error), kind: Kind::Other },
        }
    }

    async fn one(&self, request: Request<Bytes>, caller: Principal) -> Response<Body> {
        let body = request.body().clone();
        let mut message = match Message::read(&body) {
            Ok(message) => message,
            Err(error) => return reply::error_with(StatusCode::BAD_REQUEST, None, &error),
        };
        message.leave_out_empty_params();
        let id = message.id().cloned();
        let refused = |status, error: &ErrorData| reply::error_with(status, id.as_ref(), error);
        if let Err(error) = message.check_objects() {
            return refused(StatusCode::BAD_REQUEST, &error);
        }
        if let Err(Refusal { status, error }) = envelope::check_http(&request) {
            return refused(status, &error);
        }
        if let Some(denied) = self.gate().denies(&caller, [&message]) {
            return denied.answer(id.as_ref());
        }
        if let Err(error) = caller::key_of_header(request.headers()) {
            return refused(StatusCode::BAD_REQUEST, &error);
        }
        let begins = matches!(&message, Message::Request { method, .. } if method == "initialize");
        let client = match self.client(&request, &caller.owner, begins) {
            Ok(client) => client,
            Err(error) => return refused(StatusCode::NOT_FOUND, &error),
        };
        let callers = self.endpoint.shared().settings.anonymous_callers;
        let sender = Sender {
            scope: Scope::of(callers, &caller.owner, client.generation(), client.session()),
            caller: Arc::new(caller),
            client,
            http: request,
        };
        match message {
            Message::Request { id, method, params } => self.request(id, method, params, &sender).await,
            Message::Notification { method, params } => self.notification(method, params, sender).await,
            Message::Reply { id, outcome } => {
                asking::take(self.endpoint.shared(), sender.caller.owner, id, outcome).await
            }
        }
    }

    async fn request(
        &self,
        id: RequestId,
        method: Cow<'_, str>,
        params: Option<&RawValue>,
        sender: &Sender,
    ) -> Response<Body> {
        let Sender { caller, scope, client, http } = sender;
        let members = match Members::read(params) {
            Ok(members) => members,
            Err(error) => return reply::error_with(StatusCode::BAD_REQUEST, Some(&id), &error),
        };
        let meta = members.meta();
        let revisions = self.endpoint.backend().revisions();
        if let Err(Refusal { status, error }) = envelope::check(http, &method, &members, &meta, &revisions) {
            return reply::error_with(status, Some(&id), &error);
        }
        let tidied = match members.tidied(&method, client.revision()) {
            Ok(tidied) => tidied,
            Err(error) => return reply::error(&id, &error),
        };
        let (params, members) = match tidied.as_deref() {
            None => (params, members),
            Some(tidied) => match Members::read(Some(tidied)) {
                Ok(members) => (Some(tidied), members),
                Err(error) => return reply::error(&id, &error),
            },
        };
        let (owner, scope) = (caller.owner, scope.clone());
        self.answer(&Incoming { id, method, params, members, meta, caller, owner, scope, client, http }).await
    }

    async fn notification(&self, method: Cow<'_, str>, params: Option<&RawValue>, sender: Sender) -> Response<Body> {
        let Sender { caller, scope, client, http } = sender;
        if let Err(Refusal { status, error }) = envelope::check_notification(http.headers(), &method) {
            return reply::error_with(status, None, &error);
        }
        let (owner, caller, client, http) = (caller.owner, &caller, &client, &http);
        let notice = Notice { method, params, caller, owner, scope, client, http };
        for protocol_version in PROTOCOL_VERSIONS {
            protocol_version.on_notification(&notice, &self.endpoint).await;
        }
        call::notify(&notice, &self.endpoint).await
    }

    /// Answers a request, if its owner may have one more of its kind for now. A client that accepts JSON only gets what
    /// a stream would have ended with.
    async fn answer(&self, call: &Incoming<'_>) -> Response<Body> {
        let accepts_streams = sse::is_accepted(call.http.headers());
        if call.method == "subscriptions/listen" && !accepts_streams {
            return not_acceptable(call, "a subscription is a stream");
        }
        let answer = if call.method == "subscriptions/listen" {
            let shared = self.endpoint.shared();
            match shared.streams.open(call.owner, shared.settings.listen_ms_max).await {
                Ok(held) => held.until_end_of(self.dispatch(call).await),
                Err(refused) => reply::error(&call.id, &refused),
            }
        } else {
            self.dispatch(call).await
        };
        if !accepts_streams && sse::is_stream(&answer) {
            return match sse::last_message(answer.into_body()).await {
                Some(text) => reply::json(StatusCode::OK, text),
                None => not_acceptable(call, "the answer did not come in time to be sent without a stream"),
            };
        }
        reply::with_retry_after(answer, call.client.generation())
    }

    async fn dispatch(&self, call: &Incoming<'_>) -> Response<Body> {
        for protocol_version in PROTOCOL_VERSIONS {
            if let Some(answer) = protocol_version.answer(call, &self.endpoint).await {
                return answer;
            }
        }
        call::answer(call, &self.endpoint).await
    }

    /// The stream that a client resumes after its connection was closed, or one on which it only listens.
    async fn stream(&self, request: &Request<Bytes>, caller: &Principal) -> Response<Body> {
        if let Err(Refusal { status, error }) = envelope::check_single(request.headers()) {
            return reply::error_with(status, None, &error);
        }
        let last = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
        if last.is_none() && !request.headers().contains_key(session::HEADER) {
            return reply::method_not_allowed();
        }
        if let Some(denied) = self.gate().denies_reading(caller) {
            return denied.answer(None);
        }
        let Some(last) = last else { return self.attend(request, caller).await };
        for protocol_version in PROTOCOL_VERSIONS {
            if let Some(answer) = protocol_version.resume(last, caller.owner, &self.endpoint).await {
                return reply::with_retry_after(answer, Generation::Handshake);
            }
        }
        let error = ErrorData::invalid_request("there is no such stream", None);
        reply::error_with(StatusCode::NOT_FOUND, None, &error)
    }

    async fn attend(&self, request: &Request<Bytes>, caller: &Principal) -> Response<Body> {
        let client = match self.client(request, &caller.owner, false) {
            Ok(client) => client,
            Err(error) => return reply::error_with(StatusCode::NOT_FOUND, None, &error),
        };
        for protocol_version in PROTOCOL_VERSIONS {
            if let Some(answer) = protocol_version.attend(&client, caller.owner, &self.endpoint).await {
                return answer;
            }
        }
        reply::method_not_allowed()
    }

    /// The answer if the keys that verify what clients send cannot be read. Sessions would seem not to exist.
    async fn without_keys(&self, body: &[u8]) -> Option<Response<Body>> {
        let error = self.endpoint.shared().signer.ready(&KeyTexts::new()).await.err()?;
        let status = errors::status_of(&error);
        let error = errors::of_poll(PollError::Unavailable(error));
        Some(memory::refuse(status, &error, body))
    }

    /// The client of the message, from the request and its session. A message that begins a session has none. Fails if
    /// the session was not signed by this server, was changed, or has expired.
    fn client(&self, request: &Request<Bytes>, owner: &OwnerId, begins: bool) -> Result<Client, ErrorData> {
        if begins || Generation::of(request.headers()) == Generation::PerRequest {
            return Ok(Client::new(request, None));
        }
        let Some(signed) = request.headers().get(session::HEADER) else { return Ok(Client::new(request, None)) };
        let signer = &self.endpoint.shared().signer;
        let session = signed.to_str().ok().and_then(|signed| Session::verify(signed, signer, owner));
        match session {
            Some(session) => Ok(Client::new(request, Some(session))),
            None => Err(ErrorData::new(SESSION_NOT_FOUND, "session not found; send a new initialize", None)),
        }
    }
}

/// The sender of a request, and the whole request.
struct Sender {
    caller: Arc<Principal>,
    scope: Scope,
    client: Client,
    http: Request<Bytes>,
}

fn not_acceptable(call: &Incoming<'_>, why: &str) -> Response<Body> {
    let error = ErrorData::invalid_request(format!("{why}: accept text/event-stream too"), None);
    reply::error_with(StatusCode::NOT_ACCEPTABLE, Some(&call.id), &error)
}

fn panicked(Panicked(words): Panicked) -> Response<Body> {
    tracing::error!(panic = words, "answering a request panicked");
    let error = ErrorData::internal_error("the server could not answer", None);
    reply::error_with(StatusCode::INTERNAL_SERVER_ERROR, None, &error)
}
