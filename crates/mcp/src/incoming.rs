//! A request as the dialects see it: read once, with what is known of its client.

use std::borrow::Cow;

use bytes::Bytes;
use http::Request;
use longhaul_core::OwnerId;
use rmcp::model::{ClientCapabilities, RequestId, RequestMetaObject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::dialects::{Generation, VERSION_HEADER};
use crate::session::Session;

/// A request that wants an answer.
pub(crate) struct Incoming<'a> {
    pub(crate) id: RequestId,
    pub(crate) method: Cow<'a, str>,
    /// As they came; [`Incoming::params`] reads them.
    pub(crate) params: Option<&'a RawValue>,
    /// Who it is, as the front door verified it.
    pub(crate) owner: OwnerId,
    pub(crate) client: &'a Client,
    /// The whole request, for those who pass it on.
    pub(crate) http: &'a Request<Bytes>,
}

/// A notification.
pub(crate) struct Notice<'a> {
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<&'a RawValue>,
    pub(crate) owner: OwnerId,
    pub(crate) client: &'a Client,
}

/// What is known of a client besides who it is.
pub(crate) struct Client {
    revision: String,
    session: Option<Session>,
}

/// The revision of requests that do not say which they are of (MCP `2025-11-25`, "Protocol Version Header").
const REVISION_ASSUMED: &str = "2025-03-26";

impl Client {
    /// The client of a request with this header, in this session. What was negotiated counts more than the header,
    /// except that revisions without handshakes have no sessions.
    pub(crate) fn new(http: &Request<Bytes>, session: Option<Session>) -> Self {
        let header = http.headers().get(VERSION_HEADER).and_then(|value| value.to_str().ok());
        if Generation::of(http.headers()) == Generation::PerRequest {
            return Self { revision: header.unwrap_or_default().to_owned(), session: None };
        }
        let negotiated = session.as_ref().map(|session| session.revision.as_str());
        let revision = negotiated.or(header).unwrap_or(REVISION_ASSUMED).to_owned();
        Self { revision, session }
    }

    /// The revision that was agreed on, in its client's words: a date, or the name of an own revision of a dialect. In
    /// a handshake itself this says nothing; there the result has it.
    pub(crate) fn revision(&self) -> &str {
        &self.revision
    }

    /// How the client says what it can do.
    pub(crate) fn generation(&self) -> Generation {
        Generation::of_version(Some(&self.revision))
    }

    /// What the client said in its handshake; nothing where it has no session.
    pub(crate) const fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }
}

#[derive(Default, Deserialize)]
struct WithMeta {
    #[serde(default, rename = "_meta")]
    meta: RequestMetaObject,
}

impl Incoming<'_> {
    /// The parameters as a `T`; nothing where they are missing or malformed.
    pub(crate) fn params<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.params?.get()).ok()
    }

    /// What the request says of itself in `_meta`.
    pub(crate) fn meta(&self) -> RequestMetaObject {
        self.params::<WithMeta>().unwrap_or_default().meta
    }

    /// What the client can be asked: what it says in the request, or said in its handshake.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        match self.client.generation() {
            Generation::PerRequest => self.meta().client_capabilities().unwrap_or_default(),
            Generation::Handshake => {
                self.client.session().map(|session| session.capabilities.clone()).unwrap_or_default()
            }
        }
    }
}
