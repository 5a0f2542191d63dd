//! The event source mapping of a worker. It receives messages from SQS and delivers them to a sandbox as events. It
//! deletes the messages that the answer does not report as failed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;

use super::{Idle, Sandbox};

/// One of the mapping's workers: its program, and where its messages come from.
#[derive(Clone)]
pub struct Mapping {
    /// The worker.
    pub program: PathBuf,
    /// Its environment.
    pub env: Vec<(String, String)>,
    /// Where messages come from.
    pub sqs: aws_sdk_sqs::Client,
    /// The queue.
    pub queue_url: String,
    /// The function's timeout, and how long a message is hidden once it is delivered.
    pub timeout: Duration,
    /// How many messages an event has at most.
    pub batch: i32,
}

/// A worker that takes one batch after the other, until it is dropped. One that dies is replaced by a new one.
pub struct Worker {
    current: Arc<Mutex<Option<Arc<Sandbox>>>>,
    batches: watch::Sender<u64>,
    working: JoinHandle<()>,
}

impl Worker {
    /// Starts the worker.
    pub fn start(mapping: Mapping, idle: Idle) -> Self {
        let current = Arc::new(Mutex::new(None));
        let batches = watch::Sender::new(0);
        let working = tokio::spawn(work(mapping, idle, Arc::clone(&current), batches.clone()));
        Self { current, batches, working }
    }

    /// The sandbox that works, once there is one.
    pub async fn sandbox(&self) -> Arc<Sandbox> {
        loop {
            if let Some(sandbox) = self.current.lock().await.clone() {
                return sandbox;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until it has begun `number` batches.
    pub async fn began(&self, number: u64) {
        let mut batches = self.batches.subscribe();
        let _seen = batches.wait_for(|begun| *begun >= number).await.expect("the worker works");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.working.abort();
    }
}

async fn work(mapping: Mapping, idle: Idle, current: Arc<Mutex<Option<Arc<Sandbox>>>>, batches: watch::Sender<u64>) {
    loop {
        let sandbox = Arc::new(Sandbox::launch(&mapping.program, &mapping.env, idle).await);
        *current.lock().await = Some(Arc::clone(&sandbox));
        while sandbox.is_alive() {
            let messages = mapping.receive().await;
            if messages.is_empty() {
                continue;
            }
            batches.send_modify(|begun| *begun += 1);
            // A dead worker's messages stay hidden until their visibility timeout, and are delivered again.
            drop(mapping.run_batch(&sandbox, &messages).await);
        }
    }
}

impl Mapping {
    /// Receives at most a batch of messages; none if none came within a second.
    pub async fn receive(&self) -> Vec<Message> {
        let timeout_s = i32::try_from(self.timeout.as_secs()).expect("a timeout is short");
        let received = self
            .sqs
            .receive_message()
            .queue_url(&self.queue_url)
            .max_number_of_messages(self.batch)
            .visibility_timeout(timeout_s)
            .wait_time_seconds(1)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All")
            .send()
            .await;
        received.map(|received| received.messages.unwrap_or_default()).unwrap_or_default()
    }

    /// Delivers messages, and deletes those that the answer does not report as failed.
    pub async fn run_batch(&self, sandbox: &Sandbox, messages: &[Message]) -> Result<Value, super::NoAnswer> {
        let event = self.event_of(messages);
        let answer = sandbox.invoke(&event, self.timeout).await.whole().await?;
        let answer: Value = serde_json::from_slice(&answer).expect("an answer is JSON");
        let failures = answer["batchItemFailures"].as_array().expect("the answer is that of a batch");
        let failed: Vec<_> = failures.iter().map(|failure| failure["itemIdentifier"].as_str()).collect();
        for message in messages.iter().filter(|message| !failed.contains(&message.message_id())) {
            let receipt = message.receipt_handle().expect("it was received");
            drop(self.sqs.delete_message().queue_url(&self.queue_url).receipt_handle(receipt).send().await);
        }
        Ok(answer)
    }

    fn event_of(&self, messages: &[Message]) -> Value {
        let queue = self.queue_url.rsplit('/').next().expect("a URL has an end");
        let record = |message: &Message| {
            let attributes = message.attributes().into_iter().flatten();
            let of_sender = message.message_attributes().into_iter().flatten();
            json!({
                "messageId": message.message_id(),
                "receiptHandle": message.receipt_handle(),
                "body": message.body(),
                "attributes": attributes.map(|(name, value)| (name.as_str().to_owned(), json!(value)))
                    .collect::<serde_json::Map<_, _>>(),
                "messageAttributes": of_sender
                    .map(|(name, value)| (name.clone(), json!({"stringValue": value.string_value(),
                        "dataType": value.data_type(), "stringListValues": [], "binaryListValues": []})))
                    .collect::<serde_json::Map<_, _>>(),
                "md5OfBody": message.md5_of_body(),
                "eventSource": "aws:sqs",
                "eventSourceARN": format!("arn:aws:sqs:us-east-1:000000000000:{queue}"),
                "awsRegion": "us-east-1",
            })
        };
        json!({"Records": messages.iter().map(record).collect::<Vec<_>>()})
    }
}
