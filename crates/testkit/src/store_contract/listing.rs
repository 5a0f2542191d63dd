//! Promises about lists.

use longhaul_core::ports::TaskStore;
use longhaul_core::{Task, TaskEvent, TaskId, Timestamp};

use crate::SeededIds;
use crate::given::{self, NOW, owner};

/// `count` tasks of Alice, a millisecond apart, newest first. Their ids spread over all shards that a store may have.
async fn tasks(store: &dyn TaskStore, ids: &SeededIds, count: u64) -> Vec<Task> {
    let mut tasks = Vec::new();
    for number in 0..count {
        let task = given::task(ids, owner("alice"), NOW.plus_ms(number));
        store.create(given::new(task.clone()), NOW).await.unwrap();
        tasks.push(task);
    }
    tasks.reverse();
    tasks
}

/// All pages of Alice's list from `before` on, and their sizes.
async fn pages(
    store: &dyn TaskStore,
    mut before: Option<TaskId>,
    limit: usize,
    now: Timestamp,
) -> (Vec<Task>, Vec<usize>) {
    let (mut all, mut sizes) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let page = store.list(&owner("alice"), before, limit, now).await.unwrap();
        assert!(page.tasks.len() <= limit);
        sizes.push(page.tasks.len());
        all.extend(page.tasks);
        match page.next {
            None => return (all, sizes),
            next => before = next,
        }
    }
    panic!("the list has no end")
}

/// Promise: the newest task comes first.
pub async fn a_list_has_the_newest_first(store: &dyn TaskStore) {
    let created = tasks(store, &SeededIds::new(1), 40).await;
    assert_eq!(store.list(&owner("alice"), None, 100, NOW).await.unwrap().tasks, created);
}

/// Promise: owners do not see each other's tasks.
pub async fn a_list_has_only_the_tasks_of_its_owner(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let created = tasks(store, &ids, 3).await;
    let bobs = given::queued(store, &ids, owner("bob")).await;
    assert_eq!(store.list(&owner("alice"), None, 100, NOW).await.unwrap().tasks, created);
    assert_eq!(store.list(&owner("bob"), None, 100, NOW).await.unwrap().tasks, [bobs]);
}

/// Promise: a list shows every task as it is now.
pub async fn a_list_has_ended_tasks_too(store: &dyn TaskStore) {
    let created = tasks(store, &SeededIds::new(1), 3).await;
    let ended = store.apply(&created[1].key(), &TaskEvent::Cancel, NOW).await.unwrap();
    let listed = store.list(&owner("alice"), None, 100, NOW).await.unwrap().tasks;
    assert_eq!(listed, [created[0].clone(), ended, created[2].clone()]);
}

/// Promise: an owner without tasks gets an empty list and no cursor.
pub async fn a_list_of_nothing_is_one_empty_page(store: &dyn TaskStore) {
    assert_eq!(pages(store, None, 10, NOW).await, (Vec::new(), vec![0]));
}

/// Promise: with any page size, each task is on exactly one page.
pub async fn pages_have_no_gaps_and_no_duplicates(store: &dyn TaskStore) {
    let created = tasks(store, &SeededIds::new(1), 23).await;
    for limit in [1, 2, 7, 22, 23, 24, 100] {
        assert_eq!(pages(store, None, limit, NOW).await.0, created, "pages of {limit}");
    }
}

/// Promise: tasks that are created meanwhile do not move the others.
pub async fn pages_join_while_tasks_are_added(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let created = tasks(store, &ids, 9).await;
    let mut seen = Vec::new();
    let mut before = None;
    for number in 0..3 {
        let page = store.list(&owner("alice"), before, 3, NOW).await.unwrap();
        seen.extend(page.tasks);
        before = page.next;
        let newer = given::task(&ids, owner("alice"), NOW.plus_ms(1_000 + number));
        store.create(given::new(newer), NOW).await.unwrap();
    }
    assert_eq!((seen, before), (created, None));
}

/// Promise: a page is short only at the end of the list.
pub async fn pages_are_full_also_where_tasks_expired_in_between(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let (mut living, now) = (Vec::new(), NOW.plus_ms(5_000));
    for number in 0..60 {
        let task = given::task_with(&ids, owner("alice"), NOW.plus_ms(number), |record| {
            // Long runs of expired tasks, among them the newest and the oldest.
            if number % 20 != 10 && number % 20 != 11 {
                record.expires_at = NOW.plus_ms(5_000);
            }
        });
        store.create(given::new(task.clone()), NOW).await.unwrap();
        if !task.has_expired(now) {
            living.push(task);
        }
    }
    living.reverse();
    assert_eq!(pages(store, None, 2, now).await, (living.clone(), vec![2, 2, 2]));
    assert_eq!(pages(store, None, 4, now).await, (living, vec![4, 2]));
}

/// Promise: a cursor leads to at least one more task.
pub async fn the_last_page_says_that_it_is_the_last(store: &dyn TaskStore) {
    tasks(store, &SeededIds::new(1), 6).await;
    assert_eq!(pages(store, None, 3, NOW).await.1, [3, 3]);
    assert_eq!(pages(store, None, 6, NOW).await.1, [6]);
    assert_eq!(pages(store, None, 4, NOW).await.1, [4, 2]);
}

/// Promise: a cursor is a position in the order, not a task.
pub async fn a_cursor_whose_task_is_gone_still_works(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let created = tasks(store, &ids, 4).await;
    let never_created = given::task(&ids, owner("alice"), NOW.plus_ms(2)).id;
    let expected: Vec<Task> = created.into_iter().filter(|task| task.id < never_created).collect();
    assert_eq!(pages(store, Some(never_created), 10, NOW).await.0, expected);
    let oldest = given::task(&ids, owner("alice"), NOW.minus_ms(1)).id;
    assert_eq!(pages(store, Some(oldest), 10, NOW).await, (Vec::new(), vec![0]));
}
