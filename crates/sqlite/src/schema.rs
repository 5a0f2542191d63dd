//! The tables, and the migrations from older versions of them.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::OpenError;

/// Marks a file as ours, in SQLite's header field for that: "LHUL".
const APPLICATION_ID: i32 = 0x4c48_554c;

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
    -- Announcements that are not passed on yet. Numbers are not used again, so that late ones stay behind.
    CREATE TABLE outbox (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        event TEXT NOT NULL UNIQUE,
        announcement TEXT NOT NULL
    ) STRICT;
    CREATE INDEX messages_by_task ON messages (owner, id) WHERE dead = 0;
    CREATE INDEX tasks_unfinished ON tasks (owner, id) WHERE status IN ('working', 'input_required');
",
    "
    -- Each index of a table is a page more in every transaction that changes what is in it. So one index has all that is
    -- asked about unfinished tasks, and another one has the tasks that have ended, to which each comes once.
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
];

/// Checks that the file is ours or empty, and migrates it to the latest version of `migrations`, all or nothing.
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
mod tests {
    use super::*;
    use longhaul_core::{Entry, EntryKind, MailboxId, Status, TaskEvent, TaskFilter, Timestamp};
    use longhaul_testkit::given;

    use crate::{attachments, listing, mailboxes, outbox, purge, queue, take_up, tasks, unfinished};

    /// Polls and lists stay quick however many finished tasks are stored: every query that could grow uses an index.
    #[test]
    fn no_query_reads_a_whole_table_or_sorts() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        for sql in [
            listing::PAGE,
            listing::OF_OPEN,
            listing::OF_ENDED,
            purge::EXPIRED,
            purge::ORPHANS,
            purge::EXPIRED_MAILBOXES,
            mailboxes::COLLECT,
            tasks::DISCOUNT,
            tasks::RECOUNT,
            queue::WAITING,
            queue::NEXT_OWNER,
            queue::FIRST_OF_OWNER,
            queue::DEAD,
            queue::NEXT_VISIBLE,
            take_up::HIDDEN,
            outbox::FIRST,
            outbox::REMOVE,
            unfinished::PAGE,
            unfinished::WITH_MESSAGE,
        ] {
            let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let values = vec![rusqlite::types::Null; statement.parameter_count()];
            let plan: Vec<String> = statement
                .query_map(rusqlite::params_from_iter(values), |row| row.get("detail"))
                .unwrap()
                .collect::<rusqlite::Result<_>>()
                .unwrap();
            let is_quick =
                |step: &String| step.starts_with("SEARCH ") || step.starts_with("CORRELATED SCALAR SUBQUERY");
            assert!(plan.iter().all(is_quick), "{sql}\n{plan:?}");
        }
    }

    #[test]
    fn a_file_of_the_first_version_keeps_its_tasks_and_gets_mailboxes() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &MIGRATIONS[..1]).unwrap();
        let task = given::task(&longhaul_testkit::SeededIds::new(1), given::owner("alice"), given::NOW);
        let (owner, id) = (task.owner.as_bytes(), task.id.as_bytes());
        let record = serde_json::to_string(&task).unwrap();
        // As the first version wrote them: the statements of this version name other tables.
        connection
            .execute(
                "INSERT INTO tasks (owner, id, counted, expires_at, record) VALUES (?1, ?2, 1, ?3, ?4)",
                params![owner, id, tasks::moment(task.expires_at), record],
            )
            .unwrap();
        connection.execute("INSERT INTO strays VALUES (?1, ?2, 7)", params![owner, id]).unwrap();
        connection
            .execute("INSERT INTO journal VALUES (?1, ?2, 'step', 'a', '{\"inline\":\"1\"}')", params![owner, id])
            .unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        let entry = Entry { kind: EntryKind::Step, name: "a".to_owned(), value: given::inline("1"), recording: None };
        assert_eq!(attachments::journal(&connection, &task.key()).unwrap(), [entry]);
        let seen_at: i64 = connection.query_row("SELECT seen_at FROM orphans", [], |row| row.get(0)).unwrap();
        assert_eq!(seen_at, 7);
        let (mailbox, end) = (MailboxId::of(&[b"a"]), Timestamp::from_ms(u64::MAX));
        mailboxes::leave(&connection, &task.owner, &mailbox, "text", end, given::NOW).unwrap();
        let collected = mailboxes::collect(&connection, &task.owner, &mailbox, given::NOW).unwrap();
        assert_eq!(collected.as_deref(), Some("text"));
        assert_eq!(tasks::read_unexpired(&connection, &task.key(), given::NOW).unwrap().as_ref(), Some(&task));
        let filter = TaskFilter { statuses: [Status::Working].into(), tool: Some(task.tool.clone()) };
        let page = listing::filtered_page(&connection, &task.owner, &filter, None, 9, given::NOW).unwrap();
        assert_eq!(page.tasks, [task]);
        // Its owner's window of new tasks begins with the next one.
        let next = given::task(&longhaul_testkit::SeededIds::new(2), given::owner("alice"), given::NOW);
        let new = longhaul_core::ports::NewTask { new_max: Some(1), ..given::new(next) };
        assert!(tasks::create(&connection, &new, given::NOW).unwrap().is_ok());
    }

    #[test]
    fn a_file_without_statuses_gets_them_from_its_records() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &MIGRATIONS[..6]).unwrap();
        let ids = longhaul_testkit::SeededIds::new(1);
        let ends = [
            vec![],
            vec![given::claim(1, given::NOW)],
            vec![given::claim(1, given::NOW), given::asks(1, &["a"], None)],
            vec![given::claim(1, given::NOW), given::finish(1, "{}")],
            vec![given::claim(1, given::NOW), given::fail(1)],
            vec![TaskEvent::Cancel],
        ];
        let mut created = Vec::new();
        for (number, events) in (0_u8..).zip(ends) {
            let mut task = given::task(&ids, given::owner("alice"), given::NOW.plus_ms(number.into()));
            for event in events {
                task = task.apply(&event, given::NOW).unwrap();
            }
            let (owner, id, record) =
                (task.owner.as_bytes(), task.id.as_bytes(), serde_json::to_string(&task).unwrap());
            let values = params![owner, id, tasks::moment(task.expires_at), record];
            let insert = "INSERT INTO tasks (owner, id, counted, expires_at, record) VALUES (?1, ?2, 1, ?3, ?4)";
            connection.execute(insert, values).unwrap();
            created.push(task);
        }
        // A record that cannot be read keeps nothing else from being migrated.
        let insert = "INSERT INTO tasks (owner, id, counted, expires_at, record) VALUES (x'01', x'02', 1, 3, '{')";
        connection.execute(insert, []).unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        for status in Status::ALL {
            let filter = TaskFilter { statuses: [status].into(), tool: Some(created[0].tool.clone()) };
            let owner = given::owner("alice");
            let page = listing::filtered_page(&connection, &owner, &filter, None, 9, given::NOW).unwrap();
            let expected: Vec<_> = created.iter().rev().filter(|task| task.status() == status).cloned().collect();
            assert_eq!(page.tasks, expected, "{status:?}");
        }
    }

    #[test]
    fn a_file_with_numbered_messages_keeps_them_its_journal_and_its_counts() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &MIGRATIONS[..9]).unwrap();
        let ids = longhaul_testkit::SeededIds::new(1);
        let tasks: Vec<_> = (0..3).map(|_| given::task(&ids, given::owner("alice"), given::NOW)).collect();
        for (dead, task) in (0_i64..).zip(&tasks) {
            let (owner, id, record) = (task.owner.as_bytes(), task.id.as_bytes(), serde_json::to_string(task).unwrap());
            let insert = "INSERT INTO tasks (owner, id, counted, expires_at, record, status, tool) \
                 VALUES (?1, ?2, 1, ?3, ?4, 'working', ?5)";
            connection.execute(insert, params![owner, id, tasks::moment(task.expires_at), record, task.tool]).unwrap();
            // The first has a message that was delivered twice, the second a dead letter.
            let message = "INSERT INTO messages (dead, visible_at, receives, turn, owner, id, attempt) \
                 VALUES (?1, 5, 2, 3, ?2, ?3, 7)";
            if dead < 2 {
                connection.execute(message, params![dead, owner, id]).unwrap();
            }
            let entry = "INSERT INTO journal (owner, id, kind, name, value, recording) \
                 VALUES (?1, ?2, 'step', 'a', '{\"inline\":\"1\"}', '{\"at\":7,\"attempt\":2}')";
            connection.execute(entry, params![owner, id]).unwrap();
        }
        connection.execute("INSERT INTO quotas (owner, open) VALUES (?1, 9)", [tasks[0].owner.as_bytes()]).unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();

        let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?));
        let mut statement =
            connection.prepare("SELECT dead, visible_at, receives, turn, attempt FROM messages ORDER BY seq").unwrap();
        let messages: Vec<(i64, i64, i64, i64, i64)> =
            statement.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap();
        assert_eq!(messages, [(0, 5, 2, 3, 7), (1, 5, 2, 3, 7)]);
        for task in &tasks {
            let journal = attachments::journal(&connection, &task.key()).unwrap();
            assert_eq!(journal.len(), 1);
            assert!(journal[0].recording.is_some());
        }
        // The count that the limit is compared with is repaired from the new index.
        let next = given::task(&ids, given::owner("alice"), given::NOW);
        let full = longhaul_core::ports::NewTask { open_max: 3, ..given::new(next.clone()) };
        assert!(tasks::create(&connection, &full, given::NOW).unwrap().is_err());
        let room = longhaul_core::ports::NewTask { open_max: 4, ..given::new(next) };
        assert!(tasks::create(&connection, &room, given::NOW).unwrap().is_ok());
        let filter = TaskFilter { statuses: [Status::Working].into(), tool: None };
        let page = listing::filtered_page(&connection, &tasks[0].owner, &filter, None, 9, given::NOW).unwrap();
        assert_eq!(page.tasks.len(), 4);
    }

    #[test]
    fn an_empty_file_is_accepted_unless_another_application_marked_it() {
        for (mark, is_accepted) in [(0, true), (APPLICATION_ID, true), (7, false)] {
            let mut connection = Connection::open_in_memory().unwrap();
            connection.pragma_update(None, "application_id", mark).unwrap();
            let migrated = migrate(&mut connection, &[FIRST]);
            assert_eq!(migrated.is_ok(), is_accepted, "{migrated:?}");
            let mark_now: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0)).unwrap();
            assert_eq!(mark_now, if is_accepted { APPLICATION_ID } else { mark });
        }
    }

    const FIRST: &str = "CREATE TABLE fruit (name TEXT); INSERT INTO fruit VALUES ('apple')";
    const SECOND: &str = "ALTER TABLE fruit ADD COLUMN colour TEXT; UPDATE fruit SET colour = 'red'";
    const BROKEN: &str = "ALTER TABLE fruit ADD COLUMN taste TEXT; UPDATE nothing SET taste = 'sweet'";

    fn columns(connection: &Connection) -> usize {
        connection.prepare("SELECT * FROM fruit").unwrap().column_count()
    }

    #[test]
    fn a_file_of_an_older_version_is_migrated_with_its_data() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST]).unwrap();
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        // Another migration changes nothing.
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        let row = connection.query_row("SELECT name, colour FROM fruit", [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        });
        assert_eq!(row.unwrap(), ("apple".to_owned(), "red".to_owned()));
        assert_eq!(version(&connection).unwrap(), 2);
    }

    #[test]
    fn a_migration_that_fails_leaves_the_file_as_it_was() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST]).unwrap();
        assert!(migrate(&mut connection, &[FIRST, BROKEN]).is_err());
        assert_eq!((version(&connection).unwrap(), columns(&connection)), (1, 1));
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        assert_eq!((version(&connection).unwrap(), columns(&connection)), (2, 2));
    }

    #[test]
    fn a_file_of_a_newer_version_is_refused_with_both_versions_and_what_to_do() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, &[FIRST, SECOND]).unwrap();
        let error = migrate(&mut connection, &[FIRST]).unwrap_err().to_string();
        assert!(error.contains("version 2") && error.contains("up to 1"), "{error}");
        assert!(error.contains("start the newer Longhaul"), "{error}");
        assert_eq!(version(&connection).unwrap(), 2);
    }
}
