//! A kill in flight: all processes of a system at once, and their restart.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;

use super::{Field, RUNS_NOTHING};
use crate::peers::Plan;
use crate::peers::running::Running;
use crate::peers::system::{Stage, System};
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

pub(super) async fn measure(field: &Field<'_>) -> anyhow::Result<Table> {
    let plan = field.plan;
    // A record that says `working` for ever is waited for to the end, which takes a minute each.
    let rounds = if field.stage == Stage::Aws { 1 } else { plan.rounds };
    let mut table = field.table(
        "A kill in flight",
        format!(
            "{LIVES} lives of {STEPS} steps of {PAUSE_MS} ms, {rounds} {}; after a second all processes of the system \
             get SIGKILL and are \
             started again at once. Seconds from then until the client has all results (1 s of work was left), steps \
             that \
             were begun twice, steps that were done twice, results that did not come within {} s. A step in flight is \
             begun again by all that go on: that is at least once. {} A kill is no loss of power.",
            if rounds == 1 { "round" } else { "rounds" },
            PATIENCE.as_secs(),
            match field.stage {
                Stage::Machine => "FastMCP is set to give up on a lost worker after 10 s (its default is 300 s).",
                Stage::Aws =>
                    "On AWS another process may still have the task, so Longhaul waits until its lease is over: 13.5 \
                     s, and SQS hides a message for whole seconds.",
            },
        ),
        &["all results, s", "begun twice", "done twice", "lost"],
    );
    for round in 1..=rounds {
        for system in field.in_round(round).filter(|system| !system.is_plain_call() && system.is_served()) {
            eprintln!("kill: round {round} of {rounds}: {}", system.name());
            let folder = field.folder(&format!("kill-{round}"), system)?;
            match one_kill(plan, system, &folder).await {
                Ok(row) => table.add_some(system, row),
                Err(why) => table.failed(system, &why),
            }
            plan.ground.clear(system, &folder).await?;
        }
    }
    for system in field.systems.iter().copied() {
        if system.is_plain_call() {
            table.explain(system, "its connection is gone with the server; the task goes on as in the row above.");
        } else if !system.is_served() {
            table.explain(system, RUNS_NOTHING);
        } else if system.stage() == Stage::Aws && table.median(system, 3).is_some_and(|lost| lost > 0.0) {
            let why = "nobody runs the work again that was in the killed process: its tasks stay `working`.";
            table.explain(system, why);
        }
    }
    Ok(table)
}

async fn one_kill(plan: &Plan, system: System, folder: &Path) -> anyhow::Result<[Option<f64>; 4]> {
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
    // Without all results there is no time until they are there.
    let seconds = if lost == 0 { Some(seconds) } else { None };
    Ok([seconds, Some(repeated(&lines, "begins")), Some(repeated(&lines, "ends")), Some(count(lost))])
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
