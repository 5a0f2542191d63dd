//! Identifiers of tasks, leases and mailboxes, and the randomness that they are made of.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

use crate::{OwnerId, Timestamp};

/// The name of a task on the wire: a UUID of version 7, sortable by the time of creation, with 74 random bits, so that
/// it cannot be guessed (Tasks extension, "Security Considerations: Task ID unguessability").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(Uuid);

/// A text that is not a task id: not a hyphenated UUID of version 7 in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a task id")]
pub struct InvalidTaskId;

impl TaskId {
    /// The id as its 16 bytes, whose order is the order of creation.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id that [`TaskId::as_bytes`] gave.
    ///
    /// # Errors
    /// [`InvalidTaskId`] if the bytes are not a UUID of version 7.
    pub fn from_bytes(bytes: [u8; 16]) -> Result<Self, InvalidTaskId> {
        Self::checked(Uuid::from_bytes(bytes))
    }

    /// The moment that the id begins with, to the millisecond.
    #[must_use]
    pub const fn begins_at(&self) -> Timestamp {
        let [a, b, c, d, e, f, ..] = *self.as_bytes();
        Timestamp::from_ms(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// The id that begins with `at` and otherwise follows from these words: the same for the same words, in every
    /// process. It cannot be guessed if one of the words cannot.
    #[must_use]
    pub fn derived(at: Timestamp, words: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for word in words {
            hash.update((word.len() as u64).to_be_bytes());
            hash.update(word);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let mut random = [0; 10];
        random.iter_mut().zip(hash).for_each(|(byte, hashed)| *byte = hashed);
        Self(Builder::from_unix_timestamp_millis(at.as_ms(), &random).into_uuid())
    }

    /// Which of `shards` parts of an owner's tasks this one belongs to, taken from the random bits.
    #[must_use]
    pub fn shard(&self, shards: u8) -> u8 {
        let [.., last] = *self.as_bytes();
        last % shards.max(1)
    }

    fn checked(uuid: Uuid) -> Result<Self, InvalidTaskId> {
        if uuid.get_version_num() == 7 { Ok(Self(uuid)) } else { Err(InvalidTaskId) }
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for TaskId {
    type Err = InvalidTaskId;

    fn from_str(text: &str) -> Result<Self, InvalidTaskId> {
        // `Uuid` also parses braces, URNs and upper case; a task id has only one spelling.
        let id = Uuid::parse_str(text).ok().and_then(|uuid| Self::checked(uuid).ok()).ok_or(InvalidTaskId)?;
        if id.to_string() == text { Ok(id) } else { Err(InvalidTaskId) }
    }
}

/// Where a task is stored: its owner is part of its key, so that another owner's lookup finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskKey {
    /// The owner of the task.
    pub owner: OwnerId,
    /// Its name.
    pub id: TaskId,
}

impl TaskKey {
    /// The key of `owner`'s task `id`.
    #[must_use]
    pub const fn new(owner: OwnerId, id: TaskId) -> Self {
        Self { owner, id }
    }
}

/// The proof of one claim: the worker that generated it holds the lease that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseToken(Uuid);

impl LeaseToken {
    /// The token with these random bytes.
    #[must_use]
    pub const fn from_random(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The token whose text this is; `None` if it is not one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.simple().fmt(f)
    }
}

/// A source of randomness: the operating system in production, a seed in the simulator.
pub trait IdSource: Send + Sync {
    /// Fills `bytes` with unpredictable random bytes.
    fn fill(&self, bytes: &mut [u8]);

    /// A random number from 0 to `max`.
    fn up_to(&self, max: u64) -> u64 {
        let mut random = [0; 8];
        self.fill(&mut random);
        let random = u64::from_le_bytes(random);
        max.checked_add(1).map_or(random, |numbers| random % numbers)
    }

    /// A random delay from half of `longest_ms` to all of it, so that writers that were refused at the same time do not
    /// all come back at the same time.
    fn delay_ms(&self, longest_ms: u64) -> u64 {
        let half_ms = longest_ms.div_ceil(2);
        half_ms.saturating_add(self.up_to(longest_ms.saturating_sub(half_ms)))
    }

    /// A new task id for the moment `now`.
    fn task_id(&self, now: Timestamp) -> TaskId {
        let mut random = [0; 10];
        self.fill(&mut random);
        TaskId(Builder::from_unix_timestamp_millis(now.as_ms(), &random).into_uuid())
    }

    /// A new lease token.
    fn lease_token(&self) -> LeaseToken {
        let mut random = [0; 16];
        self.fill(&mut random);
        LeaseToken::from_random(random)
    }
}

/// Names one of an owner's mailboxes. It follows from words that both sides know, so that whichever instance handles
/// the other side's request finds the mailbox without a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxId([u8; 32]);

impl MailboxId {
    /// The mailbox that these words name: SHA-256 over the length-prefixed words, so that it matters where one word
    /// ends and the next one begins.
    #[must_use]
    pub fn of(words: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for word in words {
            hash.update((word.len() as u64).to_be_bytes());
            hash.update(word);
        }
        Self(hash.finalize().into())
    }

    /// The hash itself.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(u8);
    impl IdSource for Fixed {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn ids_sort_by_time_of_creation() {
        let earlier = Fixed(0xff).task_id(Timestamp::from_ms(1_000));
        let later = Fixed(0x00).task_id(Timestamp::from_ms(1_001));
        assert!(earlier < later);
        assert!(earlier.to_string() < later.to_string());
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = Fixed(0xab).task_id(Timestamp::from_ms(5));
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        for wrong in [text.to_uppercase(), format!("{{{text}}}"), text.replace('-', ""), String::new()] {
            assert_eq!(wrong.parse::<TaskId>(), Err(InvalidTaskId), "{wrong}");
        }
    }

    #[test]
    fn other_uuid_versions_are_not_task_ids() {
        let version_4 = "786512e2-9e0d-44bd-8f29-789f320fe840";
        assert_eq!(version_4.parse::<TaskId>(), Err(InvalidTaskId));
        let bytes = Uuid::parse_str(version_4).unwrap().into_bytes();
        assert_eq!(TaskId::from_bytes(bytes), Err(InvalidTaskId));
    }

    #[test]
    fn an_id_is_its_bytes() {
        let id: TaskId = "0199aaaa-0000-7000-8000-00000000002a".parse().unwrap();
        assert_eq!(id.as_bytes(), &[0x01, 0x99, 0xaa, 0xaa, 0, 0, 0x70, 0, 0x80, 0, 0, 0, 0, 0, 0, 0x2a]);
        assert_eq!(TaskId::from_bytes(*id.as_bytes()), Ok(id));
        assert_eq!(id.begins_at(), Timestamp::from_ms(0x0199_aaaa_0000));
        assert_eq!(Fixed(0xff).task_id(Timestamp::from_ms(1_900_000_000_123)).begins_at().as_ms(), 1_900_000_000_123);
    }

    #[test]
    fn a_derived_id_is_the_same_for_the_same_words_only() {
        let id = |at, words: &[&[u8]]| TaskId::derived(Timestamp::from_ms(at), words);
        let first = id(7, &[b"a", b"bc"]);
        assert_eq!(first, id(7, &[b"a", b"bc"]));
        assert_eq!(TaskId::from_bytes(*first.as_bytes()), Ok(first), "it is a task id");
        for other in [id(8, &[b"a", b"bc"]), id(7, &[b"ab", b"c"]), id(7, &[b"a"])] {
            assert_ne!(first, other);
        }
        assert!(first < id(8, &[]), "sorted by its moment");
    }

    #[test]
    fn a_random_number_is_at_most_what_was_asked_for() {
        let numbers = [0, 1, 2, 9, u64::MAX].map(|max| (Fixed(0x07).up_to(max), max));
        assert!(numbers.iter().all(|(number, max)| number <= max), "{numbers:?}");
        assert_eq!(Fixed(0).up_to(9), 0);
        assert_eq!(Fixed(0xff).up_to(u64::MAX), u64::MAX);
    }

    #[test]
    fn a_delay_is_at_least_half_of_the_longest() {
        for longest_ms in [0, 1, 2, 3, 40, 1_000, u64::MAX] {
            let delays = [0, 7, 0xff].map(|byte| Fixed(byte).delay_ms(longest_ms));
            assert!(
                delays.iter().all(|ms| (longest_ms.div_ceil(2)..=longest_ms).contains(ms)),
                "{longest_ms}: {delays:?}"
            );
        }
    }

    #[test]
    fn tasks_are_spread_over_all_shards() {
        let shard = |last: u8, shards| TaskId(Uuid::from_bytes([last; 16])).shard(shards);
        assert_eq!([0, 1, 15, 16, 0x2a, 255].map(|last| shard(last, 16)), [0, 1, 15, 0, 10, 15]);
        assert_eq!(shard(255, 1), 0);
        assert_eq!(shard(255, 0), 0, "no shards are one shard");
    }

    #[test]
    fn a_lease_token_is_made_of_randomness_and_shows_all_of_it() {
        let token = Fixed(0xab).lease_token();
        assert_eq!(token, LeaseToken::from_random([0xab; 16]));
        assert_eq!(token.to_string(), "ab".repeat(16));
        assert_ne!(token, Fixed(0xac).lease_token());
    }

    #[test]
    fn the_same_words_name_the_same_mailbox_and_others_another() {
        assert_eq!(MailboxId::of(&[b"a", b"bc"]), MailboxId::of(&[b"a", b"bc"]));
        assert_ne!(MailboxId::of(&[b"a", b"bc"]), MailboxId::of(&[b"ab", b"c"]));
        assert_ne!(MailboxId::of(&[b"a"]), MailboxId::of(&[b"a", b""]));
        assert_ne!(MailboxId::of(&[]), MailboxId::of(&[b""]));
    }
}
