//! The keys that sign values: a new one for every period of thirty days. A key signs for one period, and what it signed
//! is verified for one more.
//!
//! A period's key is a random text in a mailbox of the store, mixed with the server's own secret. The instance that
//! needs it first leaves it, and all others collect it, so that they agree without talking to each other, on any store;
//! and a key that verifies nothing any more expires by itself. The id of a key is the number of its period.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use longhaul_core::ports::{Left, StoreError};
use longhaul_core::{MailboxId, OwnerId, Timestamp};
use longhaul_engine::{CollectError, Engine, LeaveError};
use rmcp::model::RequestStateCodec;

use crate::shared::derived;

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
    /// What signs and verifies with them.
    pub(crate) codec: RequestStateCodec,
}

impl Keyring {
    pub(crate) const fn new(engine: Engine, secret: [u8; 32]) -> Self {
        Self { engine, secret, ring: RwLock::new(None) }
    }

    /// What time it is.
    pub(crate) fn now(&self) -> Timestamp {
        self.engine.ports().clock.now()
    }

    /// Reads the keys of this moment that it does not have yet. The first instance of a period makes its key.
    pub(crate) async fn ready(&self) -> Result<(), StoreError> {
        let now = self.now();
        let (signing, newest) = (period(now), period(now.plus_ms(EARLY_MS)));
        let ring = self.ring();
        if ring.as_ref().is_some_and(|ring| (ring.signing, ring.newest) == (signing, newest)) {
            return Ok(());
        }
        let known = ring.map(|ring| ring.keys.clone()).unwrap_or_default();
        let mut keys = BTreeMap::new();
        // One after the other: a second call at the same time would need a second connection, which takes a handshake.
        for period in signing.saturating_sub(1)..=newest {
            let key = match known.get(&period).copied() {
                Some(key) => Some(key),
                None if period < signing => self.find(period).await?,
                None => Some(self.find_or_make(period).await?),
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
        let text = self.engine.collect(&owner(), &mailbox(period)).await.map_err(|CollectError(error)| error)?;
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
        match self.engine.leave(&owner(), &mailbox(period), &own, expires_at).await {
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

/// Whose mailboxes the keys are in: nobody's who can call.
fn owner() -> OwnerId {
    OwnerId::from_bytes(derived::hash(&[b"the keys of the server"]))
}

fn mailbox(period: u64) -> MailboxId {
    MailboxId::of(&[b"signing key", &period.to_be_bytes()])
}
