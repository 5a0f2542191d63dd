//! What a queue says about itself: whether it is there, and where its dead letters go.

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::QueueAttributeName;
use longhaul_core::ports::QueueError;
use serde::Deserialize;

use crate::SqsQueue;
use crate::error::queue_unavailable;

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

impl SqsQueue {
    /// The queue at `queue_url`, with the queue of dead letters that its redrive policy names: one call, which also
    /// shows that the queue is there.
    ///
    /// # Errors
    /// [`QueueError`]
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
    ///
    /// # Errors
    /// [`QueueError`]
    pub async fn check(&self) -> Result<(), QueueError> {
        self.attribute(QueueAttributeName::RedrivePolicy).await.map(drop)
    }

    async fn attribute(&self, name: QueueAttributeName) -> Result<Option<String>, QueueError> {
        let request = self.client.get_queue_attributes().queue_url(&self.queue_url).attribute_names(name.clone());
        let answer = request.send().await.map_err(|error| queue_unavailable("GetQueueAttributes", error))?;
        Ok(answer.attributes.and_then(|mut attributes| attributes.remove(&name)))
    }
}

/// The URL of the queue that `policy` names. SQS demands that it belongs to the account and the region of its source,
/// so only the name at the end differs.
fn dead_letter_url(queue_url: &str, policy: &str) -> Result<String, NoQueue> {
    let policy: RedrivePolicy = serde_json::from_str(policy).map_err(|error| NoQueue(Some(error)))?;
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
