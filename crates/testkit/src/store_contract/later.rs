//! Promises about tasks that are to start later.

use longhaul_core::ports::{CreateError, NewTask, TaskStore};
use longhaul_core::{Refusal, State, TaskEvent, Timestamp};

use super::changing::refused;
use crate::SeededIds;
use crate::given::{self, NOW, on_record, owner};

/// When the tasks here are to start: in ten days, which is later than a task would be kept that starts at once.
const START: Timestamp = NOW.plus_ms(10 * 86_400_000);

/// Promise: nothing begins a task before the time that its caller asked for, and a worker that comes then has it.
pub async fn a_task_that_starts_later_is_not_begun_before(store: &dyn TaskStore) {
    let task = given::later(&SeededIds::new(1), owner("alice"), START);
    store.create(given::new(task.clone()), NOW).await.unwrap();
    for early in [NOW, START.minus_ms(1)] {
        let claim = given::claim(1, early);
        assert_eq!(refused(store, &task.key(), &claim, early).await, Refusal::NotDue { until: START });
        let wake = TaskEvent::Wake { at: early };
        assert_eq!(refused(store, &task.key(), &wake, early).await, Refusal::NothingToWake);
        let resend = TaskEvent::Resend { not_since: early };
        assert_eq!(refused(store, &task.key(), &resend, early).await, Refusal::NotDue { until: START });
    }
    assert_eq!(on_record(store, &task.key()).await, Some(task.clone()));
    let claimed = store.apply(&task.key(), &given::claim(1, START), START).await.unwrap();
    assert_eq!((claimed.attempt, claimed.started_at, claimed.not_before), (1, Some(START), Some(START)));
}

/// Promise: the longest run and the time to live count from the start.
pub async fn a_later_start_moves_the_deadline_and_the_expiry(store: &dyn TaskStore) {
    let task = given::later(&SeededIds::new(1), owner("alice"), START);
    store.create(given::new(task.clone()), NOW).await.unwrap();
    let deadline = START.plus_ms(task.terms.run_ms);
    let early = deadline.minus_ms(1);
    assert_eq!(refused(store, &task.key(), &TaskEvent::TimeOut, early).await, Refusal::BeforeDeadline);
    let expires_at = START.plus_ms(task.terms.ttl_ms);
    assert!(store.get(&task.key(), expires_at.minus_ms(1)).await.unwrap().is_some());
    assert_eq!(store.get(&task.key(), expires_at).await.unwrap(), None);
    store.apply(&task.key(), &given::claim(1, early), early).await.unwrap();
    let ended = store.apply(&task.key(), &TaskEvent::TimeOut, deadline).await.unwrap();
    assert!(
        matches!(ended.state, State::Failed { .. }) && ended.expires_at >= deadline.plus_ms(task.terms.retention_ms)
    );
}

/// Promise: a task that waits for its start can be cancelled, and is never begun then.
pub async fn a_task_that_starts_later_can_be_cancelled_before(store: &dyn TaskStore) {
    let task = given::later(&SeededIds::new(1), owner("alice"), START);
    store.create(given::new(task.clone()), NOW).await.unwrap();
    let cancelled = store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!((&cancelled.state, cancelled.started_at), (&State::Cancelled, None));
    let claim = given::claim(1, START);
    assert_eq!(refused(store, &task.key(), &claim, START).await, Refusal::Ended);
}

/// Promise: a task that waits for its start is one of the unfinished ones that are limited, until it ends.
pub async fn a_task_that_starts_later_takes_a_slot(store: &dyn TaskStore) {
    let (ids, alice) = (SeededIds::new(1), owner("alice"));
    let one_slot = |task| NewTask { open_max: 1, ..given::new(task) };
    let first = given::later(&ids, alice, START);
    store.create(one_slot(first.clone()), NOW).await.unwrap();
    let second = given::later(&ids, alice, START.plus_ms(1));
    let refused = store.create(one_slot(second.clone()), NOW).await;
    assert!(matches!(refused, Err(CreateError::TooManyOpen { open_max: 1 })), "{refused:?}");
    store.apply(&first.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    store.create(one_slot(second), NOW).await.unwrap();
}
