//! The threads that read beside the writer, so that a poll never waits for a commit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use crate::{DatabaseError, OpenError, Settings, open};

/// Threads that read. Reads are short and mostly from memory: two keep a slow list from delaying polls.
const THREADS: usize = 2;

/// Reads that wait for a thread; whoever comes then waits before the door.
const WAITING_MAX: usize = 1_024;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// The way to the reader threads.
pub(crate) struct Readers {
    jobs: RwLock<Option<mpsc::Sender<Job>>>,
}

impl Readers {
    /// Starts the threads, each with a connection of its own to the file at `path`.
    pub(crate) fn start(path: &Path, settings: Settings) -> Result<Self, OpenError> {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..THREADS {
            let connection = open::reader(path, settings)?;
            let waiting = Arc::clone(&waiting);
            std::thread::Builder::new()
                .name(format!("longhaul-sqlite-reader-{number}"))
                .spawn(move || run(&connection, &waiting))
                .map_err(OpenError::NoThread)?;
        }
        Ok(Self { jobs: RwLock::new(Some(jobs)) })
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

    /// Takes no more calls; those that wait are still answered.
    pub(crate) fn close(&self) {
        drop(self.jobs.write().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn run(connection: &Connection, waiting: &Mutex<mpsc::Receiver<Job>>) {
    while let Some(job) = next(waiting) {
        job(connection);
    }
}

/// The next read. The lock is held by the one thread that waits, and let go before the read runs.
fn next(waiting: &Mutex<mpsc::Receiver<Job>>) -> Option<Job> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv()
}
