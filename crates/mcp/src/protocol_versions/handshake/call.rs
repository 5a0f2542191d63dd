//! A plain call of a revision in which servers send requests to their clients while a call is open. The answer to the
//! call is JSON if nothing comes before it, and otherwise a stream that ends with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use http::{Response, StatusCode};
use longhaul_core::{OwnerId, TaskId, strict_json};
use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, InitializeRequestParams, RequestId, ServerJsonRpcMessage, ServerNotification};
use serde_json::Value;
use tokio_util::sync::DropGuard;
use tracing::Span;

use crate::Body;
use crate::backend::Conversation;
use crate::protocol_version::Endpoint;
use crate::revision::own_revision;
use crate::shared::asking::{self, Asked};
use crate::shared::caller::RequestSpan;
use crate::shared::cancelling::{self, Ending};
use crate::shared::incoming::Incoming;
use crate::shared::reply::{self, json};
use crate::shared::sse::{self, Frames};
use crate::shared::{Shared, errors};
use crate::views::revised;

pub(super) async fn answer(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let message = match strict_json::from_slice::<ClientJsonRpcMessage>(call.http.body()) {
        Ok(message) => message,
        Err(error) => {
            let error = ErrorData::invalid_params(format!("the call is malformed: {error}"), None);
            return reply::error(&call.id, &error);
        }
    };
    let mut open = match Open::new(message, call, endpoint) {
        Ok(open) => open,
        Err(error) => return reply::error(&call.id, &error),
    };
    // If the client leaves before, this is dropped with the connection, and the tool with it.
    match open.next_outgoing().await {
        None => reply::error(&call.id, &ErrorData::internal_error("the call ended without an answer", None)),
        Some(Outgoing::Last(text)) => json(StatusCode::OK, text),
        Some(Outgoing::Before(text)) => sse::stream(Some(sse::event(&text)), open),
        // A stream without messages: it is the only kind of body that need not have an answer in it.
        Some(Outgoing::Cancelled) => sse::response(futures::stream::empty()),
    }
}

/// What goes to the client.
enum Outgoing {
    Before(String),
    Last(String),
    /// Nothing: the client has cancelled the call, and gets no answer.
    Cancelled,
}

/// A call that has not been answered yet.
struct Open {
    /// Tells the tool when this is dropped, because the client has left: before the conversation ends, which looks as
    /// if the client could not be asked.
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
    conversation: Conversation,
    /// Answers that are awaited.
    awaited: FuturesUnordered<BoxFuture<'static, ClientJsonRpcMessage>>,
    /// Ends when the client cancels the call.
    cancelled: BoxFuture<'static, ()>,
    ending: Ending,
    over: bool,
}

impl Open {
    fn new(mut message: ClientJsonRpcMessage, call: &Incoming<'_>, endpoint: &Endpoint) -> Result<Self, ErrorData> {
        let shared = Arc::clone(endpoint.shared());
        let (mut parts, _body) = call.http.clone().into_parts();
        let ending = Ending::default();
        parts.extensions.insert(ending.clone());
        parts.extensions.insert(RequestSpan(Span::current()));
        message.insert_extension(parts);
        let ports = shared.engine.ports();
        let name = ports.ids.task_id(ports.clock.now());
        let conversation = endpoint.backend().converse(message, client(call)?);
        let mailbox = cancelling::mailbox(call.client, &call.id);
        Ok(Self {
            owner: call.owner,
            id: call.id.clone(),
            name,
            requests: 0,
            asked: BTreeMap::new(),
            revision: call.client.revision().to_owned(),
            conversation,
            awaited: FuturesUnordered::new(),
            cancelled: Box::pin(cancelling::of_request(Arc::clone(&shared), call.owner, mailbox)),
            _leaving: ending.left.clone().drop_guard(),
            ending,
            over: false,
            shared,
        })
    }

    /// What is sent next; `None` after the end.
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
        let text = |message: &ServerJsonRpcMessage| {
            text(&self.revision, message)
                .map_err(|error| errors::internal("a message of the tool could not be written", &error))
        };
        let unwritten = |error: ErrorData| Outgoing::Last(reply::error_text(Some(&self.id), &error));
        match message {
            // The tool has ended, so what it was doing is over.
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) if self.is_cancelled() => {
                Some(Outgoing::Cancelled)
            }
            ServerJsonRpcMessage::Notification(_) if self.is_cancelled() => None,
            ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => {
                Some(text(&message).map_or_else(unwritten, Outgoing::Last))
            }
            ServerJsonRpcMessage::Notification(mut notification) => {
                if let ServerNotification::CancelledNotification(cancelled) = &mut notification.notification {
                    let known = cancelled.params.request_id.as_ref().and_then(|id| self.asked.get(&id.to_string()));
                    cancelled.params.request_id = known.map(|id| RequestId::String(id.as_str().into()));
                }
                Some(text(&ServerJsonRpcMessage::Notification(notification)).map_or_else(unwritten, Outgoing::Before))
            }
            ServerJsonRpcMessage::Request(request) => {
                let id = request.id.clone();
                match self.ask(&ServerJsonRpcMessage::Request(request), id.clone()) {
                    Ok(text) => Some(Outgoing::Before(text)),
                    Err(error) => {
                        let error = asking::not_answered(error);
                        self.answered(ClientJsonRpcMessage::error(error, Some(id)));
                        None
                    }
                }
            }
        }
    }

    /// The request as the client gets it, with its own id; from now on its answer is awaited.
    fn ask(&mut self, request: &ServerJsonRpcMessage, id: RequestId) -> Result<String, ErrorData> {
        let (shared, owner, name, number) = (Arc::clone(&self.shared), self.owner, self.name, self.requests);
        let signed = Asked::Call(name, number).id(&shared, &owner)?;
        self.requests += 1;
        let mut request = serde_json::to_value(request)
            .map_err(|error| errors::internal("a request to the client could not be written", &error))?;
        asking::strip_progress_token(&mut request);
        let Value::Object(mut request) = request else {
            return Err(ErrorData::internal_error("a request to the client could not be written", None));
        };
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(params) = request.get_mut("params").and_then(Value::as_object_mut) {
            revised::request(&self.revision, &method, params)?;
        }
        let id_text = id.to_string();
        self.awaited.push(Box::pin(async move {
            match asking::answer_to_call(&shared, owner, name, number).await {
                Ok(answer) => ClientJsonRpcMessage::response(asking::client_result(answer), id),
                Err(error) => ClientJsonRpcMessage::error(error, Some(id)),
            }
        }));
        self.asked.insert(id_text, signed.clone());
        Ok(asking::message(&signed, request))
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
                Outgoing::Last(text) => {
                    self.over = true;
                    Some(sse::event(&text))
                }
                Outgoing::Cancelled => None,
            },
            () = clock.sleep_ms(quiet_ms.max(1)) => Some(Bytes::from_static(sse::KEEP_ALIVE)),
        }
    }
}

fn text(revision: &str, message: &ServerJsonRpcMessage) -> Result<String, serde_json::Error> {
    if !matches!(message, ServerJsonRpcMessage::Response(_)) || revised::has_all_results(revision) {
        return serde_json::to_string(message);
    }
    let mut message = serde_json::to_value(message)?;
    if let Some(result) = message.get_mut("result").and_then(Value::as_object_mut) {
        revised::result(revision, result);
    }
    Ok(message.to_string())
}

fn client(call: &Incoming<'_>) -> Result<InitializeRequestParams, ErrorData> {
    let mut client = InitializeRequestParams::default();
    let served_as = own_revision(call.client.revision()).map(|own| own.served_as);
    let revision = served_as.unwrap_or_else(|| call.client.revision());
    client.protocol_version = strict_json::from_value(revision.into())
        .map_err(|error| errors::internal("the revision of a session cannot be read", &error))?;
    client.capabilities = call.capabilities()?;
    Ok(client)
}
