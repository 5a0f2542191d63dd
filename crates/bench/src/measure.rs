//! The measurements, part by part.

mod gateway;
mod lambda;
mod million;
mod plan;
mod profile;
mod ready;
mod restart;
mod scale;
mod sleepers;
mod tasks;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use self::plan::Plan;
use crate::choice::{Choice, Part};
use crate::figures::{self, Figure};

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
    let wanted = |part: Part| match only.as_slice() {
        [] => part != Part::Scale,
        only => only.contains(&part) || only.contains(&part.whole()),
    };
    if [Part::Ready, Part::Restart, Part::Profile, Part::Scale].into_iter().any(wanted) {
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
            Part::Scale => scale::measure(plan).await?,
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
