//! A deployment of the real template in the emulator, for one test. It has the interface of the local suite's server,
//! so that the same flows run against both.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use longhaul_aws::body_of;
use longhaul_aws::clients::{Clients, https};
use longhaul_core::ports::Message;
use longhaul_core::{Identity, OwnerId, TaskKey};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::caller::Caller;
use crate::programs;

/// What suits a test: a dead worker costs two seconds, and a lost message too.
const PARAMETERS: [&str; 5] = [
    "WorkerTimeoutSeconds=30",
    "LeaseMs=2000",
    "HeartbeatMs=500",
    "ResendMs=2000",
    // Where a test is about it, it is on. Elsewhere the emulator would read a stream for each of many stacks.
    "ResendUnclaimed=off",
];

/// The root of the checkout.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The emulator's endpoint. It has the functions ready to be deployed, is shared by all test processes, and runs at
/// least as long as this one.
pub(crate) fn endpoint() -> &'static str {
    static EMULATOR: OnceLock<(File, String)> = OnceLock::new();
    let (_used, endpoint) = EMULATOR.get_or_init(|| {
        let state = root().join(programs::STATE);
        std::fs::create_dir_all(&state).unwrap();
        let used = File::options().create(true).append(true).open(state.join("users.lock")).unwrap();
        used.lock_shared().unwrap();
        let folder = programs::api().parent().expect("a program is in a folder");
        let mut shared = local_aws();
        shared.arg("shared").env("LOCAL_AWS_STATE", state).env("LOCAL_AWS_BIN_DIR", folder);
        let endpoint = output_of(shared.env("LOCAL_AWS_BIN_PREFIX", programs::PREFIX));
        (used, endpoint.trim().to_owned())
    });
    endpoint
}

/// The script that deploys.
fn local_aws() -> Command {
    Command::new(root().join("scripts/local-aws.sh"))
}

/// The script, with the emulator's endpoint.
fn on_emulator() -> Command {
    let mut command = local_aws();
    command.env("AWS_ENDPOINT_URL", endpoint()).env("AWS_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    command
}

/// What an SDK client needs to reach the emulator.
pub(crate) fn config() -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint())
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(https())
        .build()
}

/// A name that no other test uses.
pub(crate) fn fresh_name() -> String {
    let mut random = [0_u8; 6];
    File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
    random.iter().fold("e2e-".to_owned(), |name, byte| format!("{name}{byte:02x}"))
}

/// The stack of one test. Deleted when dropped.
pub(crate) struct Setup {
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
    /// Where clients of `2026-07-28` may send an idempotency key: nowhere, since nobody identifies them.
    pub(crate) const KEYS: &[&str] = &[];
    /// The additional flows of clients without tasks.
    pub(crate) const PLAIN_CALL_FLOWS: &[&str] = &[];

    /// Deploys the template with times that suit a test.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// Deploys a server that lets clients without tasks wait for a second only.
    pub(crate) fn waiting_a_second() -> Self {
        Self::with(&["InlineWaitSeconds=1"])
    }

    /// Deploys the template with these additional parameters.
    pub(crate) fn with(parameters: &[&str]) -> Self {
        let stack = fresh_name();
        let out = output_of(on_emulator().arg("deploy").arg(&stack).args(PARAMETERS).args(parameters));
        let outputs = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"));
        Self { stack, outputs }
    }

    /// What is said about these parameters, with which nothing can be deployed.
    pub(crate) fn refused(parameters: &[&str]) -> String {
        let mut deploy = on_emulator();
        let out = deploy.arg("deploy").arg(fresh_name()).args(parameters).stdin(Stdio::null()).output().unwrap();
        assert!(!out.status.success(), "{parameters:?} were deployed");
        String::from_utf8_lossy(&out.stderr).into_owned()
    }

    /// The server. It is already running.
    pub(crate) fn start(&self) -> Deployed<'_> {
        Deployed { setup: self }
    }

    /// An output of the template.
    pub(crate) fn output(&self, name: &str) -> &str {
        self.outputs[name].as_str().unwrap_or_else(|| panic!("no output {name}: {}", self.outputs))
    }

    /// Clients for reading table and queues directly.
    pub(crate) fn clients() -> Clients {
        Clients::new(&config())
    }

    /// Puts a message about a task into the work queue, as the server does.
    pub(crate) async fn send_again(&self, task_id: &str) {
        let body = body_of(&Message { task: key_of(task_id), trace: None, attempt: None });
        let sent =
            Self::clients().sqs.send_message().queue_url(self.output("QueueUrl")).message_body(body).send().await;
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
        // What is left ends with the emulator.
        drop(on_emulator().arg("delete").arg(&self.stack).stdout(Stdio::null()).status());
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

    /// SIGKILL for every sandbox of both functions. New ones are started by themselves.
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

/// Runs a command to its end and returns its standard output; fails the test if the command fails.
pub(crate) fn output_of(command: &mut Command) -> String {
    // Standard error is its own: Node makes what it inherits non-blocking, and what the tests print would be lost.
    // A file, because what a script leaves running has it open for longer.
    let mut said = tempfile::tempfile().unwrap();
    let out = command.stdin(Stdio::null()).stderr(said.try_clone().unwrap()).output();
    let out = out.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut errors = Vec::new();
    said.rewind().and_then(|()| said.read_to_end(&mut errors)).unwrap();
    // Shown if the test fails.
    eprint!("{}", String::from_utf8_lossy(&errors));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{command:?} ended with {}: {text}", out.status);
    text
}
