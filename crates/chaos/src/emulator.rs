//! The emulator of AWS, in a process group of its own.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context, bail};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use aws_sdk_sqs::types::QueueAttributeName;
use longhaul_aws::clients::{Clients, function_config};
use rustix::process::{Pid, Signal, kill_process_group};
use url::Url;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/emulator.sh");

/// How often a message is delivered before it is a dead letter, as in the template.
const RECEIVES_MAX: u32 = 5;

/// A running emulator.
pub(crate) struct Emulator {
    group: Pid,
    endpoint: Url,
}

/// A table and queues in it.
pub(crate) struct Ground {
    pub(crate) table: String,
    pub(crate) queue_url: String,
}

impl Emulator {
    /// Starts one that logs to this file.
    pub(crate) fn start(log: &str) -> anyhow::Result<Self> {
        let output = Command::new(SCRIPT).args(["spawn", log]).output()?;
        if !output.status.success() {
            bail!("the emulator does not start: {}", String::from_utf8_lossy(&output.stderr));
        }
        let said = String::from_utf8(output.stdout)?;
        let (group, endpoint) = said.trim().split_once(' ').context("the emulator says where it is")?;
        let group = Pid::from_raw(group.parse()?).context("the emulator says which process group it is")?;
        Ok(Self { group, endpoint: endpoint.parse()? })
    }

    pub(crate) const fn group(&self) -> Pid {
        self.group
    }

    pub(crate) const fn endpoint(&self) -> &Url {
        &self.endpoint
    }

    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        self.endpoint.socket_addrs(|| None)?.first().copied().context("the emulator has an address")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let _ended_already = kill_process_group(self.group, signal);
    }

    /// Makes a table and queues.
    pub(crate) async fn ground(&self) -> anyhow::Result<Ground> {
        let endpoint = self.endpoint.to_string();
        let config = function_config(move |name| match name {
            "AWS_ENDPOINT_URL" => Some(endpoint.clone()),
            "AWS_REGION" => Some("us-east-1".to_owned()),
            _ => None,
        });
        let credentials = Credentials::new("test", "test", None, None, "emulator");
        let config = config.into_builder().credentials_provider(SharedCredentialsProvider::new(credentials)).build();
        let clients = Clients::new(&config);
        let create = clients.dynamo.create_table().table_name("chaos").billing_mode(BillingMode::PayPerRequest);
        let key = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
        let attribute = |name: &str| {
            AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build()
        };
        let create = create.key_schema(key("pk", KeyType::Hash)?).key_schema(key("sk", KeyType::Range)?);
        create.attribute_definitions(attribute("pk")?).attribute_definitions(attribute("sk")?).send().await?;
        clients.sqs.create_queue().queue_name("chaos-dead").send().await?;
        let arn = "arn:aws:sqs:us-east-1:000000000000:chaos-dead";
        let redrive = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"{RECEIVES_MAX}"}}"#);
        let queue = clients.sqs.create_queue().queue_name("chaos");
        let queue = queue.attributes(QueueAttributeName::RedrivePolicy, redrive).send().await?;
        let queue_url = queue.queue_url.context("a queue has a URL")?;
        Ok(Ground { table: "chaos".to_owned(), queue_url })
    }
}
