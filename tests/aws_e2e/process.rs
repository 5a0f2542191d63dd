//! A deployment of the real template in the emulator, for one test. It has the interface of the local suite's server,
//! so that the same flows run against both.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use harness::caller::Caller;
use harness::emulator::fresh_name;
use harness::output_of;
use longhaul_aws::body_of;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::Message;
use longhaul_core::{Identity, OwnerId, TaskKey};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::programs::{Programs, SHIPPED};

/// Settings for tests: a dead worker costs two seconds, and a lost message too.
const PARAMETERS: [&str; 2] = ["WorkerTimeoutSeconds=30", "Settings=lease-ms=2000 heartbeat-ms=500 resend-ms=2000"];

/// The endpoint of the emulator with the shipped programs.
pub(crate) fn endpoint() -> &'static str {
    SHIPPED.endpoint()
}

/// The stack of one test. Deleted when dropped.
pub(crate) struct Setup {
    programs: &'static Programs,
    stack: String,
    outputs: Value,
}

/// The deployed server.
pub(crate) struct Deployed<'a> {
    setup: &'a Setup,
}

impl Setup {
    /// The additional flows of clients with core tasks. The emulator sends answers as a whole, so no question arrives
    /// before the answer; and anonymous callers get no list.
    pub(crate) const CORE_TASK_FLOWS: &[&str] = &["no_list"];
    /// Where clients of `2026-07-28` may send an idempotency key: nowhere, since the callers are anonymous.
    pub(crate) const KEYS: &[&str] = &[];
    /// The additional flows of clients without tasks.
    pub(crate) const PLAIN_CALL_FLOWS: &[&str] = &[];

    /// Deploys the template with times that suit a test.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Deploys a server that lets clients without tasks wait for a second only.
    pub(crate) fn waiting_a_second() -> Self {
        Self::with(&["Settings=inline-wait-s=1"])
    }

    /// Deploys the template with these additional parameters.
    pub(crate) fn with(parameters: &[&str]) -> Self {
        Self::of(&SHIPPED, parameters)
    }

    /// Deploys the template with these programs.
    pub(crate) fn of(programs: &'static Programs, parameters: &[&str]) -> Self {
        let stack = fresh_name();
        // Only the shipped application has these tools.
        let diagnostics = std::ptr::eq(programs, &raw const SHIPPED).then_some("Settings=diagnostics=true");
        let parameters = PARAMETERS.iter().copied().chain(diagnostics).chain(parameters.iter().copied());
        let out = output_of(programs.deploying().arg("deploy").arg(&stack).args(parameters));
        let outputs = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
        Self { programs, stack, outputs }
    }

    /// The server. It is already running.
    pub(crate) fn start(&self) -> Deployed<'_> {
        Deployed { setup: self }
    }

    /// An output of the template.
    pub(crate) fn output(&self, name: &str) -> &str {
        self.outputs[name].as_str().unwrap_or_else(|| panic!("no output {name}: {}", self.outputs))
    }

    /// Clients for reading table and queues of a deployment of the shipped programs directly.
    pub(crate) fn clients() -> Clients {
        Clients::new(&SHIPPED.config())
    }

    /// Puts a message about a task into the work queue, as the server does.
    pub(crate) async fn send_again(&self, task_id: &str) {
        let body = body_of(&Message { task: key_of(task_id), trace: None, attempt: None });
        let sqs = Clients::new(&self.programs.config()).sqs;
        let sent = sqs.send_message().queue_url(self.output("QueueUrl")).message_body(body).send().await;
        sent.expect("the queue takes a message");
    }

    /// Sends SIGKILL to every sandbox of a function, and returns how many there were. They are dead when this returns:
    /// the emulator delivers nothing more to them.
    pub(crate) fn kill_all_of(&self, function: &str) -> usize {
        let function = self.output(function);
        let sandboxes = sandboxes_of(function);
        // One may just have ended.
        let killed = sandboxes.iter().filter(|sandbox| kill_process(**sandbox, Signal::KILL).is_ok()).count();
        while sandboxes_of(function).iter().any(|sandbox| sandboxes.contains(sandbox)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        killed
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // The rest ends with the emulator.
        drop(self.programs.deploying().arg("delete").arg(&self.stack).stdout(Stdio::null()).status());
    }
}

impl Deployed<'_> {
    /// The MCP endpoint.
    pub(crate) fn url(&self) -> &str {
        self.setup.output("McpUrl")
    }

    /// A client that declares the tasks extension.
    pub(crate) fn caller(&self) -> Caller {
        Caller::new(self.url())
    }

    /// SIGKILL for every sandbox of both functions. The emulator starts new ones on its own.
    pub(crate) fn kill(self) {
        self.setup.kill_all_of("ApiFunction");
        self.setup.kill_all_of("WorkerFunction");
    }
}

/// The key of a task of the anonymous owner.
pub(crate) fn key_of(task_id: &str) -> TaskKey {
    TaskKey::new(OwnerId::of(Identity::Anonymous), task_id.parse().expect("the server gives ids"))
}

/// The processes that run a function, found by their environment.
pub(crate) fn sandboxes_of(function: &str) -> Vec<Pid> {
    let wanted = format!("AWS_LAMBDA_FUNCTION_NAME={function}");
    let processes = std::fs::read_dir("/proc").expect("this is Linux").flatten();
    let runs = |folder: &Path| {
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    processes
        .filter_map(|process| Some((process.path(), process.file_name().to_str()?.parse::<i32>().ok()?)))
        .filter(|(folder, _)| runs(folder))
        .filter_map(|(_, id)| Pid::from_raw(id))
        .collect()
}
