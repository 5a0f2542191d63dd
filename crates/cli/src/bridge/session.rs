//! What a handshake has agreed on, for the servers that want one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

use super::message::Message;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// The present session with the server, if there is one.
#[derive(Default)]
pub(super) struct Session(Mutex<State>);

#[derive(Default)]
struct State {
    /// The client's `initialize`, to begin again with when the server has forgotten the session.
    began_with: Option<Message>,
    /// How often one has begun.
    number: u64,
    headers: HeaderMap,
}

impl Session {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the server has answered to `initialize`.
    pub(super) fn begin(&self, request: &Message, id: Option<&HeaderValue>, answer: &Value) {
        let Some(revision) = answer["result"]["protocolVersion"].as_str() else { return };
        let mut headers = HeaderMap::new();
        headers.extend(HeaderValue::from_str(revision).ok().map(|revision| (VERSION, revision)));
        headers.extend(id.map(|id| (SESSION, id.clone())));
        let mut state = self.state();
        state.began_with = Some(request.clone());
        state.number += 1;
        state.headers = headers;
    }

    /// The headers of requests in it, and its number.
    pub(super) fn headers(&self) -> (HeaderMap, u64) {
        let state = self.state();
        (state.headers.clone(), state.number)
    }

    /// What it began with.
    pub(super) fn began_with(&self) -> Option<Message> {
        self.state().began_with.clone()
    }
}
