//! A server in its own process, which a test may kill and start again.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::caller::Caller;

/// How long a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server. Killed when dropped; its log is shown then, if it has one.
pub struct Server {
    child: Child,
    url: String,
    printed: Arc<Mutex<String>>,
    log: Option<PathBuf>,
}

impl Server {
    /// Starts a server that prints the URL of its MCP endpoint, and waits for that. Its standard error goes to `log`.
    pub fn start(command: &mut Command, log: Option<&Path>) -> Self {
        Self::start_printing("/mcp", command, log)
    }

    /// The same for a server that prints a URL with this end.
    pub fn start_printing(end: &str, command: &mut Command, log: Option<&Path>) -> Self {
        let mut server = Self::spawn(command.stdout(Stdio::piped()), log);
        let mut stdout = BufReader::new(server.child.stdout.take().expect("stdout is piped"));
        server.url = url_in(&mut stdout, end, &server);
        let rest = Arc::clone(&server.printed);
        std::thread::spawn(move || {
            let mut line = String::new();
            while stdout.read_line(&mut line).is_ok_and(|read| read > 0) {
                rest.lock().unwrap().push_str(&std::mem::take(&mut line));
            }
        });
        server
    }

    /// Starts a server that listens on this port of this machine, and waits until it does.
    pub fn start_at(port: u16, command: &mut Command, log: Option<&Path>) -> Self {
        let mut server = Self::spawn(command.stdout(Stdio::null()), log);
        server.url = format!("http://127.0.0.1:{port}/mcp");
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(server.child.try_wait().unwrap().is_none(), "the server has ended");
            assert!(begun.elapsed() < PATIENCE, "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    fn spawn(command: &mut Command, log: Option<&Path>) -> Self {
        // A file has a line as soon as the server has written it.
        let stderr = log.map_or_else(Stdio::null, |log| File::create(log).expect("the log can be written").into());
        let child = command.stdin(Stdio::null()).stderr(stderr).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, url: String::new(), printed: Arc::default(), log: log.map(Path::to_owned) }
    }

    /// The MCP endpoint, or the URL that it printed.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL without its path.
    pub fn base(&self) -> &str {
        let path = self.url.match_indices('/').nth(2).map_or(self.url.len(), |(at, _)| at);
        &self.url[..path]
    }

    /// A client that declares the tasks extension and elicitation.
    pub fn caller(&self) -> Caller {
        Caller::new(&self.url)
    }

    /// Its output so far.
    pub fn printed(&self) -> String {
        self.printed.lock().unwrap().clone()
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        let log = self.log.as_ref().expect("this server was started with a log");
        String::from_utf8(std::fs::read(log).expect("it has a log")).expect("a log is text")
    }

    /// The process's id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("process ids fit")
    }

    /// SIGKILL, as a crash or the out-of-memory killer would.
    pub fn kill(mut self) {
        self.child.kill().expect("the server can be killed");
        self.child.wait().expect("the server was started by this test");
    }

    /// Sends SIGTERM.
    pub fn stop(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("the server runs");
    }

    /// Sends SIGTERM, waits for the end, and returns the exit status.
    pub fn terminate(self) -> ExitStatus {
        self.stop();
        self.wait()
    }

    /// Waits until it ends on its own.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().expect("the server was started by this test")
    }
}

/// The first URL with this end that the server prints.
fn url_in(stdout: &mut BufReader<ChildStdout>, end: &str, server: &Server) -> String {
    loop {
        let mut line = String::new();
        let read = stdout.read_line(&mut line).expect("stdout can be read");
        assert!(read > 0, "the server ended before it printed its URL");
        server.printed.lock().unwrap().push_str(&line);
        let url = line.split_whitespace().find(|word| word.starts_with("http://") && word.ends_with(end));
        if let Some(url) = url {
            return url.to_owned();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        // Shown if the test fails.
        if let Some(log) = &self.log {
            eprintln!("{}:\n{}", log.display(), String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()));
        }
    }
}

/// Whether a process has not ended.
pub fn is_alive(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // A process that was not waited for yet has ended all the same.
    !status.is_empty() && !status.contains(") Z ")
}

/// Waits until something has happened.
pub async fn until(what: &str, mut seen: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !seen() {
        assert!(begun.elapsed() < PATIENCE, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
