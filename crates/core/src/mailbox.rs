//! Names of mailboxes: where one request leaves a text that another one collects.

use sha2::{Digest, Sha256};

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

    #[test]
    fn the_same_words_name_the_same_mailbox_and_others_another() {
        assert_eq!(MailboxId::of(&[b"a", b"bc"]), MailboxId::of(&[b"a", b"bc"]));
        assert_ne!(MailboxId::of(&[b"a", b"bc"]), MailboxId::of(&[b"ab", b"c"]));
        assert_ne!(MailboxId::of(&[b"a"]), MailboxId::of(&[b"a", b""]));
        assert_ne!(MailboxId::of(&[]), MailboxId::of(&[b""]));
    }
}
