//! A server behind the gateway's functions: its configuration, its lock file, and what it notes.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use harness::caller::Caller;
pub(crate) use harness::caller::{ended, why, words};
pub(crate) use harness::process::is_alive;
use harness::process::until;
use harness::runtime_host::Idle;
use harness::runtime_host::front_door::{HttpFrontend, Mode};
use harness::runtime_host::mapping::{Mapping, Worker};
use longhaul::settings::EnvSource;
use longhaul_gateway::{Config, Lock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::aws_e2e::ground::Resources;
use crate::aws_e2e::programs::GATEWAY;

/// Where the lock file is written: all variables are set there.
struct Desk(BTreeMap<String, String>);

impl EnvSource for Desk {
    fn get(&self, name: &str) -> Option<std::ffi::OsString> {
        self.0.get(name).map(std::ffi::OsString::from).or_else(|| std::env::var_os(name))
    }
}

/// The resources that the functions of one test share.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    resources: Resources,
}

impl Setup {
    /// Functions in front of the fixture in this mode, which has these environment variables.
    pub(crate) async fn of(modes: &[&str], env: Value) -> Self {
        let setup = Self { folder: tempfile::tempdir().unwrap(), resources: Resources::of(&GATEWAY).await };
        let program = harness::program("fixture");
        let args = [&["stdio", setup.folder.path().to_str().unwrap()], modes].concat();
        let config = json!({
            "mcpServers": {"only": {"command": program, "args": args, "env": env}},
            "longhaul": {"defaults": {"handleAfter": "0s"}}
        });
        std::fs::write(setup.file("mcp.json"), config.to_string()).unwrap();
        let desk = Desk(BTreeMap::from([("TOKEN".to_owned(), "of-the-desk".to_owned())]));
        let lock = Lock::read(&Config::from_json(&config.to_string(), &desk).unwrap()).await.unwrap();
        std::fs::write(setup.file("mcp.lock.json"), lock.to_json()).unwrap();
        setup.until_all_have_ended().await;
        setup
    }

    /// Functions whose tools are jobs of other systems, so that there is no lock file.
    pub(crate) async fn of_jobs(jobs: Value) -> Self {
        let setup = Self { folder: tempfile::tempdir().unwrap(), resources: Resources::of(&GATEWAY).await };
        let config = json!({"mcpServers": jobs, "longhaul": {"defaults": {"handleAfter": "0s"}}});
        std::fs::write(setup.file("mcp.json"), config.to_string()).unwrap();
        setup
    }

    /// The name of the work queue.
    pub(crate) fn queue(&self) -> &str {
        self.resources.queue_url.rsplit('/').next().unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn env(&self, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let mut env = self.resources.env(None);
        for (name, file) in [("LONGHAUL_CONFIG", "mcp.json"), ("LONGHAUL_LOCK", "mcp.lock.json")] {
            env.push((name.to_owned(), self.file(file).to_str().unwrap().to_owned()));
        }
        env.push(("PATH".to_owned(), std::env::var("PATH").unwrap()));
        env.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        env
    }

    /// The API function.
    pub(crate) async fn frontend(&self, settings: &[(&str, &str)]) -> HttpFrontend {
        HttpFrontend::open(GATEWAY.api(), &self.env(settings), Idle::Frozen, Mode::Streamed, 1).await
    }

    /// The event source mapping of a worker.
    pub(crate) fn mapping(&self, settings: &[(&str, &str)]) -> Mapping {
        Mapping { env: self.env(settings), ..self.resources.mapping(None) }
    }

    /// Both functions.
    pub(crate) async fn functions(&self, settings: &[(&str, &str)]) -> (HttpFrontend, Worker) {
        self.functions_with(Duration::from_secs(20), settings).await
    }

    /// The same with another timeout of the worker.
    pub(crate) async fn functions_with(&self, timeout: Duration, settings: &[(&str, &str)]) -> (HttpFrontend, Worker) {
        let worker = Worker::start(Mapping { timeout, ..self.mapping(settings) }, Idle::Frozen);
        (self.frontend(settings).await, worker)
    }

    /// The output of a function that ends at once.
    pub(crate) fn refusal(&self, program: &Path, settings: &[(&str, &str)]) -> String {
        let output = Command::new(program).env_clear().envs(self.env(settings)).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// The worker as Lambda starts a wrapper: with the command of the managed runtime as its arguments.
    pub(crate) fn wrapper(&self, runtime: &str) -> PathBuf {
        let file = self.file("lambda");
        std::fs::write(&file, format!("#!/bin/sh\nexec {} {runtime}\n", GATEWAY.worker().display())).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        file
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The calls that the server has got.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.lines("calls")
    }

    /// The processes of the server so far.
    pub(crate) fn processes(&self) -> Vec<String> {
        self.lines("processes")
    }

    /// Waits until the server has got so many calls.
    pub(crate) async fn until_called(&self, times: usize) {
        until("calls", || self.calls().len() >= times).await;
    }

    /// The same after the end of the worker: one that is frozen ends the process of its last call when it works again.
    pub(crate) async fn until_all_have_ended_with(&self, worker: Worker) {
        drop(worker);
        self.until_all_have_ended().await;
    }

    /// Waits until no process of the server is left.
    async fn until_all_have_ended(&self) {
        until("the end of all processes", || !self.processes().iter().any(|id| is_alive(id))).await;
    }

    /// Calls a tool, and waits for the end of its task.
    pub(crate) async fn ended(&self, caller: &Caller, tool: &str) -> Value {
        let id = caller.call_task(tool, json!({})).await;
        ended(caller, &id).await
    }
}

fn send(id: &str, signal: Signal) {
    kill_process(Pid::from_raw(id.parse().unwrap()).unwrap(), signal).unwrap();
}

/// SIGSTOP: it does nothing until it is resumed.
pub(crate) fn stop(id: &str) {
    send(id, Signal::STOP);
}

/// SIGCONT.
pub(crate) fn resume(id: &str) {
    send(id, Signal::CONT);
}
