//! Promises of a store about records that it cannot read. A damaged record costs itself only, and a record of a newer
//! version is left alone. Each function is one promise; [`damage_contract!`](crate::damage_contract!) makes each of
//! them a test of an adapter, next to those of [`store_contract!`](macro@crate::store_contract).

use async_trait::async_trait;
use longhaul_core::ports::{ApplyError, Created, NewTask, Outbox, StoreError, UnfinishedTasks};
use longhaul_core::{
    Entry, EntryKind, Failure, FailureKind, Refusal, State, Status, Task, TaskEvent, TaskFilter, TaskKey, Timestamp,
};

use crate::given::{self, NOW, owner};
use crate::{Damage, SeededIds, StoreHarness};

/// The harness of an adapter: an empty store for each promise, and the means to damage its records.
#[async_trait]
pub trait DamageHarness: StoreHarness {
    /// Damages the stored record of a task, without the store.
    async fn damage(&self, key: &TaskKey, damage: Damage);

    /// Damages the stored entry of a task's journal, without the store.
    async fn damage_entry(&self, key: &TaskKey, kind: EntryKind, name: &str);

    /// Everything that is stored of a task's record, as text.
    async fn stored(&self, key: &TaskKey) -> String;

    /// The unfinished tasks, if the store knows them.
    fn unfinished(&self) -> Option<&dyn UnfinishedTasks> {
        None
    }

    /// The outbox, if the store has one that gets what its tasks publish.
    fn outbox(&self) -> Option<&dyn Outbox> {
        None
    }

    /// Damages the notification that was left first.
    async fn damage_first_notification(&self) {}
}

/// Tasks of Alice, oldest first, each a millisecond later than the one before.
async fn tasks(harness: &dyn DamageHarness, count: u64) -> Vec<Task> {
    let (ids, mut tasks) = (SeededIds::new(1), Vec::new());
    for number in 0..count {
        let task = given::task(&ids, owner("alice"), NOW.plus_ms(number));
        harness.store().create(given::new(task.clone()), NOW).await.unwrap();
        tasks.push(task);
    }
    tasks
}

/// All pages of Alice's tasks, newest first.
async fn listed(harness: &dyn DamageHarness, filter: Option<&TaskFilter>, limit: usize) -> Vec<Task> {
    let (mut all, mut before) = (Vec::new(), None);
    for _ in 0..100 {
        let page = match filter {
            None => harness.store().list(&owner("alice"), before, limit, NOW).await.unwrap(),
            Some(filter) => harness.store().list_filtered(&owner("alice"), filter, before, limit, NOW).await.unwrap(),
        };
        assert!(page.tasks.len() <= limit);
        all.extend(page.tasks);
        before = page.next;
        if before.is_none() {
            return all;
        }
    }
    panic!("the list has no end")
}

fn says_that_it_cannot_be_read(task: &Task) -> bool {
    let State::Failed { failure: Failure { kind, message, .. } } = &task.state else { return false };
    *kind == FailureKind::Corrupt && message.contains("cannot be read")
}

/// Nine tasks, and the keys of those of them that are damaged: each in another way.
async fn with_each_damage(harness: &dyn DamageHarness) -> (Vec<Task>, Vec<TaskKey>) {
    let tasks = tasks(harness, 9).await;
    let mut damaged = Vec::new();
    for (damage, task) in Damage::LOST.into_iter().zip(tasks.iter().skip(1).step_by(2)) {
        harness.damage(&task.key(), damage).await;
        damaged.push(task.key());
    }
    (tasks, damaged)
}

/// Promise: a task whose record is damaged is one that has failed, in every list and alone, and the others are whole.
pub async fn a_damaged_record_costs_its_own_task_only(harness: &dyn DamageHarness) {
    let (tasks, damaged) = with_each_damage(harness).await;
    for limit in [1, 2, 100] {
        let mut all = listed(harness, None, limit).await;
        all.reverse();
        assert_eq!(all.len(), tasks.len(), "in pages of {limit}");
        for (task, listed) in tasks.iter().zip(all) {
            if damaged.contains(&task.key()) {
                assert_eq!(listed.key(), task.key());
                assert!(says_that_it_cannot_be_read(&listed), "{listed:?}");
                let alone = harness.store().get(&task.key(), NOW).await.unwrap();
                assert_eq!(alone.as_ref(), Some(&listed));
            } else {
                assert_eq!(&listed, task);
            }
        }
    }
}

/// Promise: filters take it for a failed one, and pages of other tasks are full.
pub async fn a_damaged_task_is_listed_with_the_failed_ones(harness: &dyn DamageHarness) {
    let (tasks, damaged) = with_each_damage(harness).await;
    let of = |status| TaskFilter { statuses: [status].into(), ..TaskFilter::default() };
    assert_eq!(listed(harness, None, 100).await.len(), tasks.len());
    for limit in [1, 2, 100] {
        assert_eq!(listed(harness, Some(&of(Status::Working)), limit).await.len(), tasks.len() - damaged.len());
        let mut failed: Vec<TaskKey> =
            listed(harness, Some(&of(Status::Failed)), limit).await.iter().map(Task::key).collect();
        failed.reverse();
        assert_eq!(failed, damaged, "in pages of {limit}");
    }
}

/// Promise: it refuses every event that an ended task refuses, in any state that it had before.
pub async fn a_damaged_task_takes_no_event(harness: &dyn DamageHarness) {
    for (number, damage) in (1..).zip(Damage::LOST) {
        let task = given::running(harness.store(), &SeededIds::new(number), owner("alice")).await;
        harness.damage(&task.key(), damage).await;
        for event in [
            given::claim(2, NOW),
            given::heartbeat(1, NOW),
            given::finish(1, "{}"),
            TaskEvent::Cancel,
            TaskEvent::Resend { not_since: NOW },
        ] {
            let refused = harness.store().apply(&task.key(), &event, NOW).await;
            let Err(ApplyError::Refused { current, why: Refusal::Ended }) = refused else {
                panic!("{damage:?}: {event:?} was not refused: {refused:?}")
            };
            assert!(says_that_it_cannot_be_read(&current), "{damage:?}: {current:?}");
        }
    }
}

/// Promise: it is not found once it has expired.
pub async fn a_damaged_task_expires_like_others(harness: &dyn DamageHarness) {
    for (number, damage) in (1..).zip(Damage::LOST) {
        let task = given::queued(harness.store(), &SeededIds::new(number), owner("alice")).await;
        harness.damage(&task.key(), damage).await;
        assert!(harness.store().get(&task.key(), NOW).await.unwrap().is_some());
        assert_eq!(harness.store().get(&task.key(), task.expires_at).await.unwrap(), None, "{damage:?}");
    }
}

/// Promise: a damaged task does not count against the open-task quota once the store has read it.
pub async fn a_damaged_task_frees_its_slot(harness: &dyn DamageHarness) {
    for (number, damage) in (1..).zip(Damage::LOST) {
        let (ids, owner) = (SeededIds::new(number), owner(&format!("owner {number}")));
        let one = |task| NewTask { open_max: 1, ..given::new(task) };
        let task = given::task(&ids, owner, NOW);
        harness.store().create(one(task.clone()), NOW).await.unwrap();
        harness.damage(&task.key(), damage).await;
        harness.store().get(&task.key(), NOW).await.unwrap();
        let created = harness.store().create(one(given::task(&ids, owner, NOW)), NOW.plus_ms(60_000)).await;
        assert!(matches!(created, Ok(Created::New(_))), "{damage:?}: {created:?}");
    }
}

/// Promise: a retry of the call finds the damaged task, and makes no second one.
pub async fn a_retry_finds_the_damaged_task(harness: &dyn DamageHarness) {
    for (number, damage) in (1..).zip(Damage::LOST) {
        let ids = SeededIds::new(number.into());
        let new = given::new_with_key(given::task(&ids, owner("alice"), NOW), number, 1);
        harness.store().create(new.clone(), NOW).await.unwrap();
        harness.damage(&new.task.key(), damage).await;
        let again = given::new_with_key(given::task(&ids, owner("alice"), NOW), number, 1);
        for retry in [new.clone(), again] {
            let created = harness.store().create(retry, NOW).await.unwrap();
            let Created::Existing(existing) = created else { panic!("{damage:?}: {created:?}") };
            assert_eq!(existing.key(), new.task.key());
            assert!(says_that_it_cannot_be_read(&existing), "{damage:?}: {existing:?}");
        }
    }
}

/// Promise: a record of a newer version does not count as damaged. Nothing is changed, and the store only says that the
/// version is newer. Its task is in no list, and keeps no other task out of one.
pub async fn a_record_of_a_newer_version_is_left_alone(harness: &dyn DamageHarness) {
    let tasks = tasks(harness, 3).await;
    let newer = tasks[1].key();
    harness.damage(&newer, Damage::NewerVersion).await;
    let before = harness.stored(&newer).await;
    for limit in [1, 100] {
        assert_eq!(listed(harness, None, limit).await, [tasks[2].clone(), tasks[0].clone()]);
        let working = TaskFilter { statuses: Status::ALL.into(), ..TaskFilter::default() };
        assert_eq!(listed(harness, Some(&working), limit).await, [tasks[2].clone(), tasks[0].clone()]);
    }
    let found = harness.store().get(&newer, NOW).await;
    assert!(matches!(found, Err(StoreError::NewerVersion(_))), "{found:?}");
    for event in [given::claim(1, NOW), TaskEvent::Cancel, TaskEvent::Resend { not_since: NOW }] {
        let applied = harness.store().apply(&newer, &event, NOW.plus_ms(60_000)).await;
        assert!(matches!(applied, Err(ApplyError::Store(StoreError::NewerVersion(_)))), "{event:?}: {applied:?}");
    }
    assert_eq!(harness.stored(&newer).await, before);
}

/// Promise: an entry of a journal that cannot be read is a permanent error, including for a caller that records it
/// again.
pub async fn a_damaged_entry_is_no_passing_fault(harness: &dyn DamageHarness) {
    let tasks = tasks(harness, 2).await;
    let entry = Entry { kind: EntryKind::Step, name: "a".to_owned(), value: given::inline("1"), recording: None };
    for task in &tasks {
        harness.store().record(&task.key(), &entry).await.unwrap();
    }
    harness.damage_entry(&tasks[0].key(), EntryKind::Step, "a").await;
    let journal = harness.store().journal(&tasks[0].key()).await;
    assert!(matches!(journal, Err(StoreError::Corrupt(_))), "{journal:?}");
    let recorded = harness.store().record(&tasks[0].key(), &entry).await;
    assert!(matches!(recorded, Err(StoreError::Corrupt(_))), "{recorded:?}");
    assert_eq!(harness.store().journal(&tasks[1].key()).await.unwrap(), [entry]);
}

/// Promise: the reader of all unfinished tasks returns those that can be read.
pub async fn an_unreadable_task_is_not_among_the_unfinished_ones(harness: &dyn DamageHarness) {
    let Some(unfinished) = harness.unfinished() else { return };
    let (tasks, mut unreadable) = with_each_damage(harness).await;
    unreadable.push(tasks[8].key());
    harness.damage(&tasks[8].key(), Damage::NewerVersion).await;
    let mut expected: Vec<TaskKey> = tasks.iter().map(Task::key).filter(|key| !unreadable.contains(key)).collect();
    expected.sort();
    for max in [1, 2, 100] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = unfinished.unfinished(after, max, NOW).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.key());
            found.extend(page.iter().map(Task::key));
        }
        assert_eq!(found, expected, "in pages of {max}");
    }
}

/// Promise: a notification that cannot be read keeps no other one waiting.
pub async fn a_damaged_notification_costs_itself_only(harness: &dyn DamageHarness) {
    let Some(outbox) = harness.outbox() else { return };
    let tasks = tasks(harness, 3).await;
    for (task, number) in tasks.iter().zip(0..) {
        harness.store().apply(&task.key(), &TaskEvent::Cancel, later(number)).await.unwrap();
    }
    harness.damage_first_notification().await;
    for max in [1, 9, 9] {
        let told = outbox.notifications(max, 0).await.unwrap();
        let told: Vec<TaskKey> = told.iter().map(|notification| notification.task).collect();
        let left: Vec<TaskKey> = tasks.iter().skip(1).take(max).map(Task::key).collect();
        assert_eq!(told, left);
    }
}

fn later(number: u64) -> Timestamp {
    NOW.plus_ms(100 + number)
}

/// Passes the names of all promises to the macro `[$then]`, after `$argument`.
#[macro_export]
macro_rules! damage_promises {
    ([$($then:tt)+], $argument:path) => {
        $($then)+! {
            $argument;
            a_damaged_record_costs_its_own_task_only,
            a_damaged_task_is_listed_with_the_failed_ones,
            a_damaged_task_takes_no_event,
            a_damaged_task_expires_like_others,
            a_damaged_task_frees_its_slot,
            a_retry_finds_the_damaged_task,
            a_record_of_a_newer_version_is_left_alone,
            a_damaged_entry_is_no_passing_fault,
            an_unreadable_task_is_not_among_the_unfinished_ones,
            a_damaged_notification_costs_itself_only,
        }
    };
}

/// One test per promise of a store that meets what it cannot read. `$make` is a function without arguments whose future
/// returns a [`DamageHarness`] with an empty store.
#[macro_export]
macro_rules! damage_contract {
    ($make:path) => {
        $crate::damage_promises!([$crate::damage_contract_tests], $make);
    };
}

/// The tests of [`damage_contract!`].
#[doc(hidden)]
#[macro_export]
macro_rules! damage_contract_tests {
    ($make:path; $($promise:ident,)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::block_on(async {
                    let harness = $make().await;
                    $crate::damage_contract::$promise(&harness).await;
                });
            }
        )*
    };
}
