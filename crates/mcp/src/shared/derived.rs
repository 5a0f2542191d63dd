//! Names that follow from what a client said, so that any instance finds what belongs to them without a list.

use longhaul_core::{IdSource, OwnerId, TaskId, TaskKey, Timestamp};
use sha2::{Digest, Sha256};

/// An id source without randomness: the same for the same words.
struct Hashed([u8; 32]);

impl IdSource for Hashed {
    fn fill(&self, bytes: &mut [u8]) {
        for (byte, hashed) in bytes.iter_mut().zip(self.0.iter().cycle()) {
            *byte = *hashed;
        }
    }
}

/// The hash of `words`: no two lists of words have the same, wherever one word ends and the next begins.
pub(crate) fn hash(words: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for word in words {
        hash.update((word.len() as u64).to_be_bytes());
        hash.update(word);
    }
    hash.finalize().into()
}

/// The place of `owner` that these words name. Its id begins with `at` instead of the time at which it was made, so
/// that whoever asks for it has to know no more than the words and that moment.
pub(crate) fn place(owner: &OwnerId, at: Timestamp, words: &[&[u8]]) -> TaskKey {
    let id: TaskId = Hashed(hash(words)).task_id(at);
    TaskKey::new(*owner, id)
}

#[cfg(test)]
mod tests {
    use longhaul_core::Identity;

    use super::*;

    #[test]
    fn the_same_words_are_the_same_place_and_others_another() {
        let alice = OwnerId::of(Identity::Verified { issuer: "tests", subject: "alice", tenant: "" });
        let at = Timestamp::from_ms(0);
        let of = |words: &[&[u8]]| place(&alice, at, words);
        assert_eq!(of(&[b"a", b"bc"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"a", b"bc"]), of(&[b"ab", b"c"]));
        assert_ne!(of(&[b"a"]), of(&[b"a", b""]));
        assert_ne!(of(&[b"a"]), place(&alice, Timestamp::from_ms(1), &[b"a"]));
        assert_ne!(of(&[b"a"]).owner, place(&OwnerId::of(Identity::Anonymous), at, &[b"a"]).owner);
    }
}
