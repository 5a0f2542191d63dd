//! Promises about creation, idempotency keys and owners.

use longhaul_core::ports::{ApplyError, CreateError, Created, NewEntry, NewTask, Recorded, TaskStore};
use longhaul_core::{
    Ask, Entry, EntryKind, Failure, FailureKind, Identity, Lease, LeaseToken, OwnerId, PartsName, Payload, Progress,
    Recording, ResultKind, Resumed, State, TaskEvent, TaskKey,
};

use crate::SeededIds;
use crate::given::{self, NOW, on_record, owner, queued};

/// Promise: once a creation returns, a lookup finds what was created.
pub async fn a_task_created_is_found_immediately(store: &dyn TaskStore) {
    let task = given::task(&SeededIds::new(1), owner("alice"), NOW);
    assert_eq!(on_record(store, &task.key()).await, None);
    assert_eq!(store.create(given::new(task.clone()), NOW).await.unwrap(), Created::New(task.clone()));
    assert_eq!(on_record(store, &task.key()).await, Some(task));
}

/// Promise: no field and no state is lost on the way.
pub async fn every_field_of_a_record_comes_back_as_it_was_written(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let parts = Payload::Parts { name: PartsName::Outcome { attempt: 7 }, count: 3, bytes: 1_000_000 };
    let failure =
        Failure { kind: FailureKind::Tool, message: "no".to_owned(), detail: Some(given::inline(r#"{"code":-1}"#)) };
    let states = [
        State::Queued,
        State::Running { lease: Lease { until: NOW.plus_ms(1), token: LeaseToken::from_random([7; 16]) } },
        State::Sleeping { until: NOW.plus_ms(2) },
        State::InputRequired {
            asks: vec![given::ask("a"), Ask { key: "ä".to_owned(), request: String::new() }],
            until: Some(NOW.plus_ms(9)),
        },
        State::Completed { result: parts.clone(), kind: ResultKind::ToolError },
        State::Completed { result: given::inline("{}"), kind: ResultKind::Success },
        State::Failed { failure },
        State::Cancelled,
    ];
    for state in states {
        let task = given::task_with(&ids, owner("alice"), NOW, |record| {
            record.state = state;
            record.attempt = 7;
            record.trace = longhaul_core::TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
            record.failures = 2;
            record.last_failure = Some("the other side was busy".to_owned());
            record.not_before = Some(NOW.plus_ms(1));
            record.started_at = Some(NOW.plus_ms(3));
            record.ended_at = Some(NOW.plus_ms(4));
            record.updated_at = NOW.plus_ms(5);
            record.sent_at = NOW.plus_ms(6);
            record.resends = 3;
            record.resumes = Some(Resumed { task: record.id, by: Some("ann".to_owned()) });
            record.terms.poll_ms = Some(2_500);
            record.progress = Some(Progress { done: 1.5, total: None, message: Some("half".to_owned()) });
            record.request = parts.clone();
            record.variables =
                Some(Payload::Parts { name: PartsName::Variables { attempt: 7, version: 2 }, count: 1, bytes: 9 });
        });
        store.create(given::new(task.clone()), NOW).await.unwrap();
        assert_eq!(on_record(store, &task.key()).await, Some(task));
    }
}

/// Promise: text with any characters is stored byte for byte.
pub async fn large_values_of_any_script_come_back_whole(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let all_scripts = "Zürich – 東京 – עברית – 🚀👩‍👩‍👧 – \u{feff}\u{202e} \0 \\ \" ' \n ; -- %s ${x} ".repeat(800);
    let task = given::task_with(&ids, owner("alice"), NOW, |record| {
        record.request = given::inline(&all_scripts);
        record.variables = Some(given::inline(&all_scripts));
        record.tool = "outil_é".to_owned();
        let asks = vec![Ask { key: "k".to_owned(), request: all_scripts.clone() }];
        record.state = State::InputRequired { asks, until: None };
    });
    store.create(given::new(task.clone()), NOW).await.unwrap();
    assert_eq!(on_record(store, &task.key()).await, Some(task));
}

/// Promise: a number is read back exactly as it was written.
pub async fn progress_comes_back_to_the_last_bit(store: &dyn TaskStore) {
    let task = given::running(store, &SeededIds::new(1), owner("alice")).await;
    for done in [0.1 + 0.2, 1.0 / 3.0, 5e-324, f64::MAX, 9_007_199_254_740_993.0, 0.0] {
        store.apply(&task.key(), &given::progress(1, NOW, done), NOW).await.unwrap();
        let found = on_record(store, &task.key()).await.unwrap();
        assert_eq!(found.progress.as_ref().unwrap().done.to_bits(), done.to_bits(), "{done}");
    }
}

/// Promise: the id of a task is taken until the task expires.
pub async fn a_task_is_not_overwritten_by_a_second_creation(store: &dyn TaskStore) {
    let task = given::running(store, &SeededIds::new(1), owner("alice")).await;
    let second = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| record.tool = "other".to_owned());
    assert_eq!(second.id, task.id);
    assert_eq!(store.create(given::new(second), NOW).await.unwrap(), Created::Existing(task.clone()));
    assert_eq!(on_record(store, &task.key()).await, Some(task));
}

/// Promise: the same for a task that has ended.
pub async fn a_finished_task_is_not_set_back_by_a_second_creation(store: &dyn TaskStore) {
    let task = given::running(store, &SeededIds::new(1), owner("alice")).await;
    let task = store.apply(&task.key(), &given::finish(1, "{}"), NOW).await.unwrap();
    let second = given::task(&SeededIds::new(1), owner("alice"), NOW);
    assert_eq!(store.create(given::new(second), NOW).await.unwrap(), Created::Existing(task.clone()));
    assert_eq!(on_record(store, &task.key()).await, Some(task));
}

/// Promise: a retry of a call gets the call's task in its present state.
pub async fn the_same_key_with_the_same_request_gives_the_first_task_as_it_is_now(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let first = given::task(&ids, owner("alice"), NOW);
    store.create(given::new_with_key(first.clone(), 1, 1), NOW).await.unwrap();
    let claimed = store.apply(&first.key(), &given::claim(1, NOW), NOW).await.unwrap();
    let again = given::task(&ids, owner("alice"), NOW);
    let retried = store.create(given::new_with_key(again.clone(), 1, 1), NOW).await.unwrap();
    assert_eq!(retried, Created::Existing(claimed));
    assert_eq!(on_record(store, &again.key()).await, None);
}

/// Promise: a key stands for one request.
pub async fn the_same_key_with_another_request_is_refused_and_writes_nothing(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let first = given::task(&ids, owner("alice"), NOW);
    store.create(given::new_with_key(first.clone(), 1, 1), NOW).await.unwrap();
    let other = given::task(&ids, owner("alice"), NOW);
    let refused = store.create(given::new_with_key(other.clone(), 1, 2), NOW).await;
    assert!(matches!(refused, Err(CreateError::KeyReused)), "{refused:?}");
    assert_eq!(on_record(store, &other.key()).await, None);
    let again = given::task(&ids, owner("alice"), NOW);
    let retried = store.create(given::new_with_key(again, 1, 1), NOW).await.unwrap();
    assert_eq!(retried, Created::Existing(first));
}

/// Promise: keys belong to their owner.
pub async fn a_key_of_another_owner_is_not_found(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    store.create(given::new_with_key(given::task(&ids, owner("alice"), NOW), 1, 1), NOW).await.unwrap();
    for request in [1, 2] {
        let task = given::task(&ids, owner(&format!("bob {request}")), NOW);
        let created = store.create(given::new_with_key(task.clone(), 1, request), NOW).await.unwrap();
        assert_eq!(created, Created::New(task));
    }
}

/// Promise: a retry that comes after the end gets the ended task.
pub async fn a_key_is_remembered_after_the_task_ended(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let first = given::task(&ids, owner("alice"), NOW);
    store.create(given::new_with_key(first.clone(), 1, 1), NOW).await.unwrap();
    let ended = store.apply(&first.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    let again = given::task(&ids, owner("alice"), NOW);
    let retried = store.create(given::new_with_key(again, 1, 1), NOW).await.unwrap();
    assert_eq!(retried, Created::Existing(ended));
}

/// Promise: calls with different keys, or without one, are different calls.
pub async fn another_key_makes_another_task(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let new: [fn(longhaul_core::Task) -> NewTask; 4] =
        [|task| given::new_with_key(task, 1, 1), |task| given::new_with_key(task, 2, 1), given::new, given::new];
    for new in new {
        let task = given::task(&ids, owner("alice"), NOW);
        assert_eq!(store.create(new(task.clone()), NOW).await.unwrap(), Created::New(task));
    }
}

async fn request_parts(store: &dyn TaskStore, key: &TaskKey, count: u32) -> Option<String> {
    store.parts(key, &PartsName::Request, count).await.unwrap()
}

/// Promise: once a creation returns, the parts that the record names are there.
pub async fn the_parts_of_a_request_are_written_with_its_task(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let large = "ä".repeat(longhaul_core::limits::PART_BYTES / 2);
    let first = given::new_with_parts(&ids, owner("alice"), &[&large, "b", "c"]);
    let second =
        NewTask { idempotency: given::key(1, 1), ..given::new_with_parts(&ids, owner("alice"), &["d", &large]) };
    for new in [&first, &second] {
        let created = store.create(new.clone(), NOW).await.unwrap();
        assert_eq!(created, Created::New(new.task.clone()));
    }
    assert!(request_parts(store, &first.task.key(), 3).await == Some(format!("{large}bc")), "the parts differ");
    assert!(request_parts(store, &second.task.key(), 2).await == Some(format!("d{large}")), "the parts differ");
}

/// Promise: a refusal for any reason leaves nothing of a large request.
pub async fn a_refused_creation_leaves_no_parts(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    store.create(given::new_with_key(given::task(&ids, owner("alice"), NOW), 1, 1), NOW).await.unwrap();
    let new = || given::new_with_parts(&ids, owner("alice"), &["a", "b"]);
    let reused = NewTask { idempotency: given::key(1, 2), ..new() };
    let refused = store.create(reused.clone(), NOW).await;
    assert!(matches!(refused, Err(CreateError::KeyReused)), "{refused:?}");
    let one_too_many = NewTask { open_max: 1, ..new() };
    let refused = store.create(one_too_many.clone(), NOW).await;
    assert!(matches!(refused, Err(CreateError::TooManyOpen { open_max: 1 })), "{refused:?}");
    for new in [reused, one_too_many] {
        for count in [1, 2] {
            assert_eq!(request_parts(store, &new.task.key(), count).await, None, "parts of a refused call");
        }
    }
}

/// Promise: a retry that is recognised by its key leaves nothing either, and the task keeps its own parts.
pub async fn a_retry_leaves_no_parts_of_its_own(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let new = |parts| NewTask { idempotency: given::key(1, 1), ..given::new_with_parts(&ids, owner("alice"), parts) };
    let first = new(&["a", "b"]);
    store.create(first.clone(), NOW).await.unwrap();
    let retry = new(&["x", "y"]);
    let retried = store.create(retry.clone(), NOW).await.unwrap();
    assert_eq!(retried, Created::Existing(first.task.clone()));
    assert_eq!(request_parts(store, &retry.task.key(), 1).await, None, "parts of a retry");
    assert_eq!(request_parts(store, &first.task.key(), 2).await.as_deref(), Some("ab"));
}

/// A call with the idempotency key 1, whose journal begins with these numbered entries and a large value.
fn resumed(ids: &SeededIds, request: u8, entries: u32) -> NewTask {
    let large = ["a".repeat(longhaul_core::limits::PART_BYTES), "b".to_owned()];
    let name = PartsName::Entry { attempt: 1, entry: "step#large".to_owned() };
    let bytes = large.iter().map(String::len).sum::<usize>() as u64;
    let recording = Some(Recording { at: NOW, took_ms: Some(1), attempt: 1, order: Some([0, 1]) });
    let entry = |name: String, value| Entry { kind: EntryKind::Step, name, value, recording };
    let small = (1..entries).map(|number| NewEntry {
        entry: entry(format!("step {number}"), given::inline(&number.to_string())),
        parts: Vec::new(),
    });
    let large =
        NewEntry { entry: entry("large".to_owned(), Payload::Parts { name, count: 2, bytes }), parts: large.into() };
    let task = given::task_with(ids, owner("alice"), NOW, |record| record.attempt = 1);
    NewTask { journal: small.chain([large]).collect(), ..given::new_with_key(task, 1, request) }
}

async fn sorted_journal(store: &dyn TaskStore, key: &TaskKey) -> Vec<Entry> {
    let mut journal = store.journal(key).await.unwrap();
    journal.sort_by(|one, other| one.name.cmp(&other.name));
    journal
}

/// Promise: once a creation returns, the task has the journal with which it begins.
pub async fn a_new_task_begins_with_its_journal(store: &dyn TaskStore) {
    let new = resumed(&SeededIds::new(1), 1, 120);
    let key = new.task.key();
    for expected in [Created::New(new.task.clone()), Created::Existing(new.task.clone())] {
        assert_eq!(store.create(new.clone(), NOW).await.unwrap(), expected);
        let mut expected: Vec<Entry> = new.journal.iter().map(|new| new.entry.clone()).collect();
        expected.sort_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(sorted_journal(store, &key).await, expected);
    }
    let Payload::Parts { name, .. } = &new.journal[119].entry.value else { panic!("the value is not in parts") };
    let parts = store.parts(&key, name, 2).await.unwrap();
    assert!(parts == Some(new.journal[119].parts.concat()), "the parts differ");
    let again = Entry { recording: None, ..new.journal[0].entry.clone() };
    assert_eq!(store.record(&key, &again).await.unwrap(), Recorded::Earlier(new.journal[0].entry.clone()));
}

/// Promise: a creation that is refused, or that finds an earlier task, leaves nothing of its journal.
pub async fn a_refused_creation_leaves_no_journal(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let first = resumed(&ids, 1, 2);
    store.create(first.clone(), NOW).await.unwrap();
    let (retry, reused) = (resumed(&ids, 1, 2), resumed(&ids, 2, 2));
    assert_eq!(store.create(retry.clone(), NOW).await.unwrap(), Created::Existing(first.task.clone()));
    let refused = store.create(reused.clone(), NOW).await;
    assert!(matches!(refused, Err(CreateError::KeyReused)), "{refused:?}");
    for new in [retry, reused] {
        assert_eq!(store.journal(&new.task.key()).await.unwrap(), []);
    }
    assert_eq!(store.journal(&first.task.key()).await.unwrap().len(), 2);
}

/// Promise: a creation whose id is taken changes nothing of the task that has the id.
pub async fn a_second_creation_keeps_the_parts_of_the_first(store: &dyn TaskStore) {
    let new = |parts| given::new_with_parts(&SeededIds::new(1), owner("alice"), parts);
    let first = new(&["a", "b"]);
    store.create(first.clone(), NOW).await.unwrap();
    for open_max in [1_000, 1] {
        let second = NewTask { open_max, ..new(&["x", "y"]) };
        assert_eq!(store.create(second, NOW).await.unwrap(), Created::Existing(first.task.clone()));
        assert_eq!(request_parts(store, &first.task.key(), 2).await.as_deref(), Some("ab"));
    }
}

/// Promise: a task of another owner is "not found".
pub async fn a_task_is_found_by_no_other_owner(store: &dyn TaskStore) {
    let task = queued(store, &SeededIds::new(1), owner("alice")).await;
    for other in [owner("bob"), OwnerId::of(Identity::Anonymous), OwnerId::from_bytes([0; 32])] {
        assert_eq!(on_record(store, &TaskKey::new(other, task.id)).await, None);
    }
}

/// Promise: the same for events.
pub async fn a_task_is_changed_by_no_other_owner(store: &dyn TaskStore) {
    let task = given::running(store, &SeededIds::new(1), owner("alice")).await;
    let key = TaskKey::new(owner("bob"), task.id);
    for event in [TaskEvent::Cancel, given::finish(1, "{}"), given::heartbeat(1, NOW), given::claim(2, NOW)] {
        let refused = store.apply(&key, &event, NOW).await;
        assert!(matches!(refused, Err(ApplyError::NotFound)), "{event:?}: {refused:?}");
    }
    assert_eq!(on_record(store, &task.key()).await, Some(task));
}

/// Promise: no character inside an identity reaches another owner's data, with any verb.
pub async fn owners_that_look_alike_share_nothing(store: &dyn TaskStore) {
    let kilobytes = "a".repeat(2_048);
    let fields =
        ["", ":", "#", "|", "/", "%", "_", "*", "auth0", "auth0:", "auth0:alice", "\0", "ü", "u\u{308}", &kilobytes];
    let mut owners: Vec<OwnerId> = Vec::new();
    for field in fields {
        owners.push(OwnerId::of(Identity::Verified { issuer: field, subject: "x", tenant: "" }));
        owners.push(OwnerId::of(Identity::Verified { issuer: "x", subject: field, tenant: "" }));
        owners.push(OwnerId::of(Identity::Verified { issuer: "x", subject: "", tenant: field }));
    }
    owners.extend(
        [[0; 32], [0x00; 31].iter().chain([&1]).copied().collect::<Vec<u8>>().try_into().unwrap(), [0xff; 32]]
            .map(OwnerId::from_bytes),
    );
    owners.sort_unstable();
    owners.dedup();
    // The same id and the same key for all of them.
    for owner in &owners {
        let task = given::task(&SeededIds::new(1), *owner, NOW);
        let created = store.create(given::new_with_key(task.clone(), 1, 1), NOW).await.unwrap();
        assert_eq!(created, Created::New(task), "{owner:?}");
    }
    for owner in &owners {
        let page = store.list(owner, None, 100, NOW).await.unwrap();
        assert_eq!(page.tasks, [given::task(&SeededIds::new(1), *owner, NOW)]);
    }
}
