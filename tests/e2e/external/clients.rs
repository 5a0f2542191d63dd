//! Real clients: the TypeScript SDK with the tasks extension, the Python SDK, FastMCP, and `rmcp`'s own.

use std::process::Command;

use harness::{output_of, root, tool};
use serde_json::Value;

use super::process::Setup;

/// A driver of `tests/clients`, and the program that runs it.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    program: &'static str,
    script: &'static str,
}

pub(crate) const TYPESCRIPT: Client = Client { program: "node", script: "ts/driver.mjs" };
pub(crate) const PYTHON: Client = Client { program: "python", script: "python/driver.py" };
const FASTMCP: Client = Client { program: "python", script: "python/fastmcp_driver.py" };

impl Client {
    /// Runs one flow, and returns what the client reports.
    pub(crate) fn run(self, url: &str, flow: &str, flags: &[&str]) -> Value {
        let program = tool(self.program);
        let script = root().join("tests/clients").join(self.script);
        let out = output_of(Command::new(program).arg(script).args(["--url", url, flow]).args(flags));
        let last = out.lines().last().unwrap_or_else(|| panic!("{flow} printed nothing"));
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{flow}: {error}: {out}"))
    }

    /// The flows of every client.
    fn all_flows(self) {
        let setup = Setup::new();
        let server = setup.start();
        let run = |flow: &str, flags: &[&str]| self.run(server.url(), flow, flags);
        run("list", &[]);
        run("plain", &[]);
        run("task", &["--seconds", "0.5"]);
        run("cancel", &["--seconds", "120"]);
        run("ask", &[]);
        for how in ["tool_error", "protocol_error", "panic"] {
            run("fail", &["--how", how]);
        }
        run("unknown", &[]);
        for place in Setup::KEYS {
            run("idempotent", &["--key", &format!("in-{place}"), "--key-in", place]);
        }
        run("large", &["--bytes", "1000000"]);
        self.comes_back_after_a_kill();
    }

    fn comes_back_after_a_kill(self) {
        let setup = Setup::new();
        let server = setup.start();
        let started = self.run(server.url(), "start", &["--seconds", "1"]);
        let id = started["taskId"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned();
        server.kill();
        let again = setup.start();
        self.run(again.url(), "resume", &["--task-id", &id]);
    }
}

#[test]
fn the_typescript_client_does_everything() {
    TYPESCRIPT.all_flows();
}

#[test]
fn the_python_client_does_everything() {
    PYTHON.all_flows();
}

/// This client sends no `Mcp-Name` with `tasks/*`, has no idempotency keys, and cannot come back for a task.
#[test]
fn the_fastmcp_client_does_what_it_can() {
    let setup = Setup::new();
    let server = setup.start();
    for flow in ["list", "plain", "task", "cancel", "ask", "fail"] {
        FASTMCP.run(server.url(), flow, &[]);
    }
}
