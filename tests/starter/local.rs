//! The new server's program, which a test may kill and start again on the same file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::caller::Caller;

use crate::project::Project;

/// How long it may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Killed when dropped.
pub(crate) struct Local {
    child: Child,
    url: String,
}

impl Local {
    /// Starts it with a database in `folder`, and waits until it listens. A killed server's task is resumed soon.
    pub(crate) async fn start(project: &Project, folder: &Path) -> Self {
        let log = folder.join("log");
        let mut command = Command::new(project.programs().join(Project::NAME));
        command.args(["--listen", "127.0.0.1:0", "--lease-ms", "1500", "--heartbeat-ms", "200"]);
        command.args(["--tool-env", "FOLDER=archive"]);
        command.arg("--db").arg(folder.join("tasks.db")).current_dir(project.folder());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&log).unwrap());
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let mut server = Self { child, url: String::new() };
        server.url = format!("http://{}/mcp", server.address(&log).await);
        server
    }

    /// Where it listens, as it logs it.
    async fn address(&mut self, log: &PathBuf) -> String {
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(log).unwrap();
            let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
            if let Some(address) = lines.filter_map(|line| Some(line["address"].as_str()?.to_owned())).next() {
                return address;
            }
            assert!(self.child.try_wait().unwrap().is_none(), "it ended: {text}");
            assert!(begun.elapsed() < PATIENCE, "it does not say where it listens: {text}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A client that declares the tasks extension.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&self.url)
    }

    /// SIGKILL, as a crash or the out-of-memory killer would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The error when it does not start with these flags.
pub(crate) fn refused(project: &Project, flags: &[&str]) -> String {
    let mut command = Command::new(project.programs().join(Project::NAME));
    let output = command.args(flags).current_dir(project.folder()).stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success(), "it started and ended");
    String::from_utf8(output.stderr).unwrap()
}
