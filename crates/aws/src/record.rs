//! Tasks as items, and back. Every field of a record is a separate attribute, so that an event can set one without
//! touching the others.

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_core::ports::StoreError;
use longhaul_core::{
    AttemptOutcome, Attempts, Cleanup, Failure, Labels, Lease, PastAttempt, Payload, State, Status, Task, TaskKey,
    TaskRecord, Terms, Timestamp, TraceParent, limits, strict_json,
};

use crate::item::{
    ANSWERED, ASKS, ATTEMPT, ATTEMPT_SINCE, BYTES, CLEANUP, CONSECUTIVE_FAILURES_MAX, COUNT, COUNTED, CREATED_AT,
    DEADLINE_AT, DETAIL, ENDED_AT, EXPIRES_AT, FAILURE, FAILURES, FAILURES_MAX, FLOW, FORMAT, Fields, Item, KEY, KIND,
    LABELS, LAST_FAILURE, LATE_AFTER, LEASE_TOKEN, LEASE_UNTIL, MESSAGE, NOT_BEFORE, PARENT, PARTS, PAST_ATTEMPT, PK,
    POLL_MS, PROGRESS, REQUEST, RESENDS, RESULT, RESULT_KIND, RESUMES, RETENTION_MS, REVISION, RUN_MS, SENT_AT,
    STARTED_AT, STATE, TOOL, TRACE, TTL, TTL_MS, UNTIL, UPDATED_AT, Unreadable, VARIABLES, json, moment, number,
    seconds, text, word,
};
use crate::keys;

/// A task, and what the adapter stores with it in the same item.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) task: Task,
    /// Incremented by each write.
    pub(crate) revision: u64,
    /// How many slots of its owner the task was counted as; 0 if it was not counted.
    pub(crate) slots: u32,
    /// The hash of the task's idempotency key, if any.
    pub(crate) idempotency: Option<[u8; 32]>,
    /// The unreadable part of the item; then the task is one that stands for it.
    pub(crate) damage: Option<Unreadable>,
}

/// The attributes of a task, without its key and without those that only the adapter needs.
pub(crate) fn attributes(task: &Task) -> Item {
    let terms = &task.terms;
    let mut item = Item::from_iter(
        [
            (TOOL, text(&task.tool)),
            (ATTEMPT, number(task.attempt)),
            (FAILURES, number(task.failures)),
            (TTL_MS, number(terms.ttl_ms)),
            (RETENTION_MS, number(terms.retention_ms)),
            (RUN_MS, number(terms.run_ms)),
            (CONSECUTIVE_FAILURES_MAX, number(terms.consecutive_failures_max)),
            (CREATED_AT, moment(task.created_at)),
            (UPDATED_AT, moment(task.updated_at)),
            (SENT_AT, moment(task.sent_at)),
            (EXPIRES_AT, moment(task.expires_at)),
            (REQUEST, payload(&task.request)),
            (DEADLINE_AT, moment(task.deadline())),
            (LATE_AFTER, number(i128::from(task.expires_at.as_ms()) - i128::from(terms.retention_ms))),
            (FAILURES_MAX, number(terms.consecutive_failures_max.saturating_sub(1))),
            (TTL, seconds(task.expires_at)),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    let optional = [
        (LAST_FAILURE, task.last_failure.as_ref().map(text)),
        (POLL_MS, terms.poll_ms.map(number)),
        (STARTED_AT, task.started_at.map(moment)),
        (ENDED_AT, task.ended_at.map(moment)),
        (PROGRESS, task.progress.as_ref().map(json)),
        (TRACE, task.trace.map(|trace| text(trace.as_str()))),
        (RESENDS, Some(task.resends).filter(|resends| *resends > 0).map(number)),
        (VARIABLES, task.variables.as_ref().map(payload)),
        (CLEANUP, Some(task.cleanup).filter(|cleanup| *cleanup != Cleanup::None).as_ref().map(json)),
        (LEASE_UNTIL, task.held_until.map(moment)),
        (PARENT, task.parent.as_ref().map(json)),
        (RESUMES, task.resumes.as_ref().map(json)),
        (NOT_BEFORE, task.not_before.map(moment)),
        (FLOW, task.flow.as_ref().map(json)),
        (LABELS, labels(&task.labels)),
        // A claim leaves the questions where the suspension has written them.
        (ASKS, Some(&task.asked).filter(|asked| !asked.is_empty()).map(json)),
        (ANSWERED, Some(&task.answered).filter(|answered| !answered.is_empty()).map(json)),
    ];
    item.extend(optional.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))));
    item.extend(task.attempts.since.map(|since| (ATTEMPT_SINCE.to_owned(), attempt_since(since))));
    item.extend(task.attempts.past.iter().map(past_attempt));
    item.extend(state(&task.state).into_iter().map(|(name, value)| (name.to_owned(), value)));
    item
}

/// A set of strings, which cannot be empty.
pub(crate) fn labels(labels: &Labels) -> Option<AttributeValue> {
    let set = labels.iter().map(|(key, value)| label(key, value)).collect();
    (!labels.is_empty()).then_some(AttributeValue::Ss(set))
}

/// A label as an element of the set. Keys have no `=`.
pub(crate) fn label(key: &str, value: &str) -> String {
    format!("{key}={value}")
}

fn read_labels(fields: Fields<'_>, attribute: &'static str) -> Result<Labels, Unreadable> {
    let unreadable = Unreadable { attribute };
    let mut labels = Labels::default();
    for label in fields.value(attribute)?.as_ss().map_err(|_other_type| unreadable)? {
        let (key, value) = label.split_once('=').ok_or(unreadable)?;
        labels.set(key, value).map_err(|_limit| unreadable)?;
    }
    Ok(labels)
}

/// When an attempt began: a list, which becomes that of its end.
pub(crate) fn attempt_since(since: Timestamp) -> AttributeValue {
    AttributeValue::L(vec![moment(since)])
}

pub(crate) fn attempt_end(by: u32, to: Timestamp, end: &AttemptOutcome) -> AttributeValue {
    AttributeValue::L(vec![number(by), moment(to), json(end)])
}

/// The attribute of an attempt that has ended.
pub(crate) fn attempt_name(of: u32) -> String {
    format!("{PAST_ATTEMPT}{}", of % limits::NOTED_ATTEMPTS_MAX)
}

fn past_attempt(attempt: &PastAttempt) -> (String, AttributeValue) {
    let fields = vec![moment(attempt.from), number(attempt.number), moment(attempt.to), json(&attempt.end)];
    (attempt_name(attempt.number), AttributeValue::L(fields))
}

fn read_attempts(item: &Item) -> Result<Attempts, Unreadable> {
    let mut attempts = Attempts::default();
    if let Some(since) = item.get(ATTEMPT_SINCE) {
        attempts.since =
            Some(since.as_l().ok().and_then(|since| read_moment(since.first()?)).ok_or(UNREADABLE_ATTEMPT)?);
    }
    for place in 0..limits::NOTED_ATTEMPTS_MAX {
        if let Some(attempt) = item.get(&attempt_name(place)) {
            attempts
                .past
                .push(attempt.as_l().ok().and_then(|attempt| read_past_attempt(attempt)).ok_or(UNREADABLE_ATTEMPT)?);
        }
    }
    attempts.past.sort_by_key(|attempt| attempt.number);
    Ok(attempts)
}

const UNREADABLE_ATTEMPT: Unreadable = Unreadable { attribute: PAST_ATTEMPT };

fn read_past_attempt(fields: &[AttributeValue]) -> Option<PastAttempt> {
    let [from, of, to, end] = fields else { return None };
    Some(PastAttempt {
        number: of.as_n().ok()?.parse().ok()?,
        from: read_moment(from)?,
        to: read_moment(to)?,
        end: strict_json::from_str(end.as_s().ok()?).ok()?,
    })
}

fn read_moment(value: &AttributeValue) -> Option<Timestamp> {
    Some(Timestamp::from_ms(value.as_n().ok()?.parse().ok()?))
}

pub(crate) fn state(state: &State) -> Vec<(&'static str, AttributeValue)> {
    let mut attributes = vec![(STATE, text(state_name(state)))];
    match state {
        State::Queued | State::Cancelled => {}
        State::Running { lease } => {
            attributes.extend([(LEASE_UNTIL, moment(lease.until)), (LEASE_TOKEN, word(&lease.token))]);
        }
        State::Sleeping { until } => attributes.push((UNTIL, moment(*until))),
        State::InputRequired { asks, until } => {
            attributes.push((ASKS, json(asks)));
            attributes.extend(until.map(|until| (UNTIL, moment(until))));
        }
        State::Completed { result, kind } => {
            attributes.extend([(RESULT, payload(result)), (RESULT_KIND, word(kind))]);
        }
        State::Failed { failure: reason } => attributes.push((FAILURE, failure(reason))),
    }
    attributes
}

pub(crate) const QUEUED: &str = "queued";
pub(crate) const RUNNING: &str = "running";
pub(crate) const SLEEPING: &str = "sleeping";
pub(crate) const INPUT_REQUIRED: &str = "input_required";
pub(crate) const COMPLETED: &str = "completed";
pub(crate) const FAILED: &str = "failed";
pub(crate) const CANCELLED: &str = "cancelled";

/// The names of the states that clients see as this status.
pub(crate) const fn states_of(status: Status) -> &'static [&'static str] {
    match status {
        Status::Working => &[QUEUED, RUNNING, SLEEPING],
        Status::InputRequired => &[INPUT_REQUIRED],
        Status::Completed => &[COMPLETED],
        Status::Failed => &[FAILED],
        Status::Cancelled => &[CANCELLED],
    }
}

const fn state_name(state: &State) -> &'static str {
    match state {
        State::Queued => QUEUED,
        State::Running { .. } => RUNNING,
        State::Sleeping { .. } => SLEEPING,
        State::InputRequired { .. } => INPUT_REQUIRED,
        State::Completed { .. } => COMPLETED,
        State::Failed { .. } => FAILED,
        State::Cancelled => CANCELLED,
    }
}

/// The text itself, or the name of its parts.
pub(crate) fn payload(payload: &Payload) -> AttributeValue {
    match payload {
        Payload::Inline(inline) => text(inline),
        Payload::Parts { name, count, bytes } => AttributeValue::M(Item::from_iter(
            [(PARTS, json(name)), (COUNT, number(*count)), (BYTES, number(*bytes))]
                .map(|(name, value)| (name.to_owned(), value)),
        )),
    }
}

fn failure(failure: &Failure) -> AttributeValue {
    let mut map = Item::from([(KIND.to_owned(), word(&failure.kind)), (MESSAGE.to_owned(), text(&failure.message))]);
    map.extend(failure.detail.as_ref().map(|detail| (DETAIL.to_owned(), payload(detail))));
    AttributeValue::M(map)
}

/// An item whose format this program does not know, so that it neither reads nor changes it.
#[derive(Debug, thiserror::Error)]
#[error("a newer version wrote this task, in format {0}: deploy that version again, and the task continues")]
struct NewerFormat(String);

/// The task of an item; if the item is damaged, what stands for it. Fails if it is none of a task, and with
/// [`StoreError::NewerVersion`] if a newer version has changed its format.
pub(crate) fn read(item: &Item) -> Result<Stored, StoreError> {
    if let Some(format) = item.get(FORMAT) {
        let format = format.as_n().map_or_else(|_other_type| "unknown".to_owned(), Clone::clone);
        return Err(StoreError::NewerVersion(NewerFormat(format).into()));
    }
    let key = keys::task_key(item).ok_or(Unreadable { attribute: PK })?;
    Ok(parse(item, &key).unwrap_or_else(|damage| in_place_of(item, &key, damage)))
}

/// The stand-in for the task of a damaged item.
fn in_place_of(item: &Item, key: &TaskKey, damage: Unreadable) -> Stored {
    let fields = Fields(item);
    let by_ttl = || Some(Timestamp::from_ms(fields.number::<u64>(TTL).ok()?.saturating_mul(1_000)));
    let expires_at = fields.moment(EXPIRES_AT).ok().or_else(by_ttl);
    Stored {
        task: Task::unreadable(key, fields.text(TOOL).ok().map(str::to_owned), expires_at),
        revision: fields.number(REVISION).unwrap_or(0),
        slots: fields.number(COUNTED).unwrap_or(0),
        idempotency: fields.hash(KEY).ok(),
        damage: Some(damage),
    }
}

fn parse(item: &Item, key: &TaskKey) -> Result<Stored, Unreadable> {
    let fields = Fields(item);
    let terms = Terms {
        ttl_ms: fields.number(TTL_MS)?,
        retention_ms: fields.number(RETENTION_MS)?,
        run_ms: fields.number(RUN_MS)?,
        poll_ms: fields.optional(POLL_MS, Fields::number)?,
        consecutive_failures_max: fields.number(CONSECUTIVE_FAILURES_MAX)?,
    };
    let state = read_state(fields)?;
    let held_until = if state.status().is_terminal() { fields.optional(LEASE_UNTIL, Fields::moment)? } else { None };
    let waits_for_input = matches!(state, State::InputRequired { .. });
    let asked = if waits_for_input { None } else { fields.optional(ASKS, Fields::json)? };
    let task = Task::restore(TaskRecord {
        owner: key.owner,
        id: key.id,
        tool: fields.text(TOOL)?.to_owned(),
        state,
        attempt: fields.number(ATTEMPT)?,
        failures: fields.number(FAILURES)?,
        last_failure: fields.optional(LAST_FAILURE, Fields::text)?.map(str::to_owned),
        terms,
        created_at: fields.moment(CREATED_AT)?,
        not_before: fields.optional(NOT_BEFORE, Fields::moment)?,
        updated_at: fields.moment(UPDATED_AT)?,
        sent_at: fields.moment(SENT_AT)?,
        resends: fields.optional(RESENDS, Fields::number)?.unwrap_or(0),
        started_at: fields.optional(STARTED_AT, Fields::moment)?,
        ended_at: fields.optional(ENDED_AT, Fields::moment)?,
        expires_at: fields.moment(EXPIRES_AT)?,
        progress: fields.optional(PROGRESS, Fields::json)?,
        request: read_payload(fields, REQUEST)?,
        trace: fields.optional(TRACE, Fields::text)?.and_then(TraceParent::parse),
        variables: fields.optional(VARIABLES, read_payload)?,
        cleanup: fields.optional(CLEANUP, Fields::json)?.unwrap_or_default(),
        held_until,
        attempts: read_attempts(item)?,
        parent: fields.optional(PARENT, Fields::json)?,
        resumes: fields.optional(RESUMES, Fields::json)?,
        asked: asked.unwrap_or_default(),
        answered: fields.optional(ANSWERED, Fields::json)?.unwrap_or_default(),
        flow: fields.optional(FLOW, Fields::json)?,
        labels: fields.optional(LABELS, read_labels)?.unwrap_or_default(),
    });
    Ok(Stored {
        task,
        revision: fields.number(REVISION)?,
        slots: fields.optional(COUNTED, Fields::number)?.unwrap_or(0),
        idempotency: fields.optional(KEY, Fields::hash)?,
        damage: None,
    })
}

fn read_state(fields: Fields<'_>) -> Result<State, Unreadable> {
    Ok(match fields.text(STATE)? {
        QUEUED => State::Queued,
        RUNNING => {
            State::Running { lease: Lease { until: fields.moment(LEASE_UNTIL)?, token: fields.word(LEASE_TOKEN)? } }
        }
        SLEEPING => State::Sleeping { until: fields.moment(UNTIL)? },
        INPUT_REQUIRED => {
            State::InputRequired { asks: fields.json(ASKS)?, until: fields.optional(UNTIL, Fields::moment)? }
        }
        COMPLETED => State::Completed { result: read_payload(fields, RESULT)?, kind: fields.word(RESULT_KIND)? },
        FAILED => State::Failed { failure: read_failure(fields.map(FAILURE)?)? },
        CANCELLED => State::Cancelled,
        _unknown => return Err(Unreadable { attribute: STATE }),
    })
}

pub(crate) fn read_payload(fields: Fields<'_>, attribute: &'static str) -> Result<Payload, Unreadable> {
    if let Ok(inline) = fields.text(attribute) {
        return Ok(Payload::Inline(inline.to_owned()));
    }
    let parts = fields.map(attribute)?;
    Ok(Payload::Parts { name: parts.json(PARTS)?, count: parts.number(COUNT)?, bytes: parts.number(BYTES)? })
}

fn read_failure(fields: Fields<'_>) -> Result<Failure, Unreadable> {
    Ok(Failure {
        kind: fields.word(KIND)?,
        message: fields.text(MESSAGE)?.to_owned(),
        detail: fields.optional(DETAIL, read_payload)?,
    })
}

#[cfg(test)]
mod tests {
    use longhaul_testkit::{SeededIds, given};

    use super::*;

    #[test]
    fn a_message_that_was_never_sent_again_takes_no_room_in_the_item() {
        let task = |resends| {
            given::task_with(&SeededIds::new(1), given::owner("alice"), given::NOW, |record| record.resends = resends)
        };
        assert!(!attributes(&task(0)).contains_key(RESENDS));
        assert_eq!(attributes(&task(1)).get(RESENDS), Some(&number(1)));
    }

    /// Items of earlier versions have these attributes, and their programs may run at the same time.
    #[test]
    fn the_attributes_of_attempts_and_cleanup_keep_their_names() {
        let past = PastAttempt { number: 18, from: given::NOW, to: given::NOW.plus_ms(5), end: AttemptOutcome::Timer };
        let task = given::task_with(&SeededIds::new(1), given::owner("alice"), given::NOW, |record| {
            record.attempt = 19;
            record.cleanup = Cleanup::ARMED;
            record.attempts = Attempts { since: Some(given::NOW), past: vec![past.clone()] };
        });
        let item = attributes(&task);
        let ended = vec![moment(given::NOW), number(18), moment(given::NOW.plus_ms(5)), json(&AttemptOutcome::Timer)];
        assert_eq!(item.get("leg"), Some(&AttributeValue::L(vec![moment(given::NOW)])));
        assert_eq!(item.get("leg2"), Some(&AttributeValue::L(ended)));
        assert_eq!(item.get("cleaning"), Some(&json(&Cleanup::ARMED)));
        assert_eq!(read_attempts(&item).unwrap().past, [past]);
    }
}
