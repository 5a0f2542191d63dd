//! The new server's `template.yaml`, deployed in the AWS emulator with its programs.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::project::{Project, root, run};

/// What the emulator of these tests keeps: a folder below the checkout's root.
const STATE: &str = ".cache/local-aws-starter";
const STACK: &str = "new-server";

/// The stack. The emulator stops soon after it is dropped.
pub(crate) struct Stack {
    outputs: Value,
    _emulator_is_used: File,
}

impl Stack {
    /// Deploys the project with times that suit a test.
    pub(crate) fn deploy(project: &Project) -> Self {
        let state = root().join(STATE);
        std::fs::create_dir_all(&state).unwrap();
        let used = File::options().create(true).append(true).open(state.join("users.lock")).unwrap();
        used.lock_shared().unwrap();
        let mut shared = script(&state, project);
        let endpoint = run(shared.arg("shared"));
        let mut deploy = script(&state, project);
        deploy.env("AWS_ENDPOINT_URL", endpoint.trim()).env("AWS_REGION", "us-east-1");
        deploy.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
        let parameters = ["WorkerTimeoutSeconds=30", "LeaseMs=2000", "HeartbeatMs=500", "LegMarginMs=500"];
        let outputs = run(deploy.args(["deploy", STACK]).args(parameters));
        Self { outputs: serde_json::from_str(&outputs).unwrap(), _emulator_is_used: used }
    }

    /// The MCP endpoint.
    pub(crate) fn url(&self) -> &str {
        self.outputs["McpUrl"].as_str().unwrap_or_else(|| panic!("no McpUrl: {}", self.outputs))
    }
}

/// The script that deploys.
fn script(state: &PathBuf, project: &Project) -> Command {
    let mut script = Command::new(root().join("scripts/local-aws.sh"));
    script.env("LOCAL_AWS_STATE", state).env("LOCAL_AWS_BIN_DIR", project.programs());
    script.env("LOCAL_AWS_TEMPLATE", project.folder().join("template.yaml"));
    script
}
