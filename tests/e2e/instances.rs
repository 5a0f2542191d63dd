//! `local` servers in processes of their own, several on one table and one queue of the emulator.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use longhaul_aws::clients::Clients;

use crate::caller::Caller;
use crate::emulator;

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
pub(crate) struct Instance {
    child: Child,
    base: String,
    log: PathBuf,
}

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
        let mut child = self.command(flags).stderr(File::create(&log).unwrap()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let words = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let url = lines.by_ref().flat_map(words).find(|word| word.starts_with("http://"));
        let base = url.and_then(|url| url.rsplit_once('/').map(|(base, _)| base.to_owned()));
        let base = base.unwrap_or_else(|| panic!("no URL: {}", std::fs::read_to_string(&log).unwrap()));
        std::thread::spawn(move || lines.for_each(drop));
        Instance { child, base, log }
    }

    fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_local"));
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
        format!("{}{path}", self.base)
    }

    /// Its answer to a GET: status and body.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        // As a load balancer asks, which calls it by its address.
        let request = reqwest::Client::new().get(self.url(path)).header("host", "10.1.2.3:8080");
        let answer = request.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Whether it began a leg of this task.
    pub(crate) fn ran(&self, task_id: &str) -> bool {
        self.log().lines().any(|line| line.contains("a leg begins") && line.contains(task_id))
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Waits until it ends.
    pub(crate) fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        // Shown if the test fails.
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        eprintln!("{}:\n{log}", self.log.display());
    }
}

/// Waits until something holds that has to happen by itself.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "waited until {what}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
