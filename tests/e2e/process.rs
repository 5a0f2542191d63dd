//! How the demonstration server is started, which a test may kill and start again on the same file.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use harness::process::Server;

/// How to start one, again and again on the same file.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    flags: Vec<String>,
    descriptors: Option<u32>,
}

impl Setup {
    /// The additional flows of clients with core tasks: the server has one user, who may list tasks.
    pub(crate) const CORE_TASK_FLOWS: &[&str] = &["ask", "plain_ask", "list"];
    /// Where clients of `2026-07-28` may send an idempotency key: the server has one user.
    pub(crate) const KEYS: &[&str] = &["header", "meta"];
    /// The additional flows of clients without tasks.
    pub(crate) const PLAIN_CALL_FLOWS: &[&str] = &["ask"];

    /// A server with the diagnostic tools and a new database, and times that suit a test.
    pub(crate) fn new() -> Self {
        Self::with(&["--diagnostics", "--lease-ms", "1500", "--heartbeat-ms", "200"])
    }

    /// A server that lets clients without tasks wait for a second only.
    pub(crate) fn waiting_a_second() -> Self {
        Self::with(&["--diagnostics", "--lease-ms", "1500", "--heartbeat-ms", "200", "--inline-wait-s", "1"])
    }

    /// A server with these flags and a new database.
    pub(crate) fn with(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        Self { folder, flags: flags.iter().map(|flag| (*flag).to_owned()).collect(), descriptors: None }
    }

    /// Starts it with these flags too.
    pub(crate) fn add(&mut self, flags: &[&str]) {
        self.flags.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    /// The same server, which may have only this many file descriptors.
    pub(crate) fn descriptors(self, descriptors: u32) -> Self {
        Self { descriptors: Some(descriptors), ..self }
    }

    /// The folder that the database lives in; also the server's data folder.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The database's file.
    pub(crate) fn db(&self) -> PathBuf {
        self.folder().join("tasks.db")
    }

    /// The command that starts it.
    pub(crate) fn command(&self) -> Command {
        let mut command = match self.descriptors {
            None => harness::demo(),
            Some(descriptors) => {
                let (demo, mut shell) = (harness::demo(), Command::new("sh"));
                let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
                shell.args(["-c", &script]).arg(demo.get_program()).args(demo.get_args());
                shell
            }
        };
        command.args(["--listen", "127.0.0.1:0"]).arg("--db").arg(self.db());
        command.arg("--data-dir").arg(self.folder()).args(&self.flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A usual server that listens.
    pub(crate) fn started() -> (Self, Server) {
        let setup = Self::new();
        let server = setup.start();
        (setup, server)
    }

    /// Starts the server and waits until it listens.
    pub(crate) fn start(&self) -> Server {
        Server::start(&mut self.command(), Some(&self.folder().join("log")))
    }
}
