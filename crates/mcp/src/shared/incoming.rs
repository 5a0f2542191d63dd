//! A request as the protocol versions see it: read once, with what is known about its client.

use std::borrow::Cow;

use bytes::Bytes;
use http::Request;
use longhaul_core::{OwnerId, Principal};
use rmcp::ErrorData;
use rmcp::model::{ClientCapabilities, RequestId, RequestMetaObject};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::revision::{Generation, VERSION_HEADER};
use crate::shared::scope::Scope;
use crate::shared::session::Session;

/// A request that wants an answer.
pub(crate) struct Incoming<'a> {
    pub(crate) id: RequestId,
    pub(crate) method: Cow<'a, str>,
    /// As they came; [`Incoming::params`] reads them.
    pub(crate) params: Option<&'a RawValue>,
    /// Who it is, as the HTTP frontend verified it.
    pub(crate) caller: &'a Principal,
    /// Whose tasks it sees.
    pub(crate) owner: OwnerId,
    /// Where names are valid that the client chose.
    pub(crate) scope: Scope,
    pub(crate) client: &'a Client,
    /// The whole request, for protocol versions that pass it on.
    pub(crate) http: &'a Request<Bytes>,
}

/// A notification.
pub(crate) struct Notice<'a> {
    pub(crate) method: Cow<'a, str>,
    pub(crate) params: Option<&'a RawValue>,
    pub(crate) owner: OwnerId,
    /// Where names are valid that the client chose.
    pub(crate) scope: Scope,
    pub(crate) client: &'a Client,
}

/// What is known about a client besides who it is.
pub(crate) struct Client {
    revision: String,
    session: Option<Session>,
}

/// The revision of requests that do not name one (MCP `2025-11-25`, "Protocol Version Header").
const REVISION_ASSUMED: &str = "2025-03-26";

impl Client {
    /// The client of a request with this header, in this session. What was negotiated takes precedence over the header,
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

    /// The negotiated revision, under the name that its client uses: a date, or the name of a protocol version's own
    /// revision. In the handshake itself this has no meaning; there it is in the result.
    pub(crate) fn revision(&self) -> &str {
        &self.revision
    }

    /// How the client says what it can do.
    pub(crate) fn generation(&self) -> Generation {
        Generation::of_version(Some(&self.revision))
    }

    /// What the client said in its handshake; `None` if it has no session.
    pub(crate) const fn session(&self) -> Option<&Session> {
        self.session.as_ref()
    }
}

#[derive(Deserialize)]
struct WithMeta {
    #[serde(rename = "_meta")]
    meta: Option<RequestMetaObject>,
}

impl Incoming<'_> {
    /// The parameters as a `T`; `None` if they are missing or malformed.
    pub(crate) fn params<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.params?.get()).ok()
    }

    /// The `_meta` of the request; empty if there is none.
    ///
    /// # Errors
    /// `-32602` if it is present but malformed.
    pub(crate) fn meta(&self) -> Result<RequestMetaObject, ErrorData> {
        let Some(params) = self.params else { return Ok(RequestMetaObject::default()) };
        let read = serde_json::from_str::<WithMeta>(params.get());
        read.map(|params| params.meta.unwrap_or_default())
            .map_err(|error| ErrorData::invalid_params(format!("`_meta` is malformed: {error}"), None))
    }

    /// What the client can be asked: what it says in the request, or said in its handshake.
    ///
    /// # Errors
    /// `-32602` if the request's `_meta` is malformed.
    pub(crate) fn capabilities(&self) -> Result<ClientCapabilities, ErrorData> {
        Ok(match self.client.generation() {
            Generation::PerRequest => self.meta()?.client_capabilities().unwrap_or_default(),
            Generation::Handshake => {
                self.client.session().map(|session| session.capabilities.clone()).unwrap_or_default()
            }
        })
    }
}
