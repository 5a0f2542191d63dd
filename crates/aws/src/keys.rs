//! The keys of the table: which item stands where. No key contains anything that a caller chose, except behind its
//! length or at the very end.

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_core::{EntryKind, OwnerId, PartsName, TaskId, TaskKey};

use crate::attributes::{PK, SK};
use crate::item::{Item, text};

/// Into how many partitions the tasks of an owner are spread, so that one busy owner is not one hot partition.
pub(crate) const SHARDS: u8 = 16;

/// Where an item stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemKey {
    pub(crate) pk: String,
    pub(crate) sk: String,
}

impl ItemKey {
    /// The key as attributes.
    pub(crate) fn to_item(&self) -> Item {
        Item::from([(PK.to_owned(), text(&self.pk)), (SK.to_owned(), text(&self.sk))])
    }

    /// The item with this key and these other attributes.
    pub(crate) fn with(&self, mut attributes: Item) -> Item {
        attributes.extend(self.to_item());
        attributes
    }
}

/// The task itself.
pub(crate) fn task(key: &TaskKey) -> ItemKey {
    ItemKey { pk: shard(&key.owner, key.id.shard(SHARDS)), sk: key.id.to_string() }
}

/// One of the partitions that hold an owner's tasks.
pub(crate) fn shard(owner: &OwnerId, number: u8) -> String {
    format!("o#{owner}#{number:x}")
}

/// Whose task, and which, stands under this key.
pub(crate) fn task_key(item: &Item) -> Option<TaskKey> {
    let (owner, _shard) = stored_text(item, PK)?.strip_prefix("o#")?.split_once('#')?;
    let id: TaskId = stored_text(item, SK)?.parse().ok()?;
    Some(TaskKey::new(owner.parse().ok()?, id))
}

fn stored_text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name).and_then(|value: &AttributeValue| value.as_s().ok()).map(String::as_str)
}

/// What belongs to a task and has no place in its record.
pub(crate) fn beside(key: &TaskKey) -> String {
    format!("t#{}#{}", key.owner, key.id)
}

/// With what the sort keys of all journal entries begin.
pub(crate) const JOURNAL: &str = "step#";

/// One journal entry. Kinds have no `#`, so that the name is all that follows the second one.
pub(crate) fn entry(key: &TaskKey, kind: EntryKind, name: &str) -> ItemKey {
    ItemKey { pk: beside(key), sk: format!("{JOURNAL}{}#{name}", kind.as_str()) }
}

/// One part, counted from 0. The length in front keeps names apart of which one begins like the other.
pub(crate) fn part(key: &TaskKey, name: &PartsName, number: usize) -> ItemKey {
    let name = name.to_string();
    ItemKey { pk: beside(key), sk: format!("part#{}#{name}#{number:04}", name.len()) }
}

/// What an idempotency key stands for.
pub(crate) fn idempotency(owner: &OwnerId, hash: &[u8; 32]) -> ItemKey {
    // The digits of 32 bytes, as those of an owner.
    ItemKey { pk: format!("k#{owner}#{}", OwnerId::from_bytes(*hash)), sk: "-".to_owned() }
}

/// What all instances share.
pub(crate) fn secret(name: &str) -> ItemKey {
    ItemKey { pk: format!("s#{name}"), sk: "-".to_owned() }
}

/// How many unfinished tasks an owner has.
pub(crate) fn quota(owner: &OwnerId) -> ItemKey {
    ItemKey { pk: format!("q#{owner}"), sk: "-".to_owned() }
}
