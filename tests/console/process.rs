//! Servers, a console and a browser, each in a process of its own.

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Command, Stdio};

use harness::process::Server;
use harness::{root, tool};
use serde_json::Value;

/// The console under test.
#[derive(Clone, Copy)]
pub(crate) enum Console {
    /// The one that the server has itself.
    OfServer,
    /// The one of `longhaul console`.
    Beside,
}

/// A folder with a database, and the ports of a server and of a console.
pub(crate) struct Setup {
    folder: tempfile::TempDir,
    server: u16,
    console: u16,
}

impl Setup {
    pub(crate) fn new() -> Self {
        let [server, console] = [(); 2].map(|()| harness::free_port());
        Self { folder: tempfile::tempdir().unwrap(), server, console }
    }

    /// With a server that listens.
    pub(crate) fn started() -> (Self, Server) {
        let setup = Self::new();
        let server = setup.start();
        (setup, server)
    }

    /// The shipped server with its diagnostic tools, which has a console of its own.
    pub(crate) fn start(&self) -> Server {
        let mut command = harness::demo();
        command.args(["--diagnostics", "--lease-ms", "1500", "--heartbeat-ms", "200", "--listen"]);
        command.arg(format!("127.0.0.1:{}", self.server)).arg("--db").arg(self.folder.path().join("tasks.db"));
        Server::start_at(self.server, &mut command, None)
    }

    /// A server whose strings all contain scripts, markup or terminal codes.
    pub(crate) fn start_hostile(&self) -> Server {
        let mut command = Command::new(tool("node"));
        command.arg(root().join("tests/console/hostile.mjs")).arg(self.server.to_string());
        Server::start_at(self.server, &mut command, None)
    }

    /// `longhaul console` for the server.
    pub(crate) fn start_console(&self) -> Server {
        let mut command = self.longhaul(&["console", "--listen"]);
        command.arg(format!("127.0.0.1:{}", self.console));
        Server::start_at(self.console, &mut command, None)
    }

    fn longhaul(&self, args: &[&str]) -> Command {
        let mut command = Command::new(harness::program("longhaul"));
        command
            .env("XDG_STATE_HOME", self.folder.path())
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path());
        command.env("LONGHAUL_SERVER", format!("http://127.0.0.1:{}/mcp", self.server)).args(args);
        command
    }

    /// Begins a call, and says the id of its task.
    pub(crate) fn call(&self, call: &[&str]) -> String {
        let output = self.longhaul(&["call", "--detach"]).args(call).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
        said.trim().to_owned()
    }

    /// The output of `longhaul show` for the task with this id.
    pub(crate) fn shown(&self, id: &str) -> Value {
        let output = self.longhaul(&["show", id, "--json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Lets the browser go through a flow.
    pub(crate) fn browse(&self, console: Console, flow: &str, flags: &[&str]) -> Value {
        self.browse_while(console, flow, flags, &mut |asked| panic!("nobody can {asked}"))
    }

    /// The same, where the flow asks for something to be done meanwhile.
    pub(crate) fn browse_while(
        &self,
        console: Console,
        flow: &str,
        flags: &[&str],
        does: &mut dyn FnMut(&str),
    ) -> Value {
        let port = match console {
            Console::OfServer => self.server,
            Console::Beside => self.console,
        };
        let mut command = Command::new(tool("node"));
        command.arg(root().join("tests/console/driver.mjs")).arg("--chromium").arg(tool("chromium"));
        command.args(["--url", &format!("http://127.0.0.1:{port}/console"), flow]).args(flags);
        // Standard error is its own: Node makes what it inherits non-blocking, and what the tests print would be lost.
        let mut said = tempfile::tempfile().unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(said.try_clone().unwrap());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut seen = Value::Null;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            seen = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{flow}: {error}: {line}"));
            if let Some(asked) = seen["ask"].as_str() {
                does(asked);
                writeln!(stdin).unwrap();
            }
        }
        child.wait().unwrap();
        let mut errors = Vec::new();
        said.rewind().and_then(|()| said.read_to_end(&mut errors)).unwrap();
        // Shown if the test fails.
        eprint!("{}", String::from_utf8_lossy(&errors));
        assert_eq!(seen["ok"], true, "{flow}: {seen:#}");
        seen
    }
}
