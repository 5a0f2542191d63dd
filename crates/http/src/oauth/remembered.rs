//! Tokens that were verified recently: a client sends the same one with each of its polls.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::{Principal, Timestamp};
use sha2::{Digest, Sha256};

/// Tokens that are remembered since the older half was forgotten; twice as many in all.
const HALF_MAX: usize = 512;

/// How long a token is remembered: a claim of it may have lost its truth at the issuer, and is then read again.
const REMEMBERED_MS_MAX: u64 = 5 * 60 * 1_000;

/// The identity of a token, and the resource for which it was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(token: &str, resource: &str) -> Self {
        let mut hash = Sha256::new();
        hash.update((resource.len() as u64).to_be_bytes());
        hash.update(resource);
        hash.update(token);
        Self(hash.finalize().into())
    }
}

/// The caller that a token proved.
#[derive(Clone, Debug)]
pub(crate) struct Proven {
    pub(crate) principal: Arc<Principal>,
    /// Which of the issuers.
    pub(crate) issuer: usize,
    /// The version of the keys.
    pub(crate) version: u64,
    /// From when on the token is not accepted any more.
    pub(crate) until: Timestamp,
}

/// The verified tokens of the last minutes, within a bound.
///
/// There are two halves. A token that is used moves to the younger one; when that is full, the older one is forgotten
/// as a whole. Only good tokens are kept: a caller needs hundreds of them to displace others. A displaced caller is
/// only verified again.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    halves: Mutex<Halves>,
}

#[derive(Debug, Default)]
struct Halves {
    young: BTreeMap<Fingerprint, (Timestamp, Proven)>,
    old: BTreeMap<Fingerprint, (Timestamp, Proven)>,
}

impl Remembered {
    /// The caller that the token proved, if that was not long ago.
    pub(crate) fn find(&self, token: Fingerprint, now: Timestamp) -> Option<Proven> {
        let mut halves = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let is_young = halves.young.contains_key(&token);
        let found = if is_young { halves.young.get(&token).cloned() } else { halves.old.remove(&token) };
        let (verified_at, proven) = found?;
        if now >= proven.until || now.since_ms(verified_at) >= REMEMBERED_MS_MAX {
            halves.young.remove(&token);
            return None;
        }
        if !is_young {
            halves.insert(token, (verified_at, proven.clone()));
        }
        Some(proven)
    }

    /// Remembers what a token proved just now.
    pub(crate) fn insert(&self, token: Fingerprint, now: Timestamp, proven: Proven) {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner).insert(token, (now, proven));
    }
}

impl Halves {
    fn insert(&mut self, token: Fingerprint, entry: (Timestamp, Proven)) {
        if self.young.len() >= HALF_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(token, entry);
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::OwnerId;

    use super::*;

    fn proven(until: u64) -> Proven {
        let principal = Arc::new(OwnerId::from_bytes([1; 32]).into());
        Proven { principal, issuer: 0, version: 1, until: Timestamp::from_ms(until) }
    }

    fn token(number: u64) -> Fingerprint {
        Fingerprint::of(&number.to_string(), "")
    }

    #[test]
    fn a_token_is_remembered_until_it_expires_and_for_minutes_at_most() {
        let at = Timestamp::from_ms;
        let tokens = Remembered::default();
        tokens.insert(token(1), at(0), proven(1_000));
        tokens.insert(token(2), at(0), proven(u64::MAX));
        assert!(tokens.find(token(1), at(999)).is_some());
        assert!(tokens.find(token(1), at(1_000)).is_none());
        assert!(tokens.find(token(2), at(REMEMBERED_MS_MAX - 1)).is_some());
        assert!(tokens.find(token(2), at(REMEMBERED_MS_MAX)).is_none());
        assert!(tokens.find(token(3), at(0)).is_none());
    }

    #[test]
    fn memory_is_bounded_and_whoever_comes_often_stays() {
        let at = Timestamp::from_ms;
        let tokens = Remembered::default();
        tokens.insert(token(0), at(0), proven(u64::MAX));
        for number in 1..10_000 {
            tokens.insert(token(number), at(0), proven(u64::MAX));
            if number % 100 == 0 {
                assert!(tokens.find(token(0), at(1)).is_some(), "{number}");
            }
        }
        assert!(tokens.find(token(1), at(1)).is_none());
        let halves = tokens.halves.lock().unwrap();
        assert!(halves.young.len() <= HALF_MAX && halves.old.len() <= HALF_MAX);
    }

    #[test]
    fn a_token_is_remembered_for_one_resource() {
        assert_ne!(Fingerprint::of("t", "https://a/mcp"), Fingerprint::of("t", "https://b/mcp"));
        assert_ne!(Fingerprint::of("bt", "a"), Fingerprint::of("t", "ab"));
    }
}
