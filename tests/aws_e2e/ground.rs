//! The table and queues of one test, for functions that run on the Runtime API host instead of in the emulator.

use std::time::Duration;

use harness::caller::Caller;
use harness::emulator::{create_queues, create_table, fresh_name};
use harness::gate::Gate;
use harness::runtime_host::front_door::{HttpFrontend, Mode};
use harness::runtime_host::mapping::{Mapping, Worker};
use harness::runtime_host::{Idle, Sandbox};
use longhaul_aws::clients::Clients;

use super::programs::{Programs, SHIPPED};

/// How often the queue delivers a message before it becomes a dead letter, as in the template.
const RECEIVES_MAX: u32 = 5;

/// The table and the queues, and the environment of functions that use them.
pub(crate) struct Resources {
    programs: &'static Programs,
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
    /// Creates empty ones for the shipped programs.
    pub(crate) async fn new() -> Self {
        Self::of(&SHIPPED).await
    }

    /// Creates empty ones for these programs.
    pub(crate) async fn of(programs: &'static Programs) -> Self {
        let clients = Clients::new(&programs.config());
        let table = fresh_name();
        create_table(&clients, &table).await;
        let (queue_url, dead_letter_url) = create_queues(&clients, &table, RECEIVES_MAX).await;
        Self { programs, clients, table, queue_url, dead_letter_url }
    }

    /// The environment of a function, which reaches AWS through `gate`.
    pub(crate) fn env(&self, gate: Option<&Gate>) -> Vec<(String, String)> {
        let url = gate.map_or_else(|| self.programs.endpoint(), Gate::url);
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
            ("LONGHAUL_ATTEMPT_MS", "2000"),
            ("LONGHAUL_RESEND_MS", "2000"),
        ];
        settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// With an API function of two sandboxes, and a client of it.
    pub(crate) async fn with_caller(mode: Mode) -> (Self, HttpFrontend, Caller) {
        let resources = Self::new().await;
        let frontend = resources.frontend(mode).await;
        let caller = Caller::new(frontend.url());
        (resources, frontend, caller)
    }

    /// An API function of two sandboxes, which are frozen between requests, as on Lambda.
    pub(crate) async fn frontend(&self, mode: Mode) -> HttpFrontend {
        self.frontend_with(mode, &[]).await
    }

    /// The same with additional settings.
    pub(crate) async fn frontend_with(&self, mode: Mode, settings: &[(&str, &str)]) -> HttpFrontend {
        let mut env = self.env(None);
        env.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        HttpFrontend::open(self.programs.api(), &env, Idle::Frozen, mode, 2).await
    }

    /// A worker that takes messages until it is dropped.
    pub(crate) fn worker(&self, gate: Option<&Gate>) -> Worker {
        Worker::start(self.mapping(gate), Idle::Frozen)
    }

    /// The event source mapping of a worker.
    pub(crate) fn mapping(&self, gate: Option<&Gate>) -> Mapping {
        Mapping {
            program: self.programs.worker().to_owned(),
            env: self.env(gate),
            sqs: self.clients.sqs.clone(),
            queue_url: self.queue_url.clone(),
            timeout: Duration::from_secs(20),
            batch: 1,
        }
    }

    /// A worker that gets only the messages that the test gives it.
    pub(crate) async fn idle_worker(&self, gate: Option<&Gate>) -> Sandbox {
        Sandbox::start(self.programs.worker(), &self.env(gate), Idle::Frozen).await
    }

    /// How many tasks are in the table.
    pub(crate) async fn tasks(&self) -> usize {
        let scanned = self.clients.dynamo.scan().table_name(&self.table).consistent_read(true).send().await.unwrap();
        scanned.items().iter().filter(|item| item["pk"].as_s().unwrap().starts_with("o#")).count()
    }

    /// The names of a task's recorded steps, in order, each as often as it is in the table.
    pub(crate) async fn steps_of(&self, task_id: &str) -> Vec<String> {
        super::inside::steps_of(&self.clients, &self.table, task_id).await
    }
}
