//! Promises about the limits per owner: of unfinished tasks, and of stored bytes.

use longhaul_core::ports::{CreateError, Created, NewTask, TaskStore};
use longhaul_core::{Outcome, OwnerId, PartsName, Payload, ResultKind, Task, TaskEvent, Timestamp};

use crate::SeededIds;
use crate::given::{self, LEASE_MS, NOW, on_record, owner};

/// The limit in these promises.
const OPEN_MAX: u32 = 3;

fn limited(task: Task) -> NewTask {
    NewTask { open_max: OPEN_MAX, ..given::new(task) }
}

async fn create(store: &dyn TaskStore, ids: &SeededIds, owner: OwnerId, now: Timestamp) -> Option<Task> {
    match store.create(limited(given::task(ids, owner, now)), now).await {
        Ok(Created::New(task)) => Some(task),
        Err(CreateError::TooManyOpen { open_max: OPEN_MAX }) => None,
        other => panic!("{other:?}"),
    }
}

async fn fill(store: &dyn TaskStore, ids: &SeededIds, owner: OwnerId) -> Vec<Task> {
    let mut tasks = Vec::new();
    for _ in 0..OPEN_MAX {
        tasks.push(create(store, ids, owner, NOW).await.expect("the quota has room"));
    }
    assert_eq!(create(store, ids, owner, NOW).await, None, "the limit does not hold");
    tasks
}

/// Fills the open-task quota, takes one task through `events`, and expects that this releases the quota of exactly one
/// task.
async fn releases_one_slot(store: &dyn TaskStore, events: &[(TaskEvent, Timestamp)]) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let tasks = fill(store, &ids, alice).await;
    let mut now = NOW;
    for (event, at) in events {
        assert_eq!(create(store, &ids, alice, now).await, None, "quota was released before {event:?}");
        store.apply(&tasks[1].key(), event, *at).await.unwrap();
        now = *at;
    }
    assert!(create(store, &ids, alice, now).await.is_some(), "the quota was not released");
    assert_eq!(create(store, &ids, alice, now).await, None, "the quota of more than one task was released");
}

/// Promise: an owner has at most as many unfinished tasks as allowed.
pub async fn the_limit_of_unfinished_tasks_holds(store: &dyn TaskStore) {
    fill(store, &SeededIds::new(1), owner("alice")).await;
}

/// Promise: a creation that is refused writes nothing.
pub async fn a_refused_creation_leaves_no_task_and_no_key(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let tasks = fill(store, &ids, alice).await;
    let refused = given::task(&ids, alice, NOW);
    let new = NewTask { open_max: OPEN_MAX, ..given::new_with_key(refused.clone(), 1, 1) };
    let outcome = store.create(new, NOW).await;
    assert!(matches!(outcome, Err(CreateError::TooManyOpen { open_max: OPEN_MAX })), "{outcome:?}");
    assert_eq!(on_record(store, &refused.key()).await, None);
    store.apply(&tasks[0].key(), &TaskEvent::Cancel, NOW).await.unwrap();
    // Another request with the key of the refused call.
    let next = given::task(&ids, alice, NOW);
    let new = NewTask { open_max: OPEN_MAX, ..given::new_with_key(next.clone(), 1, 2) };
    assert_eq!(store.create(new, NOW).await.unwrap(), Created::New(next));
}

/// Promise: a retry creates no task, and so needs no quota.
pub async fn a_retry_is_answered_also_at_the_limit(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let first = given::task(&ids, owner("alice"), NOW);
    let new = |task| NewTask { open_max: 1, ..given::new_with_key(task, 1, 1) };
    store.create(new(first.clone()), NOW).await.unwrap();
    let retried = store.create(new(given::task(&ids, owner("alice"), NOW)), NOW).await.unwrap();
    assert_eq!(retried, Created::Existing(first.clone()));
    let doubled = store.create(NewTask { open_max: 1, ..given::new(first.clone()) }, NOW).await.unwrap();
    assert_eq!(doubled, Created::Existing(first));
}

/// Promise: every end releases the task's quota.
pub async fn a_result_releases_the_slot(store: &dyn TaskStore) {
    releases_one_slot(store, &[(given::claim(1, NOW), NOW), (given::finish(1, "{}"), NOW)]).await;
}

/// Promise: every end releases the task's quota.
pub async fn an_error_releases_the_slot(store: &dyn TaskStore) {
    releases_one_slot(store, &[(given::claim(1, NOW), NOW), (given::fail(1), NOW)]).await;
}

/// Promise: every end releases the task's quota.
pub async fn a_cancel_releases_the_slot(store: &dyn TaskStore) {
    let events = [(given::claim(1, NOW), NOW), (given::asks(1, &["a"], None), NOW), (TaskEvent::Cancel, NOW)];
    releases_one_slot(store, &events).await;
}

/// Promise: every end releases the task's quota.
pub async fn exhausted_retries_release_the_slot(store: &dyn TaskStore) {
    let mut events = Vec::new();
    for attempt in 1..longhaul_core::limits::CONSECUTIVE_FAILURES_MAX_DEFAULT {
        events.extend([(given::claim(1, NOW), NOW), (given::retry(attempt, NOW), NOW)]);
    }
    events.extend([(given::claim(1, NOW), NOW), (TaskEvent::RetriesExhausted, NOW.plus_ms(LEASE_MS))]);
    releases_one_slot(store, &events).await;
}

/// Promise: every end releases the task's quota.
pub async fn a_time_out_releases_the_slot(store: &dyn TaskStore) {
    let deadline = given::task(&SeededIds::new(1), owner("alice"), NOW).deadline();
    releases_one_slot(store, &[(TaskEvent::TimeOut, deadline)]).await;
}

/// Promise: tasks that expired unfinished use no quota, whether or not they were deleted.
pub async fn an_expiry_releases_the_slot(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    for lives_ms in [1_000, 1_000, 50_000] {
        let task = given::task_with(&ids, alice, NOW, |record| record.expires_at = NOW.plus_ms(lives_ms));
        store.create(limited(task), NOW).await.unwrap();
    }
    assert_eq!(create(store, &ids, alice, NOW.plus_ms(999)).await, None);
    let later = NOW.plus_ms(1_000);
    assert!(create(store, &ids, alice, later).await.is_some());
    assert!(create(store, &ids, alice, later).await.is_some());
    assert_eq!(create(store, &ids, alice, later).await, None, "the limit does not hold after an expiry");
}

/// Promise: an end that is refused because the task has ended releases nothing.
pub async fn a_slot_is_released_once(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let tasks = fill(store, &ids, alice).await;
    store.apply(&tasks[0].key(), &TaskEvent::Cancel, NOW).await.unwrap();
    for _ in 0..3 {
        assert!(store.apply(&tasks[0].key(), &TaskEvent::Cancel, NOW).await.is_err());
    }
    assert!(create(store, &ids, alice, NOW).await.is_some());
    assert_eq!(create(store, &ids, alice, NOW).await, None);
}

/// Promise: events after the end release no quota.
pub async fn a_slot_is_not_released_again_after_the_end(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let tasks = fill(store, &ids, alice).await;
    store.apply(&tasks[0].key(), &TaskEvent::Cancel, NOW).await.unwrap();
    for event in [TaskEvent::ExtendRetention { retention_ms: 90_000_000 }, TaskEvent::Forget] {
        store.apply(&tasks[0].key(), &event, NOW).await.unwrap();
    }
    assert!(create(store, &ids, alice, NOW).await.is_some());
    assert_eq!(create(store, &ids, alice, NOW).await, None);
}

/// Promise: extending the retention of an unfinished task does not release its quota.
pub async fn a_slot_is_not_released_before_the_end(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let tasks = fill(store, &ids, alice).await;
    store.apply(&tasks[0].key(), &TaskEvent::ExtendRetention { retention_ms: 90_000_000 }, NOW).await.unwrap();
    assert_eq!(create(store, &ids, alice, NOW).await, None);
    store.apply(&tasks[0].key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert!(create(store, &ids, alice, NOW).await.is_some());
    assert_eq!(create(store, &ids, alice, NOW).await, None);
}

/// Promise: no task is created while there are more than a lowered limit allows.
pub async fn a_lowered_limit_holds_at_once(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    fill(store, &ids, alice).await;
    let new = NewTask { open_max: 1, ..given::new(given::task(&ids, alice, NOW)) };
    let refused = store.create(new, NOW).await;
    assert!(matches!(refused, Err(CreateError::TooManyOpen { open_max: 1 })), "{refused:?}");
}

/// Promise: the limit is per owner.
pub async fn one_owner_does_not_use_up_the_slots_of_another(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    fill(store, &ids, owner("alice")).await;
    let bobs = fill(store, &ids, owner("bob")).await;
    store.apply(&bobs[0].key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!(create(store, &ids, owner("alice"), NOW).await, None);
}

/// The bytes of each request and each result in the promises about stored bytes, and how many of them are allowed.
const TEXT_BYTES: usize = 1_000;
const TEXTS_MAX: u64 = 3;

/// Creates a task with a request of [`TEXT_BYTES`]; `None` if that is refused because of the stored bytes.
async fn store_text(store: &dyn TaskStore, ids: &SeededIds, owner: OwnerId) -> Option<Task> {
    let task = given::task_with(ids, owner, NOW, |record| record.request = given::inline(&"x".repeat(TEXT_BYTES)));
    let stored_max = TEXTS_MAX * TEXT_BYTES as u64;
    match store.create(NewTask { stored_max, ..given::new(task.clone()) }, NOW).await {
        Ok(Created::New(task)) => Some(task),
        Err(CreateError::TooMuchStored { stored_max: told }) if told == stored_max => {
            assert_eq!(on_record(store, &task.key()).await, None, "a refused creation left a task");
            None
        }
        other => panic!("{other:?}"),
    }
}

/// Promise: the arguments of an owner's tasks have at most as many bytes as allowed.
pub async fn the_limit_of_stored_bytes_holds(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    for _ in 0..TEXTS_MAX {
        assert!(store_text(store, &ids, owner("alice")).await.is_some(), "there was room");
    }
    assert_eq!(store_text(store, &ids, owner("alice")).await, None);
}

/// Promise: results count too, even after the end, and no end is refused because of them.
pub async fn stored_results_count_and_ends_are_never_refused(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let first = store_text(store, &ids, alice).await.unwrap();
    let second = store_text(store, &ids, alice).await.unwrap();
    for task in [&first, &second] {
        store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap();
        let result = "x".repeat(TEXT_BYTES);
        let ended = store.apply(&task.key(), &given::finish(1, &result), NOW).await.unwrap();
        assert!(ended.has_ended());
        if task.id == first.id {
            let third = store_text(store, &ids, alice).await;
            assert_eq!(third, None, "two requests and a result leave no room");
        }
    }
}

/// Promise: large requests and results count with all their parts.
pub async fn the_parts_of_large_texts_count(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let part = "x".repeat(TEXT_BYTES);
    let new = |parts: &[&str], texts_max: usize| {
        let stored_max = (texts_max * TEXT_BYTES) as u64;
        NewTask { stored_max, ..given::new_with_parts(&ids, alice, parts) }
    };
    let first = new(&[&part, &part], 2);
    store.create(first.clone(), NOW).await.unwrap();
    let refused = store.create(new(&[&part], 2), NOW).await;
    assert!(matches!(refused, Err(CreateError::TooMuchStored { .. })), "{refused:?}");
    store.apply(&first.task.key(), &given::claim(1, NOW), NOW).await.unwrap();
    let name = PartsName::Outcome { attempt: 1 };
    store.put_parts(&first.task.key(), &name, &[&part, &part]).await.unwrap();
    let result = Payload::Parts { name, count: 2, bytes: 2 * TEXT_BYTES as u64 };
    let finish = TaskEvent::Finish {
        attempt: 1,
        outcome: Outcome::Completed { result, kind: ResultKind::Success },
        progress: None,
        labels: None,
    };
    store.apply(&first.task.key(), &finish, NOW).await.unwrap();
    let refused = store.create(new(&[&part], 4), NOW).await;
    assert!(matches!(refused, Err(CreateError::TooMuchStored { .. })), "{refused:?}");
    store.create(new(&[&part], 5), NOW).await.unwrap();
}

/// Promise: a retry is answered even where nothing more may be stored, and stores nothing.
pub async fn a_retry_stores_nothing(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let new = |stored_max| {
        let task = given::task_with(&ids, owner("alice"), NOW, |record| record.request = given::inline("1234567890"));
        NewTask { stored_max, ..given::new_with_key(task, 1, 1) }
    };
    let Ok(Created::New(first)) = store.create(new(10), NOW).await else { panic!("there was room") };
    for _ in 0..3 {
        assert_eq!(store.create(new(10), NOW).await.unwrap(), Created::Existing(first.clone()));
        assert_eq!(store.create(new(100), NOW).await.unwrap(), Created::Existing(first.clone()));
    }
    let other = given::task_with(&ids, owner("alice"), NOW, |record| record.request = given::inline("1234567890"));
    store.create(NewTask { stored_max: 20, ..given::new(other) }, NOW).await.unwrap();
}

/// Promise: the limit of stored bytes is per owner.
pub async fn one_owner_does_not_use_up_the_bytes_of_another(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    for _ in 0..TEXTS_MAX {
        store_text(store, &ids, owner("alice")).await.unwrap();
    }
    assert!(store_text(store, &ids, owner("bob")).await.is_some());
}
