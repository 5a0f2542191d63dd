//! The tables, and the migrations from older versions of them.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::OpenError;

/// Marks a file as Longhaul's, in SQLite's header field for that: "LHUL".
pub(crate) const APPLICATION_ID: i32 = 0x4c48_554c;

/// Each migration leads from one version to the next; the first creates version 1. Never change one that was released.
pub(crate) const MIGRATIONS: &[&str] = &[
    "
    -- The record is last: what a query filters by is read without the pages that a long record spills to.
    -- It has row ids, unlike the tables of short rows: a record inside the key's own tree makes the tree deep, and
    -- spills to another page from a thousand bytes on instead of four thousand.
    CREATE TABLE tasks (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        counted INTEGER NOT NULL, -- whether it counts against the owner's limit of unfinished tasks
        expires_at INTEGER NOT NULL,
        idempotency BLOB,
        record TEXT NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT;
    CREATE INDEX tasks_by_expiry ON tasks (expires_at);
    CREATE INDEX tasks_counted ON tasks (owner, expires_at) WHERE counted = 1;

    CREATE TABLE quotas (owner BLOB PRIMARY KEY, open INTEGER NOT NULL) STRICT, WITHOUT ROWID;

    CREATE TABLE keys (
        owner BLOB NOT NULL,
        key BLOB NOT NULL,
        request BLOB NOT NULL,
        id BLOB NOT NULL,
        PRIMARY KEY (owner, key)
    ) STRICT, WITHOUT ROWID;

    CREATE TABLE journal (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (owner, id, kind, name)
    ) STRICT;

    CREATE TABLE parts (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        part TEXT NOT NULL,
        PRIMARY KEY (owner, id, name, number)
    ) STRICT;

    -- Tasks that have parts or entries but no record, because their maker died first or a worker came late.
    CREATE TABLE strays (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        seen_at INTEGER NOT NULL,
        PRIMARY KEY (owner, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX strays_by_age ON strays (seen_at);

    CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        dead INTEGER NOT NULL DEFAULT 0,
        visible_at INTEGER NOT NULL,
        receives INTEGER NOT NULL DEFAULT 0,
        turn INTEGER NOT NULL DEFAULT 0, -- raised whenever receipts given out so far end
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        trace TEXT
    ) STRICT;
    CREATE INDEX messages_by_visibility ON messages (dead, visible_at, seq);
",
    "
    CREATE TABLE mailboxes (
        owner BLOB NOT NULL,
        mailbox BLOB NOT NULL,
        expires_at INTEGER NOT NULL,
        text TEXT NOT NULL,
        PRIMARY KEY (owner, mailbox)
    ) STRICT;
    CREATE INDEX mailboxes_by_expiry ON mailboxes (expires_at);

    ALTER TABLE strays RENAME TO orphans;
    DROP INDEX strays_by_age;
    CREATE INDEX orphans_by_age ON orphans (seen_at);
",
    "
    -- The bytes of the owner's arguments and results. Tasks of older versions are not in it; it never goes below 0.
    ALTER TABLE quotas ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
",
    "
    CREATE INDEX messages_by_owner ON messages (owner, visible_at, seq) WHERE dead = 0;
",
    "
    -- How many tasks the owner has created since that moment.
    ALTER TABLE quotas ADD COLUMN new INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE quotas ADD COLUMN new_since INTEGER NOT NULL DEFAULT 0;
",
    "
    -- When and by whom the entry was recorded, as JSON; null for those of older versions.
    ALTER TABLE journal ADD COLUMN recording TEXT;
",
    "
    -- What filtered lists filter by, copied from the record.
    ALTER TABLE tasks ADD COLUMN status TEXT NOT NULL DEFAULT 'working';
    ALTER TABLE tasks ADD COLUMN tool TEXT NOT NULL DEFAULT '';
    UPDATE tasks SET
        tool = coalesce(json_extract(record, '$.tool'), ''),
        status = CASE
            WHEN json_extract(record, '$.state') = 'cancelled' THEN 'cancelled'
            WHEN json_type(record, '$.state.completed') IS NOT NULL THEN 'completed'
            WHEN json_type(record, '$.state.failed') IS NOT NULL THEN 'failed'
            WHEN json_type(record, '$.state.input_required') IS NOT NULL THEN 'input_required'
            ELSE 'working'
        END
    WHERE json_valid(record);
    CREATE INDEX tasks_by_status ON tasks (owner, status, id, tool);
",
    "
    -- The task's highest attempt when the message was sent; null for those of older versions.
    ALTER TABLE messages ADD COLUMN attempt INTEGER;
",
    "
    -- Notifications that are not passed on yet. Numbers are not used again, so that late ones stay behind.
    CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        event TEXT NOT NULL UNIQUE,
        announcement TEXT NOT NULL
    ) STRICT;
    CREATE INDEX messages_by_task ON messages (owner, id) WHERE dead = 0;
    CREATE INDEX tasks_unfinished ON tasks (owner, id) WHERE status IN ('working', 'input_required');
",
    "
    -- Each index of a table is a page more in every transaction that changes what is in it. So one index has all
    -- that is asked about unfinished tasks, and another one has the tasks that have ended, to which each comes once.
    DROP INDEX tasks_counted;
    DROP INDEX tasks_unfinished;
    DROP INDEX tasks_by_status;
    CREATE INDEX tasks_open ON tasks (owner, id, status, tool, counted, expires_at)
        WHERE status IN ('working', 'input_required');
    CREATE INDEX tasks_ended ON tasks (owner, status, id, tool) WHERE status NOT IN ('working', 'input_required');

    -- Without a table of the numbers used: the number of a delivery is never used again, whatever the message's is.
    CREATE TABLE messages_without_numbers (
        seq INTEGER PRIMARY KEY,
        dead INTEGER NOT NULL DEFAULT 0,
        visible_at INTEGER NOT NULL,
        receives INTEGER NOT NULL DEFAULT 0,
        turn INTEGER NOT NULL DEFAULT 0, -- the number of the latest delivery
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        trace TEXT,
        attempt INTEGER
    ) STRICT;
    INSERT INTO messages_without_numbers (seq, dead, visible_at, receives, turn, owner, id, trace, attempt)
        SELECT seq, dead, visible_at, receives, turn, owner, id, trace, attempt FROM messages;
    DROP TABLE messages;
    ALTER TABLE messages_without_numbers RENAME TO messages;
    CREATE INDEX messages_by_visibility ON messages (dead, visible_at, seq);
    CREATE INDEX messages_by_owner ON messages (owner, visible_at, seq, id) WHERE dead = 0;

    -- One tree instead of two: entries are found by their key, and by nothing else.
    CREATE TABLE journal_by_key (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        recording TEXT,
        PRIMARY KEY (owner, id, kind, name)
    ) STRICT, WITHOUT ROWID;
    INSERT INTO journal_by_key (owner, id, kind, name, value, recording)
        SELECT owner, id, kind, name, value, recording FROM journal;
    DROP TABLE journal;
    ALTER TABLE journal_by_key RENAME TO journal;
",
    "
    -- From this version on, records leave out their keys, and messages of new tasks are in memory.
",
    "
    -- Permits of attempts, and without a lease: tasks that wait for one. Those of kind 2 count the tasks that have
    -- begun within a time, and outlive the process.
    CREATE TABLE permits (
        kind INTEGER NOT NULL,
        of BLOB NOT NULL,
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        lease TEXT,
        priority INTEGER NOT NULL,
        since INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (kind, of, owner, id)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX permits_by_end ON permits (until);
",
    "
    -- The labels of tasks, by which lists find them newest first. Tasks without labels have no rows.
    CREATE TABLE labels (
        owner BLOB NOT NULL,
        id BLOB NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (owner, id, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX labels_by_value ON labels (owner, key, value, id);
",
];

/// Checks that the file is Longhaul's or empty, and migrates it to the latest version of `migrations`, all or nothing.
pub(crate) fn migrate(connection: &mut Connection, migrations: &[&str]) -> Result<(), OpenError> {
    // One after another, even if two processes open a new file at the same time.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = version(&transaction)?;
    let latest = migrations.len();
    if version > latest {
        return Err(OpenError::Newer { version, latest });
    }
    if version < latest {
        if version == 0 {
            transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
            transaction.execute_batch(
                "CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID",
            )?;
        }
        for migration in migrations.iter().skip(version) {
            transaction.execute_batch(migration)?;
        }
        let latest = latest.to_string();
        transaction.execute("REPLACE INTO meta VALUES ('schema_version', ?1)", params![latest.as_bytes()])?;
    }
    transaction.commit()?;
    Ok(())
}

/// Checks that the file is one of Longhaul that this program can read.
pub(crate) fn known_version(connection: &Connection) -> Result<(), OpenError> {
    match (version(connection)?, MIGRATIONS.len()) {
        (0, _) => Err(OpenError::Foreign),
        (version, latest) if version > latest => Err(OpenError::Newer { version, latest }),
        _ => Ok(()),
    }
}

/// The version of the file; 0 if it is empty.
fn version(connection: &Connection) -> Result<usize, OpenError> {
    let application: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let tables: u32 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 && (application == 0 || application == APPLICATION_ID) {
        return Ok(0);
    }
    if application != APPLICATION_ID {
        return Err(OpenError::Foreign);
    }
    let version: Option<Vec<u8>> = connection
        .query_row("SELECT value FROM meta WHERE name = 'schema_version'", [], |row| row.get(0))
        .optional()?;
    version
        .and_then(|digits| String::from_utf8(digits).ok())
        .and_then(|digits| digits.parse().ok())
        .ok_or(OpenError::Foreign)
}

#[cfg(test)]
mod tests;
