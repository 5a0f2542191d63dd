//! Promises about filtered lists.

use std::collections::BTreeSet;

use longhaul_core::ports::TaskStore;
use longhaul_core::{Status, Task, TaskEvent, TaskFilter, Timestamp};

use crate::SeededIds;
use crate::given::{self, NOW, owner};

/// All pages of Alice's tasks that a filter takes.
async fn filtered(store: &dyn TaskStore, filter: &TaskFilter, limit: usize, now: Timestamp) -> Vec<Task> {
    let (mut all, mut before) = (Vec::new(), None);
    for _ in 0..100 {
        let page = store.list_filtered(&owner("alice"), filter, before, limit, now).await.unwrap();
        assert!(page.tasks.len() <= limit);
        all.extend(page.tasks);
        if page.next.is_none() {
            return all;
        }
        before = page.next;
    }
    panic!("the list has no end")
}

fn of(statuses: &[Status], tool: Option<&str>) -> TaskFilter {
    TaskFilter { statuses: statuses.iter().copied().collect(), tool: tool.map(str::to_owned) }
}

/// `count` tasks of Alice, newest first: of three tools, and each fifth in the same status.
async fn tasks(store: &dyn TaskStore, ids: &SeededIds, count: u64) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (number, tool) in (0..count).zip(["add", "add up", "wait"].into_iter().cycle()) {
        let at = NOW.plus_ms(number);
        let task = given::task_with(ids, owner("alice"), at, |record| record.tool = tool.to_owned());
        store.create(given::new(task.clone()), NOW).await.unwrap();
        let events = match number % 5 {
            0 => vec![],
            1 => vec![given::claim(1, at), given::asks(1, &["a"], None)],
            2 => vec![given::claim(1, at), given::finish(1, "{}")],
            3 => vec![given::claim(1, at), given::fail(1)],
            _ => vec![TaskEvent::Cancel],
        };
        let mut latest = task.clone();
        for event in events {
            latest = store.apply(&task.key(), &event, at).await.unwrap();
        }
        tasks.push(latest);
    }
    tasks.reverse();
    tasks
}

/// Promise: a filtered list has all tasks that the filter takes, newest first, and no other ones.
pub async fn a_filtered_list_has_what_its_filter_takes(store: &dyn TaskStore) {
    let all = tasks(store, &SeededIds::new(1), 30).await;
    let statuses: BTreeSet<Status> = all.iter().map(Task::status).collect();
    assert_eq!(statuses.len(), 5, "the tasks are in every status");
    for tool in [None, Some("add"), Some("wait"), Some("ad"), Some("")] {
        for bits in 1_u32..32 {
            let chosen: Vec<Status> =
                Status::ALL.into_iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0).map(|(_, s)| s).collect();
            let expected: Vec<Task> = all
                .iter()
                .filter(|task| chosen.contains(&task.status()) && tool.is_none_or(|tool| tool == task.tool))
                .cloned()
                .collect();
            assert_eq!(filtered(store, &of(&chosen, tool), 100, NOW).await, expected, "{chosen:?} {tool:?}");
        }
    }
}

/// Promise: owners do not see each other's tasks.
pub async fn a_filtered_list_has_only_the_tasks_of_its_owner(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let created = tasks(store, &ids, 5).await;
    let bobs = given::queued(store, &ids, owner("bob")).await;
    assert_eq!(filtered(store, &TaskFilter::default(), 100, NOW).await, created);
    let filter = of(&[Status::Working], Some(&bobs.tool));
    let page = store.list_filtered(&owner("bob"), &filter, None, 100, NOW).await.unwrap();
    assert_eq!(page.tasks, [bobs]);
}

/// Promise: a filtered list shows every task as it is now, under its present status only.
pub async fn a_filtered_list_follows_each_change(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let mut task = given::queued(store, &ids, owner("alice")).await;
    let later = |ms| NOW.plus_ms(ms);
    for (event, now) in [
        (given::claim(1, NOW), NOW),
        (given::asks(1, &["a"], None), later(1)),
        (given::answer(&["a"]), later(2)),
        (given::claim(2, later(3)), later(3)),
        (given::progress(2, later(4), 0.5), later(4)),
        (given::finish(2, "{}"), later(5)),
        (TaskEvent::ExtendRetention { retention_ms: 3_600_000 }, later(6)),
    ] {
        task = store.apply(&task.key(), &event, now).await.unwrap();
        for status in Status::ALL {
            let listed = filtered(store, &of(&[status], None), 10, later(6)).await;
            let expected = if status == task.status() { vec![task.clone()] } else { Vec::new() };
            assert_eq!(listed, expected, "{status:?} after {event:?}");
        }
    }
}

/// Promise: a filter that names no status takes nothing.
pub async fn a_filter_without_a_status_takes_nothing(store: &dyn TaskStore) {
    tasks(store, &SeededIds::new(1), 5).await;
    assert_eq!(filtered(store, &of(&[], None), 10, NOW).await, []);
}

/// Promise: what has expired is passed over.
pub async fn a_filtered_list_passes_over_what_has_expired(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let (mut living, now) = (Vec::new(), NOW.plus_ms(5_000));
    for number in 0..40 {
        let task = given::task_with(&ids, owner("alice"), NOW.plus_ms(number), |record| {
            if number % 20 != 10 {
                record.expires_at = now;
            }
        });
        store.create(given::new(task.clone()), NOW).await.unwrap();
        if !task.has_expired(now) {
            living.push(task);
        }
    }
    living.reverse();
    assert_eq!(filtered(store, &of(&[Status::Working], None), 1, now).await, living);
}

/// Promise: with any page size, each task is on exactly one page, even if others come in the meantime.
pub async fn pages_of_a_filtered_list_have_no_gaps_and_no_duplicates(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let all = tasks(store, &ids, 60).await;
    let filter = of(&[Status::InputRequired, Status::Failed], None);
    let expected: Vec<Task> = all.into_iter().filter(|task| filter.takes(task)).collect();
    for limit in [1, 2, 5, 23, 24, 25, 100] {
        assert_eq!(filtered(store, &filter, limit, NOW).await, expected, "pages of {limit}");
    }
    let first = store.list_filtered(&owner("alice"), &filter, None, 5, NOW).await.unwrap();
    let newer = given::task(&ids, owner("alice"), NOW.plus_ms(1_000));
    store.create(given::new(newer.clone()), NOW).await.unwrap();
    store.apply(&newer.key(), &given::claim(1, NOW), NOW).await.unwrap();
    store.apply(&newer.key(), &given::fail(1), NOW).await.unwrap();
    let mut seen = first.tasks;
    let mut before = first.next;
    while before.is_some() {
        let page = store.list_filtered(&owner("alice"), &filter, before, 5, NOW).await.unwrap();
        seen.extend(page.tasks);
        before = page.next;
    }
    assert_eq!(seen, expected);
}
