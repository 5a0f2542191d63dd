//! The choice of measurements.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// The options of a run.
#[derive(Args, Debug)]
pub(crate) struct Choice {
    /// Leave out the file of 2 GB, and measure fewer and shorter rounds.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print the figures as JSON instead of a table.
    #[arg(long)]
    pub(crate) json: bool,

    /// Measure only these parts. The functions are measured with the AWS emulator that AWS_ENDPOINT_URL names.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,

    /// How many rounds; each figure is the median over them. 5, or 3 with --quick.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,

    /// How long each measurement of a round takes. 3, or 1 with --quick.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
    pub(crate) seconds: Option<u64>,

    /// Where databases and generated files are stored during the run; on a disk, not in memory. Next to this program by
    /// default.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// The program `longhaul` whose demo is measured. The one next to this program by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) longhaul: Option<PathBuf>,

    /// Where the programs `api`, `worker` and `bare` are. `../function` next to this program by default.
    #[arg(long, value_name = "DIR")]
    pub(crate) functions: Option<PathBuf>,
}

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
    /// Polls, and calls of tools that do nothing.
    Tasks,
    /// Tasks that sleep, and a server that is left alone with them.
    Sleepers,
    /// Polls, lists and calls next to a million finished tasks.
    Million,
    /// Ten million finished tasks and a million sleeping ones. Only if it is named: it takes half an hour.
    Scale,
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
    pub(crate) const fn whole(self) -> Self {
        match self {
            Self::Gateway | Self::Scale => self,
            Self::Lambda | Self::Size | Self::Start | Self::Poll | Self::Calls | Self::Memory | Self::Recovery => {
                Self::Lambda
            }
            _ => Self::Local,
        }
    }
}
