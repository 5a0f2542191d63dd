//! Every query uses an index, and files of older versions keep what they have.

use super::*;
use longhaul_core::{Entry, EntryKind, MailboxId, Status, TaskEvent, TaskFilter, Timestamp};
use longhaul_testkit::given;

use crate::unreadable::Unreadable;
use crate::{attachments, listing, mailboxes, outbox, permits, purge, queue, quota, sql, take_up, tasks, unfinished};

/// Polls and lists stay quick however many finished tasks are stored: every query that could grow uses an index.
#[test]
fn no_query_reads_a_whole_table_or_sorts() {
    let mut connection = Connection::open_in_memory().unwrap();
    migrate(&mut connection, MIGRATIONS).unwrap();
    for sql in [
        listing::PAGE,
        listing::OF_OPEN,
        listing::OF_ENDED,
        listing::NEXT_OWNER,
        listing::WITH_LABEL,
        purge::EXPIRED,
        purge::ORPHANS,
        purge::EXPIRED_MAILBOXES,
        permits::FORGET,
        permits::TAKEN,
        permits::WAITING,
        mailboxes::COLLECT,
        quota::DISCOUNT,
        quota::RECOUNT,
        queue::table::FIRST_VISIBLE,
        queue::table::WAITING,
        queue::table::BACKLOG,
        queue::table::NEXT_OWNER,
        queue::table::FIRST_OF_OWNER,
        queue::table::DEAD,
        queue::table::NEXT_VISIBLE,
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
        let is_quick = |step: &String| step.starts_with("SEARCH ") || step.starts_with("CORRELATED SCALAR SUBQUERY");
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
            params![owner, id, sql::moment(task.expires_at), record],
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
    assert_eq!(
        tasks::read_unexpired(&connection, &Unreadable::default(), &task.key(), given::NOW).unwrap().as_ref(),
        Some(&task)
    );
    let filter =
        TaskFilter { statuses: [Status::Working].into(), tool: Some(task.tool.clone()), ..TaskFilter::default() };
    let page =
        listing::filtered_page(&connection, &Unreadable::default(), &task.owner, &filter, None, 9, given::NOW).unwrap();
    assert_eq!(page.tasks, [task]);
    // Its owner's window of new tasks begins with the next one.
    let next = given::task(&longhaul_testkit::SeededIds::new(2), given::owner("alice"), given::NOW);
    let new = longhaul_core::ports::NewTask { new_max: Some(1), ..given::new(next) };
    assert!(tasks::create(&connection, &Unreadable::default(), &new, given::NOW).unwrap().is_ok());
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
        let (owner, id, record) = (task.owner.as_bytes(), task.id.as_bytes(), serde_json::to_string(&task).unwrap());
        let values = params![owner, id, sql::moment(task.expires_at), record];
        let insert = "INSERT INTO tasks (owner, id, counted, expires_at, record) VALUES (?1, ?2, 1, ?3, ?4)";
        connection.execute(insert, values).unwrap();
        created.push(task);
    }
    // A record that cannot be read keeps nothing else from being migrated.
    let insert = "INSERT INTO tasks (owner, id, counted, expires_at, record) VALUES (x'01', x'02', 1, 3, '{')";
    connection.execute(insert, []).unwrap();
    migrate(&mut connection, MIGRATIONS).unwrap();
    for status in Status::ALL {
        let filter =
            TaskFilter { statuses: [status].into(), tool: Some(created[0].tool.clone()), ..TaskFilter::default() };
        let owner = given::owner("alice");
        let page =
            listing::filtered_page(&connection, &Unreadable::default(), &owner, &filter, None, 9, given::NOW).unwrap();
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
        connection.execute(insert, params![owner, id, sql::moment(task.expires_at), record, task.tool]).unwrap();
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
    assert!(tasks::create(&connection, &Unreadable::default(), &full, given::NOW).unwrap().is_err());
    let room = longhaul_core::ports::NewTask { open_max: 4, ..given::new(next) };
    assert!(tasks::create(&connection, &Unreadable::default(), &room, given::NOW).unwrap().is_ok());
    let filter = TaskFilter { statuses: [Status::Working].into(), ..TaskFilter::default() };
    let page =
        listing::filtered_page(&connection, &Unreadable::default(), &tasks[0].owner, &filter, None, 9, given::NOW)
            .unwrap();
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
