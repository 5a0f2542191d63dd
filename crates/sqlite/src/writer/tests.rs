//! The times of commits, and the effects of a failure.

use super::*;

fn writer() -> Writer {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("CREATE TABLE t (n INTEGER)").unwrap();
    Writer::start(connection, None).unwrap()
}

async fn insert(writer: &Writer, n: i64) -> Result<(), DatabaseError> {
    writer.call(move |connection| Ok(connection.execute("INSERT INTO t VALUES (?1)", [n]).map(|_rows| ())?)).await
}

async fn count(writer: &Writer) -> i64 {
    writer.call(|connection| Ok(connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0))?)).await.unwrap()
}

#[tokio::test]
async fn a_call_that_fails_is_undone_without_the_other_calls_of_its_transaction() {
    let writer = writer();
    let fails = writer.call(|connection| {
        connection.execute("INSERT INTO t VALUES (2)", [])?;
        Ok(connection.execute("INSERT INTO nowhere VALUES (2)", [])?)
    });
    let (first, failed, last) = tokio::join!(insert(&writer, 1), fails, insert(&writer, 3));
    first.unwrap();
    assert!(matches!(failed, Err(DatabaseError::Sqlite(_))), "{failed:?}");
    last.unwrap();
    assert_eq!(count(&writer).await, 2);
}

/// A file, its writer, and what another connection sees in it.
fn in_a_file() -> (tempfile::TempDir, Writer, Connection) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER)").unwrap();
    (directory, Writer::start(connection, None).unwrap(), Connection::open(&path).unwrap())
}

async fn insert_soon(writer: &Writer, n: i64) -> Result<(), DatabaseError> {
    let insert =
        move |connection: &Connection| Ok(connection.execute("INSERT INTO t VALUES (?1)", [n]).map(|_rows| ())?);
    writer.call_before_commit(insert).await
}

fn rows(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn what_is_answered_at_once_is_committed_with_the_next_call_that_waits() {
    let (_directory, writer, reader) = in_a_file();
    for n in 0..100 {
        insert_soon(&writer, n).await.unwrap();
        insert(&writer, n).await.unwrap();
        assert_eq!(rows(&reader), 2 * (n + 1));
    }
}

#[tokio::test]
async fn what_is_answered_at_once_is_committed_although_no_call_follows() {
    let (_directory, writer, reader) = in_a_file();
    insert_soon(&writer, 1).await.unwrap();
    while rows(&reader) == 0 {
        tokio::task::yield_now().await;
    }
    // Nor do further calls that do not wait keep it open for ever.
    let mut sent = 1;
    while rows(&reader) < 2 {
        insert_soon(&writer, 2).await.unwrap();
        sent += 1;
        assert!(sent < 1_000_000, "nothing is committed as long as such calls come");
    }
    // A reader is not kept waiting by the open transaction.
    assert!(rows(&reader) > 1);
}

#[tokio::test]
async fn the_close_commits_what_was_answered_at_once() {
    let (_directory, writer, reader) = in_a_file();
    insert_soon(&writer, 1).await.unwrap();
    writer.close().await;
    assert_eq!(rows(&reader), 1);
}

#[tokio::test]
async fn a_call_that_is_answered_at_once_and_fails_is_undone_alone() {
    let (_directory, writer, reader) = in_a_file();
    let fails = |connection: &Connection| {
        connection.execute("INSERT INTO t VALUES (2)", [])?;
        Ok(connection.execute("INSERT INTO nowhere VALUES (2)", []).map(|_rows| ())?)
    };
    insert_soon(&writer, 1).await.unwrap();
    assert!(writer.call_before_commit(fails).await.is_err());
    insert(&writer, 3).await.unwrap();
    assert_eq!(rows(&reader), 2);
}

#[tokio::test]
async fn a_failed_commit_undoes_what_was_answered_at_once_and_no_later_call() {
    let (_directory, writer, reader) = in_a_file();
    // This ends the transaction that both are in.
    let ends = |connection: &Connection| Ok(connection.execute_batch("ROLLBACK")?);
    let (first, ended) = tokio::join!(insert_soon(&writer, 1), writer.call_before_commit(ends));
    first.unwrap();
    assert!(ended.is_err(), "{ended:?}");
    insert(&writer, 2).await.unwrap();
    assert_eq!(rows(&reader), 1);
}

#[tokio::test]
async fn the_log_says_that_the_disk_is_full_and_calls_work_again_when_there_is_room() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let lines = Arc::new(log.reopen().unwrap());
    let _logging = longhaul_testkit::capture(tracing_subscriber::fmt().with_writer(lines).finish());
    let writer = writer();
    // They answer with the limit that holds then.
    let [few, many] = ["PRAGMA max_page_count = 10", "PRAGMA max_page_count = 1000"]
        .map(|sql| move |connection: &Connection| Ok(connection.query_row(sql, [], |_row| Ok(()))?));
    let large = |connection: &Connection| {
        Ok(connection.execute("INSERT INTO t VALUES (zeroblob(100000))", []).map(|_rows| ())?)
    };
    writer.call(few).await.unwrap();
    assert!(writer.call(large).await.is_err());
    let said = std::fs::read_to_string(log.path()).unwrap();
    assert!(said.contains("database or disk is full"), "{said}");
    writer.call(many).await.unwrap();
    writer.call(large).await.unwrap();
    assert_eq!(count(&writer).await, 1);
}

#[tokio::test]
async fn a_call_that_panics_is_undone_and_the_thread_continues() {
    let writer = writer();
    let panics = writer.call(|connection| -> Result<(), DatabaseError> {
        connection.execute("INSERT INTO t VALUES (2)", [])?;
        panic!("planted");
    });
    let (panicked, other) = tokio::join!(panics, insert(&writer, 1));
    assert!(matches!(panicked, Err(DatabaseError::Panicked)), "{panicked:?}");
    other.unwrap();
    assert_eq!(count(&writer).await, 1);
}

#[tokio::test]
async fn no_call_of_a_transaction_that_sqlite_itself_ended_succeeds() {
    let writer = writer();
    let ends = writer.call(|connection| Ok(connection.execute_batch("ROLLBACK")?));
    let (first, ended) = tokio::join!(insert(&writer, 1), ends);
    assert!(ended.is_err(), "{ended:?}");
    // The first call may have run in an earlier transaction.
    assert_eq!(count(&writer).await, i64::from(first.is_ok()));
    insert(&writer, 2).await.unwrap();
}

#[tokio::test]
async fn a_transaction_that_cannot_go_on_is_rolled_back_and_the_thread_goes_on() {
    let writer = writer();
    // This removes the savepoint and opens a transaction that nothing else would end.
    let breaks = writer.call(|connection| Ok(connection.execute_batch("ROLLBACK; BEGIN; INSERT INTO t VALUES (2)")?));
    let (first, broken) = tokio::join!(insert(&writer, 1), breaks);
    assert!(matches!(broken, Err(DatabaseError::NotCommitted(_))), "{broken:?}");
    // The first call may have had a transaction of its own.
    assert_eq!(count(&writer).await, i64::from(first.is_ok()));
    insert(&writer, 3).await.unwrap();
}

#[tokio::test]
async fn a_call_after_the_close_fails_as_closed() {
    let writer = writer();
    insert(&writer, 1).await.unwrap();
    writer.close().await;
    assert!(matches!(insert(&writer, 2).await, Err(DatabaseError::Closed)));
}
