//! A gateway in its own process, which a test may kill and start again on the same file, and the servers behind it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use harness::caller::Caller;
pub(crate) use harness::caller::{ended, why, words};
pub(crate) use harness::process::{is_alive, until};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags, Params};
use serde_json::{Value, json};

pub(crate) use super::somewhere::Somewhere;

/// A program that `scripts/setup-tools.sh upstreams` has installed.
pub(crate) fn tool(name: &str) -> String {
    harness::tool(name).canonicalize().unwrap().to_str().unwrap().to_owned()
}

const ANY_PORT: &str = "127.0.0.1:0";

/// How to start a gateway, again and again on the same file.
pub(crate) struct Setup {
    folder: Arc<tempfile::TempDir>,
    servers: Vec<String>,
    env: Vec<(String, String)>,
}

impl Setup {
    /// A gateway in front of the fixture in this mode, which notes its calls in the folder. Its calls are tasks.
    pub(crate) fn fixture(modes: &[&str]) -> Self {
        Self::config(|setup| json!({"mcpServers": {"only": setup.fixture_entry(modes)}}))
    }

    /// A gateway in front of a server of `2026-07-28`.
    pub(crate) fn per_request_fixture() -> Self {
        Self::config(|setup| json!({"mcpServers": {"only": setup.server("per-request", &[])}}))
    }

    /// The same as [`fixture`](Self::fixture), started by a command at the end of the gateway's.
    pub(crate) fn command_of_fixture(modes: &[&str]) -> Self {
        let setup = Self::command(&[]);
        let fixture = [fixture(), "stdio".to_owned(), setup.path("")];
        let modes = modes.iter().map(|mode| (*mode).to_owned());
        Self { servers: ["--".to_owned()].into_iter().chain(fixture).chain(modes).collect(), ..setup }
    }

    /// A gateway in front of the server that this command starts.
    pub(crate) fn command(command: &[&str]) -> Self {
        let servers = ["--"].iter().chain(command).map(|&part| part.to_owned()).collect();
        Self { folder: Arc::new(tempfile::tempdir().unwrap()), servers, env: Vec::new() }
    }

    /// A gateway with a configuration, which is made for the folder of the test.
    pub(crate) fn config(config: impl FnOnce(&Self) -> Value) -> Self {
        let setup = Self { folder: Arc::new(tempfile::tempdir().unwrap()), servers: Vec::new(), env: Vec::new() };
        let file = setup.path("mcp.json");
        let mut config = config(&setup);
        if config["longhaul"]["defaults"].is_null() {
            config["longhaul"]["defaults"] = json!({"handleAfter": "0s"});
        }
        std::fs::write(&file, config.to_string()).unwrap();
        Self { servers: vec!["--config".to_owned(), file], ..setup }
    }

    /// The same in the same folder, with more arguments.
    pub(crate) fn with(&self, more: &[&str]) -> Self {
        let folder = Arc::clone(&self.folder);
        let more = more.iter().map(|arg| (*arg).to_owned());
        Self { folder, servers: more.chain(self.servers.iter().cloned()).collect(), env: self.env.clone() }
    }

    /// The same in the same folder, with a variable more in the gateway's environment.
    pub(crate) fn seeing(&self, name: &str, value: &str) -> Self {
        let env = self.env.iter().cloned().chain([(name.to_owned(), value.to_owned())]).collect();
        Self { folder: Arc::clone(&self.folder), servers: self.servers.clone(), env }
    }

    /// The same in the same folder, with AWS at this endpoint.
    pub(crate) fn with_aws(&self, endpoint: &str) -> Self {
        let known = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test"), ("AWS_REGION", "us-east-1")];
        let env = known.into_iter().chain([("AWS_ENDPOINT_URL", endpoint)]);
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { folder: Arc::clone(&self.folder), servers: self.servers.clone(), env }
    }

    /// Writes the configuration again, which a running gateway does not read on its own.
    pub(crate) fn configure(&self, config: &Value) {
        std::fs::write(self.path("mcp.json"), config.to_string()).unwrap();
    }

    /// Writes the lock file, and returns the arguments that name it.
    pub(crate) fn lock(&self) -> String {
        let file = self.path("mcp.lock.json");
        let mut command = Command::new(harness::program("longhaul"));
        let output = command.args(["gateway", "lock", "--lock", &file]).args(&self.servers).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        file
    }

    /// The fixture as an entry of a configuration.
    pub(crate) fn fixture_entry(&self, modes: &[&str]) -> Value {
        self.server("stdio", modes)
    }

    /// One of the servers of `crates/fixtures` as an entry of a configuration.
    pub(crate) fn server(&self, name: &str, modes: &[&str]) -> Value {
        let folder = self.path("");
        let args = [&[name, folder.as_str()], modes].concat();
        json!({"command": fixture(), "args": args})
    }

    /// A path in the folder of the test.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The lines of a file in the folder of the test; none if the file does not exist.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The calls that the fixture has got.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.lines("calls")
    }

    /// The fixture's processes so far.
    pub(crate) fn processes(&self) -> Vec<String> {
        self.lines("processes")
    }

    /// The method of the first message that each of them has got.
    pub(crate) fn first_messages(&self) -> Vec<String> {
        self.lines("first")
    }

    /// Waits until the fixture has got so many calls.
    pub(crate) async fn until_called(&self, times: usize) {
        until("calls", || self.calls().len() >= times).await;
    }

    /// The fixture's processes that are still alive.
    fn alive(&self) -> Vec<String> {
        self.lines("processes").into_iter().filter(|id| is_alive(id)).collect()
    }

    /// Waits until no process of the fixture is left.
    pub(crate) async fn until_all_have_ended(&self) {
        until("the end of all processes", || self.alive().is_empty()).await;
    }

    /// Whether a step of this name is recorded.
    pub(crate) fn has_recorded_a_step(&self, name: &str) -> bool {
        self.read("SELECT count(*) > 0 FROM journal WHERE name = ?", [name]).is_ok_and(|found| found)
    }

    /// Whether the record of a task has this status.
    pub(crate) fn has_a_task_that_is(&self, status: &str) -> bool {
        let query = "SELECT count(*) > 0 FROM tasks WHERE instr(record, ?) > 0";
        self.read(query, [format!("\"{status}\"")]).is_ok_and(|found| found)
    }

    /// The owner of the only task.
    pub(crate) fn owner_of_the_task(&self) -> String {
        let owner: Vec<u8> = self.read("SELECT owner FROM tasks", []).unwrap();
        URL_SAFE_NO_PAD.encode(owner)
    }

    /// The first value that a query finds in the database, which may not be there yet.
    fn read<T: FromSql>(&self, query: &str, parameters: impl Params) -> rusqlite::Result<T> {
        let database = Connection::open_with_flags(self.path("tasks.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        database.query_row(query, parameters, |row| row.get(0))
    }

    fn starting(&self, address: &str) -> Command {
        let mut command = Command::new(harness::program("longhaul"));
        command.args(["gateway", "--listen", address, "--lease-ms", "1500", "--heartbeat-ms", "200"]);
        command.arg("--db").arg(self.path("tasks.db")).args(&self.servers);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Starts it and waits until it listens.
    pub(crate) fn start(&self) -> Gateway {
        self.start_at(ANY_PORT)
    }

    /// Starts it, with a client of it.
    pub(crate) fn started(&self) -> (Gateway, Caller) {
        let gateway = self.start();
        let caller = gateway.caller();
        (gateway, caller)
    }

    /// Starts it; the setup has to stay.
    pub(crate) fn running(self) -> (Self, Gateway) {
        let gateway = self.start();
        (self, gateway)
    }

    /// The same with a client.
    pub(crate) fn begun(self) -> (Self, Gateway, Caller) {
        let (gateway, caller) = self.started();
        (self, gateway, caller)
    }

    /// Starts it at this address and port.
    pub(crate) fn start_at(&self, address: &str) -> Gateway {
        self.start_by(self.starting(address))
    }

    /// Starts it as the child of another program.
    pub(crate) fn start_below(&self, program: &str, arguments: &[&str]) -> Gateway {
        let own = self.starting(ANY_PORT);
        let mut command = Command::new(program);
        command.args(arguments).arg(own.get_program()).args(own.get_args());
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        self.start_by(command)
    }

    fn start_by(&self, mut command: Command) -> Gateway {
        let log = self.path("log");
        command.env("SECRET_OF_THE_GATEWAY", "hidden");
        let stderr = File::options().append(true).create(true).open(&log).unwrap();
        let mut child = command.stderr(stderr).spawn().expect("the gateway starts");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.ends_with("/mcp\n") {
            line.clear();
            let read = stdout.read_line(&mut line).unwrap();
            let log = std::fs::read_to_string(&log).unwrap();
            assert!(read > 0, "the gateway ended before it printed its URL: {log}");
        }
        let url = line.split_whitespace().last().unwrap().to_owned();
        // A process that prints needs a reader.
        std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
        Gateway { child, url, log: log.into() }
    }

    /// The output of `longhaul gateway iam-policy`.
    pub(crate) fn rights(&self) -> Value {
        let output =
            Command::new(harness::program("longhaul")).args(["gateway", "iam-policy"]).args(&self.servers).output();
        let Output { status, stdout, stderr } = output.unwrap();
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        serde_json::from_slice(&stdout).unwrap()
    }

    /// The message with which `longhaul gateway lock` refuses.
    pub(crate) fn lock_refusal(&self) -> String {
        let output = Command::new(harness::program("longhaul")).args(["gateway", "lock"]).args(&self.servers).output();
        let Output { status, stderr, .. } = output.unwrap();
        assert!(!status.success());
        String::from_utf8(stderr).unwrap()
    }

    /// Starts a gateway that refuses to start, and returns what it says.
    pub(crate) fn refusal(&self) -> String {
        let Output { status, stderr, .. } = self.starting(ANY_PORT).output().unwrap();
        assert_eq!(status.code(), Some(2));
        String::from_utf8(stderr).unwrap()
    }
}

/// The program with the servers of `crates/fixtures`.
pub(crate) fn fixture() -> String {
    harness::program("fixture").to_str().unwrap().to_owned()
}

/// A running gateway. Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    url: String,
    log: PathBuf,
}

impl Gateway {
    /// A client that declares the tasks extension and elicitation.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(&self.url)
    }

    /// The MCP endpoint.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its address and port, for another one in its place.
    pub(crate) fn address(&self) -> String {
        self.url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned()
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Calls a tool, waits for the end of its task, and returns that.
    pub(crate) async fn ended(&self, tool: &str, arguments: Value) -> Value {
        let caller = self.caller();
        let id = caller.call_task(tool, arguments).await;
        ended(&caller, &id).await
    }

    /// SIGKILL, as a crash or the out-of-memory killer would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The id of the process that the test has started.
    pub(crate) fn child_id(&self) -> String {
        self.child.id().to_string()
    }

    /// Sends SIGHUP.
    pub(crate) fn hang_up(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::HUP).unwrap();
    }

    /// Its answer to a request for this path.
    pub(crate) async fn page(&self, path: &str) -> String {
        let url = format!("http://{}{path}", self.address());
        reqwest::get(url).await.unwrap().text().await.unwrap()
    }

    /// The names of the tools that it lists.
    pub(crate) async fn tools(&self) -> Vec<String> {
        let listed = self.caller().result("tools/list", json!({})).await;
        listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Sends SIGTERM and waits for the end.
    pub(crate) fn terminate(mut self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
        // Shown if the test fails.
        eprintln!("{}", self.log());
    }
}
