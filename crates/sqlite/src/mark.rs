//! Which run of a server a database's file is from.
//!
//! While a server has a database open, its latest transactions are in the log next to the file (`-wal`). A copy of the
//! file alone lacks them, and nothing in it says so. So a server marks the file when it opens it, with a number of that
//! run, and removes the mark when it closes it. The file next to it that is the [`Lock`] has the same number. A file
//! with a mark that its lock does not know was copied or put there while a server had it open.
//!
//! The mark is SQLite's user version: it can be read without SQLite, before SQLite applies a log that may belong to
//! another file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rusqlite::{Connection, Row};

use crate::lock::{Lock, Mark};
use crate::permissions::beside;
use crate::schema::APPLICATION_ID;
use crate::{OpenError, error};

/// The relation of the files to each other, as long as no server has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The file is new, was closed in order, was left by a crash, or has its log next to it.
    Whole,
    /// A server died, and the log that it left is not there: another program moved it into the file, or it was removed.
    LogMissing,
    /// The file is a copy of one that a server had open, without the log.
    Copy,
    /// The log belongs to another file.
    OtherLog,
    /// There is a log, but no file, or an empty one.
    LogAlone,
}

/// The relation of the files of the database at `path`. The marks are those of its lock. Only while no
/// connection of this process has the file open: to close a file ends all locks that the process has on it.
pub(crate) fn find(path: &Path, known: Option<&[Mark]>) -> io::Result<Found> {
    let log = beside(path, "-wal");
    let has_log = has_transactions(&log)?;
    let Some(mark) = in_file(path)? else {
        let is_empty = path.metadata().map_or(true, |file| file.len() == 0);
        return Ok(if is_empty && has_log { Found::LogAlone } else { Found::Whole });
    };
    Ok(match known {
        Some(known) if known.contains(&mark) => {
            if mark == Mark::CLOSED || log.exists() {
                Found::Whole
            } else {
                Found::LogMissing
            }
        }
        Some(_) if has_log => Found::OtherLog,
        None if has_log => Found::Whole,
        Some(_) | None => {
            if mark == Mark::CLOSED {
                Found::Whole
            } else {
                Found::Copy
            }
        }
    })
}

/// Refuses files that do not belong together, or that lack their latest transactions.
pub(crate) fn check(path: &Path, lock: &Lock) -> Result<(), OpenError> {
    let found = find(path, lock.marks().as_deref()).map_err(error::of_file)?;
    if found == Found::LogMissing {
        let log = beside(path, "-wal");
        tracing::warn!(
            log = %log.display(),
            "the last server with this database was not stopped in order, and its log is not there: if the log was \
             removed, the latest tasks are missing"
        );
    }
    refuse(path, found)
}

/// The error that says what is wrong with the files.
pub(crate) fn refuse(path: &Path, found: Found) -> Result<(), OpenError> {
    match found {
        Found::Whole | Found::LogMissing => Ok(()),
        Found::Copy => Err(OpenError::CopyWithoutLog(path.to_owned())),
        Found::OtherLog => Err(OpenError::OtherLog(path.to_owned())),
        Found::LogAlone => Err(OpenError::LogAlone(path.to_owned())),
    }
}

/// Marks the file as open. `found` is the mark that it had before SQLite opened it.
pub(crate) fn open(connection: &Connection, lock: &Lock, found: Mark) -> Result<(), OpenError> {
    let with_log: i32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let run: u32 = connection.query_row("SELECT abs(random() % 2147483647) + 1", [], |row| row.get(0))?;
    lock.note(&[found, Mark(with_log.cast_unsigned()), Mark(run)]).map_err(error::of_file)?;
    connection.pragma_update(None, "user_version", run)?;
    if is_in_file(connection)? {
        lock.note_soon(&[Mark(run)]).map_err(error::of_file)?;
    }
    Ok(())
}

/// Removes the mark, in the log and if possible in the file. Returns whether the file has none any more.
pub(crate) fn close(connection: &Connection, lock: &Lock) -> Result<bool, OpenError> {
    let mut marks = lock.marks().unwrap_or_default();
    // Those that are repeated because there are few.
    marks.dedup();
    marks.truncate(3);
    marks.push(Mark::CLOSED);
    lock.note(&marks).map_err(error::of_file)?;
    clear(connection)?;
    Ok(is_in_file(connection)?)
}

/// Removes the mark.
pub(crate) fn clear(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "user_version", 0)
}

/// Moves the pages of the log that readers do not need into the file. Returns whether all of it is there.
fn is_in_file(connection: &Connection) -> rusqlite::Result<bool> {
    let moved = |row: &Row<'_>| Ok(row.get::<_, i64>(0)? == 0 && row.get::<_, i64>(1)? == row.get::<_, i64>(2)?);
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], moved)
}

/// The mark in the file itself; `None` if it is empty, or not a database of Longhaul.
pub(crate) fn in_file(path: &Path) -> io::Result<Option<Mark>> {
    let Some(header) = head::<100>(path)? else { return Ok(None) };
    let is_ours = number(&header, 68) == Some(APPLICATION_ID.cast_unsigned());
    Ok(if is_ours { number(&header, 60).map(Mark) } else { None })
}

/// Whether SQLite would read a transaction in this log: its header and its first frame have the same salt.
fn has_transactions(log: &Path) -> io::Result<bool> {
    let Some(head) = head::<56>(log)? else { return Ok(false) };
    let is_log = number(&head, 0).is_some_and(|magic| magic & !1 == 0x377f_0682);
    Ok(is_log && [0, 4].iter().all(|at| number(&head, 16 + at) == number(&head, 40 + at)))
}

/// The first bytes of a file; `None` if there is none, or it is shorter.
fn head<const N: usize>(path: &Path) -> io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    match File::open(path).and_then(|mut file| file.read_exact(&mut bytes)) {
        Ok(()) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number at a place, as SQLite writes them.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}
