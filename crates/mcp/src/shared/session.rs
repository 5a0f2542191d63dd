//! What a handshake agreed on. No server stores it: it is contained in a signed `Mcp-Session-Id`, which any instance
//! can read and no client can change.

use longhaul_core::{IdSource, OwnerId};
use rmcp::ErrorData;
use rmcp::model::ClientCapabilities;
use serde::{Deserialize, Serialize};

use crate::shared::signer::{Purpose, Signer};

/// The header that carries a session.
pub(crate) const HEADER: &str = "mcp-session-id";

/// The longest capabilities that go into the header as a whole, in bytes. Proxies refuse long headers.
const CAPABILITIES_BYTES_MAX: usize = 2_048;

/// One session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The negotiated revision, under the name that its client uses.
    #[serde(rename = "v")]
    pub(crate) revision: String,
    /// What the client can be asked.
    #[serde(rename = "c")]
    pub(crate) capabilities: ClientCapabilities,
    /// Makes each session unique.
    #[serde(rename = "n")]
    nonce: String,
}

impl Session {
    /// A new session.
    pub(crate) fn new(revision: String, mut capabilities: ClientCapabilities, ids: &dyn IdSource) -> Self {
        let bytes = serde_json::to_vec(&capabilities).map_or(usize::MAX, |text| text.len());
        if bytes > CAPABILITIES_BYTES_MAX {
            // What is left has a bounded size, and questions depend only on that.
            capabilities.experimental = None;
            capabilities.extensions = None;
        }
        // Random bytes as text.
        let nonce = ids.lease_token().to_string();
        Self { revision, capabilities, nonce }
    }

    /// What distinguishes this session from all others.
    pub(crate) fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The session as a header: visible ASCII. Only its owner can use it.
    pub(crate) fn sign(&self, signer: &Signer, owner: &OwnerId) -> Result<String, ErrorData> {
        signer.sign(Purpose::Session, owner, self)
    }

    /// The session of a header; `None` if it was changed, has expired, or is another owner's.
    pub(crate) fn verify(signed: &str, signer: &Signer, owner: &OwnerId) -> Option<Self> {
        signer.verify(Purpose::Session, owner, signed)
    }
}
