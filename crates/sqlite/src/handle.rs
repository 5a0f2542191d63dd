//! The threads of one open database, and what this process knows of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::Clock;
use rusqlite::Connection;
use tokio::sync::Notify;

use crate::queue::deliveries::{Deliveries, lock};
use crate::quiet::Quiet;
use crate::readers::Readers;
use crate::unreadable::Unreadable;
use crate::writer::Writer;
use crate::{DatabaseError, Settings};

/// The state that the store, the queue and the outbox of one open database share.
pub(crate) struct Handle {
    pub(crate) writer: Writer,
    /// None without a file: a second connection would see another, empty database.
    pub(crate) readers: Option<Readers>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    /// Wakes who waits for notifications.
    pub(crate) notifications: Notify,
    /// Wakes the receivers that wait for messages.
    pub(crate) messages: Notify,
    /// The messages in memory.
    pub(crate) deliveries: Arc<Mutex<Deliveries>>,
    /// The known tasks without a message.
    quiet: Mutex<Quiet>,
    pub(crate) unreadable: Arc<Unreadable>,
}

impl Handle {
    pub(crate) fn new(
        writer: Writer,
        readers: Option<Readers>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Arc<Self> {
        let deliveries = Arc::new(Mutex::new(Deliveries::new(settings.owner_in_flight_max, clock.now())));
        let (notifications, messages) = (Notify::new(), Notify::new());
        Arc::new(Self {
            writer,
            readers,
            clock,
            settings,
            notifications,
            messages,
            deliveries,
            quiet: Mutex::default(),
            unreadable: Arc::default(),
        })
    }

    /// Runs `work`, which only reads. It sees every write that was answered before, except for receives, extensions and
    /// deletions of messages, which it sees when they are committed.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let read = match &self.readers {
            Some(readers) => readers.call(work).await,
            None => self.writer.call(work).await,
        };
        self.unreadable.set_aside(&self.writer).await;
        read
    }

    /// Runs `work`, which reads and writes tasks.
    pub(crate) async fn write_task<T, F>(&self, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let written = self.writer.call(work).await;
        self.unreadable.set_aside(&self.writer).await;
        written
    }

    /// How many rows have been changed, and how many messages in memory are gone.
    pub(crate) fn happened(&self) -> (u64, u64) {
        (self.writer.changes(), lock(&self.deliveries).removed())
    }

    /// Notes a scan of all unfinished tasks, the counts at its beginning, and whether it found none without a message.
    pub(crate) fn note_scan(&self, happened: (u64, u64), none: bool) {
        *self.quiet() = Quiet::after_scan(happened, none);
    }

    /// Whether there is still no task without a message, if so much has happened by now.
    pub(crate) fn is_quiet(&self, happened: (u64, u64)) -> bool {
        self.quiet().is_known(happened)
    }

    fn quiet(&self) -> MutexGuard<'_, Quiet> {
        self.quiet.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
