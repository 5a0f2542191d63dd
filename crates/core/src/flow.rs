//! Flow control: the limits that the tasks of one tool and key have in common.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{OwnerId, Timestamp};

/// The limits of a task that it shares with the other tasks of its tool and key, of all owners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowControl {
    /// Tasks of one tool share the limits if they have the same key.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// How many attempts may run at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many tasks may begin within a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Tasks with a higher one come first when they wait for a permit of the concurrency.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub priority: u8,
    /// How long an attempt may take, in milliseconds.
    pub attempt_ms: u64,
}

/// The attempts that are limited together. A group is known by 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PermitGroup {
    /// The running ones of an owner.
    Owner(OwnerId),
    /// The running ones of a tool and key.
    Running([u8; 32]),
    /// The first ones of the tasks of a tool and key. Their permits are not given back, but expire.
    Begun([u8; 32]),
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
const fn is_usual(priority: &u8) -> bool {
    *priority == 0
}

/// When it is the turn of a task that waits for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Tasks with a higher one come first.
    pub priority: u8,
    /// Since when the task waits.
    pub since: Timestamp,
}

/// So many within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many.
    pub max: u32,
    /// The time in milliseconds.
    pub per_ms: u64,
}

impl FlowControl {
    /// The attempts that run at a time, of this tool and key.
    #[must_use]
    pub fn running(&self, tool: &str) -> PermitGroup {
        PermitGroup::Running(self.hash(b"running", tool))
    }

    /// The tasks that have begun within a time, of this tool and key.
    #[must_use]
    pub fn begun(&self, tool: &str) -> PermitGroup {
        PermitGroup::Begun(self.hash(b"begun", tool))
    }

    fn hash(&self, what: &[u8], tool: &str) -> [u8; 32] {
        let mut hash = Sha256::new();
        for word in [what, tool.as_bytes(), self.key.as_bytes()] {
            hash.update((word.len() as u64).to_be_bytes());
            hash.update(word);
        }
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_share_their_limits_with_those_of_the_same_tool_and_key_alone() {
        let flow = |key: &str| FlowControl { key: key.to_owned(), ..FlowControl::default() };
        assert_eq!(flow("a").running("export"), flow("a").running("export"));
        let others = [
            flow("b").running("export"),
            flow("a").running("import"),
            flow("ta").running("expor"),
            flow("").running("exporta"),
        ];
        assert!(!others.contains(&flow("a").running("export")));
        assert_ne!(flow("a").running("export"), flow("a").begun("export"));
    }
}
