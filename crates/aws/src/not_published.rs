//! The queue that says where in the table's stream the changes are that could not be published.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use longhaul_core::Timestamp;
use longhaul_core::ports::QueueError;
use serde_json::json;

use crate::error::queue_unavailable;
use crate::{SqsQueue, StreamRecord};

/// The queue of changes that could not be published. Lambda puts the positions of batches there that failed too often.
#[derive(Clone, Debug)]
pub struct NotPublishedQueue(SqsQueue);

/// A queue without the time of its creation.
#[derive(Debug, thiserror::Error)]
#[error("the queue does not say when it was created")]
struct NoCreation;

impl NotPublishedQueue {
    /// The queue at `url`.
    #[must_use]
    pub fn new(client: Client, url: impl Into<String>) -> Self {
        Self(SqsQueue::new(client, url, ""))
    }

    /// When the queue was made. A stack makes it when publishing is switched on, and deletes it when it is switched
    /// off.
    pub async fn created_at(&self) -> Result<Timestamp, QueueError> {
        let created = self.0.attribute(QueueAttributeName::CreatedTimestamp).await?;
        let seconds: Option<u64> = created.and_then(|seconds| seconds.parse().ok());
        let ms = seconds.and_then(|seconds| seconds.checked_mul(1_000)).ok_or_else(|| QueueError(NoCreation.into()))?;
        Ok(Timestamp::from_ms(ms))
    }

    /// Puts the position of one record there, as Lambda writes positions; but a record does not say in which shard it
    /// is.
    pub async fn put(&self, record: &StreamRecord) -> Result<(), QueueError> {
        let number = record.sequence_number();
        let position = json!({
            "streamArn": record.stream_arn(),
            "startSequenceNumber": number,
            "endSequenceNumber": number,
            "batchSize": 1,
        });
        let body = json!({ "DDBStreamBatchInfo": position }).to_string();
        let request = self.0.client.send_message().queue_url(&self.0.queue_url).message_body(body);
        request.send().await.map_err(|error| queue_unavailable("SendMessage", error))?;
        Ok(())
    }
}
