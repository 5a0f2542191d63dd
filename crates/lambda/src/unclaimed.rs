//! Records of the table's stream that say of a task that it waits for a worker: whoever wrote them may have died before
//! its message was sent.
//!
//! They come when nearly all of these tasks have been taken, and each is read once. What could not be treated comes
//! again.

use std::collections::BTreeSet;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use futures::StreamExt;
use longhaul_aws::{StreamEvent, StreamRecord};
use longhaul_core::ports::StoreError;
use longhaul_core::{TaskKey, strict_json};
use longhaul_engine::{Engine, Ensured};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// How many tasks are looked at concurrently.
const AT_A_TIME: usize = 16;

/// What Lambda names as the source of the records of a stream.
const STREAM: &str = "aws:dynamodb";

/// What the worker's program is invoked with.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    Messages(SqsEvent),
    /// Records of the table's stream.
    Records(StreamEvent),
}

/// What tells the two kinds of events apart.
#[derive(Deserialize)]
struct Sources {
    #[serde(rename = "Records", default)]
    records: Vec<Source>,
}

#[derive(Deserialize)]
struct Source {
    #[serde(rename = "eventSource", default)]
    source: Option<String>,
}

impl<'de> Deserialize<'de> for WorkerEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let event = Box::<RawValue>::deserialize(deserializer)?;
        let sources: Sources = strict_json::from_str(event.get()).map_err(D::Error::custom)?;
        let is_of_stream = sources.records.first().is_some_and(|record| record.source.as_deref() == Some(STREAM));
        let read = if is_of_stream {
            strict_json::from_str(event.get()).map(Self::Records)
        } else {
            strict_json::from_str(event.get()).map(Self::Messages)
        };
        read.map_err(D::Error::custom)
    }
}

/// Sees to the messages of the tasks in a batch. The response names the records that have to come again.
pub(crate) async fn see_to(engine: &Engine, event: &StreamEvent) -> SqsBatchResponse {
    let seen: Vec<(&StreamRecord, Result<Option<TaskKey>, StoreError>)> =
        event.records.iter().map(|record| (record, key(record))).collect();
    let keys: BTreeSet<TaskKey> = seen.iter().filter_map(|(_, key)| key.as_ref().ok().copied().flatten()).collect();
    let tasks = futures::stream::iter(keys).map(async |key| (key, see_to_task(engine, &key).await));
    let failed: BTreeSet<TaskKey> = tasks
        .buffer_unordered(AT_A_TIME)
        .filter_map(async |(key, seen_to)| seen_to.is_err().then_some(key))
        .collect()
        .await;
    let mut response = SqsBatchResponse::default();
    for (record, key) in &seen {
        match key {
            Ok(Some(key)) if failed.contains(key) => response.add_failure(record.sequence_number()),
            Ok(_) => {}
            Err(error) => {
                let (sequence_number, cause) = (record.sequence_number(), error as &dyn std::error::Error);
                tracing::error!(sequence_number, error = cause, "a record of the stream cannot be read");
                // One that is damaged would come again with all that come after it.
                if error.may_pass() {
                    response.add_failure(sequence_number);
                }
            }
        }
    }
    response
}

async fn see_to_task(engine: &Engine, key: &TaskKey) -> Result<(), ()> {
    match engine.ensure_message(key).await {
        Ok(Ensured::NotNeeded | Ensured::Sent { .. }) => Ok(()),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(task_id = %key.id, error, "it is not known whether a task has its message; its record comes \
                again");
            Err(())
        }
    }
}

/// The task whose message a record is about. The record of a message that was sent again is about none: whoever hears
/// of it would send the next one, and never come to an end.
fn key(record: &StreamRecord) -> Result<Option<TaskKey>, StoreError> {
    let change = record.task_change()?;
    Ok(change.filter(|change| change.after.resends == 0).map(|change| change.after.key()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn records_of_the_stream_are_told_from_messages_by_their_source() {
        let read = |event: Value| serde_json::from_str::<WorkerEvent>(&event.to_string());
        let record = json!({"eventSource": "aws:dynamodb", "dynamodb": {"SequenceNumber": "7"}});
        let WorkerEvent::Records(records) = read(json!({"Records": [record]})).unwrap() else {
            panic!("these are records of the stream")
        };
        assert_eq!(records.records[0].sequence_number(), "7");
        for messages in [json!([]), json!([{"eventSource": "aws:sqs", "body": "{}", "messageId": "1"}])] {
            let event = read(json!({ "Records": messages })).unwrap();
            assert!(matches!(event, WorkerEvent::Messages(_)), "{event:?}");
        }
        assert!(read(json!({"Records": 7})).is_err());
    }
}
