//! Notifications are written with what they publish, and stay until they are removed; unfinished tasks without a
//! message are found.

use std::path::Path;
use std::sync::Arc;

use longhaul_core::ports::{Message, NewTask, Outbox, TaskStore, UnfinishedTasks, WorkQueue};
use longhaul_core::{Clock, Notification, NotificationKind, Task, TaskEvent, WEBHOOK_DELIVERY_TOOL};
use longhaul_sqlite::{Database, Notifications, Settings};
use longhaul_testkit::{ManualClock, SeededIds, given};

fn open(path: &Path, notifications: Notifications) -> Database {
    let clock = Arc::new(ManualClock::at(given::NOW)) as Arc<dyn Clock>;
    Database::open(path, clock, Settings { notifications, ..Settings::default() }).unwrap()
}

async fn created(database: &Database, seed: u64) -> Task {
    let task = given::task(&SeededIds::new(seed), given::owner("alice"), given::NOW);
    database.store().create(given::new(task.clone()), given::NOW).await.unwrap();
    task
}

async fn told(database: &Database) -> Vec<(NotificationKind, Task)> {
    let mut told = Vec::new();
    for notification in database.outbox().notifications(99, 0).await.unwrap() {
        let task = database.store().get(&notification.task, given::NOW).await.unwrap().unwrap();
        told.push((notification.what, task));
    }
    told
}

#[tokio::test]
async fn each_end_and_each_question_leaves_one_notification_that_survives_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let database = open(&file, Notifications::Left);
    let tasks = [created(&database, 1).await, created(&database, 2).await, created(&database, 3).await];
    let store = database.store();
    store.apply(&tasks[0].key(), &given::claim(1, given::NOW), given::NOW).await.unwrap();
    store.apply(&tasks[0].key(), &given::asks(1, &["a"], None), given::NOW).await.unwrap();
    store.apply(&tasks[1].key(), &TaskEvent::Cancel, given::NOW).await.unwrap();
    store.apply(&tasks[1].key(), &TaskEvent::Cancel, given::NOW).await.unwrap_err();
    database.close().await;
    drop((store, database));
    let database = open(&file, Notifications::Left);
    let what: Vec<NotificationKind> = told(&database).await.into_iter().map(|(what, _)| what).collect();
    assert_eq!(what, [NotificationKind::InputRequired, NotificationKind::Cancelled]);
    let first = database.outbox().notifications(1, 0).await.unwrap();
    database.outbox().remove(&first).await.unwrap();
    database.outbox().remove(&first).await.unwrap();
    let what: Vec<NotificationKind> = told(&database).await.into_iter().map(|(what, _)| what).collect();
    assert_eq!(what, [NotificationKind::Cancelled]);
}

#[tokio::test]
async fn whoever_waits_for_notifications_is_woken_by_one() {
    let database = Database::in_memory(
        Arc::new(ManualClock::at(given::NOW)) as Arc<dyn Clock>,
        Settings { notifications: Notifications::Left, ..Settings::default() },
    )
    .unwrap();
    let task = created(&database, 1).await;
    let (outbox, store) = (database.outbox(), database.store());
    // The clock stands still: only the notification ends the wait.
    let (found, _) = tokio::join!(outbox.notifications(9, 60_000), async {
        tokio::task::yield_now().await;
        store.apply(&task.key(), &TaskEvent::Cancel, given::NOW).await
    });
    assert_eq!(found.unwrap().len(), 1);
}

#[tokio::test]
async fn a_database_that_nobody_listens_to_leaves_no_notifications() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("tasks.db"), Notifications::None);
    let task = created(&database, 1).await;
    database.store().apply(&task.key(), &TaskEvent::Cancel, given::NOW).await.unwrap();
    assert_eq!(told(&database).await, []);
}

#[tokio::test]
async fn a_refused_event_leaves_no_notification() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("tasks.db"), Notifications::Left);
    let task = created(&database, 1).await;
    database.store().apply(&task.key(), &given::finish(1, "{}"), given::NOW).await.unwrap_err();
    assert_eq!(told(&database).await, []);
}

#[tokio::test]
async fn webhook_deliveries_count_against_no_limit_and_are_not_published() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("tasks.db"), Notifications::Left);
    let store = database.store();
    let new = |seed, tool: &str| {
        let task = given::task_with(&SeededIds::new(seed), given::owner("alice"), given::NOW, |record| {
            record.tool = tool.to_owned();
            record.request = given::inline(&"x".repeat(600));
        });
        NewTask { open_max: 1, stored_max: 1_000, new_max: Some(1), ..given::new(task) }
    };
    for seed in 1..4 {
        let webhook_delivery = new(seed, WEBHOOK_DELIVERY_TOOL);
        store.create(webhook_delivery.clone(), given::NOW).await.unwrap();
        store.apply(&webhook_delivery.task.key(), &TaskEvent::Cancel, given::NOW).await.unwrap();
        store.create(new(seed + 10, WEBHOOK_DELIVERY_TOOL), given::NOW).await.unwrap();
    }
    assert_eq!(told(&database).await, []);
    store.create(new(20, "tool"), given::NOW).await.unwrap();
    store.create(new(21, "tool"), given::NOW).await.unwrap_err();
    store.create(new(22, WEBHOOK_DELIVERY_TOOL), given::NOW).await.unwrap();
}

#[tokio::test]
async fn unfinished_tasks_without_a_message_are_found_page_by_page() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("tasks.db"), Notifications::None);
    let mut tasks = Vec::new();
    for seed in 1..6 {
        tasks.push(created(&database, seed).await);
    }
    let [ended, with_message, .., asking] = &tasks[..] else { unreachable!("there are five") };
    database.store().apply(&ended.key(), &TaskEvent::Cancel, given::NOW).await.unwrap();
    database.queue().send(&Message { task: with_message.key(), trace: None, attempt: None }, 90_000).await.unwrap();
    database.store().apply(&asking.key(), &given::claim(1, given::NOW), given::NOW).await.unwrap();
    database.store().apply(&asking.key(), &given::asks(1, &["a"], None), given::NOW).await.unwrap();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = database.store().unfinished(after, 2, given::NOW).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.key());
        found.extend(page.into_iter().map(|task| task.id));
    }
    let mut expected: Vec<_> = tasks[2..].iter().map(|task| task.id).collect();
    expected.sort();
    assert_eq!(found, expected);
    assert!(
        database.store().unfinished(None, 9, tasks[0].expires_at).await.unwrap().is_empty(),
        "all are past their time"
    );
}

#[tokio::test]
async fn a_notification_comes_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("tasks.db"), Notifications::Left);
    let task = created(&database, 1).await;
    let cancelled = database.store().apply(&task.key(), &TaskEvent::Cancel, given::NOW).await.unwrap();
    let found = database.outbox().notifications(1, 0).await.unwrap();
    assert_eq!(found, [Notification::of(&cancelled).unwrap()]);
}

#[tokio::test]
async fn a_task_whose_message_is_lost_is_found_although_the_last_look_found_none() {
    let folder = tempfile::tempdir().unwrap();
    let database = open(&folder.path().join("tasks.db"), Notifications::None);
    let task = created(&database, 1).await;
    database.queue().send(&Message { task: task.key(), trace: None, attempt: None }, 0).await.unwrap();
    let unfinished = async || database.store().unfinished(None, 9, given::NOW).await.unwrap();
    for _ in 0..3 {
        assert_eq!(unfinished().await, []);
    }
    let [delivery] = database.queue().receive(1, 1_000, 0).await.unwrap().try_into().unwrap();
    database.queue().delete(&delivery.receipt).await.unwrap();
    // A call that waits commits the deletion.
    created(&database, 2).await;
    assert_eq!(unfinished().await.len(), 2);
}
