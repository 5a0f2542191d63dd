//! The calls of the AWS SDK that a task needs at least: `PutItem` and `SendMessage` to accept it, `GetItem` to poll it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, ensure};
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_aws::clients::Clients;

use crate::peers::aws::Aws;
use crate::process;

/// The bytes of a record that has not ended, and of the message that names it.
const RECORD_BYTES: usize = 600;
const MESSAGE_BYTES: usize = 100;

/// The caller whose tasks the items are.
const OWNER: &str = "owner";

/// Clients for a table and a queue.
pub(super) struct Bare {
    clients: Clients,
    name: String,
    queue_url: String,
}

impl Bare {
    /// With what was prepared for the data in `folder`; the calls go through `through`, if there is something.
    pub(super) fn new(folder: &Path, through: Option<SocketAddr>) -> Self {
        let mut config = process::config().into_builder();
        if let Some(address) = through {
            config = config.endpoint_url(format!("http://{address}"));
        }
        let name = Aws::name(folder);
        Self { clients: Clients::new(&config.build()), queue_url: Aws::queue_url(&name), name }
    }

    /// `PutItem` of an item that must be new, of so many bytes.
    pub(super) async fn put(&self, id: &str, bytes: usize) -> anyhow::Result<()> {
        let put = self.clients.dynamo.put_item().table_name(&self.name);
        let put = put.item("pk", text(OWNER)).item("sk", text(id)).item("record", text(&"x".repeat(bytes)));
        put.condition_expression("attribute_not_exists(pk)").send().await?;
        Ok(())
    }

    /// `SendMessage`.
    pub(super) async fn send(&self) -> anyhow::Result<()> {
        let send = self.clients.sqs.send_message().queue_url(&self.queue_url);
        send.message_body("x".repeat(MESSAGE_BYTES)).send().await?;
        Ok(())
    }

    /// What a call needs.
    pub(super) async fn call(&self, id: &str) -> anyhow::Result<()> {
        self.put(id, RECORD_BYTES).await?;
        self.send().await
    }

    /// What a poll needs: a read that sees the latest write.
    pub(super) async fn poll(&self, id: &str) -> anyhow::Result<()> {
        let get = self.clients.dynamo.get_item().table_name(&self.name).consistent_read(true);
        let found = get.key("pk", text(OWNER)).key("sk", text(id)).send().await?;
        let item = found.item.context("the item is not there")?;
        ensure!(item.contains_key("record"), "the item has no record");
        Ok(())
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}
