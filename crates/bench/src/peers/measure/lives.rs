//! Lives one at a time, and many at a time.

use std::path::Path;

use super::{Enough, Field, RUNS_NOTHING, STEPS, closed};
use crate::peers::Plan;
use crate::peers::running::Running;
use crate::peers::system::{Stage, System};
use crate::peers::tables::Table;
use crate::servers::life::Life;

/// How many lives are in flight at a time.
const AT_A_TIME: [usize; 2] = [16, 64];

/// Lives before those that are measured.
const WARMING: u32 = 20;

pub(super) async fn measure(field: &Field<'_>) -> anyhow::Result<[Table; 3]> {
    let (plan, mut tables) = (field.plan, tables(field));
    for round in 1..=plan.rounds {
        for system in field.in_round(round).filter(|system| system.is_served()) {
            eprintln!("lives: round {round} of {}: {}", plan.rounds, system.name());
            let folder = field.folder(&format!("lives-{round}"), system)?;
            if let Err(why) = one_system(plan, system, &folder, &mut tables).await {
                tables.iter_mut().for_each(|table| table.failed(system, &why));
            }
            plan.ground.clear(system, &folder).await?;
        }
    }
    Ok(tables)
}

async fn one_system(
    plan: &Plan,
    system: System,
    folder: &Path,
    [alone, many, cost]: &mut [Table; 3],
) -> anyhow::Result<()> {
    let running = Running::start(system, &plan.ground, folder).await?;
    let protocol = system.protocol();
    let mut one = running.connect_many(1).await?;
    closed(protocol, &mut one, &Life::of(1), Enough::Lives(WARMING)).await?;
    for (number, steps) in STEPS.into_iter().enumerate() {
        let (mut latencies, _) = closed(protocol, &mut one, &Life::of(steps), Enough::Time(plan.time)).await?;
        alone.add(system, 2 * number, latencies.percentile_ms(50));
        alone.add(system, 2 * number + 1, latencies.percentile_ms(99));
    }
    for (row, at_a_time) in AT_A_TIME.into_iter().enumerate() {
        let mut connections = running.connect_many(at_a_time).await?;
        for (number, steps) in STEPS.into_iter().enumerate() {
            let column = row * STEPS.len() + number;
            let before = running.cpu()?;
            let enough = Enough::Time(plan.time);
            let (latencies, per_second) = closed(protocol, &mut connections, &Life::of(steps), enough).await?;
            let used = running.cpu()?.saturating_sub(before);
            many.add(system, column, per_second);
            let lives = u32::try_from(latencies.count()).unwrap_or(u32::MAX).max(1);
            cost.add(system, column, used.as_secs_f64() * 1e3 / f64::from(lives));
        }
    }
    cost.add(system, AT_A_TIME.len() * STEPS.len(), running.memory_peak_mib()?);
    running.stop()
}

fn tables(field: &Field<'_>) -> [Table; 3] {
    let pause = match field.stage {
        Stage::Machine => "5 ms",
        Stage::Aws => "20 ms",
    };
    let mut tables = [
        field.table(
            "One life at a time",
            format!(
                "From the request until the client has the result, in milliseconds. MCP's tasks are polled at once and \
                 then each {pause}, so what they take is rounded up to that; the others are answered when the result \
                 is \
                 there.{}",
                match field.stage {
                    Stage::Machine => "",
                    Stage::Aws =>
                        " The emulator is one Python process that answers one call after the other, and while a \
                         receive \
                         waits it looks for messages only each 100 ms, which is most of what Longhaul's lives take one \
                         at a \
                         time: these tables say more about how many calls a life needs than about how long it would \
                         take \
                         on AWS.",
                }
            ),
            &["0 steps, p50", "p99", "1 step, p50", "p99", "10 steps, p50", "p99"],
        ),
        field.table(
            "Lives per second",
            "With so many in flight at a time, each on a connection of its own.",
            &["16: 0 steps, /s", "1 step, /s", "10 steps, /s", "64: 0 steps, /s", "1 step, /s", "10 steps, /s"],
        ),
        field.table(
            "What lives cost",
            "Milliseconds of processor time per life, of all processes of the system (not of the client, nor of the \
             emulator), and the most memory that they had together, in MiB (what processes share counts twice).",
            &["16: 0 steps", "1 step", "10 steps", "64: 0 steps", "1 step", "10 steps", "memory, MiB"],
        ),
    ];
    for table in &mut tables {
        for system in field.systems.iter().filter(|system| !system.has_journal()) {
            let why = if system.is_served() {
                "it has no journal, so its steps are turns of a loop, and cost nothing."
            } else {
                RUNS_NOTHING
            };
            table.explain(*system, why);
        }
    }
    tables
}
