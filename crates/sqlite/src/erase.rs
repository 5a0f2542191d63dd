//! Erasing all that one owner has in a database that no server has open.

use std::path::{Path, PathBuf};

use longhaul_core::OwnerId;
use rusqlite::Connection;

use crate::schema::MIGRATIONS;
use crate::sql::execute;
use crate::writer::Writer;
use crate::{DatabaseError, OpenError, Settings, open};

/// The tables with rows of owners: also those of later versions.
const TABLES: &str = "SELECT s.name FROM sqlite_schema s JOIN pragma_table_info(s.name) c ON c.name = 'owner' \
                      WHERE s.type = 'table' ORDER BY s.name";

/// Why nothing was erased.
#[derive(Debug, thiserror::Error)]
pub enum EraseError {
    /// There is no database.
    #[error("there is no database {}: name it with --db", .0.display())]
    NoDatabase(PathBuf),
    /// The database cannot be opened, perhaps because a server has it open.
    #[error("the database {} cannot be changed", path.display())]
    NotOpened {
        /// The database.
        path: PathBuf,
        /// Why.
        #[source]
        cause: OpenError,
    },
    /// The database failed while it was changed.
    #[error("not all was erased: remove the cause, and run it again")]
    Failed(#[from] DatabaseError),
}

/// Erases all tasks of this owner from the database at `path`: records, arguments, journals and results. The same
/// applies to all else that is stored under the owner. Unfinished tasks do not continue, and their cleanup does not
/// run. Returns how many tasks there were. The file has nothing of them then, not even in unused pages.
///
/// # Errors
/// [`EraseError`]; while a server has the database open, it is refused.
pub async fn erase(path: &Path, owner: OwnerId) -> Result<u32, EraseError> {
    if !path.is_file() {
        return Err(EraseError::NoDatabase(path.to_owned()));
    }
    let not_opened = |cause| EraseError::NotOpened { path: path.to_owned(), cause };
    let (connection, ground) = open::writer(path, Settings::default(), MIGRATIONS).map_err(not_opened)?;
    let erased = delete_and_vacuum(&connection, owner);
    // Closes the file in order: moves the log, which has older pages, into it, and removes the log.
    Writer::start(connection, Some(ground)).map_err(not_opened)?.close().await;
    Ok(erased?)
}

fn delete_and_vacuum(connection: &Connection, owner: OwnerId) -> Result<u32, DatabaseError> {
    let transaction = connection.unchecked_transaction()?;
    let tasks = delete(&transaction, owner)?;
    transaction.commit()?;
    // Pages keep copies of rows that were moved or deleted. This writes all of them anew, without what is not in use.
    connection.execute_batch("VACUUM")?;
    Ok(tasks)
}

fn delete(connection: &Connection, owner: OwnerId) -> Result<u32, DatabaseError> {
    let bytes = owner.as_bytes().as_slice();
    let tasks = connection.query_row("SELECT count(*) FROM tasks WHERE owner = ?1", [bytes], |row| row.get(0))?;
    let tables: Vec<String> =
        connection.prepare(TABLES)?.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for table in tables {
        execute(connection, &format!("DELETE FROM {table} WHERE owner = ?1"), [bytes])?;
    }
    execute(connection, "DELETE FROM outbox WHERE instr(announcement, ?1) > 0", [owner.to_string()])?;
    Ok(tasks)
}
