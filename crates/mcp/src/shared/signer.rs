//! What a plain call gives to the client between two rounds of questions, and gets back.
//!
//! It passes through the client, so it is signed, and bound to the caller, the tool, its arguments and a time
//! (multi round-trip requests, "Server Requirements"). It is signed and not encrypted: it holds nothing that the
//! client did not send itself, except for the tool's own state, for which the tool is responsible.

use std::collections::BTreeMap;

use longhaul_core::{OwnerId, TaskId, Timestamp};
use rmcp::ErrorData;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shared::errors;

/// Distinguishes our own states from those of tools, which are passed through unchanged.
const MARK: &str = "longhaul.";

/// The answers of earlier rounds, and everything else that must not be lost between two rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rounds {
    /// By the key of the question.
    pub(crate) answers: BTreeMap<String, Value>,
    /// The tool's own state.
    pub(crate) state: Option<String>,
    /// The call's idempotency key, the same in all rounds.
    pub(crate) call_key: String,
    /// The task that the call became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<TaskId>,
}

#[derive(Serialize, Deserialize)]
struct Signed {
    until: Timestamp,
    rounds: Rounds,
}

/// What a state belongs to.
pub(crate) struct Binding(Vec<u8>);

impl Binding {
    /// A call of this owner with this digest.
    pub(crate) fn new(owner: &OwnerId, call: [u8; 32]) -> Self {
        let mut bytes = b"tools/call ".to_vec();
        bytes.extend(owner.as_bytes());
        bytes.extend(call);
        Self(bytes)
    }
}

/// What a signed value is for: one that was signed for another purpose is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// What a handshake agreed on.
    Session,
    /// Where a list continues.
    Cursor,
    /// Where a stream continues.
    Event,
    /// What a request of the server asks for.
    Ask,
    /// Why a call was not accepted.
    Rejection,
}

impl Purpose {
    /// What the signature of a value is bound to.
    fn binding(self, owner: &OwnerId) -> Vec<u8> {
        let word: &[u8] = match self {
            Self::Session => b"session ",
            Self::Cursor => b"cursor ",
            Self::Event => b"event ",
            Self::Ask => b"ask ",
            Self::Rejection => b"rejection ",
        };
        [word, owner.as_bytes()].concat()
    }
}

/// Signs states and values, and verifies them when they come back.
pub(crate) struct Signer {
    codec: RequestStateCodec,
}

impl Signer {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        // The key's length is part of its type, so that there is nothing to check.
        Self { codec: RequestStateCodec::new_unchecked(key) }
    }

    pub(crate) fn sign_rounds(&self, rounds: Rounds, binding: &Binding, until: Timestamp) -> Result<String, ErrorData> {
        let options = SealOptions::new().associated_data(&binding.0);
        let signed = self.codec.seal_json_with(&Signed { until, rounds }, &options);
        let signed = signed.map_err(|error| errors::internal("a request state could not be written", &error))?;
        Ok(format!("{MARK}{signed}"))
    }

    /// Signs a value that its owner will send back unchanged. The text has only URL-safe characters and dots.
    pub(crate) fn sign<T: Serialize>(&self, purpose: Purpose, owner: &OwnerId, value: &T) -> Result<String, ErrorData> {
        let binding = purpose.binding(owner);
        let signed = self.codec.seal_json_with(value, &SealOptions::new().associated_data(&binding));
        signed.map_err(|error| errors::internal("a value could not be signed", &error))
    }

    /// What was signed; `None` if it was changed, or signed for another purpose or owner.
    pub(crate) fn verify<T: DeserializeOwned>(&self, purpose: Purpose, owner: &OwnerId, signed: &str) -> Option<T> {
        self.codec.open_json_with(signed, &purpose.binding(owner)).ok()
    }

    /// What was signed; a state that the tool made itself is returned as the tool's state.
    ///
    /// # Errors
    /// `-32602` for a state that was changed, is too old, or belongs to another caller or call.
    pub(crate) fn verify_rounds(&self, state: &str, binding: &Binding, now: Timestamp) -> Result<Rounds, ErrorData> {
        let Some(signed) = state.strip_prefix(MARK) else {
            return Ok(Rounds { state: Some(state.to_owned()), ..Rounds::default() });
        };
        // The same answer to all: clients do not learn which check failed.
        let refused =
            || ErrorData::invalid_params("requestState is not valid for this call; call again without it", None);
        match self.codec.open_json_with::<Signed>(signed, &binding.0) {
            Ok(Signed { until, rounds }) if now < until => Ok(rounds),
            Ok(_) => Err(refused()),
            Err(error) => {
                tracing::info!(%error, "a request state was refused");
                Err(refused())
            }
        }
    }
}
