//! The benchmark beside other systems: the same client, the same lives, one system after the other in each round.

mod aws;
mod capacity;
mod counter;
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

use aws::Aws;
use system::{Stage, System};

/// The usual rounds, and seconds of each measurement.
const ROUNDS: u32 = 3;
const SECONDS: u64 = 1;

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
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,

    /// How long each measurement of a round takes.
    #[arg(long, value_name = "SECONDS", default_value_t = SECONDS, value_parser =
        clap::value_parser!(u64).range(1..=600))]
    seconds: u64,

    /// One short round of each part: shows whether everything works; its figures say little.
    #[arg(long)]
    quick: bool,

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
    /// On AWS: calls, units of capacity and bytes of a life and of a poll.
    Calls,
}

/// How to run the benchmark.
pub(crate) struct Plan {
    systems: Vec<System>,
    parts: Vec<Part>,
    rounds: u32,
    time: Duration,
    is_quick: bool,
    /// The options with which this was asked for, if they are not the usual ones.
    asked: String,
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
    /// The emulator, for the systems on AWS.
    aws: Option<Aws>,
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

    /// Where the systems on AWS have their data.
    fn aws(&self) -> anyhow::Result<&Aws> {
        self.aws.as_ref().context("there is no emulator")
    }

    /// Removes what a system has stored.
    async fn clear(&self, system: System, folder: &Path) -> anyhow::Result<()> {
        std::fs::remove_dir_all(folder)?;
        if system.stage() == Stage::Aws { self.aws()?.remove(folder).await } else { Ok(()) }
    }
}

/// Runs the benchmark, and writes the report.
pub(crate) async fn run(choice: &Choice) -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let beside = own.parent().context("this program is not in a directory")?;
    let folder = tempfile::Builder::new().prefix("peers-").tempdir_in(choice.dir.as_deref().unwrap_or(beside))?;
    let all = |given: &[System]| if given.is_empty() { System::value_variants().to_vec() } else { given.to_vec() };
    let systems = all(&choice.only);
    let is_on_aws = systems.iter().any(|system| system.stage() == Stage::Aws);
    let plan = Plan {
        parts: if choice.parts.is_empty() { Part::value_variants().to_vec() } else { choice.parts.clone() },
        rounds: if choice.quick { 1 } else { choice.rounds },
        time: if choice.quick { Duration::from_millis(500) } else { Duration::from_secs(choice.seconds) },
        is_quick: choice.quick,
        asked: choice.asked(),
        systems,
        ground: Ground {
            folder: folder.path().to_owned(),
            tools: absolute(&choice.tools)?,
            sources: absolute(&choice.sources)?,
            own: own.clone(),
            aws: if is_on_aws { Some(Aws::find()?) } else { None },
        },
    };
    let tables = measure::all(&plan).await?;
    folder.close()?;
    report::write(&choice.out, &plan, &tables)
}

impl Choice {
    /// The options that are not the usual ones, as they were given.
    fn asked(&self) -> String {
        fn names<V: ValueEnum>(option: &str, values: &[V]) -> Option<String> {
            let names = values.iter().filter_map(|value| Some(value.to_possible_value()?.get_name().to_owned()));
            let names: Vec<String> = names.collect();
            (!names.is_empty()).then(|| format!("{option} {}", names.join(",")))
        }
        let options = [
            names("--only", &self.only),
            names("--parts", &self.parts),
            self.quick.then(|| "--quick".to_owned()),
            (self.rounds != ROUNDS).then(|| format!("--rounds {}", self.rounds)),
            (self.seconds != SECONDS).then(|| format!("--seconds {}", self.seconds)),
        ];
        options.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    path.canonicalize().with_context(|| format!("{} is missing; run `make bench-peers`", path.display()))
}
