//! Promises about the limit of unfinished tasks per owner.

use longhaul_core::ports::{CreateError, Created, NewTask, TaskStore};
use longhaul_core::{OwnerId, Task, TaskEvent, Timestamp};

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
        tasks.push(create(store, ids, owner, NOW).await.expect("a slot is free"));
    }
    assert_eq!(create(store, ids, owner, NOW).await, None, "the limit does not hold");
    tasks
}

/// Fills all slots, takes one task through `events`, and expects that this releases exactly one slot.
async fn releases_one_slot(store: &dyn TaskStore, events: &[(TaskEvent, Timestamp)]) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let tasks = fill(store, &ids, alice).await;
    let mut now = NOW;
    for (event, at) in events {
        assert_eq!(create(store, &ids, alice, now).await, None, "a slot was released before {event:?}");
        store.apply(&tasks[1].key(), event, *at).await.unwrap();
        now = *at;
    }
    assert!(create(store, &ids, alice, now).await.is_some(), "the slot was not released");
    assert_eq!(create(store, &ids, alice, now).await, None, "more than one slot was released");
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

/// Promise: a retry creates no task, and so needs no slot.
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

/// Promise: every end releases the task's slot.
pub async fn a_result_releases_the_slot(store: &dyn TaskStore) {
    releases_one_slot(store, &[(given::claim(1, NOW), NOW), (given::finish(1, "{}"), NOW)]).await;
}

/// Promise: every end releases the task's slot.
pub async fn an_error_releases_the_slot(store: &dyn TaskStore) {
    releases_one_slot(store, &[(given::claim(1, NOW), NOW), (given::fail(1), NOW)]).await;
}

/// Promise: every end releases the task's slot.
pub async fn a_cancel_releases_the_slot(store: &dyn TaskStore) {
    let events = [(given::claim(1, NOW), NOW), (given::asks(1, &["a"], None), NOW), (TaskEvent::Cancel, NOW)];
    releases_one_slot(store, &events).await;
}

/// Promise: every end releases the task's slot.
pub async fn exhausted_retries_release_the_slot(store: &dyn TaskStore) {
    let mut events = Vec::new();
    for attempt in 1..longhaul_core::limits::CONSECUTIVE_FAILURES_MAX_DEFAULT {
        events.extend([(given::claim(1, NOW), NOW), (given::retry(attempt, NOW), NOW)]);
    }
    events.extend([(given::claim(1, NOW), NOW), (TaskEvent::RetriesExhausted, NOW.plus_ms(LEASE_MS))]);
    releases_one_slot(store, &events).await;
}

/// Promise: every end releases the task's slot.
pub async fn a_time_out_releases_the_slot(store: &dyn TaskStore) {
    let deadline = given::task(&SeededIds::new(1), owner("alice"), NOW).deadline();
    releases_one_slot(store, &[(TaskEvent::TimeOut, deadline)]).await;
}

/// Promise: tasks that expired unfinished use no slots, whether or not they were deleted.
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

/// Promise: events after the end release no slot.
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

/// Promise: extending the retention of an unfinished task does not release its slot.
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
