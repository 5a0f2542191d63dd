//! The measurements, part by part.

mod gateway;
mod lambda;
mod million;
mod profile;
mod ready;
mod restart;
mod sleepers;
mod tasks;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::connection::Connection;
use crate::figures::{self, Figure};
use crate::spawned::Spawned;
use crate::{Choice, filled, load};

/// A part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// All of the local server's parts.
    Local,
    /// All of the Lambda functions' parts.
    Lambda,
    /// Time from a server's start to its first answer.
    Ready,
    /// Time from a killed server's restart until its tasks run again.
    Restart,
    /// Polls and lives of tasks that do nothing.
    Tasks,
    /// Tasks that sleep, and a server that is left alone with them.
    Sleepers,
    /// Polls, lists and lives beside a million finished tasks.
    Million,
    /// `profile_dataset` on large files.
    Profile,
    /// Calls through `longhaul gateway` and through other proxies, and its memory.
    Gateway,
    /// Sizes of the functions' programs.
    Size,
    /// Time from a function's start until it asks for work.
    Start,
    /// Polls through the API function.
    Poll,
    /// Calls that the functions make to AWS.
    Calls,
    /// The functions' memory.
    Memory,
    /// Time from a worker's death to the next attempt.
    Recovery,
}

impl Part {
    /// The whole that this is a part of.
    const fn whole(self) -> Self {
        match self {
            Self::Gateway => self,
            Self::Lambda | Self::Size | Self::Start | Self::Poll | Self::Calls | Self::Memory | Self::Recovery => {
                Self::Lambda
            }
            _ => Self::Local,
        }
    }
}

/// How to run the measurements.
pub(crate) struct Plan {
    /// Rounds of each measurement.
    pub(crate) rounds: u32,
    /// Length of one measurement.
    pub(crate) time: Duration,
    /// Where files are stored; emptied afterwards.
    pub(crate) folder: PathBuf,
    /// The program `longhaul`.
    pub(crate) longhaul: PathBuf,
    /// Where the functions' programs are.
    pub(crate) functions: PathBuf,
    /// This program, for the servers that it contains.
    pub(crate) own: PathBuf,
    /// Sizes of the files that are profiled, in bytes.
    pub(crate) profiled_bytes: Vec<u64>,
}

impl Plan {
    /// The path of a file of this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Starts the server whose tools do nothing, on the database `db`.
    pub(crate) async fn noop(&self, db: &Path) -> anyhow::Result<Spawned> {
        Spawned::start(|address| {
            let mut command = Command::new(&self.own);
            command.args(["serve-noop", &address.to_string()]).arg(db);
            command
        })
        .await
    }

    /// Lets the server itself create one finished task in `db`, and copies it. Returns the ids of the copies.
    pub(crate) async fn fill(&self, db: &Path, count: usize) -> anyhow::Result<Vec<String>> {
        let server = self.noop(db).await?;
        let mut connection = Connection::open(server.address()).await?;
        load::live(&mut connection, "noop", "{}").await?;
        drop(connection);
        server.stop()?;
        filled::fill(db, count).await
    }
}

/// Runs the chosen measurements, and prints the figures.
pub(crate) async fn run(choice: &Choice) -> anyhow::Result<()> {
    let own = std::env::current_exe()?;
    let exe_dir = own.parent().context("this program is not in a directory")?;
    let folder = tempfile::Builder::new().prefix("bench-").tempdir_in(choice.dir.as_deref().unwrap_or(exe_dir))?;
    let (rounds, seconds) = if choice.quick { (3, 1) } else { (5, 3) };
    let plan = Plan {
        rounds: choice.rounds.unwrap_or(rounds),
        time: Duration::from_secs(choice.seconds.unwrap_or(seconds)),
        folder: folder.path().to_owned(),
        longhaul: choice.longhaul.clone().unwrap_or_else(|| exe_dir.join("longhaul")),
        functions: choice.functions.clone().unwrap_or_else(|| exe_dir.join("../function")),
        own: own.clone(),
        profiled_bytes: if choice.quick { vec![100_000_000] } else { vec![100_000_000, 2_000_000_000] },
    };
    let figures = measure(&plan, choice).await?;
    folder.close()?;
    if choice.json {
        println!("{}", serde_json::to_string_pretty(&figures)?);
    } else {
        println!("{}", figures::table(&figures));
    }
    Ok(())
}

async fn measure(plan: &Plan, choice: &Choice) -> anyhow::Result<Vec<Figure>> {
    let only = &choice.only;
    let wanted = |part: Part| only.is_empty() || only.contains(&part) || only.contains(&part.whole());
    if wanted(Part::Ready) || wanted(Part::Restart) || wanted(Part::Profile) {
        check_program(&plan.longhaul)?;
    }
    let mut figures = Vec::new();
    for part in Part::value_variants().iter().copied().filter(|part| wanted(*part)) {
        figures.extend(match part {
            Part::Ready => ready::measure(plan).await?,
            Part::Restart => restart::measure(plan).await?,
            Part::Tasks => tasks::measure(plan).await?,
            Part::Sleepers => sleepers::measure(plan).await?,
            Part::Million => million::measure(plan).await?,
            Part::Profile => profile::measure(plan).await?,
            Part::Gateway => gateway::measure(plan).await?,
            _ => Vec::new(),
        });
    }
    if only.is_empty() || only.iter().any(|part| part.whole() == Part::Lambda) {
        figures.extend(lambda::measure(plan, wanted).await?);
    }
    Ok(figures)
}

fn check_program(program: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        program.is_file(),
        "{} is missing; build it with `cargo build --release -p longhaul-cli`, or name it with --longhaul",
        program.display()
    );
    Ok(())
}
