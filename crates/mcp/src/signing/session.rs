//! The session that a handshake agreed on, and the scope in which names that a client chose are unique.
//!
//! No server stores a session: it is contained in a signed `Mcp-Session-Id`, which any instance can read and no client
//! can change.

use longhaul_core::{IdSource, Identity, OwnerId, limits};
use longhaul_engine::Idempotency;
use rmcp::ErrorData;
use rmcp::model::ClientCapabilities;
use serde::{Deserialize, Serialize};

use crate::revision::Generation;
use crate::settings::AnonymousCallers;
use crate::signing::derived;
use crate::signing::signer::{Purpose, Signer};

pub(crate) const HEADER: &str = "mcp-session-id";

/// The longest capabilities that go into the header as a whole, in bytes. Proxies refuse long headers.
const CAPABILITIES_BYTES_MAX: usize = 2_048;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    /// The negotiated revision, under the name that its client uses.
    #[serde(rename = "v")]
    pub(crate) revision: String,
    #[serde(rename = "c")]
    pub(crate) capabilities: ClientCapabilities,
    /// Makes each session unique.
    #[serde(rename = "n")]
    nonce: String,
}

impl Session {
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

    /// The random part, which distinguishes this session from all others.
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

/// Where a name that a client chose is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// In all requests of its owner, who is one user.
    Owner,
    /// In one session of an owner that many callers share. Other clients cannot use it, because it is signed.
    Session(String),
    /// Nowhere: many callers share the owner, and the request has no session. The generation says whether it could have
    /// had one.
    Nowhere(Generation),
}

impl Scope {
    /// The scope of the names in a request.
    pub(crate) fn of(
        callers: AnonymousCallers,
        owner: &OwnerId,
        generation: Generation,
        session: Option<&Session>,
    ) -> Self {
        match session {
            _ if !is_shared(callers, owner) => Self::Owner,
            Some(session) => Self::Session(session.nonce().to_owned()),
            None => Self::Nowhere(generation),
        }
    }

    /// The bytes that distinguish this scope from the others of its owner. `name` is the value that the client chose,
    /// for the refusal. Fails with `-32600` if a name is valid nowhere.
    pub(crate) fn of_name(&self, name: &str) -> Result<&[u8], ErrorData> {
        match self {
            Self::Owner => Ok(&[]),
            Self::Session(nonce) => Ok(nonce.as_bytes()),
            Self::Nowhere(generation) => Err(refusal(name, *generation)),
        }
    }

    /// The same key, valid in this scope only. Keys of a length that is not allowed are left to the engine to refuse.
    /// Fails with `-32600` if there is a key and it is valid nowhere.
    pub(crate) fn bind(&self, idempotency: Option<Idempotency>) -> Result<Option<Idempotency>, ErrorData> {
        let Some(Idempotency { key, fingerprint }) = idempotency else { return Ok(None) };
        let scope = self.of_name("an idempotency key")?;
        let is_allowed = (1..=limits::IDEMPOTENCY_KEY_BYTES_MAX).contains(&key.len());
        let key = if scope.is_empty() || !is_allowed {
            key
        } else {
            derived::digits(derived::hash(&[b"idempotency key", scope, key.as_bytes()]))
        };
        Ok(Some(Idempotency { key, fingerprint }))
    }
}

pub(crate) fn is_shared(callers: AnonymousCallers, owner: &OwnerId) -> bool {
    match callers {
        AnonymousCallers::OneUser => false,
        AnonymousCallers::AnonymousCallers => *owner == OwnerId::of(Identity::Anonymous),
    }
}

fn refusal(name: &str, generation: Generation) -> ErrorData {
    let what_to_do = match generation {
        Generation::Handshake => {
            "send `initialize` first, and the `Mcp-Session-Id` of its answer with every further request"
        }
        Generation::PerRequest => {
            "this revision has none, so call without it, or use a server that identifies its callers"
        }
    };
    let message = format!(
        "this server does not identify its callers, so {name} is valid only within a session, and the request has \
         none; {what_to_do}"
    );
    ErrorData::invalid_request(message, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(scope: &Scope, key: &str) -> Option<String> {
        let idempotency = Idempotency { key: key.to_owned(), fingerprint: [1; 32] };
        scope.bind(Some(idempotency)).ok()?.map(|idempotency| idempotency.key)
    }

    #[test]
    fn a_key_is_valid_in_its_scope_only() {
        let session = |nonce: &str| Scope::Session(nonce.to_owned());
        assert_eq!(key(&Scope::Owner, "k").as_deref(), Some("k"));
        assert_eq!(key(&session("a"), "k"), key(&session("a"), "k"));
        assert_ne!(key(&session("a"), "k"), key(&session("b"), "k"));
        assert_ne!(key(&session("a"), "bk"), key(&session("ab"), "k"));
        for generation in [Generation::Handshake, Generation::PerRequest] {
            assert_eq!(key(&Scope::Nowhere(generation), "k"), None);
            assert!(Scope::Nowhere(generation).bind(None).unwrap().is_none(), "there is nothing to refuse");
        }
    }

    #[test]
    fn a_key_that_is_too_long_stays_too_long() {
        let long = "k".repeat(limits::IDEMPOTENCY_KEY_BYTES_MAX + 1);
        assert_eq!(key(&Scope::Session("a".to_owned()), &long), Some(long));
        assert_eq!(key(&Scope::Session("a".to_owned()), "").as_deref(), Some(""));
    }
}
