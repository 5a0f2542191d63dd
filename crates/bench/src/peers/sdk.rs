//! The calls of the AWS SDK that a task needs at least: `PutItem` and `SendMessage` to accept it, `GetItem` to poll it.

use std::time::Instant;

use anyhow::ensure;
use aws_sdk_dynamodb::types::AttributeValue;
use harness::emulator::config_of;
use longhaul_aws::clients::Clients;
use serde::Deserialize;
use serde_json::{Value, json};

/// The bytes of a record that has not ended, and of the message that names it.
const RECORD_BYTES: usize = 600;
const MESSAGE_BYTES: usize = 100;

/// The caller whose tasks the items are.
const OWNER: &str = "owner";

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verb {
    /// `PutItem` of an item that must be new.
    Put,
    /// The requests of a call.
    Call,
    /// The request of a poll: a read that sees the latest write.
    Poll,
}

/// A call about the item `id`.
#[derive(Deserialize)]
pub(super) struct Request {
    endpoint: String,
    table: String,
    queue_url: String,
    verb: Verb,
    id: String,
    #[serde(default = "record_bytes")]
    bytes: usize,
}

const fn record_bytes() -> usize {
    RECORD_BYTES
}

/// Clients for one endpoint.
pub(super) struct Sdk(Clients);

impl Sdk {
    /// Clients for the endpoint of this request.
    pub(super) fn new(request: &Request) -> Self {
        Self(Clients::new(&config_of(&request.endpoint)))
    }

    /// Makes the calls, and returns how many milliseconds they took.
    pub(super) async fn make(&self, request: &Request) -> anyhow::Result<Value> {
        let begun = Instant::now();
        match request.verb {
            Verb::Put => self.put(request).await?,
            Verb::Call => {
                self.put(request).await?;
                let send = self.0.sqs.send_message().queue_url(&request.queue_url);
                send.message_body("x".repeat(MESSAGE_BYTES)).send().await?;
            }
            Verb::Poll => {
                let get = self.0.dynamo.get_item().table_name(&request.table).consistent_read(true);
                let found = get.key("pk", text(OWNER)).key("sk", text(&request.id)).send().await?;
                ensure!(found.item.is_some_and(|item| item.contains_key("record")), "the item has no record");
            }
        }
        Ok(json!({"ms": begun.elapsed().as_secs_f64() * 1e3}))
    }

    async fn put(&self, Request { table, id, bytes, .. }: &Request) -> anyhow::Result<()> {
        let put = self.0.dynamo.put_item().table_name(table);
        let put = put.item("pk", text(OWNER)).item("sk", text(id)).item("record", text(&"x".repeat(*bytes)));
        put.condition_expression("attribute_not_exists(pk)").send().await?;
        Ok(())
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
