//! The transition table in the documentation is the real one.

use std::fmt::Write;

use longhaul_core::{
    Admission, Advance, Cleanup, CleanupEnd, Failure, FailureKind, Lease, Outcome, Payload, ResultKind, State,
    Suspension, Task, TaskEvent, TaskRecord, Timestamp, limits,
};

use crate::given::{ask, record, token};

const BEGIN: &str = "<!-- transitions: begin -->\n";
const END: &str = "<!-- transitions: end -->";

#[test]
fn the_documented_transitions_are_the_real_ones() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/transitions.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the begin marker");
    let (table, after) = rest.split_once(END).expect("the end marker");
    let real = transition_table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{real}{END}{after}")).unwrap();
    } else {
        assert_eq!(table, real, "docs/transitions.md is out of date: run with UPDATE_GOLDEN=1 and read the difference");
    }
}

const NOW: Timestamp = Timestamp::from_ms(1_000_000);
const PAST: Timestamp = Timestamp::from_ms(999_000);
const FUTURE: Timestamp = Timestamp::from_ms(1_001_000);
const ATTEMPT: u32 = 3;

/// Every event in every state, as a table in Markdown: the result of [`Task::apply`].
fn transition_table() -> String {
    let states = states();
    let events = events();
    let mut table = String::from("| event |");
    for (name, _) in &states {
        let _infallible = write!(table, " {name} |");
    }
    table.push_str("\n| --- |");
    table.push_str(&" --- |".repeat(states.len()));
    table.push('\n');
    for (name, event) in &events {
        let _infallible = write!(table, "| {name} |");
        for (_, task) in &states {
            let cell = task
                .apply(event, NOW)
                .map_or_else(|refusal| format!("*{}*", variant(&refusal)), |next| outcome(task, &next));
            let _infallible = write!(table, " {cell} |");
        }
        table.push('\n');
    }
    table
}

fn outcome(before: &Task, after: &Task) -> String {
    let mut cell = variant(&after.state);
    if after.attempt > before.attempt {
        cell.push_str(", attempt + 1");
    }
    if after.failures > before.failures {
        cell.push_str(", failure + 1");
    }
    if after.failures < before.failures {
        cell.push_str(", failures 0");
    }
    if after.answered.len() > before.answered.len() {
        cell.push_str(", answer noted");
    }
    if after.cleanup != before.cleanup {
        cell.push_str(match after.cleanup {
            Cleanup::None => ", no cleanup",
            Cleanup::Armed { .. } => ", cleanup",
            Cleanup::Done => ", cleaned",
            Cleanup::GivenUp => ", cleanup given up",
        });
    }
    cell
}

fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split_once([' ', '{', '(']).map_or(text.as_str(), |(name, _)| name).to_owned()
}

/// A task in `state`, created long before, with `adjust` applied.
fn task(state: State, adjust: impl FnOnce(&mut TaskRecord)) -> Task {
    let created_at = Timestamp::from_ms(900_000);
    let record = record(state);
    let mut record = TaskRecord {
        attempt: ATTEMPT,
        last_failure: None,
        created_at,
        updated_at: created_at,
        sent_at: created_at,
        started_at: None,
        expires_at: created_at.plus_ms(record.terms.ttl_ms),
        ..record
    };
    adjust(&mut record);
    Task::restore(record)
}

fn failure() -> Failure {
    Failure { kind: FailureKind::Tool, message: "no".to_owned(), detail: None }
}

const fn being_cleaned(tries: u32, until: Timestamp) -> Cleanup {
    Cleanup::Armed { tries, lease: Some(Lease { until, token: token(1) }) }
}

fn states() -> Vec<(&'static str, Task)> {
    let running = |until| State::Running { lease: Lease { until, token: token(1) } };
    let result = Payload::Inline("{}".to_owned());
    let unchanged = |_: &mut TaskRecord| {};
    vec![
        ("Queued", task(State::Queued, unchanged)),
        ("Queued, past deadline", task(State::Queued, |record| record.terms.run_ms = 1)),
        ("Running", task(running(FUTURE), unchanged)),
        ("Running beside question a", task(running(FUTURE), |record| record.asked = vec![ask("a")])),
        (
            "Running, question a answered",
            task(running(FUTURE), |record| (record.asked, record.answered) = (vec![ask("a")], vec!["a".to_owned()])),
        ),
        ("Running, lease over", task(running(PAST), unchanged)),
        (
            "Running, lease over, last try",
            task(running(PAST), |record| record.failures = record.terms.consecutive_failures_max - 1),
        ),
        ("Sleeping", task(State::Sleeping { until: FUTURE }, |record| record.failures = 0)),
        ("Sleeping before a retry", task(State::Sleeping { until: FUTURE }, unchanged)),
        (
            "Sleeping before a later start",
            task(State::Sleeping { until: FUTURE }, |record| {
                (record.attempt, record.failures, record.not_before) = (0, 0, Some(FUTURE));
            }),
        ),
        ("Sleeping, due", task(State::Sleeping { until: PAST }, |record| record.failures = 0)),
        ("InputRequired a, b", task(State::InputRequired { asks: vec![ask("a"), ask("b")], until: None }, unchanged)),
        (
            "InputRequired a, not due",
            task(State::InputRequired { asks: vec![ask("a")], until: Some(FUTURE) }, unchanged),
        ),
        ("InputRequired a, due", task(State::InputRequired { asks: vec![ask("a")], until: Some(PAST) }, unchanged)),
        ("Completed", task(State::Completed { result, kind: ResultKind::Success }, unchanged)),
        ("Failed", task(State::Failed { failure: failure() }, unchanged)),
        ("Cancelled", task(State::Cancelled, unchanged)),
        ("Cancelled, to be cleaned", task(State::Cancelled, |record| record.cleanup = Cleanup::ARMED)),
        ("Cancelled, being cleaned", task(State::Cancelled, |record| record.cleanup = being_cleaned(1, FUTURE))),
        (
            "Cancelled, last cleanup over",
            task(State::Cancelled, |record| record.cleanup = being_cleaned(limits::CLEANUP_TRIES_MAX, PAST)),
        ),
        ("expired", task(State::Queued, |record| record.expires_at = PAST)),
    ]
}

fn events() -> Vec<(&'static str, TaskEvent)> {
    let suspend = |suspension| TaskEvent::Suspend { attempt: ATTEMPT, suspension, progress: None, labels: None };
    let heartbeat =
        |attempt, advance| TaskEvent::Heartbeat { attempt, lease_until: FUTURE, progress: None, labels: None, advance };
    let answer = |keys: &[&str]| TaskEvent::Answer { keys: keys.iter().map(|key| (*key).to_owned()).collect() };
    let finish =
        |attempt| TaskEvent::Finish { attempt, outcome: Outcome::Failed(failure()), progress: None, labels: None };
    vec![
        ("Claim", TaskEvent::Claim { token: token(2), lease_until: FUTURE, admission: Admission::Free }),
        ("Heartbeat", heartbeat(ATTEMPT, Advance::NotYet)),
        ("Heartbeat, step recorded", heartbeat(ATTEMPT, Advance::Recorded)),
        ("Heartbeat, stale", heartbeat(ATTEMPT - 1, Advance::NotYet)),
        ("SetVariables", TaskEvent::SetVariables { attempt: ATTEMPT, variables: Payload::Inline("{}".to_owned()) }),
        ("Suspend, input", suspend(Suspension::Input { asks: vec![ask("c")], until: None })),
        ("Suspend, no question", suspend(Suspension::Input { asks: Vec::new(), until: None })),
        ("Suspend, timer", suspend(Suspension::Timer(FUTURE))),
        ("Suspend, yield", suspend(Suspension::Yield)),
        ("Retry", TaskEvent::Retry { attempt: ATTEMPT, not_before: FUTURE, reason: "no".to_owned() }),
        ("Finish", finish(ATTEMPT)),
        ("Finish, stale", finish(ATTEMPT - 1)),
        ("Answer a", answer(&["a"])),
        ("Answer a, b", answer(&["a", "b"])),
        ("Answer z", answer(&["z"])),
        ("Wake", TaskEvent::Wake { at: NOW }),
        ("Cancel", TaskEvent::Cancel),
        ("Resend", TaskEvent::Resend { not_since: PAST }),
        ("Resend, sent lately", TaskEvent::Resend { not_since: Timestamp::from_ms(0) }),
        ("RetriesExhausted", TaskEvent::RetriesExhausted),
        ("TimeOut", TaskEvent::TimeOut),
        ("ExtendRetention", TaskEvent::ExtendRetention { retention_ms: 1 }),
        ("Forget", TaskEvent::Forget),
        ("BeginCleanup", TaskEvent::BeginCleanup { lease: Lease { until: FUTURE, token: token(2) } }),
        ("EndCleanup, done", TaskEvent::EndCleanup { token: token(1), end: CleanupEnd::Done }),
        ("EndCleanup, failed", TaskEvent::EndCleanup { token: token(1), end: CleanupEnd::Failed { again_at: FUTURE } }),
        ("EndCleanup, of another", TaskEvent::EndCleanup { token: token(2), end: CleanupEnd::Done }),
    ]
}
