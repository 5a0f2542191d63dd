//! What the systems on AWS have there, in the emulator: a table each, and a queue with its dead letters.

use std::path::Path;

use anyhow::Context;
use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use aws_sdk_sqs::types::QueueAttributeName;
use longhaul_aws::clients::Clients;

use super::system::System;
use crate::process;

/// The emulator's account.
const ACCOUNT: &str = "000000000000";

/// How often a message is delivered before it is a dead letter, as in `infra/container/resources.yaml`.
const RECEIVES_MAX: u32 = 5;

/// The emulator.
pub(crate) struct Aws {
    /// Clients for it.
    pub(crate) clients: Clients,
}

impl Aws {
    /// Finds it.
    pub(crate) fn find() -> anyhow::Result<Self> {
        process::find()?;
        Ok(Self { clients: Clients::new(&process::config()) })
    }

    /// The name of what belongs to the data in `folder`.
    pub(crate) fn name(folder: &Path) -> String {
        let folder = folder.file_name().unwrap_or_default().to_string_lossy();
        format!("peers-{}-{folder}", std::process::id())
    }

    /// The URL of a queue.
    pub(crate) fn queue_url(name: &str) -> String {
        format!("{}/{ACCOUNT}/{name}", process::endpoint())
    }

    /// Makes a table, and for Longhaul queues, unless they are there.
    pub(crate) async fn prepare(&self, system: System, folder: &Path) -> anyhow::Result<()> {
        let name = Self::name(folder);
        if self.clients.dynamo.describe_table().table_name(&name).send().await.is_ok() {
            return Ok(());
        }
        self.create_table(&name, system.key()).await?;
        let dead = format!("{name}-dead");
        self.clients.sqs.create_queue().queue_name(&dead).send().await?;
        let redrive = format!(
            r#"{{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:{ACCOUNT}:{dead}","maxReceiveCount":"{RECEIVES_MAX}"}}"#
        );
        let queue = self.clients.sqs.create_queue().queue_name(&name);
        let queue = queue.attributes(QueueAttributeName::VisibilityTimeout, "60");
        queue.attributes(QueueAttributeName::RedrivePolicy, redrive).send().await?;
        Ok(())
    }

    async fn create_table(&self, name: &str, keys: &[&str]) -> anyhow::Result<()> {
        let mut create = self.clients.dynamo.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
        for (key, kind) in keys.iter().zip([KeyType::Hash, KeyType::Range]) {
            let text = AttributeDefinition::builder().attribute_name(*key).attribute_type(ScalarAttributeType::S);
            let element = KeySchemaElement::builder().attribute_name(*key).key_type(kind);
            create = create.attribute_definitions(text.build()?).key_schema(element.build()?);
        }
        create.send().await.with_context(|| format!("the table {name} cannot be made"))?;
        Ok(())
    }

    /// Removes it again, so that the emulator does not hold the data of the whole run.
    pub(crate) async fn remove(&self, folder: &Path) -> anyhow::Result<()> {
        let name = Self::name(folder);
        self.clients.dynamo.delete_table().table_name(&name).send().await?;
        for queue in [name.clone(), format!("{name}-dead")] {
            self.clients.sqs.delete_queue().queue_url(Self::queue_url(&queue)).send().await?;
        }
        Ok(())
    }
}
