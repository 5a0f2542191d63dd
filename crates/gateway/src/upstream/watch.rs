//! The messages that pass over one connection. They decide whether another call may use the connection.

#![expect(deprecated, reason = "servers of older revisions log and sample")]

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{
    ClientResult, CustomNotification, GetMeta, InputRequest, JsonRpcMessage, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, RequestId, ServerNotification, ServerRequest,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::{ErrorData, RoleClient};
use tokio::sync::{mpsc, oneshot};

use super::incoming::Open;

/// A message that a server sends while it works on a call.
pub(crate) enum Event {
    Progress(ProgressNotificationParam),
    Log(LoggingMessageNotificationParam),
    /// The user is done with a URL that the server has asked to open.
    Elicited(CustomNotification),
    /// A question to the caller. The server waits for the answer.
    Question {
        request: Box<InputRequest>,
        reply: oneshot::Sender<Result<ClientResult, ErrorData>>,
    },
}

/// The caller that a connection is used for.
pub(super) struct Listener {
    /// Its task, for the log.
    pub(super) task: Option<String>,
    pub(super) events: mpsc::Sender<Event>,
}

/// The state of one connection after the messages so far. Clones share their content.
#[derive(Clone, Default)]
pub(super) struct Watch(Arc<Mutex<Seen>>);

#[derive(Default)]
struct Seen {
    listener: Option<Listener>,
    /// The token of the latest request: progress with another one belongs to an earlier call.
    token: Option<ProgressToken>,
    /// Requests without an answer.
    open: Vec<Open>,
    /// Questions of the server without an answer.
    asked: Vec<RequestId>,
    /// The first thing that makes the connection unfit for another call.
    odd: Option<&'static str>,
    latest: Latest,
}

/// How much of the latest request has been written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Latest {
    #[default]
    Unwritten,
    Begun,
    /// Nothing, and nothing will be.
    Withheld,
}

impl Watch {
    pub(super) fn new(listener: Listener) -> Self {
        Self(Arc::new(Mutex::new(Seen { listener: Some(listener), ..Seen::default() })))
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a connection that was not established: another one is made for the same listener.
    pub(super) fn begin(&self) {
        let listener = self.lock().listener.take();
        *self.lock() = Seen { listener, ..Seen::default() };
    }

    /// Passes the messages of this connection to the listener of `other` from now on.
    pub(super) fn take_over(&self, other: &Self) {
        let listener = other.lock().listener.take();
        let mut seen = self.lock();
        (seen.listener, seen.token, seen.latest) = (listener, None, Latest::Unwritten);
    }

    /// Removes the listener.
    pub(super) fn leave(&self) {
        self.lock().listener = None;
    }

    /// Why no other call may use the connection, if so.
    pub(super) fn unfit(&self) -> Option<&'static str> {
        let seen = self.lock();
        let asked = (!seen.asked.is_empty()).then_some("a question is open");
        seen.odd.or(asked).or_else(|| (!seen.open.is_empty()).then_some("a request has no answer"))
    }

    /// Notes a fault of the server.
    pub(super) fn odd(&self, what: &'static str) {
        self.lock().odd.get_or_insert(what);
    }

    /// The requests that have no answer yet.
    pub(super) fn open(&self) -> Vec<Open> {
        self.lock().open.clone()
    }

    /// The channel for questions.
    pub(super) fn events(&self) -> Option<mpsc::Sender<Event>> {
        self.lock().listener.as_ref().map(|listener| listener.events.clone())
    }

    /// The channel for progress with this token.
    pub(super) fn events_of(&self, token: &ProgressToken) -> Option<mpsc::Sender<Event>> {
        let seen = self.lock();
        let listener = seen.listener.as_ref().filter(|_| seen.token.as_ref() == Some(token));
        listener.map(|listener| listener.events.clone())
    }

    /// The task of the call, for the log.
    pub(super) fn task(&self) -> Option<String> {
        self.lock().listener.as_ref().and_then(|listener| listener.task.clone())
    }

    /// Whether the latest request may be written, which is noted.
    pub(super) fn may_write(&self) -> bool {
        let mut seen = self.lock();
        let may = seen.latest != Latest::Withheld;
        if may {
            seen.latest = Latest::Begun;
        }
        may
    }

    /// Nothing of it could be written.
    pub(super) fn wrote_nothing(&self) {
        self.lock().latest = Latest::Unwritten;
    }

    /// Prevents the latest request from being written, unless it was written before.
    pub(super) fn withhold(&self) -> bool {
        let mut seen = self.lock();
        let withheld = seen.latest != Latest::Begun;
        if withheld {
            seen.latest = Latest::Withheld;
        }
        withheld
    }

    pub(super) fn sends(&self, message: &TxJsonRpcMessage<RoleClient>) {
        let mut seen = self.lock();
        match message {
            JsonRpcMessage::Request(request) => {
                let method = request.request.method().to_owned();
                seen.open.push(Open { id: request.id.clone(), method });
                seen.token = request.request.get_meta().get_progress_token();
            }
            JsonRpcMessage::Response(response) => seen.asked.retain(|id| *id != response.id),
            JsonRpcMessage::Error(error) => seen.asked.retain(|id| Some(id) != error.id.as_ref()),
            JsonRpcMessage::Notification(_) => {}
        }
    }

    pub(super) fn receives(&self, message: &RxJsonRpcMessage<RoleClient>) {
        match message {
            JsonRpcMessage::Request(request) => self.asks(&request.id, &request.request),
            JsonRpcMessage::Response(response) => self.answers(&response.id),
            JsonRpcMessage::Error(error) => match &error.id {
                Some(id) => self.answers(id),
                None => self.odd("an error without the id of a request came"),
            },
            JsonRpcMessage::Notification(notification) => {
                if let ServerNotification::ProgressNotification(progress) = &notification.notification {
                    self.progresses(&progress.params.progress_token);
                }
            }
        }
    }

    /// Notes a question. The gateway cannot tell whether a question was still open when the answer came, so a
    /// connection that has asked one is not used again. Roots are an exception, because servers ask for them when a
    /// connection begins.
    fn asks(&self, id: &RequestId, request: &ServerRequest) {
        let mut seen = self.lock();
        seen.asked.push(id.clone());
        if matches!(request, ServerRequest::ElicitRequest(_) | ServerRequest::CreateMessageRequest(_)) {
            seen.odd.get_or_insert("it asked something");
        }
    }

    fn progresses(&self, token: &ProgressToken) {
        let mut seen = self.lock();
        if seen.open.is_empty() || seen.token.as_ref() != Some(token) {
            seen.odd.get_or_insert("progress came of a call that has its answer");
        }
    }

    fn answers(&self, id: &RequestId) {
        let mut seen = self.lock();
        if !seen.asked.is_empty() {
            seen.odd.get_or_insert("it answered before its question was answered");
        }
        match seen.open.iter().position(|open| open.id == *id) {
            Some(place) => drop(seen.open.swap_remove(place)),
            None => drop(seen.odd.get_or_insert("an answer to no open request came")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent(watch: &Watch, message: serde_json::Value) {
        watch.sends(&serde_json::from_value(message).unwrap());
    }

    fn received(watch: &Watch, message: serde_json::Value) {
        watch.receives(&serde_json::from_value(message).unwrap());
    }

    fn called(watch: &Watch, id: u32) {
        let params = json!({"name": "a", "_meta": {"progressToken": id}});
        sent(watch, json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }

    fn answer(id: u32) -> serde_json::Value {
        json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
    }

    #[test]
    fn a_connection_is_fit_once_all_is_answered() {
        let watch = Watch::default();
        called(&watch, 1);
        assert_eq!(watch.unfit(), Some("a request has no answer"));
        received(&watch, answer(1));
        assert_eq!(watch.unfit(), None);
    }

    #[test]
    fn a_question_without_an_answer_makes_it_unfit() {
        let watch = Watch::default();
        received(&watch, json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
        assert_eq!(watch.unfit(), Some("a question is open"));
        sent(&watch, json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
        assert_eq!(watch.unfit(), None);
    }

    #[test]
    fn a_question_to_the_caller_makes_it_unfit_though_it_is_answered() {
        let watch = Watch::default();
        let params = json!({"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}});
        received(&watch, json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params}));
        sent(&watch, json!({"jsonrpc": "2.0", "id": 7, "result": {"action": "decline"}}));
        assert_eq!(watch.unfit(), Some("it asked something"));
    }

    #[test]
    fn answers_to_nothing_make_it_unfit_for_good() {
        for message in [answer(1), json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "what?"}})] {
            let watch = Watch::default();
            received(&watch, message);
            called(&watch, 2);
            received(&watch, answer(2));
            assert!(watch.unfit().is_some());
        }
    }

    #[test]
    fn progress_of_an_earlier_call_reaches_nobody() {
        let heard = |task: &str| Watch::new(Listener { task: Some(task.to_owned()), events: mpsc::channel(1).0 });
        let token = |id: u32| serde_json::from_value(json!(id)).unwrap();
        let watch = heard("one");
        called(&watch, 1);
        received(&watch, answer(1));
        assert_eq!(watch.unfit(), None);
        let late = json!({"progressToken": 1, "progress": 1});
        received(&watch, json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": late}));
        assert!(watch.unfit().is_some());
        watch.leave();
        assert!(watch.events_of(&token(1)).is_none());
        watch.take_over(&heard("two"));
        assert!(watch.events_of(&token(1)).is_none(), "before the next request");
        called(&watch, 2);
        assert!(watch.events_of(&token(1)).is_none() && watch.events_of(&token(2)).is_some());
        assert_eq!(watch.task().as_deref(), Some("two"));
    }

    #[test]
    fn a_request_that_was_withheld_is_never_written() {
        let watch = Watch::default();
        assert!(watch.may_write());
        assert!(!watch.withhold(), "it may have been read");
        watch.wrote_nothing();
        assert!(watch.withhold());
        assert!(!watch.may_write());
    }
}
