//! The functions' programs, with their own table and queues.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use harness::runtime_host;

use crate::function::Function;
use crate::ground::{Ground, endpoint};
use crate::measure::plan::Plan;
use crate::wire;

/// The worker's timeout in the template, which is how long a delivered message is hidden.
const WORKER_TIMEOUT: Duration = Duration::from_secs(900);

/// The tool whose tasks neither record steps nor report progress, with arguments for a small result.
pub(super) const SHORT: (&str, &str) = ("large_result", r#"{"bytes":16}"#);

/// The functions' programs.
#[derive(Clone)]
pub(super) struct Programs {
    pub(super) api: PathBuf,
    pub(super) worker: PathBuf,
    pub(super) bare: PathBuf,
}

/// The subject of a part: the programs, with their own table and queues.
pub(super) struct Setup<'a> {
    pub(super) plan: &'a Plan,
    pub(super) programs: Programs,
    pub(super) ground: Ground,
}

impl Programs {
    pub(super) fn find(folder: &Path) -> anyhow::Result<Self> {
        let find = |name: &str| {
            let program = folder.join(name);
            ensure!(program.is_file(), "{} is missing; `make bench` builds it", program.display());
            Ok(program)
        };
        Ok(Self { api: find("api")?, worker: find("worker")?, bare: find("bare")? })
    }
}

impl Setup<'_> {
    /// Starts an API function that streams its answers, as the template does by default.
    pub(super) async fn api(&self) -> anyhow::Result<Function> {
        Function::start(&self.programs.api, &self.ground.env(endpoint(), &[])).await
    }

    /// The event source mapping of a worker with these settings.
    pub(super) fn mapping(&self, endpoint: &str, more: &[(&str, &str)]) -> runtime_host::mapping::Mapping {
        runtime_host::mapping::Mapping {
            program: self.programs.worker.clone(),
            env: self.ground.env(endpoint, more),
            sqs: self.ground.clients.sqs.clone(),
            queue_url: self.ground.queue_url.clone(),
            timeout: WORKER_TIMEOUT,
            batch: 1,
        }
    }
}

/// Calls a tool that becomes a task, and returns the task's id.
pub(super) async fn accept(api: &Function, (tool, arguments): (&str, &str)) -> anyhow::Result<String> {
    let answer = api.send(wire::call(tool, arguments)?).await?;
    Ok(wire::task_in(&answer)?.task_id.to_owned())
}
