//! Records of the table's stream about tasks that wait for a worker. The writer of such a record may have died before
//! it sent the message.
//!
//! They come when nearly all of these tasks have been taken, and each is read once. A record that could not be
//! handled comes again; one that cannot be read does not.

use std::collections::BTreeSet;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use futures::StreamExt;
use longhaul_aws::{StreamEvent, StreamRecord};
use longhaul_core::ports::StoreError;
use longhaul_core::{TaskKey, strict_json};
use longhaul_engine::{Engine, Ensured};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::metrics::EmbeddedMetrics;
use crate::sender::sender;

/// How many tasks are checked concurrently.
const AT_A_TIME: usize = 16;

/// The name that Lambda gives to the source of the records of a stream.
const STREAM: &str = "aws:dynamodb";

/// The same of messages of a queue.
const QUEUE: &str = "aws:sqs";

/// An event of the worker's program.
#[derive(Debug)]
pub(crate) enum WorkerEvent {
    Messages(SqsEvent),
    /// Records of the table's stream.
    Records(StreamEvent),
}

/// The member that distinguishes the two kinds of events.
#[derive(Deserialize)]
struct Sources {
    #[serde(rename = "Records", default)]
    records: Vec<Source>,
}

#[derive(Deserialize)]
struct Source {
    // SNS alone writes it with a capital.
    #[serde(rename = "eventSource", alias = "EventSource", default)]
    source: Option<String>,
}

impl<'de> Deserialize<'de> for WorkerEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let event = Box::<RawValue>::deserialize(deserializer)?;
        let read = match strict_json::from_str::<Sources>(event.get()) {
            Ok(sources) => match sources.records.first().map(|record| record.source.as_deref()) {
                Some(Some(STREAM)) => strict_json::from_str(event.get()).map(Self::Records),
                None | Some(None | Some(QUEUE)) => strict_json::from_str(event.get()).map(Self::Messages),
                Some(Some(other)) => Err(serde_json::Error::custom(format!("its source is `{other}`"))),
            },
            Err(error) => Err(error),
        };
        read.map_err(|cause| {
            let value: Value = strict_json::from_str(event.get()).unwrap_or_default();
            let sender = sender(&value).unwrap_or("an unknown sender");
            D::Error::custom(format!(
                "the event is from {sender}, and this function takes messages of its queues and records of its table's \
                 stream. Let event source mappings of these invoke it ({cause})"
            ))
        })
    }
}

/// Sends missing messages of the tasks in a batch. The response names the records that have to come again. It never
/// names one that cannot be read, which would block all that come after it in its shard. A poll of its task still
/// recovers it.
pub(crate) async fn see_to(
    engine: &Engine,
    metrics: Option<&EmbeddedMetrics>,
    event: &StreamEvent,
) -> SqsBatchResponse {
    let readable = |record| match key(record) {
        Ok(key) => key.map(|key| (record, key)),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            let sequence_number = record.sequence_number();
            tracing::error!(sequence_number, error, "a record of the stream cannot be read, and is set aside");
            metrics.into_iter().for_each(EmbeddedMetrics::record_set_aside);
            None
        }
    };
    let seen: Vec<(&StreamRecord, TaskKey)> = event.records.iter().filter_map(readable).collect();
    let keys: BTreeSet<TaskKey> = seen.iter().map(|(_, key)| *key).collect();
    let tasks = futures::stream::iter(keys).map(async |key| (key, see_to_task(engine, &key).await));
    let failed: BTreeSet<TaskKey> = tasks
        .buffer_unordered(AT_A_TIME)
        .filter_map(async |(key, seen_to)| seen_to.is_err().then_some(key))
        .collect()
        .await;
    let mut response = SqsBatchResponse::default();
    for (record, _) in seen.iter().filter(|(_, key)| failed.contains(key)) {
        response.add_failure(record.sequence_number());
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

/// The task whose message a record is about. The record of a message that was sent again is about none: its reader
/// would send the next one, without end.
fn key(record: &StreamRecord) -> Result<Option<TaskKey>, StoreError> {
    let change = record.task_change()?;
    Ok(change.filter(|change| change.after.resends == 0).map(|change| change.after.key()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        for (other, named) in [
            (json!({"Records": [{"EventSource": "aws:sns", "Sns": {"Message": "a"}}]}), "an SNS topic"),
            (json!({"Records": [{"eventSource": "aws:s3", "s3": {}}]}), "an S3 bucket"),
            (json!({"source": "aws.events", "detail-type": "Scheduled Event"}), "EventBridge"),
            (json!({"requestContext": {"elb": {}}, "httpMethod": "GET"}), "an Application Load Balancer"),
            (json!({"Records": 7}), "an unknown sender"),
            (json!({}), "an unknown sender"),
        ] {
            let error = read(other).unwrap_err().to_string();
            assert!(error.contains(&format!("the event is from {named}, and this function takes")), "{error}");
        }
    }
}
