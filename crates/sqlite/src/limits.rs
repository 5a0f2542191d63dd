//! Every limit of the database: sizes, waits, and how much is done at a time.

use std::time::Duration;

/// The size of a page of a new file, a quarter of SQLite's default. A transaction of Longhaul changes a few bytes in
/// each of a dozen pages, and each goes to the disk as a whole. A record of usual size fits into one. Files that exist
/// keep theirs.
pub(crate) const PAGE_BYTES: u32 = 1_024;

/// Pages in the log after which they are moved into the file: 16 MiB. Each checkpoint waits for the disk twice,
/// independent of its size. SQLite's default of a quarter of this would make many small writers wait more often.
pub(crate) const CHECKPOINT_PAGES: u32 = 16_384;

/// How long others may be waited for when the log is emptied. The writer does nothing else meanwhile.
pub(crate) const LOG_WAIT: Duration = Duration::from_millis(20);

/// How many checks in a row find a log that cannot be emptied before the server's log says so.
pub(crate) const LOG_PATIENCE: u32 = 10;

/// The number of further checks after which the log says so again.
pub(crate) const LOG_SAID_EVERY: u32 = 300;

/// How often the files and the length of the log are checked.
pub(crate) const FILES_CHECKED_EVERY: Duration = Duration::from_secs(1);

/// The longest wait for the lock of a process that is ending: one that was killed keeps it until its memory is
/// released.
pub(crate) const LOCK_WAIT_MS_MAX: u64 = 1_000;

/// The pause between two tries to lock the database.
pub(crate) const LOCK_PAUSE_MS: u64 = 10;

/// Calls that may wait for the thread that writes; when the queue is full, further callers wait until there is room.
pub(crate) const WRITES_WAITING_MAX: usize = 1_024;

/// Calls in one transaction: bounds how long the first of them waits for its answer.
pub(crate) const WRITES_AT_A_TIME: usize = 256;

/// How long a transaction stays open after a call that is answered from it, for another call to commit it.
pub(crate) const STAYS_OPEN: Duration = Duration::from_millis(10);

/// How often in a row it may stay open.
pub(crate) const STAYS_OPEN_MAX: u32 = 4;

/// Threads that read. Reads are short and mostly from memory; with two threads, a slow list does not delay polls.
pub(crate) const READERS: usize = 2;

/// Reads that may wait for a thread that reads; when the queue is full, further callers wait until there is room.
pub(crate) const READS_WAITING_MAX: usize = 1_024;

/// The longest wait of a backup for a server that is starting or stopping.
pub(crate) const BACKUP_WAIT: Duration = Duration::from_secs(5);

/// How long orphans are kept: the record of such parts is written within seconds, or never.
pub(crate) const ORPHAN_MS: u64 = 86_400_000;

/// Tasks that are resumed in one transaction at a start.
pub(crate) const TAKEN_UP_AT_A_TIME: usize = 256;

/// Scans of all unfinished tasks that are spared in a row, at most.
pub(crate) const LOOKS_SPARED_MAX: u32 = 20;

/// Messages among which owners are looked for first. Fewer of them than this are all that there are.
pub(crate) const OWNERS_WINDOW: usize = 64;

/// Owners that one receive looks at behind those messages, if it has found something to deliver; the next one continues
/// from there.
pub(crate) const OWNERS_SEARCHED_MAX: usize = 64;

/// How long what is known about the table is relied on. It is wrong after a transaction that could not be committed.
pub(crate) const TABLE_KNOWN_MS: u64 = 1_000;

/// Waiting messages of the table that are counted for metrics, so that the count of a very long queue ends soon.
pub(crate) const BACKLOG_COUNTED_MAX: usize = 100_000;

/// Messages that are kept in memory. Further ones are written to the table.
pub(crate) const IN_MEMORY_MAX: usize = 16_384;

// What is related stays so.
const _: () = {
    // A batch is never larger than what may wait for it.
    assert!(WRITES_AT_A_TIME <= WRITES_WAITING_MAX);
    // The writer does nothing else while it empties the log: that takes a small part of the time between two checks.
    assert!(LOG_WAIT.as_millis() * 10 <= FILES_CHECKED_EVERY.as_millis());
    assert!(LOCK_PAUSE_MS * 10 <= LOCK_WAIT_MS_MAX);
    // A transaction that stays open delays its calls by less than a client notices.
    assert!(STAYS_OPEN.as_millis() * (STAYS_OPEN_MAX as u128) < 100);
    // A search behind the window sees at least as many owners as the window.
    assert!(OWNERS_SEARCHED_MAX >= OWNERS_WINDOW);
    assert!(IN_MEMORY_MAX > OWNERS_WINDOW);
};
