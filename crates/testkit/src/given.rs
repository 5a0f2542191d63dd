//! Short helpers for tests: owners, tasks and events to start from.

use std::sync::Arc;

use longhaul_core::ports::{Created, IdempotencyKey, NewTask, TaskStore};
use longhaul_core::{
    Admission, Advance, Ask, Attempts, Cleanup, Failure, FailureKind, IdSource, Identity, Labels, LeaseToken, Outcome,
    OwnerId, PartsName, Payload, Policy, Progress, RequestedTerms, ResultKind, State, Suspension, Task, TaskEvent,
    TaskKey, TaskRecord, Terms, Timestamp,
};

use crate::SeededIds;

/// The time at which tests begin. It lies ahead, so that a store that deletes by real time does not delete their tasks.
pub const NOW: Timestamp = Timestamp::from_ms(2_000_000_000_000);

/// How long a lease holds in tests.
pub const LEASE_MS: u64 = 30_000;

/// An owner called `subject`.
#[must_use]
pub fn owner(subject: &str) -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "https://issuer.test", subject, tenant: "" })
}

/// A policy of short times, at most a day.
#[must_use]
pub fn policy() -> Policy {
    let (half_an_hour, day) = (1_800_000, 86_400_000);
    let ttl_ms = 2 * half_an_hour;
    Policy { run_ms_max: half_an_hour, retention_ms: half_an_hour, ttl_ms, ttl_ms_max: day, ..Policy::default() }
}

/// These labels.
#[must_use]
pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    let mut labels = Labels::default();
    pairs.iter().for_each(|(key, value)| labels.set(key, value).expect("the tests give labels within the limits"));
    labels
}

/// A call of `owner` that was just accepted, which may run for half an hour and is kept for an hour.
#[must_use]
pub fn task(ids: &SeededIds, owner: OwnerId, now: Timestamp) -> Task {
    task_with(ids, owner, now, |_record| {})
}

/// A call of `owner` that was just accepted, as `adjust` leaves it.
#[must_use]
pub fn task_with(ids: &SeededIds, owner: OwnerId, now: Timestamp, adjust: impl FnOnce(&mut TaskRecord)) -> Task {
    let terms = Terms::negotiate(&policy(), RequestedTerms::default());
    let mut record = TaskRecord {
        owner,
        trace: None,
        id: ids.task_id(now),
        tool: "tool".to_owned(),
        state: State::Queued,
        attempt: 0,
        failures: 0,
        last_failure: None,
        terms,
        created_at: now,
        not_before: None,
        flow: None,
        labels: Labels::default(),
        updated_at: now,
        sent_at: now,
        resends: 0,
        started_at: None,
        ended_at: None,
        expires_at: now.plus_ms(terms.ttl_ms),
        progress: None,
        request: inline(r#"{"n":1}"#),
        variables: None,
        cleanup: Cleanup::None,
        held_until: None,
        asked: Vec::new(),
        answered: Vec::new(),
        parent: None,
        resumes: None,
        attempts: Attempts::default(),
    };
    adjust(&mut record);
    Task::restore(record)
}

/// A call of `owner` that was just accepted, and is to start at `start`.
#[must_use]
pub fn later(ids: &SeededIds, owner: OwnerId, start: Timestamp) -> Task {
    task_with(ids, owner, NOW, |record| {
        record.state = State::Sleeping { until: start };
        record.not_before = Some(start);
        record.expires_at = start.plus_ms(record.terms.ttl_ms);
    })
}

/// `task`, to be created without idempotency key and without a limit that matters.
#[must_use]
pub fn new(task: Task) -> NewTask {
    NewTask {
        task,
        request_parts: Arc::new([]),
        journal: Arc::new([]),
        idempotency: None,
        open_max: 1_000,
        stored_max: u64::MAX,
        new_max: None,
        send_in_ms: None,
    }
}

/// `task`, to be created with the idempotency key `key` for the request `request`.
#[must_use]
pub fn new_with_key(task: Task, key: u8, request: u8) -> NewTask {
    NewTask { idempotency: self::key(key, request), ..new(task) }
}

/// The idempotency key `key` of a call with the request `request`.
#[must_use]
pub const fn key(key: u8, request: u8) -> Option<IdempotencyKey> {
    Some(IdempotencyKey { key: [key; 32], request: [request; 32] })
}

/// A call of `owner` that was just accepted and whose request is in these parts.
#[must_use]
pub fn new_with_parts(ids: &SeededIds, owner: OwnerId, parts: &[&str]) -> NewTask {
    let task = task_with(ids, owner, NOW, |record| {
        let (count, bytes) = (parts.len(), parts.iter().map(|part| part.len()).sum::<usize>());
        let count = u32::try_from(count).unwrap();
        record.request = Payload::Parts { name: PartsName::Request, count, bytes: bytes as u64 };
    });
    NewTask { request_parts: parts.iter().map(|part| (*part).to_owned()).collect(), ..new(task) }
}

/// A stored task that is queued.
pub async fn queued(store: &dyn TaskStore, ids: &SeededIds, owner: OwnerId) -> Task {
    let Created::New(task) = store.create(new(task(ids, owner, NOW)), NOW).await.unwrap() else {
        panic!("an id that was never used is taken")
    };
    task
}

/// A stored task that its first attempt holds.
pub async fn running(store: &dyn TaskStore, ids: &SeededIds, owner: OwnerId) -> Task {
    let task = queued(store, ids, owner).await;
    store.apply(&task.key(), &claim(1, NOW), NOW).await.unwrap()
}

/// The task that is stored under `key`.
pub async fn on_record(store: &dyn TaskStore, key: &TaskKey) -> Option<Task> {
    store.get(key, NOW).await.unwrap()
}

/// A claim with the token `number`, and a lease from `now`.
#[must_use]
pub const fn claim(number: u8, now: Timestamp) -> TaskEvent {
    TaskEvent::Claim {
        token: LeaseToken::from_random([number; 16]),
        lease_until: now.plus_ms(LEASE_MS),
        admission: Admission::Free,
    }
}

/// A heartbeat of `attempt` at `now` that reports nothing else.
#[must_use]
pub const fn heartbeat(attempt: u32, now: Timestamp) -> TaskEvent {
    TaskEvent::Heartbeat {
        attempt,
        lease_until: now.plus_ms(LEASE_MS),
        progress: None,
        labels: None,
        advance: Advance::NotYet,
    }
}

/// A heartbeat of `attempt` that reports how far the work is.
#[must_use]
pub fn progress(attempt: u32, now: Timestamp, done: f64) -> TaskEvent {
    TaskEvent::Heartbeat {
        attempt,
        lease_until: now.plus_ms(LEASE_MS),
        progress: Some(Progress { done, total: Some(1.0), message: Some("on its way".to_owned()) }),
        labels: None,
        advance: Advance::NotYet,
    }
}

/// `attempt` suspends, and waits for this.
#[must_use]
pub const fn suspend(attempt: u32, suspension: Suspension) -> TaskEvent {
    TaskEvent::Suspend { attempt, suspension, progress: None, labels: None }
}

/// `attempt` ends with this result.
#[must_use]
pub fn finish(attempt: u32, result: &str) -> TaskEvent {
    let outcome = Outcome::Completed { result: inline(result), kind: ResultKind::Success };
    TaskEvent::Finish { attempt, outcome, progress: None, labels: None }
}

/// `attempt` ends with an error.
#[must_use]
pub fn fail(attempt: u32) -> TaskEvent {
    let failure = Failure { kind: FailureKind::Tool, message: "no".to_owned(), detail: None };
    TaskEvent::Finish { attempt, outcome: Outcome::Failed(failure), progress: None, labels: None }
}

/// `attempt` suspends until the client has answered these questions.
#[must_use]
pub fn asks(attempt: u32, keys: &[&str], until: Option<Timestamp>) -> TaskEvent {
    let asks = keys.iter().map(|key| ask(key)).collect();
    suspend(attempt, Suspension::Input { asks, until })
}

/// An attempt of `attempt` failed, and another may start now.
#[must_use]
pub fn retry(attempt: u32, not_before: Timestamp) -> TaskEvent {
    TaskEvent::Retry { attempt, not_before, reason: "the other side was busy".to_owned() }
}

/// A question under `key`.
#[must_use]
pub fn ask(key: &str) -> Ask {
    Ask { key: key.to_owned(), request: r#"{"method":"elicitation/create"}"#.to_owned() }
}

/// The client answered these.
#[must_use]
pub fn answer(keys: &[&str]) -> TaskEvent {
    TaskEvent::Answer { keys: keys.iter().map(|key| (*key).to_owned()).collect() }
}

/// A payload inside the record.
#[must_use]
pub fn inline(text: &str) -> Payload {
    Payload::Inline(text.to_owned())
}
