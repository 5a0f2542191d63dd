//! Items and their attributes: writing values, and reading them back with an error that names the attribute. Names
//! count towards an item's size, so they are short.

use std::collections::HashMap;

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_core::ports::StoreError;
use longhaul_core::{Timestamp, strict_json};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) type Item = HashMap<String, AttributeValue>;

/// An attribute that is missing, or has a wrong form.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the attribute `{attribute}` of a stored item is missing or cannot be read")]
pub(crate) struct Unreadable {
    pub(crate) attribute: &'static str,
}

impl From<Unreadable> for StoreError {
    fn from(error: Unreadable) -> Self {
        Self::Corrupt(Box::new(error))
    }
}

pub(crate) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// A whole number.
pub(crate) fn number(value: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

/// A time, in milliseconds.
pub(crate) fn moment(at: Timestamp) -> AttributeValue {
    number(at.as_ms())
}

/// A time as DynamoDB's TTL expects it: in seconds, rounded up.
pub(crate) fn seconds(at: Timestamp) -> AttributeValue {
    number(at.as_ms().div_ceil(1_000))
}

/// A hash as its bytes.
pub(crate) fn hash(hash: [u8; 32]) -> AttributeValue {
    AttributeValue::B(Blob::new(hash))
}

/// A small value as JSON text.
pub(crate) fn json<T: Serialize>(value: &T) -> AttributeValue {
    // The domain's values are texts, numbers and lists of them, which can always be written as JSON.
    text(serde_json::to_string(value).unwrap_or_default())
}

/// The word that serde writes for a value without fields.
pub(crate) fn word<T: Serialize>(value: &T) -> AttributeValue {
    text(serde_json::to_value(value).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default())
}

#[derive(Clone, Copy)]
pub(crate) struct Fields<'a>(pub(crate) &'a Item);

impl<'a> Fields<'a> {
    pub(crate) fn has(self, attribute: &str) -> bool {
        self.0.contains_key(attribute)
    }

    pub(crate) fn value(self, attribute: &'static str) -> Result<&'a AttributeValue, Unreadable> {
        self.0.get(attribute).ok_or(Unreadable { attribute })
    }

    pub(crate) fn text(self, attribute: &'static str) -> Result<&'a str, Unreadable> {
        self.value(attribute)?.as_s().map(String::as_str).map_err(|_other_type| Unreadable { attribute })
    }

    pub(crate) fn number<T: std::str::FromStr>(self, attribute: &'static str) -> Result<T, Unreadable> {
        let digits = self.value(attribute)?.as_n().map_err(|_other_type| Unreadable { attribute })?;
        digits.parse().map_err(|_not_in_range| Unreadable { attribute })
    }

    pub(crate) fn moment(self, attribute: &'static str) -> Result<Timestamp, Unreadable> {
        Ok(Timestamp::from_ms(self.number(attribute)?))
    }

    pub(crate) fn hash(self, attribute: &'static str) -> Result<[u8; 32], Unreadable> {
        let bytes = self.value(attribute)?.as_b().map_err(|_other_type| Unreadable { attribute })?;
        bytes.as_ref().try_into().map_err(|_other_length| Unreadable { attribute })
    }

    pub(crate) fn json<T: DeserializeOwned>(self, attribute: &'static str) -> Result<T, Unreadable> {
        strict_json::from_str(self.text(attribute)?).map_err(|_not_such_json| Unreadable { attribute })
    }

    pub(crate) fn word<T: DeserializeOwned>(self, attribute: &'static str) -> Result<T, Unreadable> {
        strict_json::from_value(self.text(attribute)?.into()).map_err(|_no_such_word| Unreadable { attribute })
    }

    pub(crate) fn map(self, attribute: &'static str) -> Result<Self, Unreadable> {
        self.value(attribute)?.as_m().map(Fields).map_err(|_other_type| Unreadable { attribute })
    }

    /// The attribute, read with `read`; `None` if it is absent.
    pub(crate) fn optional<T>(
        self,
        attribute: &'static str,
        read: impl FnOnce(Self, &'static str) -> Result<T, Unreadable>,
    ) -> Result<Option<T>, Unreadable> {
        if self.has(attribute) { read(self, attribute).map(Some) } else { Ok(None) }
    }
}

pub(crate) const PK: &str = "pk";
pub(crate) const SK: &str = "sk";
/// When DynamoDB may delete the item, in seconds since the epoch.
pub(crate) const TTL: &str = "ttl";

// The fields of the task's record.
pub(crate) const TOOL: &str = "tool";
pub(crate) const STATE: &str = "state";
pub(crate) const ATTEMPT: &str = "attempt";
pub(crate) const FAILURES: &str = "failures";
pub(crate) const LAST_FAILURE: &str = "last_failure";
pub(crate) const TTL_MS: &str = "ttl_ms";
pub(crate) const RETENTION_MS: &str = "keep_ms";
pub(crate) const RUN_MS: &str = "run_ms";
pub(crate) const POLL_MS: &str = "poll_ms";
pub(crate) const CONSECUTIVE_FAILURES_MAX: &str = "consecutive_failures_max";
pub(crate) const CREATED_AT: &str = "created_at";
pub(crate) const UPDATED_AT: &str = "updated_at";
pub(crate) const SENT_AT: &str = "sent_at";
/// Absent if it is 0.
pub(crate) const RESENDS: &str = "resends";
pub(crate) const STARTED_AT: &str = "started_at";
pub(crate) const ENDED_AT: &str = "ended_at";
pub(crate) const EXPIRES_AT: &str = "expires_at";
pub(crate) const PROGRESS: &str = "progress";
pub(crate) const REQUEST: &str = "request";
pub(crate) const TRACE: &str = "trace";
pub(crate) const VARIABLES: &str = "variables";

/// When the latest attempt began, as a list of one, unless it is in one of the following.
pub(crate) const ATTEMPT_SINCE: &str = "leg";
/// An attempt that has ended. The attempt modulo the [number of kept
/// attempts](longhaul_core::limits::NOTED_ATTEMPTS_MAX) follows this name. The value is a list: that of
/// [`ATTEMPT_SINCE`], the attempt, the time of its end, and the outcome.
pub(crate) const PAST_ATTEMPT: &str = "leg";
/// The time before which the first attempt does not begin, if the caller asked for one.
pub(crate) const NOT_BEFORE: &str = "not_before";
/// The task whose tool made this one.
pub(crate) const PARENT: &str = "parent";
pub(crate) const RESUMES: &str = "resumes";

// The fields of states.
/// For a task that has ended: until this time, the worker that held it may not know of the end.
pub(crate) const LEASE_UNTIL: &str = "lease_until";
pub(crate) const LEASE_TOKEN: &str = "lease_token";
pub(crate) const UNTIL: &str = "until";
/// The open questions; while the task works, those that were open before.
pub(crate) const ASKS: &str = "asks";
/// The keys of those that were answered while the task worked.
pub(crate) const ANSWERED: &str = "answered";
pub(crate) const RESULT: &str = "result";
pub(crate) const RESULT_KIND: &str = "result_kind";
pub(crate) const FAILURE: &str = "failure";

/// All fields of states: an event that changes the state removes those that the new state does not have.
pub(crate) const OF_STATES: [&str; 8] = [LEASE_UNTIL, LEASE_TOKEN, UNTIL, ASKS, ANSWERED, RESULT, RESULT_KIND, FAILURE];

// Derived from the record, because a condition can compare attributes but not compute with them.
/// Creation plus longest run.
pub(crate) const DEADLINE_AT: &str = "deadline_at";
/// Expiry minus retention: an end after this time moves the expiry. May be negative.
pub(crate) const LATE_AFTER: &str = "late_after";
/// Allowed consecutive failures minus one: once `failures` has reached it, an attempt that dies or fails is the last.
pub(crate) const FAILURES_MAX: &str = "failures_max";

// What only this adapter stores with a task.
/// How far the cleanup is, for tools that have one.
pub(crate) const CLEANUP: &str = "cleaning";
/// The format of the item, if a later version of this program has changed it. The present format is the absence.
pub(crate) const FORMAT: &str = "format";
/// Incremented by every write.
pub(crate) const REVISION: &str = "revision";
/// How many slots of its owner the task was counted as when it was created; absent if it was not counted.
pub(crate) const COUNTED: &str = "counted";
pub(crate) const HEARTBEAT_AT: &str = "heard_at";
pub(crate) const VARIABLES_AT: &str = "variables_at";
/// Hash of the task's idempotency key.
pub(crate) const KEY: &str = "key";

// The other items.
/// Text of a part or in a mailbox.
pub(crate) const TEXT: &str = "text";
/// Kind, name and value of a journal entry.
pub(crate) const KIND: &str = "kind";
pub(crate) const NAME: &str = "name";
pub(crate) const VALUE: &str = "value";
/// When and by whom an entry was recorded, as JSON; absent from those of older versions.
pub(crate) const RECORDING: &str = "rec";
/// Task that was created with an idempotency key.
pub(crate) const TASK: &str = "task";
/// Number of unfinished tasks of an owner that were counted.
pub(crate) const OPEN: &str = "open";
/// The time from which a refusal counts the tasks one by one.
pub(crate) const RECOUNT_AFTER: &str = "recount_after";
/// Number of counted tasks that an owner has created since [`NEW_SINCE`].
pub(crate) const NEW: &str = "new";
/// When the window began in which [`NEW`] counts.
pub(crate) const NEW_SINCE: &str = "new_since";
/// Counted bytes of the arguments and results of an owner's tasks.
pub(crate) const STORED: &str = "stored";
/// Followed by a time in hours: how many of them expire until then.
pub(crate) const BYTES_UNTIL: &str = "b";
/// The limits that a task shares with others, as JSON.
pub(crate) const FLOW: &str = "flow";
/// The labels of a task, as a set of strings such as `customer=acme`; absent if it has none.
pub(crate) const LABELS: &str = "labels";
/// Number of the places of running attempts in an item.
pub(crate) const ATTEMPTS: &str = "legs";
/// Followed by the digits of a task's id: the permit of its attempt.
pub(crate) const PERMIT: &str = "l";
/// Followed by the digits of a task's id and of its owner: that it waits for a permit.
pub(crate) const WAITING: &str = "w";
/// Number of the tasks that wait in such an item.
pub(crate) const AWAITED: &str = "awaited";

// Inside a payload that is stored in parts.
pub(crate) const PARTS: &str = "parts";
pub(crate) const COUNT: &str = "count";
pub(crate) const BYTES: &str = "bytes";

// Inside a failure.
pub(crate) const MESSAGE: &str = "message";
pub(crate) const DETAIL: &str = "detail";
