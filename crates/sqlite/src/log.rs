//! The log next to the database (`-wal`): how long it may get.
//!
//! Each commit goes to the log, and SQLite moves it into the file from time to time. Pages that another process still
//! reads cannot be moved, so the log grows meanwhile, and SQLite never makes it shorter.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Connection;

use crate::limits::{CHECKPOINT_PAGES, LOG_PATIENCE, LOG_SAID_EVERY, LOG_WAIT};

/// The log of an open database.
pub(crate) struct Log {
    path: PathBuf,
    /// The file with the locks of those who read the log.
    index: PathBuf,
    /// The length above which the log is emptied: twice that at which SQLite moves it into the file.
    bytes_max: u64,
    /// How many checks in a row have found it longer.
    too_long: u32,
}

impl Log {
    pub(crate) fn of(path: PathBuf, index: PathBuf, connection: &Connection) -> rusqlite::Result<Self> {
        let page_bytes: u32 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let bytes_max = 2 * u64::from(CHECKPOINT_PAGES) * u64::from(page_bytes);
        Ok(Self { path, index, bytes_max, too_long: 0 })
    }

    /// Empties the log if it is too long. Not while a transaction is open.
    pub(crate) fn keep(&mut self, connection: &Connection) {
        let bytes = self.path.metadata().map_or(0, |log| log.len());
        if bytes <= self.bytes_max || empty(connection) {
            self.too_long = 0;
            return;
        }
        self.too_long = self.too_long.saturating_add(1);
        if self.too_long % LOG_SAID_EVERY == LOG_PATIENCE {
            tracing::warn!(
                log = %self.path.display(),
                mb = bytes >> 20,
                processes = readers(&self.index),
                "another process reads the database, and keeps its log from getting shorter: end that process, or let \
                 it read in short transactions"
            );
        }
    }
}

/// Moves the log into the file, and makes it empty, unless another process reads it. Returns whether it is empty.
fn empty(connection: &Connection) -> bool {
    let wait = |wait| connection.busy_timeout(wait);
    let emptied = connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0)).and_then(|before| {
        wait(LOG_WAIT)?;
        let busy = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        wait(Duration::from_millis(u64::from(before)))?;
        busy
    });
    match emptied {
        Ok(busy) => busy == 0,
        Err(error) => {
            tracing::warn!(%error, "the log of the database could not be moved into it");
            false
        }
    }
}

/// The ids of other processes that read the log, where the system shows them.
#[cfg(target_os = "linux")]
fn readers(index: &std::path::Path) -> String {
    use std::os::unix::fs::MetadataExt;

    let Ok(file) = index.metadata() else { return String::new() };
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let locked = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    pids_in(&locks, &locked, std::process::id())
}

#[cfg(not(target_os = "linux"))]
fn readers(_index: &std::path::Path) -> String {
    String::new()
}

/// The bytes of the file next to the log that SQLite locks while it reads the log.
#[cfg(target_os = "linux")]
const READ_LOCKS: std::ops::RangeInclusive<u64> = 124..=127;

/// The processes but for `own` that hold a lock for reading on the file `locked`, in the lines of `/proc/locks`.
#[cfg(target_os = "linux")]
fn pids_in(locks: &str, locked: &str, own: u32) -> String {
    let pid = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "POSIX", _, "READ", pid, file, from, to] = words[..] else { return None };
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        let reads = from <= *READ_LOCKS.end() && to >= *READ_LOCKS.start();
        let pid: u32 = pid.parse().ok().filter(|pid| *pid != own)?;
        (file == locked && reads).then(|| pid.to_string())
    };
    let mut pids: Vec<String> = locks.lines().filter_map(pid).collect();
    pids.dedup();
    pids.join(" ")
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_reader_that_stays_is_named_once_in_a_while() {
        let said = tempfile::NamedTempFile::new().unwrap();
        let lines = Arc::new(said.reopen().unwrap());
        let _logging = longhaul_testkit::capture(tracing_subscriber::fmt().with_writer(lines).finish());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.db");
        let [writer, reader] = [(); 2].map(|()| Connection::open(&file).unwrap());
        writer.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER)").unwrap();
        reader.execute_batch("BEGIN; SELECT * FROM t").unwrap();
        writer.execute_batch("INSERT INTO t VALUES (1)").unwrap();
        let [path, index] = ["t.db-wal", "t.db-shm"].map(|name| folder.path().join(name));
        let mut log = Log { bytes_max: 0, ..Log::of(path.clone(), index, &writer).unwrap() };
        let said_after = |log: &mut Log, checks: u32| {
            log.too_long = checks - 1;
            log.keep(&writer);
            std::fs::read_to_string(said.path()).unwrap().matches("another process reads").count()
        };
        let said_in_turn = [1, LOG_PATIENCE - 1, LOG_PATIENCE, LOG_PATIENCE + 1, LOG_PATIENCE + LOG_SAID_EVERY]
            .map(|checks| said_after(&mut log, checks));
        assert_eq!(said_in_turn, [0, 0, 1, 1, 2]);
        reader.execute_batch("COMMIT").unwrap();
        assert_eq!(said_after(&mut log, LOG_PATIENCE), 2);
        assert_eq!(path.metadata().unwrap().len(), 0);
    }

    #[test]
    fn those_who_read_the_log_are_found_among_all_locks() {
        let locks = "1: POSIX  ADVISORY  READ 71 fd:00:99 124 124\n\
                     2: POSIX  ADVISORY  READ 71 fd:00:99 128 128\n\
                     3: POSIX  ADVISORY  WRITE 72 fd:00:99 120 120\n\
                     4: POSIX  ADVISORY  READ 73 fd:00:98 124 124\n\
                     5: FLOCK  ADVISORY  WRITE 74 fd:00:99 0 EOF\n\
                     6: POSIX  ADVISORY  READ 75 fd:00:99 123 127\n\
                     6: -> POSIX  ADVISORY  READ 76 fd:00:99 123 127\n\
                     7: POSIX  ADVISORY  READ 77 fd:00:99 124 124\n";
        assert_eq!(pids_in(locks, "fd:00:99", 77), "71 75");
    }
}
