//! The threads that read while the writer writes, so that a poll never waits for a commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot, watch};

use crate::limits::{READERS, READS_WAITING_MAX};
use crate::{DatabaseError, OpenError, Settings, open};

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Sends reads to the reader threads.
pub(crate) struct Readers {
    jobs: RwLock<Option<mpsc::Sender<Job>>>,
    /// Each thread has a receiver of it, as long as its connection is open.
    open: watch::Sender<()>,
}

impl Readers {
    /// Starts the threads, each with its own connection to the file at `path`.
    pub(crate) fn start(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        let (jobs, waiting) = mpsc::channel(READS_WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let open = watch::Sender::new(());
        for number in 0..READERS {
            let connection = open::reader(path, settings)?;
            let (waiting, is_open) = (Arc::clone(&waiting), open.subscribe());
            std::thread::Builder::new()
                .name(format!("longhaul-sqlite-reader-{number}"))
                .spawn(move || {
                    run(&connection, &waiting);
                    drop(connection);
                    drop(is_open);
                })
                .map_err(OpenError::NoThread)?;
        }
        Ok(Self { jobs: RwLock::new(Some(jobs)), open })
    }

    /// Runs `work` on a reader thread. It sees what was committed before the call.
    pub(crate) async fn call<T, F>(&self, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        {
            let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner).clone().ok_or(DatabaseError::Closed)?;
            let job = move |connection: &Connection| {
                let done = catch_unwind(AssertUnwindSafe(|| work(connection))).unwrap_or(Err(DatabaseError::Panicked));
                // A caller that no longer waits does not need its answer.
                let _caller_left = reply.send(done).is_err();
            };
            jobs.send(Box::new(job)).await.map_err(|_closed| DatabaseError::Closed)?;
        }
        answer.await.map_err(|_dropped| DatabaseError::Closed)?
    }

    /// Accepts no more calls, and returns once the waiting ones are answered and the connections are closed.
    pub(crate) async fn close(&self) {
        drop(self.jobs.write().unwrap_or_else(PoisonError::into_inner).take());
        self.open.closed().await;
    }
}

fn run(connection: &Connection, waiting: &Mutex<mpsc::Receiver<Job>>) {
    while let Some(job) = next(waiting) {
        job(connection);
    }
}

/// The next read. Only the thread that waits holds the lock; it is released before the read runs.
fn next(waiting: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}
