//! One record of an SQS event: which queue it comes from, and its message.

use aws_lambda_events::sqs::SqsMessage;
use longhaul_aws::{TRACE_ATTRIBUTE, UnreadableMessage, read_delivered};
use longhaul_core::ports::Delivery;

/// The attribute of a record that says how often its message was received.
const RECEIVES: &str = "ApproximateReceiveCount";

/// Which queue a record comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The work queue, or that of a class.
    Work,
    /// The queue for messages that were delivered too often.
    DeadLetters,
}

/// Why a record cannot be processed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// Its body does not name a task.
    #[error("the body cannot be read")]
    Body(#[source] UnreadableMessage),
    /// It has no receipt handle, so its message can be neither extended nor deleted.
    #[error("there is no receipt handle")]
    NoReceipt,
}

/// What a body says if it is not about a task: "look at the schedules". Nothing in it is believed but that.
#[derive(serde::Deserialize)]
struct Tick {
    #[serde(rename = "lookAtSchedules")]
    _look_at_schedules: serde_json::Value,
}

/// Whether `record` tells the worker to look at the schedules of its server.
pub(crate) fn is_tick(record: &SqsMessage) -> bool {
    record.body.as_deref().is_some_and(|body| serde_json::from_str::<Tick>(body).is_ok())
}

/// Where `record` comes from. A dead letter is recognised by its queue, so that one binary serves both queues, in two
/// functions or in one.
pub(crate) fn source(record: &SqsMessage, dead_letter_queue: &str) -> Source {
    if queue_of(record) == Some(dead_letter_queue) { Source::DeadLetters } else { Source::Work }
}

/// The name of the queue that `record` comes from.
pub(crate) fn queue_of(record: &SqsMessage) -> Option<&str> {
    record.event_source_arn.as_deref().and_then(|arn| arn.rsplit(':').next())
}

/// The name at the end of a queue's URL.
pub(crate) fn queue_name(url: &str) -> &str {
    url.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// The delivery in `record`.
pub(crate) fn delivery(record: &SqsMessage) -> Result<Delivery, Unreadable> {
    let trace = record.message_attributes.get(TRACE_ATTRIBUTE).and_then(|attribute| attribute.string_value.as_deref());
    let body = record.body.as_deref().unwrap_or_default();
    let (message, purpose) = read_delivered(body, trace).map_err(Unreadable::Body)?;
    let receipt = record.receipt_handle.clone().filter(|receipt| !receipt.is_empty()).ok_or(Unreadable::NoReceipt)?;
    let receives = record.attributes.get(RECEIVES).and_then(|count| count.parse().ok()).unwrap_or(1);
    Ok(Delivery { message, receipt, receives, purpose })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_letters_are_known_by_their_queue() {
        let dead = queue_name("http://127.0.0.1:4566/000000000000/tasks-dead");
        let record = |queue: &str| {
            let mut record = SqsMessage::default();
            record.event_source_arn = Some(format!("arn:aws:sqs:eu-west-1:111122223333:{queue}"));
            record
        };
        assert_eq!(source(&record("tasks-dead"), dead), Source::DeadLetters);
        assert_eq!(source(&record("tasks"), dead), Source::Work);
        assert_eq!(source(&SqsMessage::default(), dead), Source::Work);
    }
}
