//! Promises about expiry: an expired task is absent for every verb, whether or not it was deleted.

use longhaul_core::ports::{ApplyError, Created, TaskStore};
use longhaul_core::{Refusal, Task, TaskEvent, Timestamp};

use crate::SeededIds;
use crate::given::{self, NOW, on_record, owner, queued};

/// An accepted call that expires soon, and the time at which it does.
async fn short_lived(store: &dyn TaskStore, ids: &SeededIds) -> (Task, Timestamp) {
    let task = given::task_with(ids, owner("alice"), NOW, |record| {
        record.terms.ttl_ms = 1_000;
        record.expires_at = NOW.plus_ms(1_000);
    });
    store.create(given::new_with_key(task.clone(), 1, 1), NOW).await.unwrap();
    let expiry = task.expires_at;
    (task, expiry)
}

/// Promise: a lookup compares with the time it is given.
pub async fn an_expired_task_is_not_found(store: &dyn TaskStore) {
    let (task, expiry) = short_lived(store, &SeededIds::new(1)).await;
    for now in [expiry, expiry.plus_ms(1), expiry.plus_ms(1_000_000)] {
        assert_eq!(store.get(&task.key(), now).await.unwrap(), None);
    }
}

/// Promise: an event compares with the time it is given.
pub async fn an_expired_task_takes_no_event(store: &dyn TaskStore) {
    let (task, expiry) = short_lived(store, &SeededIds::new(1)).await;
    for event in
        [given::claim(1, expiry), TaskEvent::Cancel, TaskEvent::TimeOut, TaskEvent::Resend { not_since: expiry }]
    {
        let outcome = store.apply(&task.key(), &event, expiry).await;
        assert!(matches!(outcome, Err(ApplyError::NotFound)), "{event:?}: {outcome:?}");
    }
    assert_eq!(on_record(store, &task.key()).await, Some(task));
}

/// Promise: a list compares with the time it is given.
pub async fn an_expired_task_is_in_no_list(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let (_, expiry) = short_lived(store, &ids).await;
    let living = queued(store, &ids, owner("alice")).await;
    let page = store.list(&owner("alice"), None, 10, expiry).await.unwrap();
    assert_eq!(page.tasks, [living]);
}

/// Promise: a creation compares with the time it is given, and nothing of the expired task becomes part of the new one.
pub async fn an_expired_task_does_not_block_its_id(store: &dyn TaskStore) {
    let (task, expiry) = short_lived(store, &SeededIds::new(1)).await;
    let again = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| record.tool = "other".to_owned());
    assert_eq!(again.id, task.id);
    assert_eq!(store.create(given::new(again.clone()), expiry).await.unwrap(), Created::New(again.clone()));
    assert_eq!(store.get(&again.key(), expiry).await.unwrap(), Some(again));
}

/// Promise: an idempotency key lives as long as its task.
pub async fn an_expired_task_frees_its_idempotency_key(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let (first, expiry) = short_lived(store, &ids).await;
    let other = given::task(&ids, owner("alice"), expiry);
    let before = store.create(given::new_with_key(other.clone(), 1, 1), expiry.minus_ms(1)).await.unwrap();
    assert_eq!(before, Created::Existing(first));
    let after = store.create(given::new_with_key(other.clone(), 1, 2), expiry).await.unwrap();
    assert_eq!(after, Created::New(other.clone()));
    let retried = given::task(&ids, owner("alice"), expiry);
    let retried = store.create(given::new_with_key(retried, 1, 2), expiry).await.unwrap();
    assert_eq!(retried, Created::Existing(other));
}

/// Promise: the end of a task may move its expiry, and every verb knows the new one.
pub async fn a_late_end_extends_the_expiry(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let (task, expiry) = short_lived(store, &ids).await;
    let late = expiry.minus_ms(1);
    let ended = store.apply(&task.key(), &TaskEvent::Cancel, late).await.unwrap();
    assert_eq!(ended.expires_at, late.plus_ms(task.terms.retention_ms));
    let last = ended.expires_at.minus_ms(1);
    assert_eq!(store.get(&task.key(), last).await.unwrap(), Some(ended.clone()));
    assert_eq!(store.list(&owner("alice"), None, 10, last).await.unwrap().tasks, std::slice::from_ref(&ended));
    let retried = given::task(&ids, owner("alice"), last);
    let retried = store.create(given::new_with_key(retried, 1, 1), last).await.unwrap();
    assert_eq!(retried, Created::Existing(ended));
}

/// Promise: a result is retained for as long as requested, before the end and after it.
pub async fn a_task_is_kept_longer_on_request(store: &dyn TaskStore) {
    let (task, expiry) = short_lived(store, &SeededIds::new(1)).await;
    let keep = |more_ms| TaskEvent::ExtendRetention { retention_ms: task.terms.retention_ms + more_ms };
    let longer = store.apply(&task.key(), &keep(1_000), NOW).await.unwrap();
    assert!(longer.expires_at >= task.deadline().plus_ms(task.terms.retention_ms + 1_000));
    let late = expiry.minus_ms(1);
    let ended = store.apply(&task.key(), &TaskEvent::Cancel, late).await.unwrap();
    assert!(ended.expires_at >= late.plus_ms(task.terms.retention_ms + 1_000));
    let longer = store.apply(&task.key(), &keep(2_000_000), late).await.unwrap();
    assert_eq!(longer.expires_at, late.plus_ms(task.terms.retention_ms + 2_000_000));
    let last = longer.expires_at.minus_ms(1);
    assert_eq!(store.get(&task.key(), last).await.unwrap(), Some(longer.clone()));
    // Never shorter.
    assert_eq!(store.apply(&task.key(), &keep(0), last).await.unwrap(), longer);
}

/// Promise: a forgotten task is gone at once, and only an ended task can be forgotten.
pub async fn an_ended_task_is_forgotten_on_request(store: &dyn TaskStore) {
    let (task, _) = short_lived(store, &SeededIds::new(1)).await;
    let early = store.apply(&task.key(), &TaskEvent::Forget, NOW).await;
    assert!(matches!(early, Err(ApplyError::Refused { why: Refusal::NotEnded, .. })), "{early:?}");
    let ended = store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert!(!ended.has_expired(NOW));
    store.apply(&task.key(), &TaskEvent::Forget, NOW).await.unwrap();
    assert_eq!(store.get(&task.key(), NOW).await.unwrap(), None);
    let twice = store.apply(&task.key(), &TaskEvent::Forget, NOW).await;
    assert!(matches!(twice, Err(ApplyError::NotFound)), "{twice:?}");
}

/// Promise: expiry is exact, not rounded to seconds.
pub async fn a_task_lives_until_the_millisecond_before_its_expiry(store: &dyn TaskStore) {
    let (task, expiry) = short_lived(store, &SeededIds::new(1)).await;
    let last = expiry.minus_ms(1);
    assert_eq!(store.get(&task.key(), last).await.unwrap(), Some(task.clone()));
    assert_eq!(store.list(&owner("alice"), None, 10, last).await.unwrap().tasks, std::slice::from_ref(&task));
    store.apply(&task.key(), &given::claim(1, last), last).await.unwrap();
}
