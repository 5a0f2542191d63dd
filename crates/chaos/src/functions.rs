//! The template with its functions, deployed on the emulator.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use url::Url;

use crate::faults::Function;
use crate::processes::processes;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The times of the deployment: those of a test, so that recovery takes seconds.
const TIMES: [&str; 2] = ["WorkerTimeoutSeconds=30", "Settings=lease-ms=3000 heartbeat-ms=600 resend-ms=4000"];

/// A deployed stack.
pub(crate) struct Functions {
    outputs: Value,
}

impl Functions {
    /// Deploys the template with the functions of this build, whose tools read `tool_env`, and which are woken by the
    /// ends of executions.
    pub(crate) fn deploy(folder: &Path, endpoint: &Url, tool_env: &str) -> anyhow::Result<Self> {
        let api = packed(folder, "chaos-api")?;
        let worker = packed(folder, "chaos-worker")?;
        local_aws(endpoint, &["upload".as_ref(), api.as_os_str(), worker.as_os_str()])?;
        let tool_env = format!("Settings=tool-env={tool_env}");
        let mut deploy = vec!["deploy", "chaos", "--resend-unclaimed", tool_env.as_str()];
        deploy.extend(TIMES);
        let said = local_aws(endpoint, &deploy.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
        Ok(Self { outputs: serde_json::from_str(&said).with_context(|| said.clone())? })
    }

    fn output(&self, name: &str) -> anyhow::Result<&str> {
        self.outputs.get(name).and_then(Value::as_str).with_context(|| format!("the stack has no output {name}"))
    }

    /// Where the emulator takes requests to the API.
    pub(crate) fn address(&self) -> anyhow::Result<SocketAddr> {
        let url: Url = self.output("McpUrl")?.parse()?;
        url.socket_addrs(|| None)?.first().copied().context("the endpoint has an address")
    }

    /// The endpoint, reached by another address.
    pub(crate) fn url(&self, address: SocketAddr) -> anyhow::Result<Url> {
        let mut url: Url = self.output("McpUrl")?.parse()?;
        let changed = (url.set_ip_host(address.ip()), url.set_port(Some(address.port())));
        if changed == (Ok(()), Ok(())) { Ok(url) } else { bail!("{url} cannot have another address") }
    }

    /// SIGKILL for all processes that run a function. Returns how many there were.
    pub(crate) fn kill(&self, function: Function) -> usize {
        let name = self.output(function.name()).unwrap_or_default();
        let variable = format!("AWS_LAMBDA_FUNCTION_NAME={name}");
        let has_it = |environment: &[u8]| environment.split(|byte| *byte == 0).any(|one| one == variable.as_bytes());
        let running = processes("environ", has_it);
        running.into_iter().filter(|process| kill_process(*process, Signal::KILL).is_ok()).count()
    }
}

/// The program of this build as the emulator wants it: without debug information, if `strip` is installed, since it is
/// unpacked often.
fn packed(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let program = std::env::current_exe()?.with_file_name(name);
    if !program.exists() {
        bail!("{} is missing: run `make chaos`", program.display());
    }
    let folder = folder.join(name);
    fs::create_dir(&folder)?;
    let packed = folder.join("bootstrap");
    let strip = Command::new("strip").arg("-o").arg(&packed).arg(&program).stderr(Stdio::null()).status();
    if !strip.is_ok_and(|status| status.success()) {
        fs::copy(&program, &packed)?;
    }
    Ok(packed)
}

/// Runs a verb of the script that deploys, and returns what it prints.
fn local_aws(endpoint: &Url, arguments: &[&std::ffi::OsStr]) -> anyhow::Result<String> {
    let root = Path::new(ROOT);
    let mut command = Command::new(root.join(".cache/tools/aws/bin/python"));
    command.arg(root.join("scripts/local_aws.py")).args(arguments);
    command.env("AWS_ENDPOINT_URL", endpoint.as_str().trim_end_matches('/')).env("AWS_REGION", "us-east-1");
    command.env("AWS_DEFAULT_REGION", "us-east-1");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test");
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
