//! A `local` server in its own process, which a test may kill and start again on the same file.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use crate::caller::Caller;

/// A running `local` server. Killed when dropped.
pub(crate) struct Local {
    child: Child,
    url: String,
    banner: Arc<Mutex<String>>,
    log: PathBuf,
}

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
            None => Command::new(env!("CARGO_BIN_EXE_local")),
            Some(descriptors) => {
                let mut shell = Command::new("sh");
                let script = format!("ulimit -n {descriptors} && exec \"$0\" \"$@\"");
                shell.args(["-c", &script, env!("CARGO_BIN_EXE_local")]);
                shell
            }
        };
        command.args(["--listen", "127.0.0.1:0"]).arg("--db").arg(self.db());
        command.arg("--data-dir").arg(self.folder()).args(&self.flags);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts the server and waits until it listens.
    pub(crate) fn start(&self) -> Local {
        // A file has a line as soon as the server has written it.
        let log = self.folder().join("log");
        let stderr = File::create(&log).expect("the folder can be written to");
        let mut child = self.command().stderr(stderr).spawn().expect("the local binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let banner = Arc::new(Mutex::new(String::new()));
        let url = loop {
            let mut line = String::new();
            let read = stdout.read_line(&mut line).expect("stdout can be read");
            assert!(read > 0, "the server ended before it printed its URL");
            banner.lock().unwrap().push_str(&line);
            if let Some(url) =
                line.split_whitespace().find(|word| word.starts_with("http://") && word.ends_with("/mcp"))
            {
                break url.to_owned();
            }
        };
        let rest = Arc::clone(&banner);
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|read| read > 0) {
                rest.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        Local { child, url, banner, log }
    }
}

impl Local {
    /// The MCP endpoint.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// What it has printed so far.
    pub(crate) fn banner(&self) -> String {
        self.banner.lock().unwrap().clone()
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8(std::fs::read(&self.log).expect("it has a log")).expect("a log is text")
    }

    /// The most memory that it ever had, in MiB.
    pub(crate) fn memory_peak_mib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
    }

    /// The process's id.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids fit")
    }

    /// A client that declares the tasks extension.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&self.url)
    }

    /// SIGKILL, as a crash or the out-of-memory killer would.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server was started by this test");
    }

    /// Sends SIGTERM, waits for the end, and returns the exit status.
    pub(crate) fn terminate(mut self) -> std::process::ExitStatus {
        let status = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().expect("kill can be run");
        assert!(status.success());
        self.child.wait().expect("the server was started by this test")
    }

    /// Waits until it ends by itself.
    pub(crate) fn wait(mut self) -> std::process::ExitStatus {
        self.child.wait().expect("the server was started by this test")
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        // Shown if the test fails.
        eprintln!("{}", String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()));
    }
}

/// Runs a command to its end and returns its standard output; fails the test if the command fails.
pub(crate) fn output_of(command: &mut Command) -> String {
    // Standard error is its own: Node makes what it inherits non-blocking, and what the tests print would be lost.
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let out = String::from_utf8(ended.stdout).expect("stdout is text");
    // Shown if the test fails.
    eprint!("{}", String::from_utf8_lossy(&ended.stderr));
    assert!(ended.status.success(), "{command:?} ended with {}: {out}", ended.status);
    out
}
