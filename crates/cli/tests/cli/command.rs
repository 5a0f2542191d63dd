//! The command, with a state of its own for each test.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::servers::{PATIENCE, Server};

/// The output of the command.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// The standard output, if it ended well.
    pub(crate) fn out(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out.trim_end().to_owned()
    }

    /// The same as JSON.
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.out()).unwrap()
    }
}

/// The command, its server, and a folder for its history and sign-ins.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    pub(crate) url: String,
}

impl Setup {
    /// Without a server yet.
    pub(crate) fn new() -> Self {
        let port = harness::free_port();
        let folder = tempfile::tempdir().unwrap();
        Self { folder, port, url: format!("http://127.0.0.1:{port}/mcp") }
    }

    /// With the shipped server.
    pub(crate) fn local() -> (Self, Server) {
        let setup = Self::new();
        let server = Server::local(setup.folder(), setup.port);
        (setup, server)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn remembered(&self) -> PathBuf {
        self.folder().join("state/longhaul/tasks.jsonl")
    }

    /// How to run it.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul"));
        self.prepare(&mut command);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Gives a command the environment of this test.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env("XDG_STATE_HOME", self.folder().join("state")).env("LONGHAUL_SERVER", &self.url);
        command.env_remove("XDG_CONFIG_HOME").env("HOME", self.folder()).current_dir(self.folder());
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Self::end(self.command(args).spawn().unwrap())
    }

    /// Waits for its end.
    pub(crate) fn end(child: Child) -> Said {
        let output = child.wait_with_output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        Said { code: output.status.code().unwrap(), out, err }
    }

    /// Follows a task, and waits until it has printed something about it.
    pub(crate) fn watching(&self, args: &[&str]) -> Child {
        let mut watch = self.command(&[&["watch", "--json"], args].concat()).spawn().unwrap();
        // Without a buffer, so that the rest is still there at the end.
        let out = watch.stdout.as_mut().unwrap();
        out.read_exact(&mut [0]).expect("it prints what it sees");
        watch
    }

    /// Begins a call, and says the id of its task.
    pub(crate) fn detach(&self, call: &[&str]) -> String {
        self.run(&[&["call"], call, &["--detach"]].concat()).out()
    }

    /// Waits until a task has this status.
    pub(crate) fn until(&self, id: &str, status: &str) {
        let begun = Instant::now();
        while self.run(&["show", id, "--json"]).json()["status"] != status {
            assert!(begun.elapsed() < PATIENCE, "waited for {status}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
