//! The only thread that writes: it runs all waiting calls in one transaction and answers them after its commit.
//!
//! Each call runs in its own savepoint, so that a call that fails or panics does not undo the others.
//!
//! A call that need not be durable when it returns is answered from the open transaction. That is committed with the
//! next call that needs it, or some time later. So such calls do not wait for the disk, and many of them share one
//! commit. If that commit fails they are undone, as they allow; readers do not see them before it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use crate::ground::{self, Ground};
use crate::limits::{STAYS_OPEN, STAYS_OPEN_MAX, WRITES_AT_A_TIME, WRITES_WAITING_MAX};
use crate::{DatabaseError, OpenError};

/// How a transaction ended, for each of its calls.
enum Ending {
    /// It is committed, or the call does not wait for that.
    Kept,
    NotCommitted(Arc<rusqlite::Error>),
    RolledBack,
    /// It may be committed, but to files that are not where they were opened.
    Lost,
}

/// The end of a call's savepoint.
enum Savepoint {
    Keep,
    Undo,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answered {
    /// When the disk has it.
    Durable,
    /// When it has run.
    AtOnce,
}

trait Job: Send {
    fn answered(&self) -> Answered;

    /// Does the work in the open transaction.
    fn run(&mut self, connection: &Connection) -> Savepoint;

    fn answer(self: Box<Self>, ending: &Ending);
}

struct Call<T, F> {
    answered: Answered,
    work: Option<F>,
    done: Option<Result<T, DatabaseError>>,
    reply: oneshot::Sender<Result<T, DatabaseError>>,
}

impl<T, F> Job for Call<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send,
{
    fn answered(&self) -> Answered {
        self.answered
    }

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
            (Some(Ok(value)), Ending::Kept) => Ok(value),
            (Some(Ok(_)) | None, Ending::NotCommitted(error)) => Err(DatabaseError::NotCommitted(Arc::clone(error))),
            (Some(Ok(_)) | None, Ending::Lost) => Err(DatabaseError::Lost),
            (Some(Ok(_)), Ending::RolledBack) | (None, Ending::Kept | Ending::RolledBack) => {
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
    changes: Arc<AtomicU64>,
    is_lost: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the thread that owns `connection`, and the ground of its file until the connection is closed.
    pub(crate) fn start(connection: Connection, ground: Option<Ground>) -> Result<Self, OpenError> {
        let (jobs, waiting) = mpsc::channel(WRITES_WAITING_MAX);
        let (end, ended) = watch::channel(false);
        let changes = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&changes);
        let is_lost = ground.as_ref().map(Ground::is_lost).unwrap_or_default();
        std::thread::Builder::new()
            .name("longhaul-sqlite-writer".to_owned())
            .spawn(move || {
                run(connection, waiting, &counted, ground);
                end.send_replace(true);
            })
            .map_err(OpenError::NoThread)?;
        Ok(Self { jobs: RwLock::new(Some(jobs)), ended, changes, is_lost })
    }

    /// Runs `work` inside a transaction and returns once that is committed. If `work` fails, its changes are undone.
    pub(crate) async fn call<T, F>(&self, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        self.send(Answered::Durable, work).await
    }

    /// Runs `work` inside a transaction and returns at once. All later calls see its changes, and it is committed
    /// before any of them, or with it. It may be undone if this process dies within some milliseconds, or the disk is
    /// full.
    pub(crate) async fn call_before_commit<T, F>(&self, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        self.send(Answered::AtOnce, work).await
    }

    async fn send<T, F>(&self, answered: Answered, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        {
            let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(DatabaseError::Closed)?;
            let call = Call { answered, work: Some(work), done: None, reply };
            jobs.send(Box::new(call)).await.map_err(|_closed| DatabaseError::Closed)?;
        }
        let done = answer.await.map_err(|_dropped| DatabaseError::Closed)?;
        done.inspect_err(log_cause)
    }

    /// How many rows transactions have changed that have ended.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Relaxed)
    }

    /// Whether the files are no longer where they were opened.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Relaxed)
    }

    /// Accepts no more calls, and returns once the waiting ones are answered and the file is closed.
    pub(crate) async fn close(&self) {
        drop(self.jobs.write().unwrap_or_else(PoisonError::into_inner).take());
        // An error means that the thread has ended, which is what this waits for.
        let _has_ended = self.ended.clone().wait_for(|ended| *ended).await.is_ok();
    }
}

/// The next work of the thread.
enum Next {
    Call(Box<dyn Job>),
    NoneInTime,
    Closed,
}

fn run(
    connection: Connection,
    mut waiting: mpsc::Receiver<Box<dyn Job>>,
    changes: &AtomicU64,
    mut ground: Option<Ground>,
) {
    // How often in a row the open transaction has stayed open; 0 if none is.
    let mut stays = 0;
    loop {
        let patience = if stays > 0 { Some(STAYS_OPEN) } else { ground.as_ref().map(Ground::due_in) };
        match next(&mut waiting, patience) {
            Next::Call(first) => {
                let mut first = Some(first);
                let batch =
                    std::iter::from_fn(|| first.take().or_else(|| waiting.try_recv().ok())).take(WRITES_AT_A_TIME);
                stays = transact(&connection, batch, stays, changes, ground.as_ref());
            }
            Next::NoneInTime => {
                commit_late(&connection);
                count(&connection, changes);
                stays = 0;
            }
            Next::Closed => break,
        }
        if let Some(ground) = ground.as_mut().filter(|_| stays == 0) {
            ground.keep(&connection);
        }
    }
    commit_late(&connection);
    match ground {
        Some(ground) => ground.close(connection),
        None => ground::close(connection),
    }
}

/// Counts the rows that have been changed.
fn count(connection: &Connection, changes: &AtomicU64) {
    changes.store(connection.total_changes(), Relaxed);
}

/// The next call; if there is other work to do, only one that comes soon.
fn next(waiting: &mut mpsc::Receiver<Box<dyn Job>>, patience: Option<Duration>) -> Next {
    let Some(patience) = patience else {
        return waiting.blocking_recv().map_or(Next::Closed, Next::Call);
    };
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    for is_last in [false, true] {
        match waiting.poll_recv(&mut context) {
            Poll::Ready(Some(call)) => return Next::Call(call),
            Poll::Ready(None) => return Next::Closed,
            Poll::Pending if is_last => {}
            // It may end early, which only makes the commit early.
            Poll::Pending => std::thread::park_timeout(patience),
        }
    }
    Next::NoneInTime
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `batch` in the open transaction, or in a new one, and answers it. Returns how often in a row the transaction
/// has stayed open now. An answered caller finds its changes in `changes`.
fn transact(
    connection: &Connection,
    batch: impl Iterator<Item = Box<dyn Job>>,
    stays: u32,
    changes: &AtomicU64,
    ground: Option<&Ground>,
) -> u32 {
    let mut jobs = Vec::new();
    let ending = match begin(connection, ground) {
        Ok(()) => run_all(connection, batch, &mut jobs, stays),
        Err(ending) => {
            jobs.extend(batch);
            Some(ending)
        }
    };
    let ending = match ending {
        None => return stays + 1,
        Some(Ending::Kept) if ground.is_some_and(|ground| !ground.is_in_place()) => Ending::Lost,
        Some(ending) => ending,
    };
    count(connection, changes);
    for job in jobs {
        job.answer(&ending);
    }
    0
}

/// Begins a transaction, unless one is open.
fn begin(connection: &Connection, ground: Option<&Ground>) -> Result<(), Ending> {
    if ground.is_some_and(Ground::stays_lost) {
        roll_back(connection);
        return Err(Ending::Lost);
    }
    if connection.is_autocommit() {
        execute(connection, "BEGIN IMMEDIATE").map_err(|error| Ending::NotCommitted(Arc::new(error)))?;
    }
    Ok(())
}

/// Runs `batch`, and leaves in `jobs` what is still to be answered. Returns how the transaction ended; `None` if it
/// stays open, because no call waits for it.
fn run_all(
    connection: &Connection,
    batch: impl Iterator<Item = Box<dyn Job>>,
    jobs: &mut Vec<Box<dyn Job>>,
    stays: u32,
) -> Option<Ending> {
    for mut job in batch {
        let done = in_savepoint(connection, job.as_mut());
        if let Err(error) = done {
            jobs.push(job);
            roll_back(connection);
            return Some(Ending::NotCommitted(Arc::new(error)));
        }
        // After some errors, such as a full disk, SQLite itself rolls the whole transaction back.
        if connection.is_autocommit() {
            jobs.push(job);
            return Some(Ending::RolledBack);
        }
        match job.answered() {
            Answered::Durable => jobs.push(job),
            Answered::AtOnce => job.answer(&Ending::Kept),
        }
    }
    if jobs.is_empty() && stays < STAYS_OPEN_MAX {
        return None;
    }
    Some(match commit(connection) {
        Ok(()) => Ending::Kept,
        Err(error) => Ending::NotCommitted(Arc::new(error)),
    })
}

/// Commits the changes that no call waits for.
fn commit_late(connection: &Connection) {
    if !connection.is_autocommit()
        && let Err(error) = commit(connection)
    {
        tracing::warn!(%error, "deliveries and deletions of messages were undone: those messages are delivered again");
    }
}

fn commit(connection: &Connection) -> rusqlite::Result<()> {
    execute(connection, "COMMIT").inspect_err(|_error| roll_back(connection))
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
        DatabaseError::RolledBack
        | DatabaseError::Lost
        | DatabaseError::Unreadable(_)
        | DatabaseError::Corrupt(_)
        | DatabaseError::Newer(_)
        | DatabaseError::Panicked
        | DatabaseError::Closed => return,
    };
    tracing::warn!(error = %cause, "SQLite did not do what it was asked for");
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(|_rows| ())
}

#[cfg(test)]
mod tests;
