//! `local` servers in processes of their own, several on one table and one queue of the emulator.

use std::process::{Command, ExitStatus, Stdio};

use harness::caller::Caller;
use harness::emulator;
use harness::process::Server;
use longhaul_aws::clients::Clients;

/// How long something may take that has to happen.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// A table and a queue, and instances on them.
pub(crate) struct Ground {
    pub(crate) clients: Clients,
    pub(crate) table: String,
    pub(crate) queue_url: String,
    pub(crate) dead_letter_url: String,
    folder: tempfile::TempDir,
}

/// A running process. Killed when dropped.
pub(crate) struct Instance(Server);

impl Ground {
    /// Empty ones.
    pub(crate) async fn new() -> Self {
        let clients = Clients::new(&emulator::config());
        let table = emulator::table(&clients).await;
        let (queue_url, dead_letter_url) = emulator::queues(&clients).await;
        Self { clients, table, queue_url, dead_letter_url, folder: tempfile::tempdir().unwrap() }
    }

    /// Starts an instance called `name`, with short leases unless the flags say something else.
    pub(crate) fn start(&self, name: &str, flags: &[&str]) -> Instance {
        let log = self.folder.path().join(name);
        Instance(Server::start_printing("", &mut self.command(flags), Some(&log)))
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = harness::demo();
        // A flag wins over these.
        let defaults =
            [("LISTEN", "127.0.0.1:0"), ("LEASE_MS", "1500"), ("HEARTBEAT_MS", "300"), ("RESEND_MS", "2000")];
        command.envs(defaults.map(|(name, value)| (format!("LONGHAUL_{name}"), value))).arg("--diagnostics");
        command.args(["--store", &format!("dynamodb:{}", self.table), "--queue", &format!("sqs:{}", self.queue_url)]);
        let endpoint = emulator::config().endpoint_url().unwrap().to_owned();
        command.env("AWS_ENDPOINT_URL", endpoint).env("AWS_REGION", "us-east-1");
        command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        command.args(flags).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The same ground with another table.
    pub(crate) fn on_table(mut self, table: &str) -> Self {
        self.table = table.to_owned();
        self
    }

    /// The same ground with another queue.
    pub(crate) fn on_queue(mut self, queue_url: &str) -> Self {
        self.queue_url = queue_url.to_owned();
        self
    }
}

impl Instance {
    /// A client of this instance.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&self.url("/mcp"))
    }

    /// The URL of a path of it.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.0.base())
    }

    /// Its answer to a GET: status and body.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        // As a load balancer asks, which calls it by its address.
        let request = reqwest::Client::new().get(self.url(path)).header("host", "10.1.2.3:8080");
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        self.0.log()
    }

    /// Whether it began an attempt of this task.
    pub(crate) fn ran(&self, task_id: &str) -> bool {
        self.log().lines().any(|line| line.contains("an attempt begins") && line.contains(task_id))
    }

    /// SIGKILL.
    pub(crate) fn kill(self) {
        self.0.kill();
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        self.0.stop();
    }

    /// Waits until it ends.
    pub(crate) fn wait(self) -> ExitStatus {
        self.0.wait()
    }
}

/// Waits until something holds that has to happen on its own.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "waited until {what}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
