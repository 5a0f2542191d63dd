//! The Lambda functions: real programs on a host that provides the Runtime API, with the AWS emulator.

mod calls;
mod memory;
mod poll;
mod recovery;
mod setup;
mod start;

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::stdio::{dup2_stdout, stdout};

use self::setup::{Programs, Setup};
use super::plan::Plan;
use crate::choice::Part;
use crate::figures::{Figure, Target};
use crate::ground::{self, Ground};

/// The largest program, in MiB.
const SIZE_MIB_MAX: f64 = 16.0;

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
