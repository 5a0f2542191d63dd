//! Promises about the cleanup of a task.

use longhaul_core::ports::{ApplyError, Created, TaskStore};
use longhaul_core::{Cleanup, CleanupEnd, Lease, LeaseToken, Refusal, Suspension, Task, TaskEvent, limits};

use crate::given::{self, LEASE_MS, NOW, on_record, owner};
use crate::{SeededIds, at_once};

/// How many concurrent callers there are.
const CALLERS: u8 = 16;

fn lease(number: u8) -> Lease {
    Lease { until: NOW.plus_ms(LEASE_MS), token: LeaseToken::from_random([number; 16]) }
}

fn begin(number: u8) -> TaskEvent {
    TaskEvent::BeginCleanup { lease: lease(number) }
}

const fn end(number: u8, end: CleanupEnd) -> TaskEvent {
    TaskEvent::EndCleanup { token: LeaseToken::from_random([number; 16]), end }
}

/// A stored task that a worker holds, and whose tool has something that cleans up.
async fn armed(store: &dyn TaskStore) -> Task {
    armed_with(store, &SeededIds::new(1)).await
}

async fn armed_with(store: &dyn TaskStore, ids: &SeededIds) -> Task {
    let task = given::task_with(ids, owner("alice"), NOW, |record| record.cleanup = Cleanup::ARMED);
    let Created::New(task) = store.create(given::new(task), NOW).await.unwrap() else {
        panic!("an id that was never used is taken")
    };
    store.apply(&task.key(), &given::claim(1, NOW), NOW).await.unwrap()
}

async fn cancelled(store: &dyn TaskStore) -> Task {
    let task = armed(store).await;
    store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap()
}

async fn refused(store: &dyn TaskStore, task: &Task, event: &TaskEvent) -> Refusal {
    match store.apply(&task.key(), event, NOW).await {
        Err(ApplyError::Refused { why, .. }) => why,
        other => panic!("{event:?} was not refused: {other:?}"),
    }
}

/// Promise: what is to be done after the end of a task is stored with it, and stays when it ends.
pub async fn cleanup_that_is_due_is_on_record(store: &dyn TaskStore) {
    let task = cancelled(store).await;
    assert_eq!(task.cleanup, Cleanup::ARMED);
    assert_eq!(on_record(store, &task.key()).await, Some(task));
}

/// Promise: if another process than the holding worker writes the end, the record keeps the time until which the holder
/// may not know it. This includes a lease that was renewed after the end was decided on. The beginning of the cleanup
/// removes the time.
pub async fn who_may_still_run_the_tool_is_on_record(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let (task, later) = (armed_with(store, &ids).await, NOW.plus_ms(7));
    store.apply(&task.key(), &given::heartbeat(1, later), later).await.unwrap();
    let cancelled = store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!(cancelled.held_until, Some(later.plus_ms(LEASE_MS)));
    assert_eq!(on_record(store, &task.key()).await, Some(cancelled));
    let begun = store.apply(&task.key(), &begin(1), NOW).await.unwrap();
    assert_eq!((begun.held_until, on_record(store, &task.key()).await), (None, Some(begun)));

    let task = armed_with(store, &ids).await;
    let timed_out = store.apply(&task.key(), &TaskEvent::TimeOut, task.deadline()).await.unwrap();
    assert_eq!(timed_out.held_until, Some(NOW.plus_ms(LEASE_MS)));
}

/// Promise: an end leaves no time if no worker holds the task, or if the one that does has written it.
pub async fn nobody_runs_the_tool_of_a_task_that_nobody_held(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let task = armed_with(store, &ids).await;
    let finished = store.apply(&task.key(), &given::fail(1), NOW).await.unwrap();
    assert_eq!((finished.held_until, on_record(store, &task.key()).await), (None, Some(finished)));
    let task = armed_with(store, &ids).await;
    store.apply(&task.key(), &given::suspend(1, Suspension::Timer(NOW.plus_ms(LEASE_MS))), NOW).await.unwrap();
    let cancelled = store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!((cancelled.held_until, on_record(store, &task.key()).await), (None, Some(cancelled)));
}

/// Promise: a try to clean up keeps other workers out until its lease has ended, and each try is counted.
pub async fn one_worker_at_a_time_cleans_up(store: &dyn TaskStore) {
    let task = cancelled(store).await;
    let begun = store.apply(&task.key(), &begin(1), NOW).await.unwrap();
    assert_eq!(begun.cleanup, Cleanup::Armed { tries: 1, lease: Some(lease(1)) });
    assert_eq!(refused(store, &task, &begin(2)).await, Refusal::Leased { until: lease(1).until });
    assert_eq!(on_record(store, &task.key()).await, Some(begun));
    let later = lease(1).until;
    let again = Lease { until: later.plus_ms(LEASE_MS), ..lease(2) };
    let begun = store.apply(&task.key(), &TaskEvent::BeginCleanup { lease: again }, later).await.unwrap();
    assert_eq!(begun.cleanup, Cleanup::Armed { tries: 2, lease: Some(again) });
}

/// Promise: only the worker that began says how it ended, and what is done is not begun again.
pub async fn cleanup_ends_once_and_for_its_worker_only(store: &dyn TaskStore) {
    let task = cancelled(store).await;
    let begun = store.apply(&task.key(), &begin(1), NOW).await.unwrap();
    refused(store, &task, &end(2, CleanupEnd::Done)).await;
    assert_eq!(on_record(store, &task.key()).await, Some(begun));
    let done = store.apply(&task.key(), &end(1, CleanupEnd::Done), NOW).await.unwrap();
    assert_eq!((done.cleanup, &done.state), (Cleanup::Done, &task.state));
    assert_eq!(refused(store, &task, &begin(2)).await, Refusal::NothingToClean);
    assert_eq!(on_record(store, &task.key()).await, Some(done));
}

/// Promise: the last try that fails is followed by giving up.
pub async fn cleanup_that_fails_too_often_is_given_up(store: &dyn TaskStore) {
    let task = cancelled(store).await;
    for tries in 1..=limits::CLEANUP_TRIES_MAX {
        let begun = store.apply(&task.key(), &begin(1), NOW).await.unwrap();
        assert_eq!(begun.cleanup, Cleanup::Armed { tries, lease: Some(lease(1)) });
        let failed = end(1, CleanupEnd::Failed { again_at: NOW });
        store.apply(&task.key(), &failed, NOW).await.unwrap();
    }
    let given_up = store.apply(&task.key(), &begin(1), NOW).await.unwrap();
    assert_eq!(given_up.cleanup, Cleanup::GivenUp);
    assert_eq!(refused(store, &task, &begin(1)).await, Refusal::NothingToClean);
}

/// Promise: no cleanup begins for a task that runs, that its tool ended, or whose tool has no cleanup.
pub async fn nothing_is_cleaned_up_after_that_needs_no_cleanup(store: &dyn TaskStore) {
    let task = armed(store).await;
    assert_eq!(refused(store, &task, &begin(1)).await, Refusal::NotEnded);
    let ended = store.apply(&task.key(), &given::finish(1, "{}"), NOW).await.unwrap();
    assert_eq!(refused(store, &task, &begin(1)).await, Refusal::NothingToClean);
    assert_eq!(on_record(store, &task.key()).await, Some(ended));
    let plain = given::running(store, &SeededIds::new(2), owner("alice")).await;
    store.apply(&plain.key(), &TaskEvent::Cancel, NOW).await.unwrap();
    assert_eq!(refused(store, &plain, &begin(1)).await, Refusal::NothingToClean);
}

/// Promise: the message for a task that is to be cleaned up can be sent again, although the task has ended.
pub async fn a_message_for_cleanup_is_sent_again(store: &dyn TaskStore) {
    let task = cancelled(store).await;
    let later = NOW.plus_ms(1);
    let resent = store.apply(&task.key(), &TaskEvent::Resend { not_since: NOW }, later).await.unwrap();
    assert_eq!((resent.sent_at, resent.resends), (later, 1));
    store.apply(&task.key(), &begin(1), later).await.unwrap();
    store.apply(&task.key(), &end(1, CleanupEnd::Done), later).await.unwrap();
    assert_eq!(refused(store, &task, &TaskEvent::Resend { not_since: later }).await, Refusal::Ended);
}

/// Promise: one of many workers that come at once begins, and its lease is the one recorded.
pub async fn of_many_workers_at_once_one_begins_to_clean_up(store: &dyn TaskStore) {
    let task = cancelled(store).await;
    let begun = at_once(usize::from(CALLERS), |caller| {
        let (key, number) = (task.key(), u8::try_from(caller).unwrap());
        async move { store.apply(&key, &begin(number), NOW).await.ok() }
    });
    let won: Vec<_> = begun.into_iter().flatten().collect();
    assert_eq!(won.len(), 1, "{} workers began", won.len());
    assert_eq!(on_record(store, &task.key()).await.as_ref(), won.first());
}
