//! How a connection begins, by `server/discover`, or by `initialize` with servers that do not know that; and what
//! requests have then.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use crate::answer::{in_time, result};
use crate::error::Error;
use crate::tool::encoded;
use crate::wire::{Raw, SESSION};

/// How a server is spoken to.
pub(crate) enum Lifecycle {
    /// Every request says everything itself.
    PerRequest,
    /// After a handshake.
    Handshake(Session),
}

/// The result of a handshake.
pub(crate) struct Session {
    pub(crate) revision: Cow<'static, str>,
    /// Changes when the server has forgotten it.
    id: Mutex<Option<HeaderValue>>,
    /// Whether it has to outlive this client: it was begun by another one, or a task may be shown to it only.
    is_kept: AtomicBool,
}

/// The newest revision with a handshake.
const NEWEST: &str = "2025-11-25";

/// The revision in which every request says everything itself.
pub(crate) const REVISION: &str = "2026-07-28";

/// The Tasks extension.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A client's description of itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its capabilities, as `initialize` declares them.
    pub capabilities: Map<String, Value>,
}

impl Default for Identity {
    /// The command, which can pass on questions.
    fn default() -> Self {
        Self {
            name: "longhaul".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Map::from_iter([("elicitation".to_owned(), json!({"form": {}, "url": {}}))]),
        }
    }
}

impl Identity {
    fn info(&self) -> Value {
        json!({"name": self.name, "version": self.version})
    }

    /// Its capabilities, including tasks.
    fn with_tasks(&self) -> Value {
        let mut capabilities = self.capabilities.clone();
        let extensions = capabilities.entry("extensions").or_insert_with(|| json!({}));
        extensions.as_object_mut().map(|extensions| extensions.insert(TASKS.to_owned(), json!({})));
        capabilities.into()
    }
}

/// The answer to `server/discover`; `None` if the server wants a handshake.
pub(crate) async fn discover(wire: &Raw, identity: &Identity) -> Result<Option<Value>, Error> {
    const METHOD: &str = "server/discover";
    let params = with_meta(json!({}), Value::Null, identity);
    match result(wire.request(METHOD, &params, headers(METHOD, None))).await {
        Ok(found) => {
            let versions = found["supportedVersions"].as_array();
            let knows = versions.is_some_and(|all| all.iter().any(|one| one == REVISION));
            Ok(Some(found).filter(|_| knows))
        }
        Err(Error::Refused(_) | Error::Unexpected(_) | Error::SessionGone) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Session {
    /// A session that was begun before, whose server may have given it no id.
    pub(crate) const fn resume(id: Option<HeaderValue>) -> Self {
        Self { revision: Cow::Borrowed(NEWEST), id: Mutex::new(id), is_kept: AtomicBool::new(true) }
    }

    /// A new session, and what the server says about itself.
    pub(crate) async fn begin(wire: &Raw, identity: &Identity) -> Result<(Self, Value), Error> {
        let (capabilities, info) = (&identity.capabilities, identity.info());
        let params = json!({"protocolVersion": NEWEST, "capabilities": capabilities, "clientInfo": info});
        let response = in_time(wire.request("initialize", &params, HeaderMap::new())).await?;
        let id = response.session.clone();
        let info = result(async { Ok(response) }).await?;
        let Some(revision) = info["protocolVersion"].as_str() else {
            return Err(Error::Unexpected("`initialize` is answered without a `protocolVersion`".to_owned()));
        };
        let revision = Cow::Owned(revision.to_owned());
        let session = Self { revision, id: Mutex::new(id), is_kept: AtomicBool::new(false) };
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        match in_time(wire.send(&begun, session.headers())).await {
            // A server may refuse a notification, which it need not answer.
            Ok(_) | Err(Error::Refused(_) | Error::Unexpected(_) | Error::SessionGone) => Ok((session, info)),
            Err(error) => {
                wire.end_session(session.headers()).await;
                Err(error)
            }
        }
    }

    /// Keeps it when this client ends.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// It ends with this client.
    pub(crate) fn release(&self) {
        self.is_kept.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    /// The same session with the id of another one, which nothing is shown to yet.
    pub(crate) fn replace(&self, other: Self) {
        self.is_kept.store(false, Ordering::Relaxed);
        let id = other.id.into_inner().unwrap_or_else(PoisonError::into_inner);
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id;
    }

    /// Its id; nothing if the server keeps none.
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

/// The parameters of a request, with the client's name and capabilities.
pub(crate) fn with_meta(mut params: Value, meta: Value, identity: &Identity) -> Value {
    let mut all = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": identity.info(),
        "io.modelcontextprotocol/clientCapabilities": identity.with_tasks(),
    });
    if let (Some(all), Value::Object(meta)) = (all.as_object_mut(), meta) {
        all.extend(meta);
    }
    if let Some(params) = params.as_object_mut() {
        params.insert("_meta".to_owned(), all);
    }
    params
}

/// The headers of a request.
pub(crate) fn headers(method: &'static str, name: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("mcp-protocol-version", HeaderValue::from_static(REVISION));
    headers.insert("mcp-method", HeaderValue::from_static(method));
    headers.extend(name.map(|name| (HeaderName::from_static("mcp-name"), encoded(name))));
    headers
}
