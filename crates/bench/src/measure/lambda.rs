//! The Lambda functions: real programs on a host that provides the Runtime API, with the AWS emulator.

mod calls;
mod memory;
mod poll;
mod recovery;
mod start;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use harness::runtime_host;
use rustix::stdio::{dup2_stdout, stdout};

use super::{Part, Plan};
use crate::figures::{Figure, Target};
use crate::function::Function;
use crate::ground::{self, Ground, endpoint};
use crate::wire;

/// The largest program, in MiB.
const SIZE_MIB_MAX: f64 = 16.0;

/// The worker's timeout in the template, which is how long a delivered message is hidden.
const WORKER_TIMEOUT: Duration = Duration::from_secs(900);

/// The tool whose tasks neither record steps nor report progress, with arguments for a small result.
const SHORT: (&str, &str) = ("large_result", r#"{"bytes":16}"#);

/// The functions' programs.
#[derive(Clone)]
struct Programs {
    api: PathBuf,
    worker: PathBuf,
    bare: PathBuf,
}

/// What a part measures: the programs, with their own table and queues.
struct Setup<'a> {
    plan: &'a Plan,
    programs: Programs,
    ground: Ground,
}

/// Measures the requested parts.
pub(crate) async fn measure(plan: &Plan, wanted: impl Fn(Part) -> bool) -> anyhow::Result<Vec<Figure>> {
    ground::find_emulator()?;
    let programs = Programs::find(&plan.functions)?;
    let setup =
        async || Ok::<_, anyhow::Error>(Setup { plan, programs: programs.clone(), ground: Ground::new().await? });
    let _quiet = Quiet::begin()?;
    let mut figures = Vec::new();
    if wanted(Part::Size) {
        figures.extend(sizes(&programs)?);
    }
    for part in [Part::Start, Part::Poll, Part::Calls, Part::Memory].into_iter().filter(|part| wanted(*part)) {
        let setup = setup().await?;
        figures.extend(match part {
            Part::Start => start::measure(&setup).await?,
            Part::Poll => poll::measure(&setup).await?,
            Part::Calls => calls::measure(&setup).await?,
            _ => memory::measure(&setup).await?,
        });
    }
    if wanted(Part::Recovery) {
        // The tasks of one round would keep the workers of the next one busy.
        for moment in recovery::KILLED_AFTER {
            figures.push(recovery::measure(&setup().await?, moment).await?);
        }
    }
    Ok(figures)
}

impl Programs {
    fn find(folder: &Path) -> anyhow::Result<Self> {
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
    async fn api(&self) -> anyhow::Result<Function> {
        Function::start(&self.programs.api, &self.ground.env(endpoint(), &[])).await
    }

    /// The event source mapping of a worker with these settings.
    fn mapping(&self, endpoint: &str, more: &[(&str, &str)]) -> runtime_host::mapping::Mapping {
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
async fn accept(api: &Function, (tool, arguments): (&str, &str)) -> anyhow::Result<String> {
    let answer = api.send(wire::call(tool, arguments)?).await?;
    Ok(wire::task_in(&answer)?.task_id.to_owned())
}

fn sizes(programs: &Programs) -> anyhow::Result<Vec<Figure>> {
    let size = |name: &str, program: &Path| {
        let kib = u32::try_from(program.metadata()?.len() / 1024)?;
        Ok::<_, anyhow::Error>(Figure::new(format!("size of {name}"), "MiB", vec![f64::from(kib) / 1024.0]))
    };
    let bare = size("bare", &programs.bare)?;
    let ours = |name, program| {
        Ok::<_, anyhow::Error>(size(name, program)?.target(Target::Below(SIZE_MIB_MAX)).compared_with("bare", &bare))
    };
    let (api, worker) = (ours("api", &programs.api)?, ours("worker", &programs.worker)?);
    Ok(vec![api, worker, bare])
}

/// Functions write metrics to their standard output, which is that of this program: while this exists, they are lost.
struct Quiet {
    stdout: OwnedFd,
}

impl Quiet {
    fn begin() -> anyhow::Result<Self> {
        let quiet = Self { stdout: rustix::io::dup(stdout())? };
        dup2_stdout(File::options().write(true).open("/dev/null")?)?;
        Ok(quiet)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // If this fails, nothing could be printed anyway.
        dup2_stdout(&self.stdout).ok();
    }
}
