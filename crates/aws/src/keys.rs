//! The keys of the table's items. No key contains anything that a caller chose, except after its length or at the very
//! end.

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_core::{EntryKind, MailboxId, OwnerId, PartsName, PermitGroup, TaskId, TaskKey, Timestamp};
use sha2::{Digest, Sha256};

use crate::item::{Item, PK, SK, text};

/// How many partitions an owner's tasks are spread over, so that a busy owner does not make one hot partition.
pub(crate) const SHARDS: u8 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemKey {
    pub(crate) pk: String,
    pub(crate) sk: String,
}

impl ItemKey {
    pub(crate) fn to_item(&self) -> Item {
        Item::from([(PK.to_owned(), text(&self.pk)), (SK.to_owned(), text(&self.sk))])
    }

    pub(crate) fn is_of(&self, item: &Item) -> bool {
        stored_text(item, PK) == Some(&self.pk) && stored_text(item, SK) == Some(&self.sk)
    }

    /// The item with this key and these other attributes.
    pub(crate) fn with(&self, mut attributes: Item) -> Item {
        attributes.extend(self.to_item());
        attributes
    }
}

pub(crate) fn task(key: &TaskKey) -> ItemKey {
    ItemKey { pk: shard(&key.owner, key.id.shard(SHARDS)), sk: key.id.to_string() }
}

/// One of the partitions that hold an owner's tasks.
pub(crate) fn shard(owner: &OwnerId, number: u8) -> String {
    format!("o#{owner}#{number:x}")
}

/// Where a task could be, and never is.
pub(crate) fn no_task() -> ItemKey {
    ItemKey { pk: "o#".to_owned(), sk: "-".to_owned() }
}

/// The owner and id of the task in this item.
pub(crate) fn task_key(item: &Item) -> Option<TaskKey> {
    let (owner, _shard) = stored_text(item, PK)?.strip_prefix("o#")?.split_once('#')?;
    let id: TaskId = stored_text(item, SK)?.parse().ok()?;
    Some(TaskKey::new(owner.parse().ok()?, id))
}

fn stored_text<'a>(item: &'a Item, name: &str) -> Option<&'a str> {
    item.get(name).and_then(|value: &AttributeValue| value.as_s().ok()).map(String::as_str)
}

/// The partition of a task's attachments.
pub(crate) fn attachments(key: &TaskKey) -> String {
    format!("t#{}#{}", key.owner, key.id)
}

/// The prefix of the sort keys of all journal entries.
pub(crate) const JOURNAL: &str = "step#";

/// One journal entry. Kinds contain no `#`, so the name is everything after the second one.
pub(crate) fn entry(key: &TaskKey, kind: EntryKind, name: &str) -> ItemKey {
    ItemKey { pk: attachments(key), sk: format!("{JOURNAL}{}#{name}", kind.as_str()) }
}

pub(crate) const PARTS: &str = "part#";

/// One part, counted from 0. The length of the name comes first, because one name may be a prefix of another.
pub(crate) fn part(key: &TaskKey, name: &PartsName, number: usize) -> ItemKey {
    let name = name.to_string();
    ItemKey { pk: attachments(key), sk: format!("{PARTS}{}#{name}#{number:04}", name.len()) }
}

pub(crate) fn idempotency(owner: &OwnerId, hash: &[u8; 32]) -> ItemKey {
    // The digits of 32 bytes, as those of an owner.
    ItemKey { pk: format!("k#{owner}#{}", OwnerId::from_bytes(*hash)), sk: "-".to_owned() }
}

/// A secret that all instances share.
pub(crate) fn secret(name: &str) -> ItemKey {
    ItemKey { pk: format!("s#{name}"), sk: "-".to_owned() }
}

/// How many unfinished tasks an owner has.
pub(crate) fn quota(owner: &OwnerId) -> ItemKey {
    ItemKey { pk: format!("q#{owner}"), sk: "-".to_owned() }
}

/// The permits of a group. All are under the prefix of the counts of owners: workers may change those.
pub(crate) fn permits(group: PermitGroup) -> ItemKey {
    let owner = match group {
        PermitGroup::Owner(owner) => owner,
        // The digits of 32 bytes, as those of an owner.
        PermitGroup::Running(hash) | PermitGroup::Begun(hash) => OwnerId::from_bytes(hash),
    };
    ItemKey { sk: "legs".to_owned(), ..quota(&owner) }
}

pub(crate) fn mailbox(owner: &OwnerId, mailbox: &MailboxId) -> ItemKey {
    // The digits of 32 bytes, as those of an owner.
    ItemKey { pk: format!("m#{owner}#{}", OwnerId::from_bytes(*mailbox.as_bytes())), sk: "-".to_owned() }
}

/// The name of the parts of a text that is too large for its mailbox's item. It is unique to the text and its expiry,
/// so that a writer never changes the parts of another one.
pub(crate) fn mailbox_parts_name(text: &str, expires_at: Timestamp) -> String {
    format!("{}#{}", expires_at.as_ms(), OwnerId::from_bytes(Sha256::digest(text).into()))
}

/// One part of such a text, counted from 0.
pub(crate) fn mailbox_part(mailbox: &ItemKey, name: &str, number: usize) -> ItemKey {
    ItemKey { pk: mailbox.pk.clone(), sk: format!("{PARTS}{name}#{number:04}") }
}

#[cfg(test)]
mod tests {
    use longhaul_core::Identity;
    use longhaul_testkit::{SeededIds, given};
    use proptest::prelude::*;

    use super::*;

    fn hostile() -> impl Strategy<Value = String> {
        prop_oneof![Just(String::new()), "[:#|/-]{0,4}", "[a#0]{0,6}", any::<String>(), Just("a".repeat(2_048))]
    }

    fn owner() -> impl Strategy<Value = OwnerId> {
        (hostile(), hostile(), hostile()).prop_map(|(issuer, subject, tenant)| {
            OwnerId::of(Identity::Verified { issuer: &issuer, subject: &subject, tenant: &tenant })
        })
    }

    fn parts_name() -> impl Strategy<Value = PartsName> {
        prop_oneof![
            Just(PartsName::Request),
            (0_u32..12).prop_map(|attempt| PartsName::Outcome { attempt }),
            (0_u32..12, "[a#0]{0,6}").prop_map(|(attempt, entry)| PartsName::Entry { attempt, entry }),
            (0_u32..12, 0_u32..12).prop_map(|(attempt, version)| PartsName::Variables { attempt, version }),
        ]
    }

    fn kind() -> impl Strategy<Value = EntryKind> {
        prop_oneof![
            Just(EntryKind::Step),
            Just(EntryKind::Timer),
            Just(EntryKind::Answer),
            Just(EntryKind::Signal),
            Just(EntryKind::Token),
            Just(EntryKind::Round),
            Just(EntryKind::Try)
        ]
    }

    #[test]
    fn the_parts_of_each_text_in_a_mailbox_have_a_name_of_their_own() {
        let name = |text, ms| mailbox_parts_name(text, Timestamp::from_ms(ms));
        assert_eq!(name("a", 1), name("a", 1));
        assert_ne!(name("a", 1), name("b", 1));
        assert_ne!(name("a", 1), name("a", 2));
    }

    proptest! {
        #[test]
        fn different_identities_have_different_keys(a in owner(), b in owner(), hash in any::<[u8; 32]>()) {
            let id = given::task(&SeededIds::new(1), a, given::NOW).id;
            let of = |owner: &OwnerId| {
                let key = TaskKey::new(*owner, id);
                let mailbox = mailbox(owner, &MailboxId::of(&[&hash]));
                [task(&key).pk, attachments(&key), idempotency(owner, &hash).pk, quota(owner).pk, mailbox.pk]
            };
            let (of_a, of_b) = (of(&a), of(&b));
            for (number, pk) in of_a.iter().enumerate() {
                prop_assert_eq!(of_b.contains(pk), a == b);
                prop_assert!(of_a.iter().skip(number + 1).all(|other| other != pk));
                // DynamoDB accepts 2,048 bytes.
                prop_assert!(pk.len() <= 140);
            }
            let key = TaskKey::new(a, id);
            prop_assert_eq!(task_key(&task(&key).to_item()), Some(key));
        }

        #[test]
        fn different_parts_have_different_keys(
            a in (parts_name(), 0_usize..12), b in (parts_name(), 0_usize..12)
        ) {
            let key = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW).key();
            prop_assert_eq!(part(&key, &a.0, a.1) == part(&key, &b.0, b.1), a == b);
        }

        #[test]
        fn different_entries_have_different_keys_and_are_not_parts(
            a in (kind(), hostile()), b in (kind(), hostile()), parts in parts_name()
        ) {
            let key = given::task(&SeededIds::new(1), given::owner("alice"), given::NOW).key();
            prop_assert_eq!(entry(&key, a.0, &a.1) == entry(&key, b.0, &b.1), a == b);
            prop_assert!(!part(&key, &parts, 0).sk.starts_with(JOURNAL));
        }
    }
}
