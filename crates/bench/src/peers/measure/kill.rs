//! A kill in flight: all processes of a system at once, and their restart.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;

use crate::peers::Plan;
use crate::peers::running::Running;
use crate::peers::system::System;
use crate::peers::tables::Table;
use crate::servers::life::Life;

/// Lives in flight, each of ten steps of 200 ms.
const LIVES: usize = 20;
const STEPS: u32 = 10;
const PAUSE_MS: u64 = 200;

/// How long they run before the kill.
const RUN: Duration = Duration::from_secs(1);

/// How long the client waits for a result.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Table> {
    let mut table = Table::new(
        "A kill in flight",
        format!(
            "{LIVES} lives of {STEPS} steps of {PAUSE_MS} ms; after a second all processes of the system get SIGKILL and are \
             started again at once. Seconds from then until the client has all results (1 s of work was left), steps that \
             were begun twice, steps that were done twice, results that did not come within {} s. A step in flight is \
             begun again by all: that is at least once. FastMCP is set to give up on a lost worker after 10 s (its default is 300 \
             s). A kill is no loss of power.",
            PATIENCE.as_secs()
        ),
        &["all results, s", "begun twice", "done twice", "lost"],
    );
    for round in 1..=plan.rounds {
        for system in plan.in_round(round).filter(|system| *system != System::LonghaulCall) {
            eprintln!("kill: round {round} of {}: {}", plan.rounds, system.name());
            let folder = plan.ground.data(&format!("kill-{round}-{system:?}"))?;
            match one_kill(plan, system, &folder).await {
                Ok(row) => table.add_row(system, row),
                Err(why) => table.failed(system, &why),
            }
            std::fs::remove_dir_all(folder)?;
        }
    }
    table
        .explain(System::LonghaulCall, "its connection is gone with the server; the task goes on as in the row above.");
    Ok(table)
}

async fn one_kill(plan: &Plan, system: System, folder: &Path) -> anyhow::Result<[f64; 4]> {
    let log = folder.join("steps.log");
    let protocol = system.protocol();
    let life = |number: usize| Life {
        steps: STEPS,
        pause_ms: PAUSE_MS,
        log: Some(log.clone()),
        id: Some(format!("life-{number}")),
    };
    let running = Running::start(system, &plan.ground, folder).await?;
    let mut connection = running.connect().await?;
    let mut ids = Vec::new();
    for number in 0..LIVES {
        ids.push(protocol.begin(&mut connection, &life(number)).await?);
    }
    tokio::time::sleep(RUN).await;
    let places = running.places();
    running.kill();
    let killed = Instant::now();
    let running = Running::start_at(system, &plan.ground, folder, places).await?;
    let mut connections = running.connect_many(LIVES).await?;
    let waits = connections.iter_mut().zip(&ids).enumerate().map(async |(number, (connection, id))| {
        let ended = tokio::time::timeout(PATIENCE, protocol.end(connection, id, &life(number))).await;
        matches!(ended, Ok(Ok(())))
    });
    let lost = join_all(waits).await.into_iter().filter(|ended| !ended).count();
    let seconds = killed.elapsed().as_secs_f64();
    drop(connections);
    running.stop()?;
    let lines = std::fs::read_to_string(&log).unwrap_or_default();
    Ok([seconds, repeated(&lines, "begins"), repeated(&lines, "ends"), count(lost)])
}

/// How many steps left more than one line that says `what`.
fn repeated(lines: &str, what: &str) -> f64 {
    let mut times = BTreeMap::<&str, u32>::new();
    for line in lines.lines().filter(|line| line.contains(what)) {
        *times.entry(line).or_default() += 1;
    }
    count(times.values().filter(|times| **times > 1).count())
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_counts_once_however_often_it_was_repeated() {
        let lines = "a begins 0\na begins 0\na begins 0\na ends 0\nb begins 0\na begins 1\na begins 1\n";
        assert!((repeated(lines, "begins") - 2.0).abs() < f64::EPSILON);
        assert!(repeated(lines, "ends").abs() < f64::EPSILON);
    }
}
