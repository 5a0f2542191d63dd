//! The signer of values that pass through clients: sessions, cursors, positions in streams, states of calls with
//! several rounds. Each is bound to its owner and its purpose, names the key that signed it, and expires.
//!
//! The state of a call with several rounds is also bound to the method, the arguments and a time (multi round-trip
//! requests, "Server Requirements"). Values are signed and not encrypted. They hold values that the client sent itself,
//! and a handler's own state, for which the handler is responsible.
//!
//! There is a new key for every period of thirty days. A key signs for one period, and its values are verified for one
//! more. A period's key is a random string in a mailbox of the store, mixed with the server's own secret. The instance
//! that needs it first stores it, and all others read it, so that they agree on any store without talking to each
//! other. A key that verifies nothing any more expires on its own. The id of a key is the number of its period.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use longhaul_core::ports::{Left, StoreError};
use longhaul_core::{MailboxId, OwnerId, TaskId, Timestamp};
use longhaul_engine::{CollectError, Engine, LeaveError};
use rmcp::ErrorData;
use rmcp::model::{RequestStateCodec, SealOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::reply::errors;
use crate::signing::derived;

/// The beginning of every signed state, so that the log can distinguish a state of this server from other strings.
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
    /// That task's attempt that asked, so that each round has another state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct Expiring<T> {
    #[serde(rename = "u")]
    until: Timestamp,
    #[serde(rename = "v")]
    value: T,
}

/// The call that a state belongs to.
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

/// The purpose of a signed value: one that was signed for another purpose is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The session that a handshake agreed on.
    Session,
    /// Where a list continues.
    Cursor,
    /// Where a stream continues.
    Event,
    /// A question of the server.
    Ask,
    /// Why a call was not accepted.
    Rejection,
}

impl Purpose {
    /// The bytes that the signature of a value is bound to.
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

    /// Reads the current keys, unless it has them or they were `read`. Nothing can be signed or verified before.
    pub(crate) async fn ready(&self, read: &KeyTexts) -> Result<(), StoreError> {
        self.keys.ready(read).await
    }

    pub(crate) fn sign_rounds(&self, rounds: Rounds, binding: &Binding, until: Timestamp) -> Result<String, ErrorData> {
        Ok(format!("{MARK}{}", self.seal(rounds, &binding.0, until)?))
    }

    /// Signs a value that its owner will send back unchanged. The text has only URL-safe characters and dots.
    pub(crate) fn sign<T: Serialize>(&self, purpose: Purpose, owner: &OwnerId, value: &T) -> Result<String, ErrorData> {
        self.seal(value, &purpose.binding(owner), self.keys.now().plus_ms(purpose.life_ms()))
    }

    /// The value that was signed; `None` if it was changed, has expired, or was signed for another purpose or owner.
    pub(crate) fn verify<T: DeserializeOwned>(&self, purpose: Purpose, owner: &OwnerId, signed: &str) -> Option<T> {
        self.open(signed, &purpose.binding(owner))
    }

    /// The rounds that were signed. Fails with `-32602` for a state that was not signed here, was changed, is too old,
    /// or belongs to another caller or call.
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

/// How long a key signs, in milliseconds.
pub(crate) const PERIOD_MS: u64 = 30 * 24 * 3_600_000;

/// How long before its period a key is made and read. So every instance has a key before any instance signs with it,
/// even if their clocks differ by this much.
const EARLY_MS: u64 = 3_600_000;

/// The keys of one server.
pub(crate) struct Keyring {
    engine: Engine,
    secret: [u8; 32],
    ring: RwLock<Option<Arc<Ring>>>,
}

/// The keys that are valid at the same time.
pub(crate) struct Ring {
    /// The period whose key signs.
    signing: u64,
    /// The last period whose key verifies: the same, or the next one shortly before it begins.
    newest: u64,
    /// By their periods.
    keys: BTreeMap<u64, [u8; 32]>,
    pub(crate) codec: RequestStateCodec,
}

impl Keyring {
    pub(crate) const fn new(engine: Engine, secret: [u8; 32]) -> Self {
        Self { engine, secret, ring: RwLock::new(None) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.engine.ports().clock.now()
    }

    /// Reads the keys of this time that it does not have yet, and that were not `read`. The first instance of a
    /// period makes its key.
    pub(crate) async fn ready(&self, read: &KeyTexts) -> Result<(), StoreError> {
        let now = self.now();
        let (signing, newest) = (period(now), newest_period(now));
        let ring = self.ring();
        if ring.as_ref().is_some_and(|ring| (ring.signing, ring.newest) == (signing, newest)) {
            return Ok(());
        }
        let known = ring.map(|ring| ring.keys.clone()).unwrap_or_default();
        let mut keys = BTreeMap::new();
        // One after the other: a second call at the same time would need a second connection, which takes a handshake.
        for period in signing.saturating_sub(1)..=newest {
            let key = match (known.get(&period), read.get(&key_mailbox(period))) {
                (Some(key), _) => Some(*key),
                (None, Some(Some(text))) => Some(self.key(text)),
                (None, Some(None)) if period < signing => None,
                (None, None) if period < signing => self.find(period).await?,
                (None, Some(None) | None) => Some(self.find_or_make(period).await?),
            };
            keys.extend(key.map(|key| (period, key)));
        }
        let named = keys.iter().map(|(period, key)| (period.to_string(), *key));
        let codec = RequestStateCodec::new_with_keyring(signing.to_string(), named)
            .map_err(|error| StoreError::Corrupt(error.into()))?;
        let ring = Arc::new(Ring { signing, newest, keys, codec });
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = Some(ring);
        Ok(())
    }

    /// The keys that it has; `None` before [`Keyring::ready`].
    pub(crate) fn ring(&self) -> Option<Arc<Ring>> {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The key of a period, if an instance made it.
    async fn find(&self, period: u64) -> Result<Option<[u8; 32]>, StoreError> {
        let text =
            self.engine.collect(&key_owner(), &key_mailbox(period)).await.map_err(|CollectError(error)| error)?;
        Ok(text.map(|text| self.key(&text)))
    }

    async fn find_or_make(&self, period: u64) -> Result<[u8; 32], StoreError> {
        if let Some(key) = self.find(period).await? {
            return Ok(key);
        }
        let mut random = [0; 32];
        self.engine.ports().ids.fill(&mut random);
        let own = derived::digits(random);
        let expires_at = Timestamp::from_ms(period.saturating_add(2).saturating_mul(PERIOD_MS)).plus_ms(EARLY_MS);
        match self.engine.leave(&key_owner(), &key_mailbox(period), &own, expires_at).await {
            Ok(Left::First) => Ok(self.key(&own)),
            // Another instance was quicker, or the answer to this one's own first try was lost.
            Ok(Left::Earlier(earlier)) => Ok(self.key(&earlier)),
            Err(LeaveError::Unavailable(error)) => Err(error),
            Err(error @ LeaveError::TooLarge { .. }) => Err(StoreError::Corrupt(error.into())),
        }
    }

    /// The key that a text in a mailbox stands for. Without the server's secret the text is not enough.
    fn key(&self, text: &str) -> [u8; 32] {
        derived::keyed_hash(&self.secret, &[b"signing key", text.as_bytes()])
    }
}

const fn period(at: Timestamp) -> u64 {
    at.as_ms() / PERIOD_MS
}

const fn newest_period(now: Timestamp) -> u64 {
    period(now.plus_ms(EARLY_MS))
}

/// The strings in mailboxes that were read; `None` for one that was empty.
pub type KeyTexts = BTreeMap<MailboxId, Option<String>>;

/// The mailboxes of the keys that a server needs at this time, for [`McpServer::ready`](crate::McpServer::ready).
#[must_use]
pub fn key_mailboxes(now: Timestamp) -> Vec<(OwnerId, MailboxId)> {
    let periods = period(now).saturating_sub(1)..=newest_period(now);
    periods.map(|period| (key_owner(), key_mailbox(period))).collect()
}

/// The owner of the mailboxes that hold the keys. No caller is this owner.
fn key_owner() -> OwnerId {
    OwnerId::from_bytes(derived::hash(&[b"the keys of the server"]))
}

fn key_mailbox(period: u64) -> MailboxId {
    MailboxId::of(&[b"signing key", &period.to_be_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signing::signer::PERIOD_MS;

    /// Otherwise a value would outlive the key that verifies it.
    #[test]
    fn no_value_is_valid_for_longer_than_its_key() {
        for purpose in [Purpose::Session, Purpose::Cursor, Purpose::Event, Purpose::Ask, Purpose::Rejection] {
            assert!(purpose.life_ms() <= PERIOD_MS, "{purpose:?}");
        }
    }
}
