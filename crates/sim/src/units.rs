//! The partitions that each call of a store on DynamoDB uses, and how many capacity units of each. The names are those
//! of the real adapter. `crates/aws/tests/aws/units.rs` compares the two.

use longhaul_core::ports::NewTask;
use longhaul_core::{
    AttemptOutcome, Cleanup, Entry, MailboxId, OwnerId, Payload, State, Suspension, Task, TaskEvent, TaskKey,
    Timestamp, limits,
};
use serde::Serialize;

/// How many partition keys an owner's tasks are spread over.
pub(crate) const SHARDS: u8 = 16;

/// The smallest limit of unfinished tasks under which a sample of them is counted.
const SAMPLED_FROM: u32 = 2_000;

/// One task in so many is counted there.
const SAMPLE: u8 = 4;

const WRITE_UNIT: u64 = 1_024;
const READ_UNIT: u64 = 4_096;

/// A partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum PartitionKey {
    /// One of those of an owner's tasks.
    Tasks(OwnerId, u8),
    /// The counts of an owner.
    Counts(OwnerId),
    /// An idempotency key.
    Idempotency(OwnerId, [u8; 32]),
    /// The journal and the parts of a task.
    Attachments(TaskKey),
    /// A mailbox.
    Mailbox(OwnerId, MailboxId),
}

impl PartitionKey {
    /// That of a task.
    pub(crate) fn of(key: &TaskKey) -> Self {
        Self::Tasks(key.owner, key.id.shard(SHARDS))
    }

    /// Its content, in words.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Tasks(..) => "tasks",
            Self::Counts(_) => "counts",
            Self::Idempotency(..) => "idempotency key",
            Self::Attachments(_) => "journal",
            Self::Mailbox(..) => "mailbox",
        }
    }
}

/// Units of one partition key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) key: PartitionKey,
    pub(crate) read: u64,
    pub(crate) write: u64,
}

/// One call to DynamoDB, and what it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) units: Vec<Units>,
}

impl Call {
    fn read(name: &'static str, key: PartitionKey, bytes: u64) -> Self {
        Self { name, units: vec![Units { key, read: bytes.div_ceil(READ_UNIT).max(1), write: 0 }] }
    }

    fn write(name: &'static str, key: PartitionKey, bytes: u64) -> Self {
        Self { name, units: vec![Units { key, read: 0, write: write_units(bytes) }] }
    }

    /// Whether it is a transaction, which the client does not try again on its own.
    pub(crate) fn is_transaction(&self) -> bool {
        self.name == "TransactWriteItems"
    }
}

/// Units of a write of an item of so many bytes.
pub(crate) const fn write_units(bytes: u64) -> u64 {
    let units = bytes.div_ceil(WRITE_UNIT);
    if units == 0 { 1 } else { units }
}

/// The read of a task.
pub(crate) fn task_read(key: &TaskKey, bytes: u64) -> Call {
    Call::read("GetItem", PartitionKey::of(key), bytes)
}

/// The update of a task.
pub(crate) fn task_update(key: &TaskKey, bytes: u64) -> Call {
    Call::write("UpdateItem", PartitionKey::of(key), bytes)
}

/// The update of an owner's counts, an item below a kilobyte.
pub(crate) fn count_update(owner: OwnerId) -> Call {
    Call::write("UpdateItem", PartitionKey::Counts(owner), 1)
}

/// The number of open tasks that a task counts as in the owner's count.
pub(crate) fn slots(task: &Task, open_max: u32) -> u32 {
    let [.., random, _shard] = *task.id.as_bytes();
    if open_max < SAMPLED_FROM {
        1
    } else if random % SAMPLE == 0 {
        u32::from(SAMPLE)
    } else {
        0
    }
}

/// Whether a creation changes the counts of its owner; otherwise it reads them.
pub(crate) fn is_counted(new: &NewTask) -> bool {
    let slots = slots(&new.task, new.open_max);
    let in_parts = matches!(new.task.request, Payload::Parts { .. });
    slots > 0 || in_parts || new.new_max.is_some_and(|new_max| new_max < SAMPLED_FROM)
}

/// The calls of a creation, if nothing is in its way.
pub(crate) fn creation(new: &NewTask) -> Vec<Call> {
    let (task, key) = (&new.task, new.task.key());
    let at = PartitionKey::of(&key);
    let mut calls = Vec::new();
    if !task.is_webhook_delivery() && !task.has_ended() {
        let counts = PartitionKey::Counts(key.owner);
        calls.push(if is_counted(new) { count_update(key.owner) } else { Call::read("GetItem", counts, 1) });
    }
    let idempotency = new.idempotency.map(|held| PartitionKey::Idempotency(key.owner, held.key));
    if !new.request_parts.is_empty() {
        calls.extend(idempotency.map(|at| Call::read("GetItem", at, 1)));
        calls.push(task_read(&key, 1));
        calls.push(parts_written(&key, new.request_parts.iter().map(String::len)));
    }
    let bytes = new_item_bytes(new);
    calls.push(match idempotency {
        None => Call::write("PutItem", at, bytes),
        // A member of a transaction costs twice as much.
        Some(idempotency) => Call {
            name: "TransactWriteItems",
            units: vec![
                Units { key: idempotency, read: 0, write: 2 },
                Units { key: at, read: 0, write: 2 * write_units(bytes) },
            ],
        },
    });
    calls
}

/// The calls of an event before the one that decides it. Some depend on the record, which is read first. Others follow
/// a condition that does not hold.
pub(crate) fn polls(known: &Task, event: &TaskEvent, now: Timestamp) -> Vec<Call> {
    let (key, bytes) = (known.key(), item_bytes(known));
    let is_late = now.as_ms() > known.expires_at.as_ms().saturating_sub(known.terms.retention_ms);
    let is_over = matches!(known.state, State::Running { lease } if lease.until <= now);
    match event {
        TaskEvent::Answer { .. }
        | TaskEvent::RetriesExhausted
        | TaskEvent::TimeOut
        | TaskEvent::ExtendRetention { .. }
        | TaskEvent::BeginCleanup { .. }
        | TaskEvent::EndCleanup { .. } => vec![task_read(&key, bytes)],
        TaskEvent::Claim { .. } if is_over => vec![task_update(&key, bytes)],
        TaskEvent::Suspend { suspension: Suspension::Input { .. }, .. } if !known.answered.is_empty() => {
            vec![task_update(&key, bytes)]
        }
        TaskEvent::Finish { .. } | TaskEvent::Cancel if is_late => vec![task_update(&key, bytes)],
        TaskEvent::Claim { .. }
        | TaskEvent::Heartbeat { .. }
        | TaskEvent::SetVariables { .. }
        | TaskEvent::Suspend { .. }
        | TaskEvent::Retry { .. }
        | TaskEvent::Finish { .. }
        | TaskEvent::Wake { .. }
        | TaskEvent::Cancel
        | TaskEvent::Resend { .. }
        | TaskEvent::Forget => Vec::new(),
    }
}

/// The write of a journal entry.
pub(crate) fn entry_written(key: &TaskKey, entry: &Entry) -> (Call, u64) {
    let keys = attachments_bytes(key) + "sk".len() as u64 + "step##".len() as u64;
    let names = (2 * entry.name.len() + entry.kind.as_str().len() + "kindnamevaluettl".len()) as u64;
    let kind = entry.kind.as_str().len() as u64;
    let recording = entry.recording.as_ref().map_or(0, |recording| 3 + json_bytes(recording));
    let bytes = keys + names + kind + payload_bytes(&entry.value) + recording + number_bytes(2_000_000_000);
    (Call::write("PutItem", PartitionKey::Attachments(*key), bytes), bytes)
}

/// The read of a journal of so many bytes.
pub(crate) fn journal_read(key: &TaskKey, bytes: u64) -> Call {
    Call::read("Query", PartitionKey::Attachments(*key), bytes)
}

/// The write of parts.
pub(crate) fn parts_written(key: &TaskKey, parts: impl Iterator<Item = usize>) -> Call {
    let own = attachments_bytes(key) + 40;
    let write = parts.map(|bytes| write_units(own + bytes as u64)).sum();
    Call { name: "BatchWriteItem", units: vec![Units { key: PartitionKey::Attachments(*key), read: 0, write }] }
}

/// The read of so many parts.
pub(crate) fn parts_read(key: &TaskKey, count: u32) -> Call {
    let read = u64::from(count) * (limits::PART_BYTES as u64).div_ceil(READ_UNIT);
    Call { name: "BatchGetItem", units: vec![Units { key: PartitionKey::Attachments(*key), read, write: 0 }] }
}

/// The queries of a list: one for each partition key of the owner's tasks.
pub(crate) fn list(owner: OwnerId) -> Vec<Call> {
    (0..SHARDS).map(|shard| Call::read("Query", PartitionKey::Tasks(owner, shard), 1)).collect()
}

/// A mailbox that is filled.
pub(crate) fn left(owner: OwnerId, mailbox: MailboxId, bytes: usize) -> Call {
    Call::write("PutItem", PartitionKey::Mailbox(owner, mailbox), bytes as u64 + 220)
}

/// A mailbox that is looked into.
pub(crate) fn collected(owner: OwnerId, mailbox: MailboxId) -> Call {
    Call::read("GetItem", PartitionKey::Mailbox(owner, mailbox), 1)
}

/// The bytes of a new task's item.
fn new_item_bytes(new: &NewTask) -> u64 {
    let counted = if slots(&new.task, new.open_max) > 0 { "counted".len() as u64 + number_bytes(4) } else { 0 };
    let key = if new.idempotency.is_some() { "key".len() as u64 + 32 } else { 0 };
    item_bytes(&new.task) + counted + key
}

/// The bytes of a task's item: names and values of its attributes.
pub(crate) fn item_bytes(task: &Task) -> u64 {
    let terms = &task.terms;
    let late_after = task.expires_at.as_ms().saturating_sub(terms.retention_ms);
    let keys = 2 + 2 + "o##".len() + 1 + task.owner.to_string().len() + task.id.to_string().len();
    let numbers = [
        ("attempt", u64::from(task.attempt)),
        ("failures", u64::from(task.failures)),
        ("ttl_ms", terms.ttl_ms),
        ("keep_ms", terms.retention_ms),
        ("run_ms", terms.run_ms),
        ("consecutive_failures_max", u64::from(terms.consecutive_failures_max)),
        ("created_at", task.created_at.as_ms()),
        ("updated_at", task.updated_at.as_ms()),
        ("sent_at", task.sent_at.as_ms()),
        ("expires_at", task.expires_at.as_ms()),
        ("deadline_at", task.deadline().as_ms()),
        ("late_after", late_after),
        ("failures_max", u64::from(terms.consecutive_failures_max.saturating_sub(1))),
        ("ttl", task.expires_at.as_ms().div_ceil(1_000)),
        ("revision", u64::from(task.attempt)),
    ];
    let optional = [
        ("poll_ms", terms.poll_ms),
        ("started_at", task.started_at.map(Timestamp::as_ms)),
        ("ended_at", task.ended_at.map(Timestamp::as_ms)),
        ("resends", Some(u64::from(task.resends)).filter(|resends| *resends > 0)),
        ("lease_until", task.held_until.map(Timestamp::as_ms)),
        ("not_before", task.not_before.map(Timestamp::as_ms)),
    ];
    let number = |(name, value): (&str, u64)| name.len() as u64 + number_bytes(value);
    keys as u64
        + numbers.into_iter().map(number).sum::<u64>()
        + optional.into_iter().filter_map(|(name, value)| value.map(|value| number((name, value)))).sum::<u64>()
        + texts_bytes(task)
        + attempts_bytes(task)
        + state_bytes(&task.state)
}

/// The bytes of the strings in a task's item.
fn texts_bytes(task: &Task) -> u64 {
    let named = |name: &str, bytes: u64| name.len() as u64 + bytes;
    let cleanup = (task.cleanup != Cleanup::None).then(|| named("cleaning", json_bytes(&task.cleanup)));
    let optional = [
        task.last_failure.as_ref().map(|text| named("last_failure", text.len() as u64)),
        task.progress.as_ref().map(|progress| named("progress", json_bytes(progress))),
        task.trace.map(|trace| named("trace", trace.as_str().len() as u64)),
        task.variables.as_ref().map(|variables| named("variables", payload_bytes(variables))),
        task.parent.as_ref().map(|parent| named("parent", json_bytes(parent))),
        cleanup,
        (!task.asked.is_empty()).then(|| named("asks", json_bytes(&task.asked))),
        (!task.answered.is_empty()).then(|| named("answered", json_bytes(&task.answered))),
    ];
    let optional: u64 = optional.into_iter().flatten().sum();
    named("tool", task.tool.len() as u64) + named("request", payload_bytes(&task.request)) + optional
}

/// The bytes of a task's attempts.
fn attempts_bytes(task: &Task) -> u64 {
    let moment = |at: Timestamp| number_bytes(at.as_ms()) + 1;
    let since = task.attempts.since.map_or(0, |since| "leg".len() as u64 + 3 + moment(since));
    let past = task.attempts.past.iter().map(|attempt| {
        let end = |end: &AttemptOutcome| json_bytes(end) + 1;
        4 + 3
            + moment(attempt.from)
            + number_bytes(u64::from(attempt.number))
            + 1
            + moment(attempt.to)
            + end(&attempt.end)
    });
    since + past.sum::<u64>()
}

/// The bytes of the attributes that only some states have.
fn state_bytes(state: &State) -> u64 {
    let until = |until: Timestamp| "until".len() as u64 + number_bytes(until.as_ms());
    let name_and = |name: &str| ("state".len() + name.len()) as u64;
    match state {
        State::Queued => name_and("queued"),
        State::Cancelled => name_and("cancelled"),
        State::Running { lease } => {
            let names = ("lease_until".len() + "lease_token".len() + 36) as u64;
            name_and("running") + names + number_bytes(lease.until.as_ms())
        }
        State::Sleeping { until: at } => name_and("sleeping") + until(*at),
        State::InputRequired { asks, until: at } => {
            name_and("input_required") + "asks".len() as u64 + json_bytes(asks) + at.map_or(0, until)
        }
        State::Completed { result, kind } => {
            let kind = json_bytes(kind).saturating_sub(2);
            name_and("completed") + ("result".len() + "result_kind".len()) as u64 + payload_bytes(result) + kind
        }
        State::Failed { failure } => {
            let detail = failure.detail.as_ref().map_or(0, |detail| "detail".len() as u64 + payload_bytes(detail) + 1);
            let kind = "kind".len() as u64 + json_bytes(&failure.kind).saturating_sub(2) + 1;
            let message = ("message".len() + failure.message.len()) as u64 + 1;
            name_and("failed") + "failure".len() as u64 + 3 + kind + message + detail
        }
    }
}

/// The text itself, or a map with the name of its parts.
fn payload_bytes(payload: &Payload) -> u64 {
    match payload {
        Payload::Inline(text) => text.len() as u64,
        Payload::Parts { name, count, bytes } => {
            let names = ("parts".len() + "count".len() + "bytes".len() + 3) as u64;
            3 + names + json_bytes(name) + number_bytes(u64::from(*count)) + number_bytes(*bytes)
        }
    }
}

fn attachments_bytes(key: &TaskKey) -> u64 {
    (2 + "t##".len() + key.owner.to_string().len() + key.id.to_string().len()) as u64
}

/// Two digits for a byte, and at most two bytes more.
const fn number_bytes(number: u64) -> u64 {
    let digits = match number.checked_ilog10() {
        Some(last) => last as u64 + 1,
        None => 1,
    };
    digits.div_ceil(2) + 2
}

fn json_bytes<T: Serialize>(value: &T) -> u64 {
    serde_json::to_string(value).map_or(0, |text| text.len() as u64)
}
