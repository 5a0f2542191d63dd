//! The table and queues of one test, for functions that run on the Runtime API host instead of in the emulator.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use aws_sdk_sqs::types::QueueAttributeName;
use longhaul_aws::clients::Clients;

use crate::gate::Gate;
use crate::process::{config, endpoint, fresh_name};
use crate::programs::{api, worker};
use crate::runtime_host::front_door::{HttpFrontend, Mode};
use crate::runtime_host::mapping::{Mapping, Worker};
use crate::runtime_host::{Idle, Sandbox};

/// The table and the queues, and the environment of functions that use them.
pub(crate) struct Resources {
    /// Clients for reading table and queues directly.
    pub(crate) clients: Clients,
    /// The table.
    pub(crate) table: String,
    /// The work queue.
    pub(crate) queue_url: String,
    /// The dead-letter queue.
    pub(crate) dead_letter_url: String,
}

impl Resources {
    /// Creates empty ones.
    pub(crate) async fn new() -> Self {
        let clients = Clients::new(&config());
        let name = fresh_name();
        let table = table(&clients, &name).await;
        let (queue_url, dead_letter_url) = queues(&clients, &name).await;
        Self { clients, table, queue_url, dead_letter_url }
    }

    /// The environment of a function, which reaches AWS through `gate`.
    pub(crate) fn env(&self, gate: Option<&Gate>) -> Vec<(String, String)> {
        let url = gate.map_or_else(|| endpoint(), Gate::url);
        let settings = [
            ("AWS_ENDPOINT_URL", url),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("LONGHAUL_TABLE", &self.table),
            ("LONGHAUL_QUEUE_URL", &self.queue_url),
            ("LONGHAUL_DEAD_LETTER_QUEUE_URL", &self.dead_letter_url),
            ("LONGHAUL_AUTH", "anonymous"),
            ("LONGHAUL_DIAGNOSTICS", "true"),
            ("LONGHAUL_LEASE_MS", "2000"),
            ("LONGHAUL_HEARTBEAT_MS", "500"),
            // No step begins in the last quarter.
            ("LONGHAUL_LEG_MS", "2000"),
            ("LONGHAUL_RESEND_MS", "2000"),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// An API function of two sandboxes, which are frozen between requests, as on Lambda.
    pub(crate) async fn frontend(&self, mode: Mode) -> HttpFrontend {
        self.frontend_with(mode, &[]).await
    }

    /// The same with additional settings.
    pub(crate) async fn frontend_with(&self, mode: Mode, settings: &[(&str, &str)]) -> HttpFrontend {
        let mut env = self.env(None);
        env.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        HttpFrontend::open(api(), &env, Idle::Frozen, mode, 2).await
    }

    /// A worker that takes messages until it is dropped.
    pub(crate) fn worker(&self, gate: Option<&Gate>) -> Worker {
        Worker::start(self.mapping(gate), Idle::Frozen)
    }

    /// The event source mapping of a worker.
    pub(crate) fn mapping(&self, gate: Option<&Gate>) -> Mapping {
        Mapping {
            program: worker().to_owned(),
            env: self.env(gate),
            sqs: self.clients.sqs.clone(),
            queue_url: self.queue_url.clone(),
            timeout: Duration::from_secs(20),
            batch: 1,
        }
    }

    /// A worker that gets only the messages that the test gives it.
    pub(crate) async fn idle_worker(&self, gate: Option<&Gate>) -> Sandbox {
        Sandbox::start(worker(), &self.env(gate), Idle::Frozen).await
    }

    /// How many tasks are in the table.
    pub(crate) async fn tasks(&self) -> usize {
        let scanned = self.clients.dynamo.scan().table_name(&self.table).consistent_read(true).send().await.unwrap();
        scanned.items().iter().filter(|item| item["pk"].as_s().unwrap().starts_with("o#")).count()
    }

    /// The names of a task's recorded steps, in order, each as often as it is in the table.
    pub(crate) async fn steps_of(&self, task_id: &str) -> Vec<String> {
        crate::inside::steps_of(&self.clients, &self.table, task_id).await
    }
}

async fn table(clients: &Clients, name: &str) -> String {
    let key = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let text = |name: &str| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build().unwrap()
    };
    let create = clients.dynamo.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    let create = create.key_schema(key("pk", KeyType::Hash)).key_schema(key("sk", KeyType::Range));
    create.attribute_definitions(text("pk")).attribute_definitions(text("sk")).send().await.unwrap();
    name.to_owned()
}

async fn queues(clients: &Clients, name: &str) -> (String, String) {
    let dead = clients.sqs.create_queue().queue_name(format!("{name}-dead")).send().await.unwrap().queue_url.unwrap();
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{name}-dead");
    let redrive = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"5"}}"#);
    let create = clients.sqs.create_queue().queue_name(name).attributes(QueueAttributeName::RedrivePolicy, redrive);
    (create.send().await.unwrap().queue_url.unwrap(), dead)
}
