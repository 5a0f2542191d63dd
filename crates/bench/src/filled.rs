//! A database with many finished tasks, each as the server itself leaves one.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::future::try_join_all;
use longhaul::{OsIds, SystemClock};
use longhaul_core::ports::{Message, NewTask, TaskStore, WorkQueue};
use longhaul_core::{Clock, IdSource, Identity, OwnerId, State, Task, TaskKey, TaskRecord};
use longhaul_sqlite::{Database, Durability, Purged, Settings, SqliteStore};

/// How many tasks are written at the same time; they share transactions.
const AT_ONCE: usize = 1_000;

/// Copies the one finished task in the file at `db` until there are `count` more, and returns the ids of the copies.
pub(crate) async fn fill(db: &Path, count: usize) -> anyhow::Result<Vec<String>> {
    let database = open(db)?;
    let store = database.store();
    let page = store.list(&OwnerId::of(Identity::Anonymous), None, 1, SystemClock.now()).await?;
    let pattern = page.tasks.into_iter().next().context("there is no task to copy")?;
    anyhow::ensure!(pattern.has_ended(), "the task to copy has not ended");
    let mut names = Vec::with_capacity(count);
    while names.len() < count {
        let batch = AT_ONCE.min(count - names.len());
        names.extend(try_join_all((0..batch).map(|_| copy(&store, &pattern))).await?);
    }
    close(database, db).await?;
    Ok(names)
}

/// Copies the task `pattern` in the file at `db`, which sleeps, until there are `count` more, each with its message.
pub(crate) async fn fill_with_sleepers(db: &Path, pattern: &str, count: usize) -> anyhow::Result<()> {
    let database = open(db)?;
    let (store, queue) = (database.store(), database.queue());
    let key = TaskKey::new(OwnerId::of(Identity::Anonymous), pattern.parse()?);
    let pattern = store.get(&key, SystemClock.now()).await?.context("there is no task to copy")?;
    let State::Sleeping { until } = pattern.state else { anyhow::bail!("the task to copy does not sleep") };
    for begun in (0..count).step_by(AT_ONCE) {
        let copies = (begun..count.min(begun + AT_ONCE)).map(|_| async {
            let id = copy(&store, &pattern).await?;
            let task = TaskKey::new(key.owner, id.parse()?);
            let message = Message { task, trace: None, attempt: Some(pattern.attempt) };
            queue.send(&message, until.since_ms(SystemClock.now())).await?;
            anyhow::Ok(())
        });
        try_join_all(copies).await?;
    }
    close(database, db).await
}

/// Deletes for `time` from the file at `db` as if all of its ended tasks had expired, as a server does it. Returns how
/// many tasks it deleted in a second.
pub(crate) async fn purge_for(db: &Path, time: Duration) -> anyhow::Result<f64> {
    const AT_ONCE: u32 = 500;
    let database = open(db)?;
    let later = SystemClock.now().plus_ms(30 * 24 * 3_600_000);
    let (begun, mut purged) = (Instant::now(), 0_u32);
    while begun.elapsed() < time && database.purge(later, AT_ONCE).await? == Purged::UpToLimit {
        purged += AT_ONCE;
    }
    let rate = f64::from(purged) / begun.elapsed().as_secs_f64();
    close(database, db).await?;
    Ok(rate)
}

fn open(db: &Path) -> anyhow::Result<Database> {
    // No call waits for these, so the disk may write them later.
    let settings = Settings { durability: Durability::ProcessCrash, ..Settings::default() };
    Ok(Database::open(db, Arc::new(SystemClock), settings)?)
}

async fn close(database: Database, db: &Path) -> anyhow::Result<()> {
    database.close().await;
    // Now, and not while something is measured.
    Ok(File::open(db)?.sync_all()?)
}

async fn copy(store: &SqliteStore, pattern: &Task) -> anyhow::Result<String> {
    let now = SystemClock.now();
    let id = OsIds.task_id(now);
    let new = NewTask {
        task: Task::restore(TaskRecord { id, ..pattern.record().clone() }),
        request_parts: Arc::new([]),
        journal: Arc::new([]),
        idempotency: None,
        open_max: u32::MAX,
        stored_max: u64::MAX,
        new_max: None,
        send_in_ms: None,
    };
    store.create(new, now).await?;
    Ok(id.to_string())
}
