//! The work queue on SQS, and its dead-letter queue.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::types::{MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName};
use longhaul_core::ports::{Delivery, Message, QueueError, WorkQueue};
use longhaul_core::strict_json;
use serde::Deserialize;

use crate::error::{Unexpected, is_delete_of_nothing, is_extension_of_nothing, queue_unavailable};
use crate::message::{TRACE_ATTRIBUTE, body_of, read_delivered};

/// The longest delay of a message that SQS accepts: 15 minutes.
const DELAY_S_MAX: i32 = 900;

/// The longest time that SQS hides a message: 12 hours.
const VISIBILITY_S_MAX: i32 = 43_200;

/// The longest time that SQS waits for a message.
const WAIT_S_MAX: i32 = 20;

/// The most messages that SQS delivers in one call.
const MESSAGES_MAX: i32 = 10;

/// How much longer than its wait a receive may take.
const ANSWER_S: u64 = 5;

/// How long an unreadable dead letter stays hidden. An operator has to read it; SQS keeps it for at most 14 days.
const UNREADABLE_REST_MS: u64 = 6 * 60 * 60 * 1_000;

/// The prefix of the receipts of dead letters, because a delete has to name the queue. SQS's own receipts have no
/// colon.
const DEAD: &str = "dead:";

/// The messages in an SQS queue and its dead-letter queue, to which SQS moves messages that were delivered too often.
///
/// Each message carries its owner as its group. While one owner has many messages in flight, SQS delivers those of the
/// others first (fair queues).
///
/// SQS counts in whole seconds: delays and visibility timeouts are rounded up. SQS usually ignores a receipt that is no
/// longer the latest of its message. After a redelivery, a late delete may still succeed (standard queues promise no
/// more). That does no harm: the task's record holds the work that is left.
#[derive(Clone, Debug)]
pub struct SqsQueue {
    pub(crate) client: Client,
    pub(crate) queue_url: String,
    /// Empty if there are none, or if no worker takes them from here.
    dead_letter_url: String,
}

impl SqsQueue {
    /// The queue at `queue_url`, whose dead letters go to `dead_letter_url`; empty for a queue that is only sent to, or
    /// that has none.
    #[must_use]
    pub fn new(client: Client, queue_url: impl Into<String>, dead_letter_url: impl Into<String>) -> Self {
        Self { client, queue_url: queue_url.into(), dead_letter_url: dead_letter_url.into() }
    }

    /// Whether there is a queue of dead letters.
    #[must_use]
    pub const fn has_dead_letters(&self) -> bool {
        !self.dead_letter_url.is_empty()
    }

    async fn receive_from(
        &self,
        url: &str,
        max: usize,
        visibility_ms: u64,
        wait_ms: u64,
    ) -> Result<Received, QueueError> {
        if max == 0 {
            return Ok(Received::default());
        }
        let wait_s = seconds(wait_ms, WAIT_S_MAX);
        // The client's own timeouts are meant for calls that are answered at once.
        let patience = Duration::from_secs(u64::from(wait_s.unsigned_abs()).saturating_add(ANSWER_S));
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(patience).operation_timeout(patience).build();
        let received = self
            .client
            .receive_message()
            .queue_url(url)
            .max_number_of_messages(i32::try_from(max).unwrap_or(MESSAGES_MAX).min(MESSAGES_MAX))
            .visibility_timeout(seconds(visibility_ms, VISIBILITY_S_MAX))
            .wait_time_seconds(wait_s)
            .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
            .message_attribute_names(TRACE_ATTRIBUTE)
            .customize()
            .config_override(aws_sdk_sqs::Config::builder().timeout_config(timeouts))
            .send()
            .await
            .map_err(|error| queue_unavailable("ReceiveMessage", error))?;
        let mut sorted = Received::default();
        for message in received.messages.unwrap_or_default() {
            match delivery(&message) {
                Some(delivery) => sorted.deliveries.push(delivery),
                None => sorted.unreadable.extend(message.receipt_handle),
            }
        }
        Ok(sorted)
    }

    /// The URL of the receipt's queue, and the receipt as SQS knows it.
    fn queue_of<'a>(&'a self, receipt: &'a str) -> (&'a str, &'a str) {
        match receipt.strip_prefix(DEAD) {
            Some(receipt) => (&self.dead_letter_url, receipt),
            None => (&self.queue_url, receipt),
        }
    }

    /// The queue at `queue_url`, with the queue of dead letters that its redrive policy names: one call, which also
    /// shows that the queue is there.
    pub async fn with_its_dead_letters(client: Client, queue_url: &str) -> Result<Self, QueueError> {
        let queue = Self::new(client, queue_url, "");
        let policy = queue.attribute(QueueAttributeName::RedrivePolicy).await?;
        let dead_letters = match policy.filter(|policy| !policy.is_empty()) {
            Some(policy) => dead_letter_url(queue_url, &policy).map_err(|error| QueueError(error.into()))?,
            None => String::new(),
        };
        Ok(Self::new(queue.client, queue_url, dead_letters))
    }

    /// Checks that the queue is there and answers: one call.
    pub async fn check(&self) -> Result<(), QueueError> {
        self.attribute(QueueAttributeName::RedrivePolicy).await.map(drop)
    }

    pub(crate) async fn attribute(&self, name: QueueAttributeName) -> Result<Option<String>, QueueError> {
        let request = self.client.get_queue_attributes().queue_url(&self.queue_url).attribute_names(name.clone());
        let answer = request.send().await.map_err(|error| queue_unavailable("GetQueueAttributes", error))?;
        Ok(answer.attributes.and_then(|mut attributes| attributes.remove(&name)))
    }
}

#[derive(Default)]
struct Received {
    deliveries: Vec<Delivery>,
    /// The receipts of messages that cannot be read.
    unreadable: Vec<String>,
}

#[async_trait]
impl WorkQueue for SqsQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        let mut request = self
            .client
            .send_message()
            .queue_url(&self.queue_url)
            .message_body(body_of(message))
            // On a standard queue this does not order messages: it makes the queue fair to owners that send little.
            .message_group_id(message.task.owner.to_string())
            .delay_seconds(seconds(delay_ms, DELAY_S_MAX));
        if let Some(trace) = message.trace {
            let value = MessageAttributeValue::builder().data_type("String").string_value(trace.as_str()).build();
            let value = value.map_err(|_incomplete| QueueError(Unexpected::Incomplete("MessageAttribute").into()))?;
            request = request.message_attributes(TRACE_ATTRIBUTE, value);
        }
        let _sent = request.send().await.map_err(|error| queue_unavailable("SendMessage", error))?;
        Ok(())
    }

    async fn receive(&self, max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        // A message that cannot be read stays hidden until its visibility timeout, and finally becomes a dead letter.
        Ok(self.receive_from(&self.queue_url, max, visibility_ms, wait_ms).await?.deliveries)
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        let (url, receipt) = self.queue_of(receipt);
        let request = self
            .client
            .change_message_visibility()
            .queue_url(url)
            .receipt_handle(receipt)
            .visibility_timeout(seconds(visibility_ms, VISIBILITY_S_MAX));
        match request.send().await {
            Ok(_changed) => Ok(()),
            Err(error) if is_extension_of_nothing(&error) => Ok(()),
            Err(error) => Err(queue_unavailable("ChangeMessageVisibility", error)),
        }
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        let (url, receipt) = self.queue_of(receipt);
        match self.client.delete_message().queue_url(url).receipt_handle(receipt).send().await {
            Ok(_deleted) => Ok(()),
            Err(error) if is_delete_of_nothing(&error) => Ok(()),
            Err(error) => Err(queue_unavailable("DeleteMessage", error)),
        }
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        if self.dead_letter_url.is_empty() {
            return Ok(Vec::new());
        }
        let mut letters = self.receive_from(&self.dead_letter_url, max, visibility_ms, 0).await?;
        for receipt in letters.unreadable {
            self.extend(&format!("{DEAD}{receipt}"), UNREADABLE_REST_MS).await?;
        }
        for letter in &mut letters.deliveries {
            letter.receipt.insert_str(0, DEAD);
        }
        Ok(letters.deliveries)
    }
}

/// Whole seconds, rounded up, at most `max`.
fn seconds(ms: u64, max: i32) -> i32 {
    i32::try_from(ms.div_ceil(1_000)).unwrap_or(max).min(max)
}

fn delivery(message: &aws_sdk_sqs::types::Message) -> Option<Delivery> {
    let trace = message.message_attributes().and_then(|attributes| attributes.get(TRACE_ATTRIBUTE));
    let trace = trace.and_then(MessageAttributeValue::string_value);
    let message_id = message.message_id().unwrap_or_default();
    let (read, purpose) = match read_delivered(message.body().unwrap_or_default(), trace) {
        Ok(read) => read,
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::error!(message_id, error, "a message cannot be read; it is left for the dead-letter queue");
            return None;
        }
    };
    let receives = message.attributes().and_then(|all| all.get(&MessageSystemAttributeName::ApproximateReceiveCount));
    Some(Delivery {
        message: read,
        receipt: message.receipt_handle()?.to_owned(),
        // It was requested, so it is present; a message that is here was delivered at least once.
        receives: receives.and_then(|count| count.parse().ok()).unwrap_or(1),
        purpose,
    })
}

/// The attribute of a queue that says where its dead letters go.
#[derive(Deserialize)]
struct RedrivePolicy {
    #[serde(rename = "deadLetterTargetArn")]
    target: String,
}

/// A redrive policy that does not name a queue.
#[derive(Debug, thiserror::Error)]
#[error("the queue's redrive policy names no queue for dead letters")]
pub(crate) struct NoQueue(#[source] Option<serde_json::Error>);

/// The URL of the queue that `policy` names. SQS demands that it belongs to the account and the region of its source,
/// so only the name at the end differs.
fn dead_letter_url(queue_url: &str, policy: &str) -> Result<String, NoQueue> {
    let policy: RedrivePolicy = strict_json::from_str(policy).map_err(|error| NoQueue(Some(error)))?;
    let name = policy.target.rsplit(':').next().filter(|name| !name.is_empty());
    match (queue_url.rsplit_once('/'), name) {
        (Some((account, _)), Some(name)) => Ok(format!("{account}/{name}")),
        _ => Err(NoQueue(None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_seconds_and_bounded() {
        assert_eq!([0, 1, 1_000, 1_001].map(|ms| seconds(ms, DELAY_S_MAX)), [0, 1, 1, 2]);
        assert_eq!(seconds(16 * 60_000, DELAY_S_MAX), 900);
        assert_eq!(seconds(u64::MAX, VISIBILITY_S_MAX), 43_200);
    }

    #[test]
    fn dead_letters_are_beside_their_queue() {
        let url = |policy| dead_letter_url("https://sqs.eu-west-1.amazonaws.com/111122223333/work", policy);
        let policy = r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:111122223333:work-dead","maxReceiveCount":5}"#;
        assert_eq!(url(policy).unwrap(), "https://sqs.eu-west-1.amazonaws.com/111122223333/work-dead");
        for wrong in
            ["", "{}", r#"{"deadLetterTargetArn":""}"#, r#"{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:1:"}"#]
        {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
