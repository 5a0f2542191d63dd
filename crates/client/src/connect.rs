//! How a connection begins: by `server/discover`, or by `initialize` with servers that do not know that.

use std::sync::{Mutex, PoisonError};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

use crate::error::Error;
use crate::per_request;
use crate::wire::{SESSION, Wire, in_time, result};

/// How a server is spoken to.
pub(crate) enum Lifecycle {
    /// Every request says everything itself.
    PerRequest,
    /// After a handshake.
    Handshake(Session),
}

/// What a handshake has agreed on.
pub(crate) struct Session {
    pub(crate) revision: String,
    /// Changes when the server has forgotten it.
    id: Mutex<Option<HeaderValue>>,
}

/// The newest revision with a handshake.
const NEWEST: &str = "2025-11-25";

pub(crate) fn client_info() -> Value {
    json!({"name": "longhaul", "version": env!("CARGO_PKG_VERSION")})
}

/// The questions that this client can pass on.
pub(crate) fn elicitation() -> Value {
    json!({"form": {}, "url": {}})
}

/// What `server/discover` says; `None` if the server wants a handshake.
pub(crate) async fn discover(wire: &Wire) -> Result<Option<Value>, Error> {
    const METHOD: &str = "server/discover";
    let params = per_request::with_meta(json!({}), Value::Null);
    match result(wire.request(METHOD, &params, per_request::headers(METHOD, None))).await {
        Ok(found) => {
            let versions = found["supportedVersions"].as_array();
            let knows = versions.is_some_and(|all| all.iter().any(|one| one == per_request::REVISION));
            Ok(Some(found).filter(|_| knows))
        }
        Err(Error::Refused(_) | Error::Unexpected(_) | Error::SessionGone) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Session {
    /// A session that was begun before.
    pub(crate) fn resume(id: &str) -> Option<Self> {
        let id = HeaderValue::from_str(id).ok()?;
        Some(Self { revision: NEWEST.to_owned(), id: Mutex::new(Some(id)) })
    }

    /// A new session, and what the server says about itself.
    pub(crate) async fn begin(wire: &Wire) -> Result<(Self, Value), Error> {
        let capabilities = json!({"elicitation": elicitation()});
        let params = json!({"protocolVersion": NEWEST, "capabilities": capabilities, "clientInfo": client_info()});
        let response = in_time(wire.request("initialize", &params, HeaderMap::new())).await?;
        let id = response.headers().get(SESSION).cloned();
        let info = result(async { Ok(response) }).await?;
        let Some(revision) = info["protocolVersion"].as_str() else {
            return Err(Error::Unexpected("`initialize` is answered without a `protocolVersion`".to_owned()));
        };
        let session = Self { revision: revision.to_owned(), id: Mutex::new(id) };
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        in_time(wire.post(&begun, session.headers())).await?;
        Ok((session, info))
    }

    /// The same session with the id of another one.
    pub(crate) fn replace(&self, other: Self) {
        let id = other.id.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// What identifies it; nothing if the server keeps none.
    pub(crate) fn id(&self) -> Option<HeaderValue> {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The headers of its requests.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Ok(revision) = HeaderValue::from_str(&self.revision) {
            headers.insert("mcp-protocol-version", revision);
        }
        headers.extend(self.id().map(|id| (HeaderName::from_static(SESSION), id)));
        headers
    }
}
