//! The stream of a session (`GET`), on which the server reports changed lists, and changed resources to which the
//! session has subscribed. The handler serves the session as it serves a subscription of `2026-07-28`.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Response, StatusCode};
use longhaul_core::{OwnerId, strict_json};
use rmcp::ErrorData;
use rmcp::model::{
    ClientJsonRpcMessage, ErrorCode, InitializeRequestParams, ProtocolVersion, ServerJsonRpcMessage, ServerNotification,
};
use serde_json::json;

use crate::backend::{Backend, Conversation};
use crate::protocol_version::Endpoint;
use crate::reply::sse::{self, Frames, event};
use crate::reply::{self, errors};
use crate::request::incoming::{Client, Incoming};
use crate::request::typed;
use crate::state::Shared;
use crate::waiting::session_streams::{Attached, SessionKey};
use crate::{Body, call};

/// Whether sessions can be notified of changes: only one process that has their streams can do it.
pub(super) fn is_offered(endpoint: &Endpoint) -> bool {
    endpoint.shared().streams.are_here() && endpoint.backend().tells_of_changes(None)
}

/// Whether a session has a stream at all.
fn has_stream(endpoint: &Endpoint) -> bool {
    is_offered(endpoint) || (endpoint.shared().streams.are_here() && endpoint.backend().tells_of_lists())
}

fn key(client: &Client, owner: OwnerId) -> Option<SessionKey> {
    client.session().map(|session| (owner, session.nonce().to_owned()))
}

/// `resources/subscribe` and `resources/unsubscribe`.
pub(super) async fn change(call: &Incoming<'_>, endpoint: &Endpoint) -> Response<Body> {
    let shared = endpoint.shared();
    let (key, uri) = match read(call) {
        Ok(read) => read,
        Err(error) => return reply::error(&call.id, &error),
    };
    if call.method == "resources/unsubscribe" {
        shared.session_streams.unsubscribe(&key, &uri);
        return reply::result(&call.id, "{}");
    }
    if !endpoint.backend().tells_of_changes(Some(&uri)) {
        let error = ErrorData::resource_not_found(format!("nothing is told of changes of `{uri}`"), None);
        return reply::error(&call.id, &errors::for_older(error));
    }
    if let Some(refused) = refused_by_handler(call, endpoint).await {
        return refused;
    }
    let subscribed = shared.session_streams.subscribe(&key, &uri, &*shared.engine.ports().clock).await;
    reply::outcome(&call.id, subscribed.map(|()| "{}".to_owned()))
}

fn read(call: &Incoming<'_>) -> Result<(SessionKey, String), ErrorData> {
    let malformed = || ErrorData::invalid_params(format!("the params of {} are malformed", call.method), None);
    let uri = call.members.text("uri").ok_or_else(malformed)?;
    let no_session = || ErrorData::invalid_request("only a session can subscribe: send `initialize` first", None);
    Ok((key(call.client, call.owner).ok_or_else(no_session)?, uri))
}

/// The handler's refusal, if it has a `subscribe` of its own that refuses.
async fn refused_by_handler(call: &Incoming<'_>, endpoint: &Endpoint) -> Option<Response<Body>> {
    let answered = match typed::request(&call.method, &call.members) {
        Ok(request) => call::result(call, endpoint, request).await,
        Err(error) => Err(error),
    };
    let refusal = answered.err().filter(|error| error.code != ErrorCode::METHOD_NOT_FOUND)?;
    Some(reply::error(&call.id, &refusal))
}

/// The stream of a session; `None` if it has none here.
pub(super) async fn open(client: &Client, owner: OwnerId, endpoint: &Endpoint) -> Option<Response<Body>> {
    let key = key(client, owner).filter(|_| has_stream(endpoint))?;
    let shared = Arc::clone(endpoint.shared());
    let held = match shared.streams.open(owner, shared.settings.listen_ms_max).await {
        Ok(held) => held,
        Err(refused) => return Some(reply::error_with(StatusCode::TOO_MANY_REQUESTS, None, &refused)),
    };
    let clock = Arc::clone(&shared.engine.ports().clock);
    let mut attached = shared.session_streams.open(key, Arc::clone(&clock));
    // The head of the answer goes out with the first frame. What changed while there was no stream is not known.
    let mut frames = VecDeque::from([Bytes::from_static(sse::KEEP_ALIVE)]);
    frames.extend(attached.uris.borrow_and_update().iter().map(|uri| updated(uri)));
    let longest_ms = shared.settings.listen_ms_max;
    let ends = Box::pin(async move { clock.sleep_ms(longest_ms).await });
    let mut stream =
        Stream { backend: Arc::clone(endpoint.backend()), shared, attached, listening: None, frames, ends };
    stream.listen();
    Some(held.until_end_of(sse::stream(None, stream)))
}

fn updated(uri: &str) -> Bytes {
    let params = json!({"uri": uri});
    event(json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}).to_string())
}

fn list_changed(list: &str) -> Bytes {
    event(json!({"jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed")}).to_string())
}

struct Stream {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    attached: Attached,
    /// The handler's subscription.
    listening: Option<Conversation>,
    /// The frames that wait to be sent.
    frames: VecDeque<Bytes>,
    ends: BoxFuture<'static, ()>,
}

impl Stream {
    /// Has the handler tell of its lists, and of the resources that are subscribed to now.
    fn listen(&mut self) {
        let uris = self.attached.uris.borrow_and_update().clone();
        let lists = self.backend.tells_of_lists();
        self.listening = if uris.is_empty() && !lists {
            None
        } else {
            listening(&uris, lists).map(|(message, client)| self.backend.converse(message, client))
        };
    }
}

impl Frames for Stream {
    /// The next frame; `None` after the last one. The client opens the stream again.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Some(frame);
            }
            let heard = async {
                match &mut self.listening {
                    Some(listening) => listening.pipes.from_tool.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.attached.replaced.cancelled() => return None,
                () = self.shared.closing.cancelled() => return None,
                () = &mut self.ends => return None,
                changed = self.attached.uris.changed() => {
                    changed.ok()?;
                    self.listen();
                }
                message = heard => self.frames.extend(frame(message?)?),
                () = self.shared.engine.ports().clock.sleep_ms(self.shared.settings.keep_alive_ms.max(1)) => {
                    return Some(Bytes::from_static(sse::KEEP_ALIVE));
                }
            }
        }
    }
}

/// The client's form of a message; `None` after the handler's last one.
fn frame(message: ServerJsonRpcMessage) -> Option<Option<Bytes>> {
    match message {
        ServerJsonRpcMessage::Notification(message) => Some(match message.notification {
            ServerNotification::ResourceUpdatedNotification(changed) => Some(updated(&changed.params.uri)),
            ServerNotification::ToolListChangedNotification(_) => Some(list_changed("tools")),
            ServerNotification::PromptListChangedNotification(_) => Some(list_changed("prompts")),
            ServerNotification::ResourceListChangedNotification(_) => Some(list_changed("resources")),
            _ => None,
        }),
        // It asks nothing during a subscription.
        ServerJsonRpcMessage::Request(_) => Some(None),
        ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_) => None,
    }
}

/// The request that a client of `2026-07-28` would send, and that client.
fn listening(uris: &BTreeSet<String>, lists: bool) -> Option<(ClientJsonRpcMessage, InitializeRequestParams)> {
    let version = ProtocolVersion::V_2026_07_28;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "longhaul", "version": env!("CARGO_PKG_VERSION")},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let wanted = json!({
        "resourceSubscriptions": uris,
        "toolsListChanged": lists,
        "promptsListChanged": lists,
        "resourcesListChanged": lists,
    });
    let params = json!({"_meta": meta, "notifications": wanted});
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let mut client = InitializeRequestParams::default();
    client.protocol_version = version;
    // Every part of it is written above.
    Some((strict_json::from_value(message).ok()?, client))
}
