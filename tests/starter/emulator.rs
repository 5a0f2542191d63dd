//! The new server on the AWS emulator: its `make deploy`, with the SAM CLI.

use std::fs::File;
use std::process::Command;

use harness::root;
use serde_json::Value;

use crate::project::{Project, run};

/// The folder in which the emulator of these tests keeps its state, below the checkout's root.
const STATE: &str = ".cache/local-aws-starter";

/// Parameters of the stack. An emulator sends answers as a whole, and knows no callers; times suit a test.
const PARAMETERS: &str = "AuthMode=anonymous Endpoint=function-url-buffered WorkerTimeoutSeconds=30";
const SETTINGS: &str = "tool-env=FOLDER=archive lease-ms=2000 heartbeat-ms=500";

/// The stack. The emulator stops soon after it is dropped.
pub(crate) struct Stack {
    outputs: Value,
    _emulator_is_used: File,
}

impl Stack {
    /// Deploys the project as its user does, but for the build: the programs of the tests are packed instead.
    pub(crate) fn deploy(project: &Project) -> Self {
        let state = root().join(STATE);
        std::fs::create_dir_all(&state).unwrap();
        let used = File::options().create(true).append(true).open(state.join("users.lock")).unwrap();
        used.lock_shared().unwrap();
        // Without TLS, an emulator that enforces policies would refuse all work: the template demands it.
        let mut shared = script();
        shared
            .env("LOCAL_AWS_STATE", &state)
            .env("LOCAL_AWS_BIN_DIR", project.programs())
            .env("EMULATOR_AUTH", "false");
        let endpoint = run(shared.arg("shared"));
        project.pack();
        let sam = root().join(".cache/tools/bin/sam");
        let mut deploy = project.make(&["-o", "build", "deploy"]);
        deploy.arg(format!("SAM={}", sam.display())).arg(format!("PARAMETERS={PARAMETERS}"));
        deploy.arg(format!("SETTINGS={SETTINGS}"));
        run(aws(&mut deploy, &endpoint).env("SAM_CLI_TELEMETRY", "0"));
        let outputs = run(aws(script().args(["outputs", Project::NAME]), &endpoint));
        Self { outputs: serde_json::from_str(&outputs).unwrap(), _emulator_is_used: used }
    }

    /// The MCP endpoint.
    pub(crate) fn url(&self) -> &str {
        self.outputs["McpUrl"].as_str().unwrap_or_else(|| panic!("no McpUrl: {}", self.outputs))
    }
}

/// The script that knows the emulator.
fn script() -> Command {
    Command::new(root().join("scripts/local-aws.sh"))
}

/// The command, for which AWS is the emulator.
fn aws<'command>(command: &'command mut Command, endpoint: &str) -> &'command mut Command {
    // The script reads AWS_REGION, the SAM CLI AWS_DEFAULT_REGION.
    command
        .env("AWS_ENDPOINT_URL", endpoint.trim())
        .env("AWS_REGION", "us-east-1")
        .env("AWS_DEFAULT_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test")
}
