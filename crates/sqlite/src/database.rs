//! One open database, and what can be had from it.

use std::path::Path;
use std::sync::Arc;

use longhaul_core::{Clock, IdSource};
use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::Notify;

use crate::readers::Readers;
use crate::schema::MIGRATIONS;
use crate::writer::Writer;
use crate::{DatabaseError, OpenError, Settings, SqliteQueue, SqliteStore, open};

/// One open database. Clones share it; it closes when the last one is gone, or by [`Database::close`].
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
    /// Wakes those that wait for messages.
    pub(crate) messages: Notify,
}

impl Shared {
    /// Runs `work`, which only reads. It sees every write that was answered before.
    pub(crate) async fn read<T, F>(&self, work: F) -> Result<T, DatabaseError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, DatabaseError> + Send + 'static,
    {
        match &self.readers {
            Some(readers) => readers.call(work).await,
            None => self.writer.call(work).await,
        }
    }
}

impl Database {
    /// Opens the database in the file at `path`; makes it where there is none.
    ///
    /// # Errors
    /// [`OpenError`], which says what to do. A file that is not ours, or newer than this program, is left as it is.
    pub fn open(path: &Path, clock: Arc<dyn Clock>, settings: Settings) -> Result<Self, OpenError> {
        Self::open_with(path, clock, settings, MIGRATIONS)
    }

    pub(crate) fn open_with(
        path: &Path,
        clock: Arc<dyn Clock>,
        settings: Settings,
        migrations: &[&str],
    ) -> Result<Self, OpenError> {
        let writer = Writer::start(open::writer(path, settings, migrations)?)?;
        let readers = Some(Readers::start(path, settings)?);
        Ok(Self { shared: Arc::new(Shared { writer, readers, clock, settings, messages: Notify::new() }) })
    }

    /// A new database that lives in memory and is gone with its last clone.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn in_memory(clock: Arc<dyn Clock>, settings: Settings) -> Result<Self, OpenError> {
        let writer = Writer::start(open::in_memory(settings, MIGRATIONS)?)?;
        Ok(Self { shared: Arc::new(Shared { writer, readers: None, clock, settings, messages: Notify::new() }) })
    }

    /// The tasks in this database.
    #[must_use]
    pub fn store(&self) -> SqliteStore {
        SqliteStore::new(Arc::clone(&self.shared))
    }

    /// The messages in this database.
    #[must_use]
    pub fn queue(&self) -> SqliteQueue {
        SqliteQueue::new(Arc::clone(&self.shared))
    }

    /// The secret of this name: made up at the first call, the same ever after.
    ///
    /// # Errors
    /// [`DatabaseError`]
    pub async fn secret(&self, name: &str, ids: &dyn IdSource) -> Result<[u8; 32], DatabaseError> {
        let name = format!("secret/{name}");
        let mut fresh = [0; 32];
        ids.fill(&mut fresh);
        self.shared
            .writer
            .call(move |connection| {
                connection.execute("INSERT OR IGNORE INTO meta VALUES (?1, ?2)", params![name, fresh])?;
                let kept = connection
                    .query_row("SELECT value FROM meta WHERE name = ?1", [name], |row| row.get(0))
                    .optional()?;
                Ok(kept.unwrap_or(fresh))
            })
            .await
    }

    /// Takes no more calls, and returns once those that wait are answered and the file is closed. Every later call
    /// finds the database unavailable.
    pub async fn close(&self) {
        if let Some(readers) = &self.shared.readers {
            readers.close();
        }
        self.shared.writer.close().await;
        self.shared.messages.notify_waiters();
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}
