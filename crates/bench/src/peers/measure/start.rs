//! From the start to the first result.

use std::path::Path;

use super::{Enough, Field, RUNS_NOTHING, closed};
use crate::peers::Plan;
use crate::peers::running::Running;
use crate::peers::system::{Stage, System};
use crate::peers::tables::Table;
use crate::servers::life::Life;

/// Lives on the data on which a system is started again.
const LIVES: u32 = 500;
const LIVES_AWS: u32 = 100;

pub(super) async fn measure(field: &Field<'_>) -> anyhow::Result<Table> {
    let (plan, lives) = (field.plan, lives(field));
    let mut table = field.table(
        "Start",
        format!(
            "Milliseconds from the start of the processes until the client has its first result: without data, and on \
             the \
             data of {lives} lives of one step after a stop by SIGTERM."
        ),
        &["without data", "again"],
    );
    for round in 1..=plan.rounds {
        for system in field.in_round(round) {
            if !system.is_served() {
                table.explain(system, RUNS_NOTHING);
                continue;
            }
            eprintln!("start: round {round} of {}: {}", plan.rounds, system.name());
            let folder = field.folder(&format!("start-{round}"), system)?;
            match one_system(plan, system, &folder, lives).await {
                Ok(row) => table.add_row(system, row),
                Err(why) => table.failed(system, &why),
            }
            plan.ground.clear(system, &folder).await?;
        }
    }
    Ok(table)
}

async fn one_system(plan: &Plan, system: System, folder: &Path, lives: u32) -> anyhow::Result<[f64; 2]> {
    let running = Running::start(system, &plan.ground, folder).await?;
    let without_data = running.first_result();
    let mut connections = running.connect_many(4).await?;
    closed(system.protocol(), &mut connections, &Life::of(1), Enough::Lives(lives)).await?;
    drop(connections);
    let places = running.places();
    running.stop()?;
    let running = Running::start_at(system, &plan.ground, folder, places).await?;
    let again = running.first_result();
    running.stop()?;
    Ok([without_data, again].map(|time| time.as_secs_f64() * 1e3))
}

fn lives(field: &Field<'_>) -> u32 {
    match field.stage {
        Stage::Machine if !field.plan.is_quick => LIVES,
        Stage::Machine | Stage::Aws => LIVES_AWS,
    }
}
