//! Calls and polls when the caller has finished tasks with long results.

use std::path::Path;
use std::time::{Duration, Instant};

use super::bare::Bare;
use super::{Field, RUNS_NOTHING};
use crate::connection::Connection;
use crate::latency::Latencies;
use crate::peers::Plan;
use crate::peers::counter::Counter;
use crate::peers::protocol::{self, Protocol};
use crate::peers::running::Running;
use crate::peers::system::{Places, Stage, System};
use crate::peers::tables::Table;
use crate::servers::life::{Blob, Life};
use crate::wire;

/// Finished tasks of the same caller.
const FINISHED: [usize; 3] = [0, 20, 100];

/// How long the result of each is, in bytes.
const BYTES: usize = 100_000;

/// Calls that are measured, each with its first poll.
const CALLS: usize = 100;
const CALLS_AWS: usize = 20;

/// Calls whose units are counted.
const COUNTED: u32 = 3;

/// How long there must be no call to AWS until a life counts as over.
const REST: Duration = Duration::from_millis(250);

const KIB: f64 = 1_024.0;

pub(super) async fn measure(field: &Field<'_>) -> anyhow::Result<Vec<Table>> {
    let plan = field.plan;
    let (mut times, mut units) = tables(field);
    for round in 1..=plan.rounds {
        for system in field.in_round(round) {
            let Protocol::Tasks(pause) = system.protocol() else {
                times.explain(system, "it has no call that is accepted and polled.");
                units.explain(system, "it has no call that is accepted and polled.");
                continue;
            };
            eprintln!("results: round {round} of {}: {}", plan.rounds, system.name());
            let folder = field.folder(&format!("results-{round}"), system)?;
            let counts = (round == 1 && field.stage == Stage::Aws).then_some(&mut units);
            let measured = if system.is_served() {
                one_system(plan, (system, pause), &folder, &mut times, counts).await
            } else {
                alone(plan, system, &folder, &mut times).await
            };
            if let Err(why) = measured {
                times.failed(system, &why);
            }
            plan.ground.clear(system, &folder).await?;
        }
    }
    Ok(if field.stage == Stage::Aws { vec![times, units] } else { vec![times] })
}

async fn one_system(
    plan: &Plan,
    (system, pause): (System, Duration),
    folder: &Path,
    times: &mut Table,
    mut units: Option<&mut Table>,
) -> anyhow::Result<()> {
    let calls = if system.stage() == Stage::Aws { CALLS_AWS } else { CALLS };
    let mut running = Running::start(system, &plan.ground, folder).await?;
    let mut finished = 0;
    for (number, wanted) in FINISHED.into_iter().enumerate() {
        let mut connection = running.connect().await?;
        while finished < wanted {
            let blob = serde_json::to_string(&Blob { bytes: BYTES })?;
            live(&mut connection, "blob", &blob, pause).await?;
            finished += 1;
        }
        let (mut accepted, mut polled) = (Latencies::default(), Latencies::default());
        for _ in 0..calls {
            let asked = Instant::now();
            let answer = connection.send(wire::call("life", r#"{"steps":0,"pauseMs":0}"#)?).await?;
            accepted.add(asked.elapsed());
            let id = wire::task_in(&answer)?.task_id.to_owned();
            let asked = Instant::now();
            connection.send(wire::poll(&id)?).await?;
            polled.add(asked.elapsed());
        }
        times.add(system, 2 * number, accepted.percentile_ms(50));
        times.add(system, 2 * number + 1, polled.percentile_ms(50));
        if let Some(units) = units.as_deref_mut() {
            drop(connection);
            running.stop()?;
            counted(plan, system, folder, (number, units)).await?;
            running = Running::start(system, &plan.ground, folder).await?;
        }
    }
    running.stop()
}

/// The units and bytes of a call with its run, while nothing else happens.
async fn counted(
    plan: &Plan,
    system: System,
    folder: &Path,
    (number, units): (usize, &mut Table),
) -> anyhow::Result<()> {
    let counter = Counter::open().await?;
    let places = Places { aws: Some(counter.address()), ..Places::free()? };
    let running = Running::start_at(system, &plan.ground, folder, places).await?;
    let mut connection = running.connect().await?;
    for _ in 0..COUNTED {
        counter.rests(REST).await?;
        counter.take();
        let life = Life::of(0);
        let id = system.protocol().begin(&mut connection, &life).await?;
        counter.rests(REST).await?;
        let call = counter.take();
        let answer = connection.send(wire::poll(&id)?).await?;
        anyhow::ensure!(protocol::is_completed(&answer, &life)?, "a life is not completed although the system rests");
        let kib = f64::from(u32::try_from(call.bytes).unwrap_or(u32::MAX)) / KIB;
        let row = [call.read_units, call.write_units, kib, counter.take().read_units];
        for (column, value) in row.into_iter().enumerate() {
            units.add(system, row.len() * number + column, value);
        }
    }
    drop(connection);
    running.stop()
}

/// The SDK's calls, among as many items of that size.
async fn alone(plan: &Plan, system: System, folder: &Path, times: &mut Table) -> anyhow::Result<()> {
    plan.ground.aws()?.prepare(system, folder).await?;
    let bare = Bare::new(folder, None);
    let mut finished = 0;
    for (number, wanted) in FINISHED.into_iter().enumerate() {
        while finished < wanted {
            bare.put(&format!("finished-{finished}"), BYTES).await?;
            finished += 1;
        }
        let (mut calls, mut polls) = (Latencies::default(), Latencies::default());
        for call in 0..CALLS_AWS {
            let id = format!("call-{number}-{call}");
            let asked = Instant::now();
            bare.call(&id).await?;
            calls.add(asked.elapsed());
            let asked = Instant::now();
            bare.poll(&id).await?;
            polls.add(asked.elapsed());
        }
        times.add(system, 2 * number, calls.percentile_ms(50));
        times.add(system, 2 * number + 1, polls.percentile_ms(50));
    }
    Ok(())
}

async fn live(connection: &mut Connection, tool: &str, arguments: &str, pause: Duration) -> anyhow::Result<()> {
    let answer = connection.send(wire::call(tool, arguments)?).await?;
    let id = wire::task_in(&answer)?.task_id.to_owned();
    loop {
        let answer = connection.send(wire::poll(&id)?).await?;
        if wire::task_in(&answer)?.is_completed()? {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
    }
}

fn tables(field: &Field<'_>) -> (Table, Table) {
    let times = field.table(
        "With long results of the same caller",
        format!(
            "Median milliseconds until a call is accepted, and until its first poll is answered, when the caller has \
             so \
             many finished tasks of {BYTES} bytes each."
        ),
        &["0: call", "poll", "20: call", "poll", "100: call", "poll"],
    );
    let mut units = field.table(
        "Capacity with long results of the same caller",
        format!(
            "The same: units that DynamoDB bills for a call with its run of no steps, KiB of bodies, and units of its \
             poll. {COUNTED} calls each."
        ),
        &[
            "0: reads",
            "writes",
            "KiB",
            "poll",
            "20: reads",
            "writes",
            "KiB",
            "poll",
            "100: reads",
            "writes",
            "KiB",
            "poll",
        ],
    );
    for system in field.systems.iter().filter(|system| !system.is_served()) {
        units.explain(*system, RUNS_NOTHING);
    }
    (times, units)
}
