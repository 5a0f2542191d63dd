//! Acknowledged writes survive: a process that writes is killed at random moments, several times.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use longhaul_core::ports::{Created, Message, NewTask, Recorded, TaskStore, WorkQueue};
use longhaul_core::{Entry, EntryKind, TaskKey};
use longhaul_sqlite::{Database, Settings};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{ManualClock, SeededIds, block_on};

use crate::new_file;

/// In the child: which file to write to.
const PATH: &str = "LONGHAUL_CRASH_TEST_PATH";
/// In the child: the seed of its ids.
const SEED: &str = "LONGHAUL_CRASH_TEST_SEED";

/// How often the writer is killed.
const KILLS: u64 = 8;

/// Writers in the child that share transactions.
const WRITERS: u64 = 4;

fn open(path: &Path) -> Database {
    let settings = Settings { receives_max: u32::MAX, ..Settings::default() };
    Database::open(path, Arc::new(ManualClock::default()), settings).unwrap()
}

fn entry() -> Entry {
    Entry { kind: EntryKind::Step, name: "a".to_owned(), value: given::inline("1"), recording: None }
}

/// The child: writes tasks, entries and messages until it is killed, and prints a line after each answer.
fn write_until_killed(path: &Path, seed: u64) {
    let database = open(path);
    block_on(async {
        let writers = (0..WRITERS).map(|writer| write(&database, SeededIds::new(seed * WRITERS + writer)));
        futures::future::join_all(writers).await;
    });
}

async fn write(database: &Database, ids: SeededIds) {
    let (store, sending, queue) = (database.store(), database.store_with_queue(), database.queue());
    for _ in 0..100_000 {
        let task = given::running(&store, &ids, owner("alice")).await;
        say("claimed", &task.key());
        assert_eq!(store.record(&task.key(), &entry()).await.unwrap(), Recorded::First);
        say("recorded", &task.key());
        queue.send(&Message { task: task.key(), trace: None, attempt: None }, 0).await.unwrap();
        say("sent", &task.key());
        store.apply(&task.key(), &given::finish(1, "{}"), NOW).await.unwrap();
        say("finished", &task.key());
        let sent = given::task(&ids, owner("alice"), NOW);
        let new = NewTask { send_in_ms: Some(0), ..given::new(sent.clone()) };
        assert!(matches!(sending.create(new, NOW).await, Ok(Created::NewAndSent(_))));
        say("accepted", &sent.key());
        // Nobody waits for this, which must not take anything with it that somebody has waited for.
        if let Some(delivery) = queue.receive(1, 0, 0).await.unwrap().pop() {
            queue.extend(&delivery.receipt, 0).await.unwrap();
        }
    }
}

/// Prints the line in one write, so that it is complete or lacks its end.
fn say(what: &str, key: &TaskKey) {
    let line = format!("ack {what} {}\n", key.id);
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// What the child acknowledged before it was killed, which happens after `lines` lines.
fn acknowledged(path: &Path, seed: u64, lines: usize) -> BTreeSet<(String, TaskKey)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::acknowledged_writes_survive_a_kill", "--nocapture"])
        .env(PATH, path)
        .env(SEED, seed.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut said = Vec::new();
    while said.len() < lines {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the writer ended by itself");
        said.push(line);
    }
    child.kill().unwrap();
    // Lines between the last one and the kill count as well; the last of them may be incomplete.
    said.extend(output.split(b'\n').map_while(Result::ok).filter_map(|line| String::from_utf8(line).ok()));
    child.wait().unwrap();
    said.iter().filter_map(|line| parse(line)).collect()
}

fn parse(line: &str) -> Option<(String, TaskKey)> {
    // The first line may begin with output of the test runner.
    let (_, acknowledgement) = line.trim_end().split_once("ack ")?;
    let (what, id) = acknowledgement.split_once(' ')?;
    Some((what.to_owned(), TaskKey::new(owner("alice"), id.parse().ok()?)))
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the environment says what the child of this test should do")]
fn acknowledged_writes_survive_a_kill() {
    if let Ok(path) = std::env::var(PATH) {
        return write_until_killed(Path::new(&path), std::env::var(SEED).unwrap().parse().unwrap());
    }
    let (_folder, path) = new_file();
    let mut all = BTreeSet::new();
    for round in 0..KILLS {
        let lines = usize::try_from(1 + SeededIds::new(round).next_u64() % 120).unwrap();
        all.extend(acknowledged(&path, round, lines));
    }
    assert!(all.iter().any(|(what, _)| what == "finished"), "no writer lived long enough to finish a task");
    let database = open(&path);
    block_on(async {
        let store = database.store();
        database.take_up(NOW).await.unwrap();
        let mut messages = BTreeSet::new();
        loop {
            let deliveries = database.queue().receive(100, 1_000_000, 0).await.unwrap();
            if deliveries.is_empty() {
                break;
            }
            messages.extend(deliveries.into_iter().map(|delivery| delivery.message.task));
        }
        for (what, key) in &all {
            let task = store.get(key, NOW).await.unwrap().unwrap_or_else(|| panic!("{what}, but lost: {key:?}"));
            match what.as_str() {
                "claimed" => assert_eq!(task.attempt, 1),
                "recorded" => assert_eq!(store.journal(key).await.unwrap(), [entry()]),
                "sent" => assert!(messages.contains(key), "a message was lost"),
                "accepted" => assert!(messages.contains(key), "a message of a record was lost"),
                "finished" => assert!(task.has_ended()),
                other => panic!("unknown acknowledgement: {other}"),
            }
        }
    });
}
