//! The benchmark beside other systems: the same client, the same lives, one system after the other in each round.

mod measure;
mod plot;
mod protocol;
mod report;
mod running;
mod system;
mod tables;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use system::System;

/// The options of a run.
#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// Where the report and its pictures are written.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// Where the peers' programs are: what `scripts/setup-tools.sh peers` installs.
    #[arg(long, value_name = "DIR")]
    tools: PathBuf,

    /// The folder of the peers' sources.
    #[arg(long, value_name = "DIR")]
    sources: PathBuf,

    /// Compare only these.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<System>,

    /// Measure only these parts.
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<Part>,

    /// How many rounds; each figure is the median over them.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// How long each measurement of a round takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// Where the systems store their data during the run; on a disk, not in memory. Next to this program by default.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Lives one at a time, and many at a time, with the processor time and memory that they take.
    Lives,
    /// What a life hands to the disk, keeps there, and waits for.
    Disk,
    /// Calls and polls when the caller has finished tasks with long results.
    Results,
    /// A kill in flight.
    Kill,
    /// From the start to the first result.
    Start,
}

/// How to run the benchmark.
pub(crate) struct Plan {
    systems: Vec<System>,
    parts: Vec<Part>,
    rounds: u32,
    time: Duration,
    ground: Ground,
}

/// What the systems need to start.
pub(crate) struct Ground {
    /// Where they store their data.
    folder: PathBuf,
    tools: PathBuf,
    sources: PathBuf,
    /// This program, for the servers that it contains.
    own: PathBuf,
}

impl Ground {
    /// A program that was installed.
    fn tool(&self, name: &str) -> PathBuf {
        self.tools.join("bin").join(name)
    }

    /// A file of a peer's sources.
    fn source(&self, path: &str) -> PathBuf {
        self.sources.join(path)
    }

    /// A new folder of this name.
    fn data(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
        Ok(folder)
    }
}

/// Runs the benchmark, and writes the report.
pub(crate) async fn run(choice: &Choice) -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let beside = own.parent().context("this program is not in a directory")?;
    let folder = tempfile::Builder::new().prefix("peers-").tempdir_in(choice.dir.as_deref().unwrap_or(beside))?;
    let all = |given: &[System]| if given.is_empty() { System::value_variants().to_vec() } else { given.to_vec() };
    let plan = Plan {
        systems: all(&choice.only),
        parts: if choice.parts.is_empty() { Part::value_variants().to_vec() } else { choice.parts.clone() },
        rounds: choice.rounds,
        time: Duration::from_secs(choice.seconds),
        ground: Ground {
            folder: folder.path().to_owned(),
            tools: absolute(&choice.tools)?,
            sources: absolute(&choice.sources)?,
            own: own.clone(),
        },
    };
    let tables = measure::all(&plan).await?;
    folder.close()?;
    report::write(&choice.out, &plan, &tables)
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{} is missing; run `make bench-peers`", path.display()))
}
