//! A file that an earlier version wrote: everything in it is read, and written under the same names.

use std::path::Path;
use std::sync::Arc;

use longhaul_core::ports::{Outbox, TaskStore};
use longhaul_core::{
    AttemptOutcome, Cleanup, Clock, EntryKind, NotificationKind, OwnerId, Status, Task, TaskEvent, TaskKey, Timestamp,
};
use longhaul_sqlite::{Database, Settings};
use longhaul_testkit::{ManualClock, given};
use rusqlite::Connection;

/// When the process was killed that wrote the file.
const KILLED_AT: Timestamp = Timestamp::from_ms(1_795_682_443_600);

/// The tasks in the file: their tools and ids.
const COUNTDOWN: &str = "01a21703-6f84-7d9a-a3f1-16cedc67c1bf";
const GATHER: &str = "01a21703-721d-7eb2-99b5-ba6de1e76990";
const WEBHOOK_DELIVERY: &str = "01a21703-8fcc-7d26-a8ae-9c1b5089924e";
const ASK: &str = "01a21703-9555-794c-8221-9e3070b5d041";
const PANICKED: &str = "01a21703-960f-764d-a1b4-ef4fecf6f9a1";
const HUNG: &str = "01a21703-a11d-72ba-9e66-52718f2c6c6a";

fn key(id: &str) -> TaskKey {
    let owner: OwnerId = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d".parse().unwrap();
    TaskKey { owner, id: id.parse().unwrap() }
}

fn opened(file: &Path) -> Database {
    Connection::open(file).unwrap().execute_batch(include_str!("../stored/november-2026.sql")).unwrap();
    Database::open(file, Arc::new(ManualClock::at(KILLED_AT)) as Arc<dyn Clock>, Settings::default()).unwrap()
}

async fn task(database: &Database, id: &str) -> Task {
    database.store().get(&key(id), KILLED_AT).await.unwrap().unwrap()
}

#[tokio::test]
async fn the_records_of_an_earlier_version_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let database = opened(&folder.path().join("tasks.db"));
    let countdown = task(&database, COUNTDOWN).await;
    assert_eq!((countdown.status(), countdown.attempt, countdown.failures), (Status::Working, 6, 1));
    assert_eq!(countdown.cleanup, Cleanup::None);
    assert!(countdown.attempts.since.is_some());
    let past: Vec<u32> = countdown.attempts.past.iter().map(|attempt| attempt.number).collect();
    assert_eq!(past, [1, 2, 3, 4, 5]);
    let reason = AttemptOutcome::Failed("the tool did not reach a step boundar…".to_owned());
    assert!(countdown.attempts.past.iter().all(|attempt| attempt.end == reason));
    assert_eq!(task(&database, ASK).await.status(), Status::InputRequired);
    assert_eq!(task(&database, ASK).await.attempts.past[0].end, AttemptOutcome::Input);
    for id in [PANICKED, HUNG] {
        assert_eq!(task(&database, id).await.cleanup, Cleanup::ARMED, "{id}");
    }
    let delivery = task(&database, WEBHOOK_DELIVERY).await;
    assert!(delivery.is_webhook_delivery());
    assert_eq!(delivery.attempts.past[0].end, AttemptOutcome::Timer);
}

#[tokio::test]
async fn the_journal_and_the_outbox_of_an_earlier_version_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let database = opened(&folder.path().join("tasks.db"));
    let journal = database.store().journal(&key(GATHER)).await.unwrap();
    let kinds: Vec<EntryKind> = journal.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == EntryKind::Signal).count(), 2, "{kinds:?}");
    let notifications = database.outbox().notifications(9, 0).await.unwrap();
    assert_eq!(notifications.len(), 1);
    assert_eq!((notifications[0].what, notifications[0].attempt), (NotificationKind::Failed, 3));
}

/// So that a program of the earlier version, which may run at the same time, reads them too.
#[tokio::test]
async fn a_changed_record_keeps_the_names_of_its_members() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let database = opened(&file);
    let now = KILLED_AT.plus_ms(15_000);
    database.store().apply(&key(HUNG), &given::claim(2, now), now).await.unwrap();
    database.store().apply(&key(COUNTDOWN), &TaskEvent::Cancel, now).await.unwrap();
    database.close().await;
    let written = |id: &str| -> String {
        let sql = "SELECT record FROM tasks WHERE hex(id) = upper(replace(?1, '-', ''))";
        Connection::open(&file).unwrap().query_row(sql, [id], |row| row.get(0)).unwrap()
    };
    let (hung, countdown) = (written(HUNG), written(COUNTDOWN));
    assert!(hung.contains(r#""cleaning":{"armed":"#) && hung.contains(r#""past":[{"attempt":1,"#), "{hung}");
    assert!(hung.contains(r#""legs":{"since":"#) && countdown.contains(r#""cleaning":"none""#), "{countdown}");
}
