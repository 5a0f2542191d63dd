//! The condition of every write to the table, and the change that it makes if the condition holds.
//!
//! | access | call | key | condition |
//! | --- | --- | --- | --- |
//! | reserve a slot, before a creation | `UpdateItem`; `GetItem` if the task is not in the sample that is counted | quota | [`counts::SLOT_IS_FREE`], [`counts::BYTES_FIT`], [`counts::NEW_FITS`] |
//! | create | `PutItem`; `TransactWriteItems` with an idempotency key | task, key | [`ABSENT`] or one of the `REPLACEABLE`s |
//! | poll | `GetItem`, consistent | task | |
//! | most events | `UpdateItem` that returns the whole item | task | [`EXISTS_UNEXPIRED`] and the event's own, see [`at_once`] |
//! | events that depend on more than a condition can express | the same, after the item was read | task | [`UNCHANGED`], see [`after_seeing`] |
//! | release a slot, after an end; count a large result | `UpdateItem` | quota | [`counts::SLOT_IS_RESERVED`] |
//! | correct a count | `UpdateItem`; one `Query` per shard at the same time, consistent; `UpdateItem` | quota, shard | [`counts::COUNT_IS_DUE`]; [`counts::OPEN_UNEXPIRED`] |
//! | take a permit for an attempt | `UpdateItem` | attempts | [`permits::PERMIT_IS_FREE`] |
//! | the same, where permits have to be cleared first or tasks wait | `UpdateItem` | attempts | [`UNCHANGED`] |
//! | take over a permit, give it back | `UpdateItem` | attempts | the attribute of the task |
//! | list | one `Query` per shard at the same time, consistent | shard, before an id | [`LISTED`] |
//! | filtered list | the same, as long as at most [`CHOSEN_FROM_MAX`](longhaul_core::limits::CHOSEN_FROM_MAX) items are read | shard, before an id | [`LISTED`], the states, [`OF_TOOL`], each label |
//! | record a step | `PutItem` | entry | [`ABSENT`] |
//! | read the journal | `Query`, consistent | attachments of a task, [`keys::JOURNAL`](crate::keys::JOURNAL) | |
//! | extend the retention | `Query` for parts with too early a TTL, then `UpdateItem` each, before the event itself | parts, key | [`TTL_IS_TOO_EARLY`] |
//! | read or generate a secret | `GetItem`, consistent; `PutItem` | secret | [`ABSENT`] |
//! | read it and mailboxes, at the start of a function | `BatchGetItem`, consistent | secret, mailboxes | |
//! | leave a text in a mailbox | `PutItem`, after its parts if it is large | mailbox | [`EMPTY_MAILBOX`] |
//! | collect it | `GetItem`, consistent, then its parts if it is large | mailbox | |
//! | write parts, read parts | `BatchWriteItem`, `BatchGetItem`, consistent | parts | |
//!
//! A condition on an absent attribute does not hold, so conditions do not check first whether it is present.
//!
//! A call that timed out and was sent again may still arrive, even after later ones. So each condition fails once its
//! own write, or a later one, was applied. Claims, heartbeats and variables, which the same attempt may write
//! repeatedly, say when they were sent.

use longhaul_core::{
    Admission, Advance, AttemptOutcome, Labels, Lease, LeaseToken, Outcome, Progress, State, Suspension, Task,
    TaskEvent, TaskFilter, Timestamp,
};

use crate::change::{Change, Condition, Expression};
use crate::item::{
    ANSWERED, ASKS, ATTEMPT, ATTEMPT_SINCE, ENDED_AT, EXPIRES_AT, FAILURES, HEARTBEAT_AT, LABELS, LAST_FAILURE,
    LATE_AFTER, LEASE_UNTIL, OF_STATES, PROGRESS, RESENDS, SENT_AT, STARTED_AT, STATE, TTL, UNTIL, UPDATED_AT,
    VARIABLES, VARIABLES_AT, json, moment, number, seconds, text,
};
use crate::record::{self, Stored};

pub(crate) mod counts;
pub(crate) mod permits;
#[cfg(test)]
mod tests;

/// Is there nothing under this key?
const ABSENT: &str = "attribute_not_exists(#pk)";

/// Is there an item under this key?
const EXISTS: &str = "attribute_exists(#pk)";

/// Is there an item under this key that would be deleted too early?
const TTL_IS_TOO_EARLY: &str = "attribute_exists(#pk) AND #ttl < :to_ttl";

/// Is there such a task in the format that this program reads, and has it not expired?
const EXISTS_UNEXPIRED: &str = "attribute_exists(#pk) AND attribute_not_exists(#format) AND #expires_at > :now";

/// Can the task that a query found be read, and has it not expired?
const LISTED: &str = "#expires_at > :now AND attribute_not_exists(#format)";

/// Is its tool the one that a list is of?
const OF_TOOL: &str = "#tool = :tool";

/// Does this attempt hold the task? A later claim has raised the attempt, and a suspended task is not running.
const HELD: &str = "#state = :running AND #attempt = :attempt";

/// Was this event sent after everything that is stored?
const IS_LATEST: &str = "#updated_at <= :now";

/// Is the question still open that the attempt suspends the task on?
const NOTHING_ANSWERED: &str = "attribute_not_exists(#answered)";

/// Was no later heartbeat written?
const HEARTBEAT_IS_LATEST: &str = "attribute_not_exists(#heard_at) OR #heard_at <= :now";

/// Were no later variables written?
const VARIABLES_ARE_LATEST: &str = "attribute_not_exists(#variables_at) OR #variables_at < :now";

/// May another attempt fail after this one?
const RETRIES_LEFT: &str = "#failures < #failures_max";

/// Is the deadline still ahead?
const BEFORE_DEADLINE: &str = "#deadline_at > :now";

/// May a worker without permits run the task?
const NEEDS_NO_PERMIT: &str = "attribute_not_exists(#flow)";

/// Could a worker start, and did the previous attempt, if any, not die?
const WAITS_FOR_WORKER: &str = "#state = :queued OR (#state IN (:sleeping, :input_required) AND #until <= :now)";

/// Could a worker start, possibly because the previous one died?
const COULD_START: &str = "#state = :queued OR (#state IN (:sleeping, :input_required) AND #until <= :now) \
     OR (#state = :running AND #lease_until <= :now)";

/// Does it wait for a later time than this one, and not for a retry?
const WAITS_LONGER: &str =
    "#state IN (:sleeping, :input_required) AND #until > :at AND #failures = :zero AND #attempt > :zero";

/// Has the task not ended?
const UNFINISHED: &str = "#state IN (:queued, :running, :sleeping, :input_required)";

/// Has the task ended?
const ENDED: &str = "#state IN (:completed, :failed, :cancelled)";

/// Is the last message old enough?
const SENT_LONG_AGO: &str = "#sent_at <= :not_since";

/// Is the expiry already as late as an end at this time requires?
const ENDS_IN_TIME: &str = "#late_after >= :now";

/// Is the expiry still what it was? Before the end, only an extension of the retention moves it.
const EXPIRES_AS_SEEN: &str = "#expires_at = :expires_at_seen AND #keep_ms = :keep_ms_seen";

/// Is the item unchanged since it was read? A change of its format changes the revision too.
const UNCHANGED: &str = "attribute_exists(#pk) AND #revision = :revision";

/// Is the id free, or taken by exactly that expired task?
const REPLACEABLE_TASK: &str = "attribute_not_exists(#pk) OR (#revision = :revision AND #expires_at = :expires_at)";

/// Is the idempotency key free, or does it belong to exactly that expired task?
const REPLACEABLE_KEY: &str = "attribute_not_exists(#pk) OR #task = :task";

/// Is there no text in the mailbox, or an expired one?
const EMPTY_MAILBOX: &str = "attribute_not_exists(#pk) OR #expires_at <= :now";

/// The change of an event that one condition can decide; `None` for an event whose outcome depends on more of the task
/// than a condition can express.
pub(crate) fn at_once(event: &TaskEvent, now: Timestamp) -> Option<Change> {
    match event {
        TaskEvent::Claim { token, lease_until, admission } => Some(claim(*token, *lease_until, *admission, now)),
        TaskEvent::Heartbeat { attempt, lease_until, progress, labels, advance } => {
            let change = held(*attempt, now).and(HEARTBEAT_IS_LATEST).set(HEARTBEAT_AT, moment(now));
            let change = change.set(LEASE_UNTIL, moment(*lease_until));
            let change = note_progress(note_labels(change, labels.as_ref()), progress.as_ref());
            let change =
                if progress.is_some() || labels.is_some() { change.set(UPDATED_AT, moment(now)) } else { change };
            Some(match advance {
                Advance::Recorded => reset_failures(change),
                Advance::NotYet => change,
            })
        }
        TaskEvent::SetVariables { attempt, variables } => {
            let change = held(*attempt, now).and(VARIABLES_ARE_LATEST).set(VARIABLES_AT, moment(now));
            Some(change.set(VARIABLES, record::payload(variables)).set(UPDATED_AT, moment(now)))
        }
        TaskEvent::Suspend { attempt, suspension, progress, labels } => {
            let change = suspend(held(*attempt, now), suspension)?.set(SENT_AT, moment(now));
            let change = end_attempt(change.remove(RESENDS), *attempt, &suspension.attempt_outcome(), now);
            let change = note_progress(note_labels(change, labels.as_ref()), progress.as_ref());
            Some(reset_failures(change).set(UPDATED_AT, moment(now)))
        }
        TaskEvent::Retry { attempt, not_before, reason } => {
            let change = held(*attempt, now).and(RETRIES_LEFT).increment(FAILURES).set(LAST_FAILURE, text(reason));
            let change = end_attempt(change, *attempt, &AttemptOutcome::failed(reason), now);
            let change = become_state_but_for(change, &State::Sleeping { until: *not_before }, QUESTIONS);
            Some(change.set(SENT_AT, moment(now)).remove(RESENDS).set(UPDATED_AT, moment(now)))
        }
        TaskEvent::Finish { attempt, outcome, progress, labels } => {
            Some(finish((*attempt, outcome), progress.as_ref(), labels.as_ref(), now).and(ENDS_IN_TIME))
        }
        TaskEvent::Wake { at } => Some(wake(*at, now)),
        TaskEvent::Cancel => Some(cancel(now).and(ENDS_IN_TIME)),
        TaskEvent::Resend { not_since } => {
            let condition =
                Condition::all(&[EXISTS_UNEXPIRED, COULD_START, SENT_LONG_AGO]).with(":not_since", moment(*not_since));
            Some(Change::when(condition).with(":now", moment(now)).set(SENT_AT, moment(now)).add_or_insert(RESENDS, 1))
        }
        TaskEvent::Forget => {
            let condition = Condition::all(&[EXISTS_UNEXPIRED, ENDED]).with(":now", moment(now));
            Some(Change::when(condition).set(EXPIRES_AT, moment(now)).set(TTL, seconds(now)))
        }
        // Which questions remain, what the failure says, how long the result is kept already, and how far the cleanup
        // is depend on the task.
        TaskEvent::Answer { .. }
        | TaskEvent::RetriesExhausted
        | TaskEvent::TimeOut
        | TaskEvent::ExtendRetention { .. }
        | TaskEvent::BeginCleanup { .. }
        | TaskEvent::EndCleanup { .. } => None,
    }
}

/// The change of an event that leads from the task in `seen` to `next`.
///
/// The condition of an end still names the attempt, the state and the expiry, and adds only the new expiry. So a
/// heartbeat in between cannot make it fail. All other changes require exactly the item that was read.
pub(crate) fn after_seeing(seen: &Stored, event: &TaskEvent, next: &Task, now: Timestamp) -> Change {
    let moved = |change: Change| {
        change
            .and(EXPIRES_AS_SEEN)
            .with(":expires_at_seen", moment(seen.task.expires_at))
            .with(":keep_ms_seen", number(seen.task.terms.retention_ms))
            .set(EXPIRES_AT, moment(next.expires_at))
            .set(TTL, seconds(next.expires_at))
            .set(LATE_AFTER, number(i128::from(next.expires_at.as_ms()) - i128::from(next.terms.retention_ms)))
    };
    if let TaskEvent::Finish { attempt, outcome, progress, labels } = event {
        moved(finish((*attempt, outcome), progress.as_ref(), labels.as_ref(), now))
    } else if *event == TaskEvent::Cancel {
        moved(cancel(now))
    } else {
        difference(seen, next)
    }
}

/// A claim after no attempt died: otherwise the claim counts one more failure, which may be one too many.
fn claim(token: LeaseToken, lease_until: Timestamp, admission: Admission, now: Timestamp) -> Change {
    let may_start = [EXISTS_UNEXPIRED, BEFORE_DEADLINE, WAITS_FOR_WORKER, IS_LATEST];
    let condition = match admission {
        Admission::Free => Condition::all(&may_start).and(NEEDS_NO_PERMIT),
        Admission::Permitted => Condition::all(&may_start),
    };
    let condition = condition.with(":now", moment(now));
    let lease = Lease { until: lease_until, token };
    become_state_but_for(Change::when(condition), &State::Running { lease }, QUESTIONS)
        .increment(ATTEMPT)
        .set_if_absent(STARTED_AT, moment(now))
        .set(ATTEMPT_SINCE, record::attempt_since(now))
        .remove(RESENDS)
        .set(UPDATED_AT, moment(now))
}

/// The attributes that stay in the item while the task works, so that its client may still answer.
const QUESTIONS: &[&str] = &[ASKS, ANSWERED];

/// A suspension. Which questions remain if some were answered meanwhile depends on the task.
fn suspend(held: Change, suspension: &Suspension) -> Option<Change> {
    let state = suspension.state().ok()?;
    Some(match suspension {
        Suspension::Input { .. } => become_state(held.and(NOTHING_ANSWERED), &state),
        Suspension::Timer(_) | Suspension::Yield => become_state_but_for(held, &state, QUESTIONS),
    })
}

/// A wake of a task that has had an attempt, and has not failed since its last one: one that asks something else may
/// have.
fn wake(at: Timestamp, now: Timestamp) -> Change {
    let condition = Condition::all(&[EXISTS_UNEXPIRED, WAITS_LONGER, IS_LATEST])
        .with(":now", moment(now))
        .with(":at", moment(at))
        .with(":zero", number(0));
    Change::when(condition)
        .set(UNTIL, moment(at))
        .set(SENT_AT, moment(now))
        .remove(RESENDS)
        .set(UPDATED_AT, moment(now))
}

/// Notes how an attempt ended that began when the item says.
fn end_attempt(change: Change, attempt: u32, end: &AttemptOutcome, now: Timestamp) -> Change {
    let ended = record::attempt_end(attempt, now, end);
    change
        .set_extended(&record::attempt_name(attempt), ATTEMPT_SINCE, record::attempt_since(now), ended)
        .remove(ATTEMPT_SINCE)
}

fn held(attempt: u32, now: Timestamp) -> Change {
    let condition =
        Condition::all(&[EXISTS_UNEXPIRED, HELD]).with(":now", moment(now)).with(":attempt", number(attempt));
    Change::when(condition)
}

fn cancel(now: Timestamp) -> Change {
    let condition = Condition::all(&[EXISTS_UNEXPIRED, UNFINISHED]).with(":now", moment(now));
    ended(become_state_but_for(Change::when(condition), &State::Cancelled, &[LEASE_UNTIL]), now)
}

fn finish(
    (attempt, outcome): (u32, &Outcome),
    progress: Option<&Progress>,
    labels: Option<&Labels>,
    now: Timestamp,
) -> Change {
    let change = ended(become_state(held(attempt, now), &outcome.state()), now);
    note_progress(note_labels(change, labels), progress)
}

fn ended(change: Change, now: Timestamp) -> Change {
    change.set(ENDED_AT, moment(now)).set(UPDATED_AT, moment(now))
}

/// Sets the attributes of the state, and removes those of other states.
fn become_state(change: Change, state: &State) -> Change {
    become_state_but_for(change, state, &[])
}

/// The same, but leaves these attributes of other states.
fn become_state_but_for(change: Change, state: &State, left: &[&str]) -> Change {
    let attributes = record::state(state);
    let removed =
        OF_STATES.into_iter().filter(|name| attributes.iter().all(|(kept, _)| kept != name) && !left.contains(name));
    let change = removed.fold(change, Change::remove);
    attributes.into_iter().fold(change, |change, (name, value)| change.set(name, value))
}

fn note_progress(change: Change, progress: Option<&Progress>) -> Change {
    match progress {
        Some(progress) => change.set(PROGRESS, json(progress)),
        None => change,
    }
}

fn note_labels(change: Change, labels: Option<&Labels>) -> Change {
    match labels.map(record::labels) {
        Some(Some(labels)) => change.set(LABELS, labels),
        Some(None) => change.remove(LABELS),
        None => change,
    }
}

fn reset_failures(change: Change) -> Change {
    change.set(FAILURES, number(0)).remove(LAST_FAILURE)
}

/// Sets and removes the attributes that differ.
fn difference(seen: &Stored, next: &Task) -> Change {
    let (before, after) = (record::attributes(&seen.task), record::attributes(next));
    let removed: Vec<String> = before.keys().filter(|name| !after.contains_key(*name)).cloned().collect();
    let change = Change::when(Condition::that(UNCHANGED)).with(":revision", number(seen.revision));
    let change = removed.into_iter().fold(change, Change::remove);
    let fresh = after.into_iter().filter(|(name, value)| before.get(name) != Some(value));
    fresh.fold(change, |change, (name, value)| change.set(&name, value))
}

/// A new item under a key that is free.
pub(crate) fn new_item() -> Condition {
    Condition::that(ABSENT)
}

/// A new task that replaces `expired`.
pub(crate) fn task_in_place_of(expired: &Stored) -> Condition {
    Condition::that(REPLACEABLE_TASK)
        .with(":revision", number(expired.revision))
        .with(":expires_at", moment(expired.task.expires_at))
}

/// An idempotency key that is free, or belongs to the expired task `id`.
pub(crate) fn key_in_place_of(id: &str) -> Condition {
    Condition::that(REPLACEABLE_KEY).with(":task", text(id))
}

/// A text in a mailbox that is empty now.
pub(crate) fn empty_mailbox(now: Timestamp) -> Condition {
    Condition::that(EMPTY_MAILBOX).with(":now", moment(now))
}

/// Marks a damaged item of a task as failed, as it is shown. Filters of lists and counts of tasks read this attribute.
pub(crate) fn set_aside() -> Change {
    let condition = "attribute_exists(#pk) AND attribute_not_exists(#format) AND #state <> :failed";
    Change::set_only(Condition::that(condition), STATE, text(record::FAILED))
}

/// Whether a list shows the item.
pub(crate) fn listed(now: Timestamp) -> Expression {
    Condition::that(LISTED).with(":now", moment(now)).into_expression()
}

/// Whether a list with this filter, which has a status, shows the item.
pub(crate) fn listed_by(filter: &TaskFilter, now: Timestamp) -> Expression {
    let states = filter.statuses.iter().flat_map(|status| record::states_of(*status));
    let states: Vec<String> = states.map(|state| format!(":{state}")).collect();
    let in_states = format!("#state IN ({})", states.join(", "));
    let mut condition = Condition::all(&[LISTED, &in_states]);
    if let Some(tool) = &filter.tool {
        condition = condition.and(OF_TOOL).with(":tool", text(tool));
    }
    for (number, (key, value)) in filter.labels.iter().enumerate() {
        let name = format!(":label{number}");
        condition = condition.and(&format!("contains(#labels, {name})")).with(&name, text(record::label(key, value)));
    }
    condition.with(":now", moment(now)).into_expression()
}

/// Would the part that a query found be deleted too early?
pub(crate) const TTL_IS_BEFORE: &str = "#ttl < :ttl";

/// Keeps an item until then, unless it is kept longer already.
pub(crate) fn extend_ttl(until: Timestamp) -> Change {
    Change::set_only(Condition::that(TTL_IS_TOO_EARLY), TTL, seconds(until))
}
