//! Promises about filtered lists.

use std::collections::BTreeSet;

use longhaul_core::ports::TaskStore;
use longhaul_core::{Advance, Labels, Outcome, ResultKind, Status, Suspension, Task, TaskEvent, TaskFilter, Timestamp};

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
    TaskFilter { statuses: statuses.iter().copied().collect(), tool: tool.map(str::to_owned), ..TaskFilter::default() }
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

fn labelled(pairs: &[(&str, &str)]) -> TaskFilter {
    TaskFilter { labels: given::labels(pairs), ..TaskFilter::default() }
}

/// Promise: a list filtered by labels has the tasks that have all of them, with each value as it is now.
pub async fn a_list_finds_tasks_by_all_of_their_labels(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let mut all = Vec::new();
    for number in 0..24_u64 {
        let at = NOW.plus_ms(number);
        let customer = if number % 3 == 0 { "acme" } else { "globex" };
        let task = given::task_with(&ids, owner("alice"), at, |record| {
            record.tool = if number % 2 == 0 { "add" } else { "wait" }.to_owned();
            if number % 4 > 0 {
                record.labels = given::labels(&[("customer", customer), ("n", &(number % 2).to_string())]);
            }
        });
        store.create(given::new(task.clone()), NOW).await.unwrap();
        let event = if number % 5 == 0 { TaskEvent::Cancel } else { given::claim(1, at) };
        all.push(store.apply(&task.key(), &event, at).await.unwrap());
    }
    all.reverse();
    let bobs = given::task_with(&ids, owner("bob"), NOW, |record| record.labels = given::labels(&[("n", "1")]));
    store.create(given::new(bobs), NOW).await.unwrap();
    let cancelled = TaskFilter { statuses: [Status::Cancelled].into(), ..labelled(&[("customer", "globex")]) };
    let added = TaskFilter { tool: Some("add".to_owned()), ..labelled(&[("customer", "globex")]) };
    let both = labelled(&[("customer", "acme"), ("n", "1")]);
    for filter in [labelled(&[("customer", "acme")]), both, cancelled, added] {
        let expected: Vec<Task> = all.iter().filter(|task| filter.takes(task)).cloned().collect();
        assert!(expected.len() > 1, "{filter:?}");
        for limit in [1, 3, 100] {
            assert_eq!(filtered(store, &filter, limit, NOW).await, expected, "{filter:?} {limit}");
        }
    }
    for other in [&[("customer", "acm")], &[("customer", "Acme")], &[("customers", "acme")]] {
        assert_eq!(filtered(store, &labelled(other), 10, NOW).await, [], "{other:?}");
    }
}

/// Promise: labels change with the heartbeat, the suspension and the end that bring them, and lists follow.
pub async fn a_list_follows_each_change_of_labels(store: &dyn TaskStore) {
    let ids = SeededIds::new(1);
    let mut task = given::queued(store, &ids, owner("alice")).await;
    let later = |ms| NOW.plus_ms(ms);
    let (lease_until, first) = (later(60_000), given::labels(&[("stage", "one"), ("customer", "acme")]));
    let heartbeat = TaskEvent::Heartbeat {
        attempt: 1,
        lease_until,
        progress: None,
        labels: Some(first.clone()),
        advance: Advance::NotYet,
    };
    let second = given::labels(&[("stage", "two")]);
    let labels = Some(second.clone());
    let suspend = TaskEvent::Suspend { attempt: 1, suspension: Suspension::Yield, progress: None, labels };
    let outcome = Outcome::Completed { result: given::inline("{}"), kind: ResultKind::Success };
    let finish = TaskEvent::Finish { attempt: 3, outcome, progress: None, labels: Some(first.clone()) };
    let none = Some(Labels::default());
    let remove = TaskEvent::Suspend { attempt: 2, suspension: Suspension::Yield, progress: None, labels: none };
    for (number, (event, labels)) in (0_u64..).zip([
        (given::claim(1, NOW), Labels::default()),
        (heartbeat, first.clone()),
        (given::heartbeat(1, later(2)), first.clone()),
        (suspend, second.clone()),
        (given::claim(2, later(4)), second),
        (remove, Labels::default()),
        (given::claim(3, later(6)), Labels::default()),
        (finish, first.clone()),
    ]) {
        task = store.apply(&task.key(), &event, later(number)).await.unwrap();
        assert_eq!(task.labels, labels, "after {event:?}");
        assert_eq!(store.get(&task.key(), NOW).await.unwrap().as_ref(), Some(&task));
        for pair in [("stage", "one"), ("stage", "two"), ("customer", "acme")] {
            let filter = labelled(&[pair]);
            let expected = if filter.takes(&task) { vec![task.clone()] } else { Vec::new() };
            assert_eq!(filtered(store, &filter, 10, NOW).await, expected, "{pair:?} after {event:?}");
        }
    }
}

/// Promise: labels go with their task, and one of the same id begins with its own.
pub async fn labels_of_an_expired_task_find_nothing(store: &dyn TaskStore) {
    let task = given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
        record.labels = given::labels(&[("customer", "acme")]);
    });
    store.create(given::new(task.clone()), NOW).await.unwrap();
    let expired = task.expires_at;
    let acme = labelled(&[("customer", "acme")]);
    assert_eq!(filtered(store, &acme, 10, expired).await, []);
    let mut record = task.into_record();
    (record.expires_at, record.labels) = (expired.plus_ms(1_000), given::labels(&[("customer", "globex")]));
    let next = Task::restore(record);
    store.create(given::new(next.clone()), expired).await.unwrap();
    assert_eq!(filtered(store, &acme, 10, expired).await, []);
    assert_eq!(filtered(store, &labelled(&[("customer", "globex")]), 10, expired).await, [next]);
}
