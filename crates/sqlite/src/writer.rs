//! The only thread that writes: it runs all waiting calls in one transaction and answers them after its commit.
//!
//! Each call runs in its own savepoint, so that a call that fails or panics does not undo the others.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use crate::lock::Lock;
use crate::{DatabaseError, OpenError};

/// Calls that may wait for the thread; when the queue is full, further callers wait until there is room.
const WAITING_MAX: usize = 1_024;

/// Calls in one transaction: bounds how long the first of them waits for its answer.
const BATCH_MAX: usize = 256;

/// How a transaction ended, for each of its calls.
enum Ending {
    Committed,
    NotCommitted(Arc<rusqlite::Error>),
    RolledBack,
}

/// What to do with a call's savepoint.
enum Savepoint {
    Keep,
    Undo,
}

/// One call.
trait Job: Send {
    /// Does the work in the open transaction.
    fn run(&mut self, connection: &Connection) -> Savepoint;

    /// Answers the caller, once the transaction has ended.
    fn answer(self: Box<Self>, ending: &Ending);
}

struct Call<T, F> {
    work: Option<F>,
    done: Option<Result<T, DatabaseError>>,
    reply: oneshot::Sender<Result<T, DatabaseError>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send,
{
    fn run(&mut self, connection: &Connection) -> Savepoint {
        self.done = self
            .work
            .take()
            .map(|work| catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or(Err(DatabaseError::Panicked)));
        if matches!(self.done, Some(Ok(_))) { Savepoint::Keep } else { Savepoint::Undo }
    }

    fn answer(self: Box<Self>, ending: &Ending) {
        let done = match (self.done, ending) {
            (Some(Err(error)), _) => Err(error),
            (Some(Ok(value)), Ending::Committed) => Ok(value),
            (Some(Ok(_)) | None, Ending::NotCommitted(error)) => Err(DatabaseError::NotCommitted(Arc::clone(error))),
            (Some(Ok(_)), Ending::RolledBack) | (None, Ending::Committed | Ending::RolledBack) => {
                Err(DatabaseError::RolledBack)
            }
        };
        // A caller that no longer waits does not need its answer.
        let _caller_left = self.reply.send(done).is_err();
    }
}

/// Sends calls to the writer thread.
pub(crate) struct Writer {
    jobs: RwLock<Option<mpsc::Sender<Box<dyn Job>>>>,
    ended: watch::Receiver<bool>,
}

impl Writer {
    /// Starts the thread that owns `connection`, and the lock of its file until the connection is closed.
    pub(crate) fn start(connection: Connection, lock: Option<Lock>) -> Result<Self, OpenError> {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let (end, ended) = watch::channel(false);
        std::thread::Builder::new()
            .name("longhaul-sqlite-writer".to_owned())
            .spawn(move || {
                run(connection, waiting);
                drop(lock);
                end.send_replace(true);
            })
            .map_err(OpenError::NoThread)?;
        Ok(Self { jobs: RwLock::new(Some(jobs)), ended })
    }

    /// Runs `work` inside a transaction and returns once that is committed. If `work` fails, its changes are undone.
    pub(crate) async fn call<T, F>(&self, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        {
            let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(DatabaseError::Closed)?;
            let call = Call { work: Some(work), done: None, reply };
            jobs.send(Box::new(call)).await.map_err(|_closed| DatabaseError::Closed)?;
        }
        let done = answer.await.map_err(|_dropped| DatabaseError::Closed)?;
        done.inspect_err(log_cause)
    }

    /// Accepts no more calls, and returns once the waiting ones are answered and the file is closed.
    pub(crate) async fn close(&self) {
        drop(self.jobs.write().unwrap_or_else(PoisonError::into_inner).take());
        // An error means that the thread has ended, which is what this waits for.
        let _has_ended = self.ended.clone().wait_for(|ended| *ended).await.is_ok();
    }
}

fn run(connection: Connection, mut waiting: mpsc::Receiver<Box<dyn Job>>) {
    while let Some(first) = waiting.blocking_recv() {
        let mut first = Some(first);
        let batch = std::iter::from_fn(|| first.take().or_else(|| waiting.try_recv().ok())).take(BATCH_MAX);
        transact(&connection, batch);
    }
    if let Err((_connection, error)) = connection.close() {
        tracing::warn!(%error, "the database was not closed cleanly; no data is lost");
    }
}

/// One transaction over `batch`, then all its answers.
fn transact(connection: &Connection, batch: impl Iterator<Item = Box<dyn Job>>) {
    let mut jobs = Vec::new();
    let ending = match execute(connection, "BEGIN IMMEDIATE") {
        Ok(()) => run_all(connection, batch, &mut jobs),
        Err(error) => {
            jobs.extend(batch);
            Ending::NotCommitted(Arc::new(error))
        }
    };
    for job in jobs {
        job.answer(&ending);
    }
}

fn run_all(connection: &Connection, batch: impl Iterator<Item = Box<dyn Job>>, jobs: &mut Vec<Box<dyn Job>>) -> Ending {
    for mut job in batch {
        let done = in_savepoint(connection, job.as_mut());
        jobs.push(job);
        if let Err(error) = done {
            roll_back(connection);
            return Ending::NotCommitted(Arc::new(error));
        }
        // After some errors, such as a full disk, SQLite itself rolls the whole transaction back.
        if connection.is_autocommit() {
            return Ending::RolledBack;
        }
    }
    match execute(connection, "COMMIT") {
        Ok(()) => Ending::Committed,
        Err(error) => {
            roll_back(connection);
            Ending::NotCommitted(Arc::new(error))
        }
    }
}

fn in_savepoint(connection: &Connection, job: &mut dyn Job) -> rusqlite::Result<()> {
    execute(connection, "SAVEPOINT job")?;
    let savepoint = job.run(connection);
    if connection.is_autocommit() {
        return Ok(());
    }
    match savepoint {
        Savepoint::Keep => {}
        Savepoint::Undo => execute(connection, "ROLLBACK TO job")?,
    }
    execute(connection, "RELEASE job")
}

fn roll_back(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = execute(connection, "ROLLBACK")
    {
        tracing::error!(%error, "a transaction could neither be committed nor rolled back");
    }
}

/// Says what SQLite says, for example that the disk is full: above, it is only known that nothing was written.
fn log_cause(error: &DatabaseError) {
    let cause = match error {
        DatabaseError::Sqlite(cause) => cause,
        DatabaseError::NotCommitted(cause) => cause.as_ref(),
        DatabaseError::RolledBack | DatabaseError::Corrupt(_) | DatabaseError::Panicked | DatabaseError::Closed => {
            return;
        }
    };
    tracing::warn!(error = %cause, "SQLite did not do what it was asked for");
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_rows| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> Writer {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
        Writer::start(connection, None).unwrap()
    }

    async fn insert(writer: &Writer, n: i64) -> Result<(), DatabaseError> {
        writer.call(move |connection| Ok(connection.execute("INSERT INTO t VALUES (?1)", [n]).map(|_rows| ())?)).await
    }

    async fn count(writer: &Writer) -> i64 {
        writer
            .call(|connection| Ok(connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?))
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn a_call_that_fails_is_undone_without_the_other_calls_of_its_transaction() {
        let writer = writer();
        let fails = writer.call(|connection| {
            connection.execute("INSERT INTO t VALUES (2)", [])?;
            Ok(connection.execute("INSERT INTO nowhere VALUES (2)", [])?)
        });
        let (first, failed, last) = tokio::join!(insert(&writer, 1), fails, insert(&writer, 3));
        first.unwrap();
        assert!(matches!(failed, Err(DatabaseError::Sqlite(_))), "{failed:?}");
        last.unwrap();
        assert_eq!(count(&writer).await, 2);
    }

    #[tokio::test]
    async fn the_log_says_that_the_disk_is_full_and_calls_work_again_when_there_is_room() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let lines = Arc::new(log.reopen().unwrap());
        let _logging = tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(lines).finish());
        let writer = writer();
        // They answer with the limit that holds then.
        let [few, many] = ["PRAGMA max_page_count = 10", "PRAGMA max_page_count = 1000"]
            .map(|sql| move |connection: &Connection| Ok(connection.query_row(sql, [], |_row| Ok(()))?));
        let large = |connection: &Connection| {
            Ok(connection.execute("INSERT INTO t VALUES (zeroblob(100000))", []).map(|_rows| ())?)
        };
        writer.call(few).await.unwrap();
        assert!(writer.call(large).await.is_err());
        let said = std::fs::read_to_string(log.path()).unwrap();
        assert!(said.contains("database or disk is full"), "{said}");
        writer.call(many).await.unwrap();
        writer.call(large).await.unwrap();
        assert_eq!(count(&writer).await, 1);
    }

    #[tokio::test]
    async fn a_call_that_panics_is_undone_and_the_thread_continues() {
        let writer = writer();
        let panics = writer.call(|connection| -> Result<(), DatabaseError> {
            connection.execute("INSERT INTO t VALUES (2)", [])?;
            panic!("planted");
        });
        let (panicked, other) = tokio::join!(panics, insert(&writer, 1));
        assert!(matches!(panicked, Err(DatabaseError::Panicked)), "{panicked:?}");
        other.unwrap();
        assert_eq!(count(&writer).await, 1);
    }

    #[tokio::test]
    async fn no_call_of_a_transaction_that_sqlite_itself_ended_succeeds() {
        let writer = writer();
        let ends = writer.call(|connection| Ok(connection.execute_batch("ROLLBACK")?));
        let (first, ended) = tokio::join!(insert(&writer, 1), ends);
        assert!(ended.is_err(), "{ended:?}");
        // The first call may have run in an earlier transaction.
        assert_eq!(count(&writer).await, i64::from(first.is_ok()));
        insert(&writer, 2).await.unwrap();
    }

    #[tokio::test]
    async fn a_transaction_that_cannot_go_on_is_rolled_back_and_the_thread_goes_on() {
        let writer = writer();
        // This removes the savepoint and opens a transaction that nothing else would end.
        let breaks =
            writer.call(|connection| Ok(connection.execute_batch("ROLLBACK; BEGIN; INSERT INTO t VALUES (2)")?));
        let (first, broken) = tokio::join!(insert(&writer, 1), breaks);
        assert!(matches!(broken, Err(DatabaseError::NotCommitted(_))), "{broken:?}");
        // The first call may have had a transaction of its own.
        assert_eq!(count(&writer).await, i64::from(first.is_ok()));
        insert(&writer, 3).await.unwrap();
    }

    #[tokio::test]
    async fn a_call_after_the_close_fails_as_closed() {
        let writer = writer();
        insert(&writer, 1).await.unwrap();
        writer.close().await;
        assert!(matches!(insert(&writer, 2).await, Err(DatabaseError::Closed)));
    }
}
