//! One open database: its store, its queue and its secrets.

use std::path::Path;
use std::sync::{Arc, Mutex};

use longhaul_core::{Clock, IdSource};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::Notify;

use crate::queue::{Deliveries, lock};
use crate::readers::Readers;
use crate::schema::MIGRATIONS;
use crate::store::Sends;
use crate::unfinished::Quiet;
use crate::unreadable::Unreadable;
use crate::writer::Writer;
use crate::{DatabaseError, OpenError, Settings, SqliteOutbox, SqliteQueue, SqliteStore, open};

/// One open database. Clones share it; it closes when the last one is dropped, or by [`Database::close`].
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) writer: Writer,
    /// None without a file: a second connection would see another, empty database.
    readers: Option<Readers>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    /// Wakes who waits for notifications.
    pub(crate) notifications: Notify,
    /// Wakes the receivers that wait for messages.
    pub(crate) messages: Notify,
    /// What is in memory about messages.
    pub(crate) deliveries: Arc<Mutex<Deliveries>>,
    /// What is known about tasks without a message.
    pub(crate) quiet: Mutex<Quiet>,
    pub(crate) unreadable: Arc<Unreadable>,
}

impl Shared {
    fn new(writer: Writer, readers: Option<Readers>, clock: Arc<dyn Clock>, settings: Settings) -> Arc<Self> {
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
        self.set_aside().await;
        read
    }

    /// Runs `work`, which reads and writes tasks.
    pub(crate) async fn write_task<T, F>(&self, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        let written = self.writer.call(work).await;
        self.set_aside().await;
        written
    }
}

impl Database {
    /// Opens the database in the file at `path`; creates it if it does not exist. Nobody else can open it until it is
    /// closed, or until this process ends in whatever way.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do. A file that is not ours, or newer than this program, is not changed.
    pub fn open(path: &Path, clock: Arc<dyn Clock>, settings: Settings) -> Result<Self, OpenError> {
        Self::open_with(path, clock, settings, MIGRATIONS)
    }

    pub(crate) fn open_with(
        path: &Path,
        clock: Arc<dyn Clock>,
        settings: Settings,
        migrations: &[&str],
    ) -> Result<Self, OpenError> {
        let (connection, ground) = open::writer(path, settings, migrations)?;
        let writer = Writer::start(connection, Some(ground))?;
        let readers = Some(Readers::start(path, settings)?);
        Ok(Self { shared: Shared::new(writer, readers, clock, settings) })
    }

    /// A new database in memory, which is lost when its last clone is dropped.
    pub fn in_memory(clock: Arc<dyn Clock>, settings: Settings) -> Result<Self, OpenError> {
        let writer = Writer::start(open::in_memory(settings, MIGRATIONS)?, None)?;
        Ok(Self { shared: Shared::new(writer, None, clock, settings) })
    }

    /// The tasks in this database.
    #[must_use]
    pub fn store(&self) -> SqliteStore {
        SqliteStore::new(Arc::clone(&self.shared), Sends::Nothing)
    }

    /// The tasks in this database, for an engine that sends work to [`Database::queue`] and to no other: a new task's
    /// record stands for its first message, which costs no write of its own. The process that opens the file next gets
    /// that message by [`Database::take_up`].
    #[must_use]
    pub fn store_with_queue(&self) -> SqliteStore {
        SqliteStore::new(Arc::clone(&self.shared), Sends::WithTheRecord)
    }

    /// The messages in this database.
    #[must_use]
    pub fn queue(&self) -> SqliteQueue {
        SqliteQueue::new(Arc::clone(&self.shared))
    }

    /// The notifications in this database. There are none unless [`Settings::notifications`] says so.
    #[must_use]
    pub fn outbox(&self) -> SqliteOutbox {
        SqliteOutbox::new(Arc::clone(&self.shared))
    }

    /// The secret with this name: generated by the first call, and the same ever after.
    pub async fn secret(&self, name: &str, ids: &dyn IdSource) -> Result<[u8; 32], DatabaseError> {
        let name = format!("secret/{name}");
        let mut fresh = [0; 32];
        ids.fill(&mut fresh);
        self.shared
            .writer
            .call(move |connection| {
                connection.execute("INSERT OR IGNORE INTO meta VALUES (?1, ?2)", params![name, fresh])?;
                let stored = connection
                    .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
                    .optional()?;
                Ok(stored.unwrap_or(fresh))
            })
            .await
    }

    /// Whether the file, or one next to it, was removed, moved or replaced. No writes are accepted then, until the same
    /// files are back.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.shared.writer.is_lost()
    }

    /// How many tasks that have not expired this process could not read. The log names them.
    #[must_use]
    pub fn unreadable_tasks(&self) -> usize {
        self.shared.unreadable_tasks()
    }

    /// Accepts no more calls, and returns once the waiting ones are answered and the file is closed. Every later call
    /// fails with "unavailable".
    pub async fn close(&self) {
        lock(&self.shared.deliveries).close();
        if let Some(readers) = &self.shared.readers {
            readers.close().await;
        }
        // Only the last connection moves the log into the file, and removes it.
        self.shared.writer.close().await;
        self.shared.messages.notify_waiters();
        self.shared.notifications.notify_waiters();
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
