//! The tokens of callbacks: which task, and a secret whose hash is in the task's journal. So nobody can forge one, it
//! is good for one signal of one task, and every instance verifies it without a key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul_core::{IdSource, OwnerId, TaskId, TaskKey};

use crate::shared::derived;

const OWNER_BYTES: usize = 32;
const TASK_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;

/// A token. Its text has 107 characters, of letters, digits, `-` and `_`.
pub(crate) struct CallbackToken {
    pub(crate) task: TaskKey,
    secret: [u8; SECRET_BYTES],
}

impl CallbackToken {
    /// A new one for a task.
    pub(crate) fn random(task: TaskKey, ids: &dyn IdSource) -> Self {
        let mut secret = [0; SECRET_BYTES];
        ids.fill(&mut secret);
        Self { task, secret }
    }

    /// As it is handed out.
    pub(crate) fn text(&self) -> String {
        let bytes = [self.task.owner.as_bytes().as_slice(), self.task.id.as_bytes().as_slice(), &self.secret].concat();
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The token with this text; `None` for what cannot be one.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (owner, rest) = bytes.split_first_chunk::<OWNER_BYTES>()?;
        let (task, secret) = rest.split_first_chunk::<TASK_BYTES>()?;
        let task = TaskKey::new(OwnerId::from_bytes(*owner), TaskId::from_bytes(*task).ok()?);
        Some(Self { task, secret: secret.try_into().ok()? })
    }

    /// What is on record of it.
    pub(crate) fn hash(&self) -> String {
        derived::digits(derived::hash(&[b"callback", &self.secret]))
    }
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{SeededIds, given};

    use super::*;

    #[test]
    fn a_token_is_read_as_it_was_handed_out_and_nothing_else_is() {
        let ids = SeededIds::new(1);
        let token = CallbackToken::random(given::task(&ids, given::owner("alice"), given::NOW).key(), &ids);
        let text = token.text();
        assert_eq!(text.len(), 107);
        let read = CallbackToken::read(&text).unwrap();
        assert_eq!((read.task, read.hash()), (token.task, token.hash()));
        assert_ne!(CallbackToken::random(token.task, &ids).hash(), token.hash());
        for wrong in [
            "",
            "x",
            "/",
            &text[1..],
            &format!("{text}A"),
            &format!("{text}="),
            &text.replace(char::is_alphabetic, "%"),
        ] {
            assert!(CallbackToken::read(wrong).is_none(), "{wrong}");
        }
    }
}
