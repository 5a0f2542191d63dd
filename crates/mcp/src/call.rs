//! The way of a request to the author's handler and back, the same for every revision and method. A request is read
//! once, and passed on as a typed message. The answer is JSON if nothing comes before it, and otherwise a stream that
//! ends with it. In revisions before `2026-07-28` servers may send requests to their clients meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use http::request::Parts;
use http::{Request, Response};
use longhaul_core::verbatim::take_params;
use longhaul_core::{OwnerId, Principal, TaskId, strict_json};
use rmcp::ErrorData;
use rmcp::model::{
    CallToolRequest, ClientCapabilities, ClientJsonRpcMessage, ClientRequest, GetExtensions, InitializeRequestParams,
    JsonRpcMessage, JsonRpcRequest, ProtocolVersion, RequestId, ServerJsonRpcMessage, ServerNotification, ServerResult,
};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Span;

use crate::Body;
use crate::backend::Conversation;
use crate::protocol_version::Endpoint;
use crate::reply::sse::{self, Frames};
use crate::reply::{self, errors};
use crate::request::incoming::{Client, Incoming, Notice, OverStdio};
use crate::request::typed;
use crate::revision::own_revision;
use crate::signing::session::Scope;
use crate::state::Shared;
use crate::tool_calls::asking::{self, Awaited, NoAnswer};
use crate::tool_calls::caller::{CallTexts, RequestSpan};
use crate::tool_calls::cancelling::{self, Ending};
use crate::views::revised;

pub(crate) mod answered;
pub(crate) mod arguments;
mod tool;
mod waiting;

use answered::{answer_with, patched, status, text, written};
use tool::Next;

/// The answer to a request that no protocol version answers: that of the author's handler, unless the request is a call
/// that becomes a task.
pub(crate) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let request = match &*call.method {
        // On the heap: most requests have no such future on their callers' stacks.
        "tools/call" => match Box::pin(tool::next(call, endpoint)).await {
            Ok(Next::Handler(params, text)) => Ok((CallToolRequest::new(*params).into(), text)),
            Ok(Next::Result(result)) => return reply::result(&call.id, &result),
            Ok(Next::Waits(waiting)) => return Box::pin(waiting.answer()).await,
            Err(error) => Err(error),
        },
        method => typed::request(method, &call.members).map(|request| (request, None)),
    };
    let (request, arguments) = match request {
        Ok(request) => request,
        Err(error) => {
            let refused = Err(error);
            return answer_with(status(call.client.generation(), &refused), &call.id, refused);
        }
    };
    let mut open = Open::new((request, arguments), call, endpoint);
    // If the client leaves before, this is dropped with the connection, and the tool with it.
    let mut before = Vec::new();
    loop {
        match open.next_outgoing().await {
            None => {
                return reply::error(&call.id, &ErrorData::internal_error("the call ended without an answer", None));
            }
            Some(Outgoing::Last(outcome)) => {
                let outcome = (*outcome).and_then(|result| patched(call, endpoint, result));
                let status = status(call.client.generation(), &outcome);
                if before.is_empty() {
                    return answer_with(status, &call.id, outcome);
                }
                before.push(sse::event(text(&call.id, outcome)));
                return sse::response(futures::stream::iter(before));
            }
            // What changes in the result is known here only.
            Some(Outgoing::Before(text)) if endpoint.patches(call) => before.push(sse::event(&text)),
            Some(Outgoing::Before(text)) => return sse::stream(Some(sse::event(&text)), open),
            // A stream without messages: it is the only kind of body that need not have an answer in it.
            Some(Outgoing::Cancelled) => return sse::response(futures::stream::empty()),
        }
    }
}

/// The result that the handler gives to a request, before which it has nothing to say to the client.
pub(crate) async fn result(
    call: &Incoming<'_>,
    endpoint: &Endpoint,
    request: ClientRequest,
) -> Result<ServerResult, ErrorData> {
    let mut open = Open::new((request, None), call, endpoint);
    while let Some(outgoing) = open.next_outgoing().await {
        if let Outgoing::Last(outcome) = outgoing {
            return *outcome;
        }
    }
    Err(ErrorData::internal_error("the call ended without an answer", None))
}

/// Has the handler take a notification. Over HTTP the answer waits for the handler's hook, since nothing runs on Lambda
/// after it.
pub(crate) async fn notify(notice: &Notice<'_>, endpoint: &Endpoint) -> Response<Body> {
    let Some(mut open) = Open::notice(notice, endpoint) else { return reply::accepted() };
    if OverStdio::is_how_it_came(notice.http) {
        return sse::stream(None, open);
    }
    let clock = Arc::clone(&endpoint.shared().engine.ports().clock);
    let taken = async {
        while open.next_outgoing().await.is_some() {
            tracing::warn!(method = %notice.method, "the handler said something to a client that notifies the server \
                                                     over HTTP: there is no stream for that, so it was not sent");
        }
    };
    tokio::select! {
        biased;
        () = taken => {}
        () = clock.sleep_ms(HOOK_MS_MAX) => {
            tracing::warn!(method = %notice.method, "the handler took longer than {HOOK_MS_MAX} ms for a notification, \
                                                     and was stopped: do what takes long in a tool");
        }
    }
    reply::accepted()
}

/// How long the handler may take for a notification over HTTP.
const HOOK_MS_MAX: u64 = 10_000;

/// Says that the handler has taken a notification, when the last of these is dropped.
#[derive(Clone)]
struct Taken(#[expect(dead_code, reason = "it is there to be dropped")] Arc<DropGuard>);

/// A message to the client.
enum Outgoing {
    Before(String),
    Last(Box<Result<ServerResult, ErrorData>>),
    /// Nothing: the client has cancelled the call, and gets no answer.
    Cancelled,
}

/// A request that has not been answered yet.
struct Open {
    /// The drop of this tells the tool that the client has left. It comes before the end of the conversation, which
    /// looks as if the client could not be asked.
    _leaving: DropGuard,
    shared: Arc<Shared>,
    owner: OwnerId,
    id: RequestId,
    /// Names the call in the ids of its requests.
    name: TaskId,
    requests: u32,
    /// The ids under which the client knows them.
    asked: BTreeMap<String, String>,
    revision: String,
    /// Why no requests can be sent to the client, such as to one that reads JSON only.
    cannot_be_asked: Option<&'static str>,
    conversation: Conversation,
    /// Answers that are awaited.
    awaited: FuturesUnordered<BoxFuture<'static, ClientJsonRpcMessage>>,
    /// Ends when the client cancels the call.
    cancelled: BoxFuture<'static, ()>,
    /// Ends when the handler has taken a notification. A request ends with its answer.
    taken: BoxFuture<'static, ()>,
    ending: Ending,
    over: bool,
}

impl Open {
    fn new(
        (mut request, arguments): (ClientRequest, Option<&RawValue>),
        call: &Incoming<'_>,
        endpoint: &Endpoint,
    ) -> Self {
        let ending = Ending::default();
        let mut parts = around(call.http, call.caller, &call.scope, &ending);
        if call.method == "tools/call" {
            let arguments = arguments.map(RawValue::get);
            parts.extensions.insert(CallTexts::of(call.http.body(), arguments, call.meta.text()));
        }
        request.extensions_mut().insert(parts);
        request.extensions_mut().insert(call.whole_meta());
        let message = JsonRpcMessage::Request(JsonRpcRequest::new(call.id.clone(), request));
        let conversation = endpoint.backend().converse(message, client(call.client, call.capabilities()));
        let mailbox = cancelling::mailbox(call.client, &call.id);
        let shared = Arc::clone(endpoint.shared());
        let cancelled = Box::pin(cancelling::of_request(shared, call.owner, mailbox));
        let mut open = Self::of(conversation, endpoint, (call.owner, call.client), ending);
        (open.id, open.cancelled) = (call.id.clone(), cancelled);
        if !sse::is_accepted(call.http.headers()) {
            open.cannot_be_asked = Some("the client cannot be asked: it does not accept text/event-stream");
        }
        open
    }

    /// A notification on its way to the handler; `None` if it is not one that `rmcp` knows.
    fn notice(notice: &Notice<'_>, endpoint: &Endpoint) -> Option<Self> {
        let mut notification = typed::notification(&notice.method, notice.params)?;
        let (ending, taken) = (Ending::default(), CancellationToken::new());
        let parts = around(notice.http, notice.caller, &notice.scope, &ending);
        notification.extensions_mut().insert(parts);
        // The context of the handler's hook has it until the hook returns.
        notification.extensions_mut().insert(Taken(Arc::new(taken.clone().drop_guard())));
        let capabilities = notice.client.session().map(|session| session.capabilities.clone());
        let client = client(notice.client, capabilities.unwrap_or_default());
        let conversation = endpoint.backend().converse(JsonRpcMessage::notification(notification), client);
        let mut open = Self::of(conversation, endpoint, (notice.owner, notice.client), ending);
        open.taken = Box::pin(taken.cancelled_owned());
        if !OverStdio::is_how_it_came(notice.http) {
            open.cannot_be_asked = Some(
                "the client cannot be asked while it notifies the server over HTTP, which has no stream for that: ask \
                 in a call",
            );
        }
        Some(open)
    }

    fn of(
        conversation: Conversation,
        endpoint: &Endpoint,
        (owner, client): (OwnerId, &Client),
        ending: Ending,
    ) -> Self {
        let shared = Arc::clone(endpoint.shared());
        let ports = shared.engine.ports();
        Self {
            owner,
            id: RequestId::Number(0),
            name: ports.ids.task_id(ports.clock.now()),
            requests: 0,
            asked: BTreeMap::new(),
            revision: client.revision().to_owned(),
            cannot_be_asked: None,
            conversation,
            awaited: FuturesUnordered::new(),
            cancelled: Box::pin(std::future::pending()),
            taken: Box::pin(std::future::pending()),
            _leaving: ending.left.clone().drop_guard(),
            ending,
            over: false,
            shared,
        }
    }

    /// The next message; `None` after the end.
    async fn next_outgoing(&mut self) -> Option<Outgoing> {
        loop {
            tokio::select! {
                biased;
                message = self.conversation.pipes.from_tool.recv() => {
                    if let Some(outgoing) = self.outgoing(message?) {
                        return Some(outgoing);
                    }
                }
                Some(answer) = self.awaited.next() => self.answered(answer),
                () = &mut self.taken => return None,
                () = &mut self.cancelled, if !self.is_cancelled() => {
                    self.ending.by_client.cancel();
                    self.ending.left.cancel();
                }
            }
        }
    }

    fn is_cancelled(&self) -> bool {
        self.ending.by_client.is_cancelled()
    }

    fn outgoing(&mut self, message: ServerJsonRpcMessage) -> Option<Outgoing> {
        match message {
            // The tool has ended, so what it was doing is over.
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) if self.is_cancelled() => {
                Some(Outgoing::Cancelled)
            }
            ServerJsonRpcMessage::Notification(_) if self.is_cancelled() => None,
            ServerJsonRpcMessage::Response(response) => Some(Outgoing::Last(Box::new(Ok(response.result)))),
            ServerJsonRpcMessage::Error(error) => Some(Outgoing::Last(Box::new(Err(error.error)))),
            ServerJsonRpcMessage::Notification(mut notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &mut notification.notification {
                    let known = cancelled.params.request_id.as_ref().and_then(|id| self.asked.get(&id.to_string()));
                    cancelled.params.request_id = known.map(|id| RequestId::String(id.as_str().into()));
                }
                Some(match serde_json::to_string(&ServerJsonRpcMessage::Notification(notification)) {
                    Ok(text) => Outgoing::Before(text),
                    Err(error) => {
                        let error = errors::internal("a message of the tool could not be written", &error);
                        Outgoing::Last(Box::new(Err(error)))
                    }
                })
            }
            ServerJsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                match self.ask(&ServerJsonRpcMessage::Request(request), id.clone()) {
                    Ok(text) => Some(Outgoing::Before(text)),
                    Err(error) => {
                        self.answered(ClientJsonRpcMessage::error(error, Some(id)));
                        None
                    }
                }
            }
        }
    }

    /// The request as the client gets it, with its own id; from now on its answer is awaited.
    fn ask(&mut self, request: &ServerJsonRpcMessage, id: RequestId) -> Result<String, ErrorData> {
        if let Some(why) = self.cannot_be_asked {
            return Err(ErrorData::invalid_request(why, None));
        }
        let awaited = Awaited::new(Arc::clone(&self.shared), self.owner, self.name, self.requests);
        let signed = awaited.id()?;
        self.requests += 1;
        let mut request = serde_json::to_value(request)
            .map_err(|error| errors::internal("a request to the client could not be written", &error))?;
        asking::strip_additions(&mut request);
        let own_text = take_params(&mut request);
        let params = own_text.as_deref().and_then(|text| strict_json::from_str::<Value>(text).ok());
        if let (Some(request), Some(params)) = (request.as_object_mut(), params) {
            request.insert("params".to_owned(), params);
        }
        let Value::Object(mut request) = request else {
            return Err(ErrorData::internal_error("a request to the client could not be written", None));
        };
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(params) = request.get_mut("params").and_then(Value::as_object_mut) {
            revised::request(&self.revision, &method, params)?;
        }
        let id_text = id.to_string();
        self.awaited.push(Box::pin(async move {
            match awaited.answer().await {
                Ok(answer) => ClientJsonRpcMessage::response(asking::client_result(answer), id),
                Err(NoAnswer::Refused(error) | NoAnswer::Open(error)) => ClientJsonRpcMessage::error(error, Some(id)),
            }
        }));
        self.asked.insert(id_text, signed.clone());
        Ok(asking::message(&signed, request, own_text.as_deref()))
    }

    fn answered(&self, answer: ClientJsonRpcMessage) {
        // If the tool is gone, `next` is about to see that.
        drop(self.conversation.pipes.to_tool.send(answer));
    }
}

impl Frames for Open {
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let clock = Arc::clone(&self.shared.engine.ports().clock);
        let quiet_ms = self.shared.settings.keep_alive_ms;
        tokio::select! {
            biased;
            outgoing = self.next_outgoing() => match outgoing? {
                Outgoing::Before(text) => Some(sse::event(&text)),
                Outgoing::Last(outcome) => {
                    self.over = true;
                    let outcome = (*outcome).and_then(|result| written(&self.revision, result));
                    Some(sse::event(text(&self.id, outcome)))
                }
                Outgoing::Cancelled => None,
            },
            () = clock.sleep_ms(quiet_ms.max(1)) => Some(Bytes::from_static(sse::KEEP_ALIVE)),
        }
    }
}

/// The HTTP request of a message, with the parts of it that the layers above the handler read.
fn around(http: &Request<Bytes>, caller: &Arc<Principal>, scope: &Scope, ending: &Ending) -> Parts {
    let mut request = Request::new(());
    request.headers_mut().clone_from(http.headers());
    let (mut parts, ()) = request.into_parts();
    parts.uri = http.uri().clone();
    parts.method = http.method().clone();
    parts.extensions = http.extensions().clone();
    parts.extensions.insert(ending.clone());
    parts.extensions.insert(RequestSpan(Span::current()));
    parts.extensions.insert(scope.clone());
    parts.extensions.insert(Arc::clone(caller));
    parts
}

/// The client as the handler would have met it in a handshake.
fn client(known: &Client, capabilities: ClientCapabilities) -> InitializeRequestParams {
    let served_as = own_revision(known.revision()).map(|own| own.served_as);
    let revision = served_as.unwrap_or_else(|| known.revision());
    let version = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == revision);
    let mut client = InitializeRequestParams::default();
    client.protocol_version = version.cloned().unwrap_or(ProtocolVersion::V_2025_03_26);
    client.capabilities = capabilities;
    client
}
