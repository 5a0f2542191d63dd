//! What signs the values that pass through clients: sessions, cursors, positions in streams, states of calls with
//! several rounds. Each is bound to its owner and its purpose, names the key that signed it, and expires.
//!
//! The state of a call with several rounds is also bound to the method, the arguments and a time (multi round-trip
//! requests, "Server Requirements"). Values are signed and not encrypted: they hold nothing that the client did not
//! send itself, except for a handler's own state, for which the handler is responsible.

use std::collections::BTreeMap;

use longhaul_core::ports::StoreError;
use longhaul_core::{OwnerId, TaskId, Timestamp};
use longhaul_engine::Engine;
use rmcp::ErrorData;
use rmcp::model::SealOptions;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::shared::errors;
use crate::shared::keyring::Keyring;

/// What every signed state begins with, so that the log can tell a state of ours from anything else.
const MARK: &str = "longhaul.";

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// The answers of earlier rounds, and everything else that must not be lost between two rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rounds {
    /// By the key of the question.
    pub(crate) answers: BTreeMap<String, Value>,
    /// The handler's own state.
    pub(crate) state: Option<String>,
    /// The call's idempotency key, the same in all rounds.
    pub(crate) call_key: String,
    /// The task that the call became.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<TaskId>,
}

/// A value, and when it expires.
#[derive(Serialize, Deserialize)]
struct Expiring<T> {
    #[serde(rename = "u")]
    until: Timestamp,
    #[serde(rename = "v")]
    value: T,
}

/// What a state belongs to.
pub(crate) struct Binding(Vec<u8>);

impl Binding {
    /// A request of this owner for `method`, with this digest of its parameters.
    pub(crate) fn new(owner: &OwnerId, method: &str, digest: [u8; 32]) -> Self {
        let mut bytes = method.as_bytes().to_vec();
        bytes.push(b' ');
        bytes.extend(owner.as_bytes());
        bytes.extend(digest);
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

    /// How long a value is valid, in milliseconds. At most as long as a key signs: its key then verifies for longer.
    const fn life_ms(self) -> u64 {
        match self {
            // Clients that stay connected for longer have to begin again, and many need their user's help for that.
            Self::Session => 14 * DAY_MS,
            // Nobody reads a list for longer.
            Self::Cursor => DAY_MS,
            // As long as the tasks that are watched, or the results that are kept, in nearly all cases.
            Self::Event | Self::Rejection => 2 * DAY_MS,
            // As long as a session: a person may take days to answer.
            Self::Ask => 14 * DAY_MS,
        }
    }
}

/// Signs states and values, and verifies them when they come back.
pub(crate) struct Signer {
    keys: Keyring,
}

impl Signer {
    /// A signer whose keys are in the store of `engine`, mixed with `secret`.
    pub(crate) const fn new(engine: Engine, secret: [u8; 32]) -> Self {
        Self { keys: Keyring::new(engine, secret) }
    }

    /// Reads the keys of this moment, unless it has them. Nothing can be signed or verified before.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        self.keys.ready().await
    }

    pub(crate) fn sign_rounds(&self, rounds: Rounds, binding: &Binding, until: Timestamp) -> Result<String, ErrorData> {
        Ok(format!("{MARK}{}", self.seal(rounds, &binding.0, until)?))
    }

    /// Signs a value that its owner will send back unchanged. The text has only URL-safe characters and dots.
    pub(crate) fn sign<T: Serialize>(&self, purpose: Purpose, owner: &OwnerId, value: &T) -> Result<String, ErrorData> {
        self.seal(value, &purpose.binding(owner), self.keys.now().plus_ms(purpose.life_ms()))
    }

    /// What was signed; `None` if it was changed, has expired, or was signed for another purpose or owner.
    pub(crate) fn verify<T: DeserializeOwned>(&self, purpose: Purpose, owner: &OwnerId, signed: &str) -> Option<T> {
        self.open(signed, &purpose.binding(owner))
    }

    /// What was signed.
    ///
    /// # Errors
    /// `-32602` for a state that was not signed here, was changed, is too old, or belongs to another caller or call.
    pub(crate) fn verify_rounds(&self, state: &str, binding: &Binding) -> Result<Rounds, ErrorData> {
        let opened = state.strip_prefix(MARK).and_then(|signed| self.open(signed, &binding.0));
        opened.ok_or_else(|| {
            // The same answer to all: clients do not learn which check failed.
            let message = "requestState is not valid for this call; call again without it";
            tracing::info!(bytes = state.len(), "a request state was refused");
            ErrorData::invalid_params(message, None)
        })
    }

    fn seal<T: Serialize>(&self, value: T, binding: &[u8], until: Timestamp) -> Result<String, ErrorData> {
        let Some(ring) = self.keys.ring() else {
            tracing::error!("a value was to be signed before the keys were read");
            return Err(ErrorData::internal_error("a value could not be signed", None));
        };
        let options = SealOptions::new().associated_data(binding);
        let signed = ring.codec.seal_json_with(&Expiring { until, value }, &options);
        signed.map_err(|error| errors::internal("a value could not be signed", &error))
    }

    fn open<T: DeserializeOwned>(&self, signed: &str, binding: &[u8]) -> Option<T> {
        let opened = self.keys.ring()?.codec.open_json_with::<Expiring<T>>(signed, binding);
        let Expiring { until, value } = opened.inspect_err(|error| tracing::debug!(%error, "not valid")).ok()?;
        (self.keys.now() < until).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::keyring::PERIOD_MS;

    /// Otherwise a value would outlive the key that verifies it.
    #[test]
    fn no_value_is_valid_for_longer_than_its_key() {
        for purpose in [Purpose::Session, Purpose::Cursor, Purpose::Event, Purpose::Ask, Purpose::Rejection] {
            assert!(purpose.life_ms() <= PERIOD_MS, "{purpose:?}");
        }
    }
}
