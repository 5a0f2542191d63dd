//! Tasks under way in the file of an earlier version are finished by this one.

use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use serde_json::Value;

use crate::command::Setup;
use crate::servers::Server;

const FILE: &str = include_str!("../../../sqlite/tests/stored/november-2026.sql");

/// When the process was killed that wrote the file.
const KILLED_AT_MS: u64 = 1_795_682_443_600;

/// The tasks in the file.
const COUNTDOWN: &str = "01a21703-6f84-7d9a-a3f1-16cedc67c1bf";
const ASK: &str = "01a21703-9555-794c-8221-9e3070b5d041";
const PANICKED: &str = "01a21703-960f-764d-a1b4-ef4fecf6f9a1";
const HUNG: &str = "01a21703-a11d-72ba-9e66-52718f2c6c6a";

/// The file, as if the process had been killed now. All its times have 13 digits and begin with 179.
fn killed_now() -> String {
    let now_ms = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let mut shifted = String::new();
    let mut rest = FILE;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, from) = rest.split_at(at);
        let end = from.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(from.len());
        let (digits, after) = from.split_at(end);
        shifted.push_str(before);
        let is_part_of_a_word = before.ends_with(|letter: char| letter.is_ascii_alphabetic());
        match digits.parse::<u64>() {
            Ok(ms) if digits.len() == 13 && digits.starts_with("179") && !is_part_of_a_word => {
                shifted.push_str(&(ms + now_ms - KILLED_AT_MS).to_string());
            }
            _ => shifted.push_str(digits),
        }
        rest = after;
    }
    shifted + rest
}

fn inspected(setup: &Setup, id: &str) -> Value {
    setup.run(&["show", id, "--journal", "--json"]).json()
}

/// The recorded steps: their names, and the attempts that recorded them.
fn steps(record: &Value) -> Vec<(String, u64)> {
    let entries = record["journal"].as_array().unwrap().iter().filter(|entry| entry["kind"] == "step");
    entries.map(|step| (step["name"].as_str().unwrap().to_owned(), step["attempt"].as_u64().unwrap())).collect()
}

#[test]
fn the_tasks_under_way_in_a_file_of_an_earlier_version_are_finished() {
    let setup = Setup::new();
    Connection::open(setup.folder().join("tasks.db")).unwrap().execute_batch(&killed_now()).unwrap();
    let _server = Server::local(setup.folder(), setup.port);
    // One asks twice.
    for name in ["Ann", "Rome"] {
        setup.until(ASK, "input_required");
        assert_eq!(setup.run(&["answer", ASK, &format!("answer={name}")]).code, 0);
    }
    let asked = setup.run(&["watch", ASK]);
    assert!(asked.code == 0 && asked.out.contains("Ann") && asked.out.contains("Rome"), "{asked:?}");
    // One has crashed twice, and its last try crashes too. Its recorded step is not run again.
    assert_eq!(setup.run(&["watch", PANICKED]).code, 5);
    let panicked = inspected(&setup, PANICKED);
    assert!(panicked["task"]["error"]["message"].as_str().unwrap().contains("no retries are left"), "{panicked}");
    assert_eq!((steps(&panicked), &panicked["attempt"]), (vec![("wait".to_owned(), 1)], &3.into()), "{panicked}");
    // One was killed with 5 of 20 steps on record.
    let counted = setup.run(&["watch", COUNTDOWN]);
    assert!(counted.code == 0 && counted.out.contains("\"steps\":20"), "{counted:?}");
    let record = inspected(&setup, COUNTDOWN);
    let recorded_by = |attempt: u64| (format!("step {attempt}"), attempt);
    let counted = steps(&record);
    assert_eq!((counted.len(), &counted[..5]), (20, &[1, 2, 3, 4, 5].map(recorded_by)[..]), "{record}");
    assert!(counted[5..].iter().all(|(_step, attempt)| *attempt == 7), "{record}");
    // One hangs until its deadline.
    assert_eq!(setup.run(&["watch", HUNG]).code, 5);
    let hung = inspected(&setup, HUNG);
    assert!(hung["task"]["error"]["message"].as_str().unwrap().contains("did not end within the 45000 ms"), "{hung}");
}
