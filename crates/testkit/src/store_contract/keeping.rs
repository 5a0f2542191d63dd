//! Promises about journal entries and parts.

use longhaul_core::ports::{Recorded, TaskStore};
use longhaul_core::{Entry, EntryKind, PartsName, Recording, limits};

use crate::SeededIds;
use crate::given::{self, NOW, owner, queued};

const KINDS: [EntryKind; 7] = [
    EntryKind::Step,
    EntryKind::Timer,
    EntryKind::Answer,
    EntryKind::Signal,
    EntryKind::Token,
    EntryKind::Round,
    EntryKind::Try,
];

fn entry(kind: EntryKind, name: &str, value: &str) -> Entry {
    Entry { kind, name: name.to_owned(), value: given::inline(value), recording: None }
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    entries
}

/// Promise: every reader gets the first record of an entry.
pub async fn the_first_record_of_an_entry_stays(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    let first = entry(EntryKind::Step, "a", "1");
    assert_eq!(store.record(&key, &first).await.unwrap(), Recorded::First);
    for value in ["2", "1"] {
        let again = store.record(&key, &entry(EntryKind::Step, "a", value)).await.unwrap();
        assert_eq!(again, Recorded::Earlier(first.clone()));
    }
    assert_eq!(store.journal(&key).await.unwrap(), [first]);
}

/// Promise: when and by whom an entry was recorded stays as it was, and makes no difference to who is first.
pub async fn an_entry_keeps_when_and_by_whom_it_was_recorded(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    let recorded_by =
        |attempt, took_ms| Some(Recording { at: NOW.plus_ms(took_ms), took_ms: Some(took_ms), attempt, order: None });
    let first = Entry { recording: recorded_by(1, 412), ..entry(EntryKind::Step, "a", "1") };
    assert_eq!(store.record(&key, &first).await.unwrap(), Recorded::First);
    for recording in [recorded_by(2, 7), None] {
        let again = store.record(&key, &Entry { recording, ..first.clone() }).await.unwrap();
        assert_eq!(again, Recorded::Earlier(first.clone()));
    }
    let timer = Recording { at: NOW, took_ms: None, attempt: 3, order: None };
    let timer = Entry { recording: Some(timer), ..entry(EntryKind::Timer, "0", "1") };
    assert_eq!(store.record(&key, &timer).await.unwrap(), Recorded::First);
    assert_eq!(sorted(store.journal(&key).await.unwrap()), [first, timer]);
}

/// Promise: kind and name together are the key.
pub async fn entries_of_other_names_and_kinds_are_separate(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    let mut entries = Vec::new();
    for kind in KINDS {
        for name in ["", "a", "A", "a#b", "step#a", "a b", "ä", "a\u{308}", &"n".repeat(limits::NAME_BYTES_MAX)] {
            let entry = entry(kind, name, &format!("{kind:?} {name}"));
            assert_eq!(store.record(&key, &entry).await.unwrap(), Recorded::First, "{entry:?}");
            entries.push(entry);
        }
    }
    assert_eq!(sorted(store.journal(&key).await.unwrap()), sorted(entries));
}

/// Promise: a journal belongs to one task of one owner.
pub async fn entries_of_other_tasks_are_not_seen(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let keys = [
        queued(store, &ids, owner("alice")).await.key(),
        queued(store, &ids, owner("alice")).await.key(),
        queued(store, &SeededIds::new(1), owner("bob")).await.key(),
    ];
    for (key, value) in keys.iter().zip(["1", "2", "3"]) {
        let recorded = store.record(key, &entry(EntryKind::Step, "a", value)).await.unwrap();
        assert_eq!(recorded, Recorded::First);
    }
    for (key, value) in keys.iter().zip(["1", "2", "3"]) {
        assert_eq!(store.journal(key).await.unwrap(), [entry(EntryKind::Step, "a", value)]);
    }
}

/// Promise: values of the largest inline size are read back, and many of them.
pub async fn entries_of_any_size_and_script_come_back_whole(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    let mut entries = Vec::new();
    for number in 0..60 {
        let value = "é🚀\0\"\\".repeat(limits::ENTRY_INLINE_BYTES_MAX / 9);
        let entry = entry(EntryKind::Step, &format!("step {number}"), &value);
        store.record(&key, &entry).await.unwrap();
        entries.push(entry);
    }
    assert_eq!(sorted(store.journal(&key).await.unwrap()), sorted(entries));
}

/// Promise: the whole is the parts in their order, even if there are more than nine.
pub async fn parts_come_back_joined_in_their_order(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    let parts: Vec<String> = (0..25).map(|number| format!("«{number} 🚀»")).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    store.put_parts(&key, &PartsName::Request, &parts).await.unwrap();
    assert_eq!(store.parts(&key, &PartsName::Request, 25).await.unwrap(), Some(parts.concat()));
    let large = "ü".repeat(limits::PART_BYTES / 2);
    let parts = vec![large.as_str(); limits::RESULT_BYTES_MAX.div_ceil(limits::PART_BYTES)];
    let (name, count) = (PartsName::Outcome { attempt: 1 }, u32::try_from(parts.len()).unwrap());
    store.put_parts(&key, &name, &parts).await.unwrap();
    assert!(store.parts(&key, &name, count).await.unwrap() == Some(parts.concat()), "large parts differ");
}

/// Promise: an incomplete text is treated as missing.
pub async fn missing_parts_are_noticed(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    assert_eq!(store.parts(&key, &PartsName::Request, 1).await.unwrap(), None);
    store.put_parts(&key, &PartsName::Request, &["a", "b"]).await.unwrap();
    assert_eq!(store.parts(&key, &PartsName::Request, 3).await.unwrap(), None);
    assert_eq!(store.parts(&key, &PartsName::Request, 1).await.unwrap(), Some("a".to_owned()));
}

/// Promise: the names of one task are separate from those of others.
pub async fn parts_of_other_names_and_tasks_are_separate(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let keys = [
        queued(store, &ids, owner("alice")).await.key(),
        queued(store, &ids, owner("alice")).await.key(),
        queued(store, &SeededIds::new(1), owner("bob")).await.key(),
    ];
    let entry = |attempt, entry: &str| PartsName::Entry { attempt, entry: entry.to_owned() };
    let names = [
        PartsName::Request,
        PartsName::Outcome { attempt: 1 },
        PartsName::Outcome { attempt: 11 },
        entry(1, "step#a"),
        entry(1, "step#a#0001"),
        entry(11, "step#a"),
        PartsName::Variables { attempt: 1, version: 1 },
        PartsName::Variables { attempt: 1, version: 11 },
    ];
    for key in &keys {
        for name in &names {
            store.put_parts(key, name, &[&format!("{key:?}"), &name.to_string()]).await.unwrap();
        }
    }
    for key in &keys {
        for name in &names {
            assert_eq!(store.parts(key, name, 2).await.unwrap(), Some(format!("{key:?}{name}")));
            assert_eq!(store.parts(key, name, 3).await.unwrap(), None);
        }
    }
}

/// Promise: a writer that starts again overwrites everything from its first try.
pub async fn parts_written_again_replace_those_of_the_first_try(store: &dyn TaskStore) {
    let key = queued(store, &SeededIds::new(1), owner("alice")).await.key();
    let name = PartsName::Outcome { attempt: 1 };
    store.put_parts(&key, &name, &["a", "b", "c"]).await.unwrap();
    store.put_parts(&key, &name, &["x", "y"]).await.unwrap();
    assert_eq!(store.parts(&key, &name, 2).await.unwrap(), Some("xy".to_owned()));
}

/// Promise: the arguments of a call may be written before its record, and belong to it once it exists.
pub async fn parts_written_before_the_task_belong_to_it(store: &dyn TaskStore) {
    let task = given::task(&SeededIds::new(1), owner("alice"), NOW);
    store.put_parts(&task.key(), &PartsName::Request, &["a", "b"]).await.unwrap();
    store.create(given::new(task.clone()), NOW).await.unwrap();
    assert_eq!(store.parts(&task.key(), &PartsName::Request, 2).await.unwrap(), Some("ab".to_owned()));
}
