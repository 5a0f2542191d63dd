//! Keys that are derived from what a client sent, so that any instance finds what belongs to them without a list.

use longhaul_core::{IdSource, OwnerId, TaskId, TaskKey, Timestamp};
use sha2::{Digest, Sha256};

/// An id source without randomness: the same parts give the same id.
struct Hashed([u8; 32]);

impl IdSource for Hashed {
    fn fill(&self, bytes: &mut [u8]) {
        for (byte, hashed) in bytes.iter_mut().zip(self.0.iter().cycle()) {
            *byte = *hashed;
        }
    }
}

/// The hash of `parts`. Where one part ends and the next begins makes a difference.
pub(crate) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// The key of the task of `owner` that these parts name. Its id begins with `at` instead of the time of its creation,
/// so that the parts and `at` are enough to find it.
pub(crate) fn task_key(owner: &OwnerId, at: Timestamp, parts: &[&[u8]]) -> TaskKey {
    let id: TaskId = Hashed(hash(parts)).task_id(at);
    TaskKey::new(*owner, id)
}

#[cfg(test)]
mod tests {
    use longhaul_core::Identity;

    use super::*;

    #[test]
    fn the_same_parts_give_the_same_key_and_others_another() {
        let alice = OwnerId::of(Identity::Verified { issuer: "tests", subject: "alice", tenant: "" });
        let at = Timestamp::from_ms(0);
        let of = |parts: &[&[u8]]| task_key(&alice, at, parts);
        assert_eq!(of(&[b"a", b"bc"]), of(&[b"a", b"bc"]));
        assert_ne!(of(&[b"a", b"bc"]), of(&[b"ab", b"c"]));
        assert_ne!(of(&[b"a"]), of(&[b"a", b""]));
        assert_ne!(of(&[b"a"]), task_key(&alice, Timestamp::from_ms(1), &[b"a"]));
        assert_ne!(of(&[b"a"]).owner, task_key(&OwnerId::of(Identity::Anonymous), at, &[b"a"]).owner);
    }
}
