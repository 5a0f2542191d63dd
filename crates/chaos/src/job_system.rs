//! The system whose jobs are started over HTTP: a process of its own, which continues when the servers are killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use url::Url;

use crate::cable::Cable;

const SCRIPT: &str = include_str!("job_system.py");

/// A mistake of the system, made on purpose to show that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Lie {
    /// A repeated start is another job.
    ForgetsKeys,
    /// Jobs that are done have no output.
    LosesResults,
    /// A stopped job continues.
    IgnoresStops,
}

impl Lie {
    const fn name(self) -> &'static str {
        match self {
            Self::ForgetsKeys => "forgets-keys",
            Self::LosesResults => "loses-results",
            Self::IgnoresStops => "ignores-stops",
        }
    }
}

/// The system, and how servers reach it.
pub(crate) struct JobSystem {
    process: Child,
    cable: Cable,
}

impl JobSystem {
    /// Starts it. It notes its jobs in `ledger`, and finds the targets of its results in `callbacks`.
    pub(crate) async fn start(ledger: &str, callbacks: &str, lie: Option<Lie>) -> anyhow::Result<Self> {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT, ledger, callbacks]).args(lie.map(Lie::name));
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut said = String::new();
        BufReader::new(process.stdout.take().context("it has an output")?).read_line(&mut said)?;
        let url: Url = said.trim().parse().context("the job system does not say where it is")?;
        let address = url.socket_addrs(|| None)?.first().copied().context("it has an address")?;
        Ok(Self { process, cable: Cable::to(address).await? })
    }

    pub(crate) const fn cable(&self) -> &Cable {
        &self.cable
    }

    /// Where servers find it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.cable.address())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ended_already = kill_process(pid, signal);
        }
    }

    /// Its jobs and those of a state machine, as a configuration of the gateway makes tools of them.
    pub(crate) fn entries(&self, machine: &str) -> [(&'static str, Value); 3] {
        let (url, input) = (self.url(), json!({"name": "{input/name}", "ms": "{input/ms}", "end": "{input/end}"}));
        let over_http = |path: &str, repeat: &str| {
            let mut body = input.clone();
            body["key"] = json!("{key}");
            json!({
                "type": "http-job", "description": "Works",
                "start": {"url": format!("{url}/{path}/jobs"), "body": body}, "repeat": repeat,
                "find": format!("{url}/jobs/of/{{key}}"), "status": format!("{url}/jobs/{{id}}"),
                "stop": format!("{url}/jobs/{{id}}"), "id": "/id", "state": "/state", "done": ["done"],
                "failed": ["failed", "stopped"], "result": "/output", "error": "/error",
            })
        };
        let execution = json!({"type": "aws-step-functions", "stateMachine": machine, "description": "Works"});
        [
            ("job_repeatable", over_http("repeatable", "always")),
            ("job_once", over_http("once", "never")),
            ("job_execution", execution),
        ]
    }
}

impl Drop for JobSystem {
    fn drop(&mut self) {
        let _ended_already = (self.process.kill(), self.process.wait());
    }
}
