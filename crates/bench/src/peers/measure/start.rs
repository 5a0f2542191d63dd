//! From the start to the first result.

use std::path::Path;

use super::{Enough, closed};
use crate::peers::Plan;
use crate::peers::running::Running;
use crate::peers::system::System;
use crate::peers::tables::Table;
use crate::servers::life::Life;

/// Lives on the data on which a system is started again.
const LIVES: u32 = 500;

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Table> {
    let mut table = Table::new(
        "Start",
        format!(
            "Milliseconds from the start of the processes until the client has its first result: without data, and on the \
             data of {LIVES} lives of one step after a stop by SIGTERM."
        ),
        &["without data", "again"],
    );
    for round in 1..=plan.rounds {
        for system in plan.in_round(round) {
            eprintln!("start: round {round} of {}: {}", plan.rounds, system.name());
            let folder = plan.ground.data(&format!("start-{round}-{system:?}"))?;
            match one_system(plan, system, &folder).await {
                Ok(row) => table.add_row(system, row),
                Err(why) => table.failed(system, &why),
            }
            std::fs::remove_dir_all(folder)?;
        }
    }
    Ok(table)
}

async fn one_system(plan: &Plan, system: System, folder: &Path) -> anyhow::Result<[f64; 2]> {
    let running = Running::start(system, &plan.ground, folder).await?;
    let without_data = running.first_result();
    let mut connections = running.connect_many(4).await?;
    closed(system.protocol(), &mut connections, &Life::of(1), Enough::Lives(LIVES)).await?;
    drop(connections);
    let places = running.places();
    running.stop()?;
    let running = Running::start_at(system, &plan.ground, folder, places).await?;
    let again = running.first_result();
    running.stop()?;
    Ok([without_data, again].map(|time| time.as_secs_f64() * 1e3))
}
