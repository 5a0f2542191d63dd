//! Promises of the reader of unfinished tasks, for a store that is one with a queue. The reader finds the tasks without
//! a message, so that tasks continue without polls, and no others. Each function is one promise;
//! [`unfinished_contract!`](crate::unfinished_contract!) makes each of them a test of an adapter.

use std::slice::from_ref;
use std::time::Duration;

use longhaul_core::ports::{Message, UnfinishedTasks};
use longhaul_core::{OwnerId, Task, TaskEvent, TaskKey, Timestamp, limits};

use crate::given::{self, NOW, owner};
use crate::{QueueHarness, SeededIds, StoreHarness};

/// The harness of an adapter: a store and a queue that are one, both empty, for each promise.
pub trait UnfinishedHarness: StoreHarness + QueueHarness {
    /// The reader of the store's unfinished tasks.
    fn unfinished(&self) -> &dyn UnfinishedTasks;
}

/// How long deliveries hide their message in these tests.
const HIDDEN_MS: u64 = 4_000;

/// How many looks it may take until a task is found for which nothing changes.
const LOOKS_MAX: u32 = 25;

/// Real time within which a task whose message was deleted has to be found.
const PATIENCE: Duration = Duration::from_secs(20);

async fn created(harness: &dyn UnfinishedHarness, seed: u64, owner: OwnerId) -> Task {
    let task = given::task(&SeededIds::new(seed), owner, NOW);
    harness.store().create(given::new(task.clone()), NOW).await.unwrap();
    task
}

async fn changed(harness: &dyn UnfinishedHarness, task: &Task, events: &[TaskEvent]) -> Task {
    let mut task = task.clone();
    for event in events {
        task = harness.store().apply(&task.key(), event, NOW).await.unwrap();
    }
    task
}

async fn found_at(harness: &dyn UnfinishedHarness, now: Timestamp) -> Vec<Task> {
    harness.unfinished().unfinished(None, 10, now).await.unwrap()
}

/// Promise: a task without a message is found as it is recorded, in any unfinished state.
pub async fn an_unfinished_task_without_a_message_is_found(harness: &dyn UnfinishedHarness) {
    let task = created(harness, 1, owner("alice")).await;
    assert_eq!(found_at(harness, NOW).await, from_ref(&task));
    let running = changed(harness, &task, &[given::claim(1, NOW)]).await;
    assert_eq!(found_at(harness, NOW).await, [running]);
    let asking = changed(harness, &task, &[given::asks(1, &["a"], None)]).await;
    assert_eq!(found_at(harness, NOW).await, [asking]);
}

/// Promise: what has ended or expired is not found.
pub async fn what_has_ended_or_expired_is_not_unfinished(harness: &dyn UnfinishedHarness) {
    let [one, other] = [created(harness, 1, owner("alice")).await, created(harness, 2, owner("alice")).await];
    changed(harness, &one, &[TaskEvent::Cancel]).await;
    assert_eq!(found_at(harness, NOW).await, from_ref(&other));
    assert_eq!(found_at(harness, other.expires_at.minus_ms(1)).await, from_ref(&other));
    assert_eq!(found_at(harness, other.expires_at).await, []);
}

/// Promise: a task is left out as long as it has a message, also one that is hidden, and found once that is deleted.
pub async fn a_task_with_a_message_is_left_out(harness: &dyn UnfinishedHarness) {
    let task = created(harness, 1, owner("alice")).await;
    harness.queue().send(&Message::about(&task), HIDDEN_MS).await.unwrap();
    assert_eq!(found_at(harness, NOW).await, []);
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    let [delivery] = harness.queue().receive(10, HIDDEN_MS, 0).await.unwrap().try_into().unwrap();
    assert_eq!(found_at(harness, NOW).await, [], "its message was received, and may come again");
    harness.queue().delete(&delivery.receipt).await.unwrap();
    // A deletion need not be durable at once.
    let found = async {
        while found_at(harness, NOW).await != [task.clone()] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("a task without a message was not found");
}

/// Promise: a task that has missed its deadline and would expire unfinished is found in spite of its message.
pub async fn a_late_task_is_found_before_it_expires(harness: &dyn UnfinishedHarness) {
    let task = created(harness, 1, owner("alice")).await;
    harness.queue().send(&Message::about(&task), 0).await.unwrap();
    let soon = task.expires_at.minus_ms(limits::EXPIRES_SOON_MS);
    assert!(soon > NOW && task.deadline() < task.expires_at);
    assert_eq!(found_at(harness, task.deadline().minus_ms(1).min(soon)).await, []);
    // A store may spare itself some looks while nothing changes.
    let mut looks = 0..LOOKS_MAX;
    while looks.next().is_some() && found_at(harness, task.deadline().max(soon)).await != from_ref(&task) {}
    assert!(looks.start < LOOKS_MAX, "a task that is about to expire was not found");
}

/// Promise: the same holds for each message on its own, and for each owner.
pub async fn a_message_is_that_of_its_task_alone(harness: &dyn UnfinishedHarness) {
    let alices = [created(harness, 1, owner("alice")).await, created(harness, 2, owner("alice")).await];
    let bobs = created(harness, 3, owner("bob")).await;
    harness.queue().send(&Message::about(&alices[0]), 0).await.unwrap();
    let mut without = [alices[1].clone(), bobs];
    without.sort_by_key(|task| task.key());
    assert_eq!(found_at(harness, NOW).await, without);
}

/// Promise: pages follow each other in the order of the keys, and each task without a message is on one of them.
pub async fn pages_of_unfinished_tasks_have_no_gaps_and_no_duplicates(harness: &dyn UnfinishedHarness) {
    let mut keys = Vec::new();
    for (seed, owner) in (0..9).zip(["alice", "bob", "carol"].into_iter().cycle().map(owner)) {
        let task = created(harness, seed, owner).await;
        if seed % 4 == 0 {
            harness.queue().send(&Message::about(&task), HIDDEN_MS).await.unwrap();
        } else {
            keys.push(task.key());
        }
    }
    keys.sort();
    let (mut read, mut after) = (Vec::<TaskKey>::new(), None);
    for _ in 0..=keys.len() {
        let page = harness.unfinished().unfinished(after, 2, NOW).await.unwrap();
        assert!(page.len() <= 2, "{} tasks on a page", page.len());
        after = page.last().map(Task::key);
        read.extend(page.iter().map(Task::key));
        if after.is_none() {
            break;
        }
    }
    assert_eq!(read, keys);
}

/// Passes the names of all promises to the macro `[$then]`, after `$argument`.
#[macro_export]
macro_rules! unfinished_promises {
    ([$($then:tt)+], $argument:path) => {
        $($then)+! {
            $argument;
            an_unfinished_task_without_a_message_is_found,
            what_has_ended_or_expired_is_not_unfinished,
            a_task_with_a_message_is_left_out,
            a_late_task_is_found_before_it_expires,
            a_message_is_that_of_its_task_alone,
            pages_of_unfinished_tasks_have_no_gaps_and_no_duplicates,
        }
    };
}

/// One test per promise of the reader of unfinished tasks. `$make` is a function without arguments whose future returns
/// an [`UnfinishedHarness`](crate::UnfinishedHarness) whose store and queue are empty.
#[macro_export]
macro_rules! unfinished_contract {
    ($make:path) => {
        $crate::unfinished_promises!([$crate::unfinished_contract_tests], $make);
    };
}

/// The tests of [`unfinished_contract!`].
#[doc(hidden)]
#[macro_export]
macro_rules! unfinished_contract_tests {
    ($make:path; $($promise:ident,)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::block_on(async {
                    let harness = $make().await;
                    $crate::unfinished_contract::$promise(&harness).await;
                });
            }
        )*
    };
}
