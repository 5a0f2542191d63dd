//! Calls and polls when the caller has finished tasks with long results.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::latency::Latencies;
use crate::peers::Plan;
use crate::peers::protocol::Protocol;
use crate::peers::running::Running;
use crate::peers::system::System;
use crate::peers::tables::Table;
use crate::servers::life::Blob;
use crate::wire;

/// Finished tasks of the same caller.
const FINISHED: [usize; 3] = [0, 20, 100];

/// How long the result of each is, in bytes.
const BYTES: usize = 100_000;

/// Calls that are measured, each with its first poll.
const CALLS: usize = 100;

/// How long a client waits between two polls of a task that it waits for.
const POLL_PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn measure(plan: &Plan) -> anyhow::Result<Table> {
    let mut table = Table::new(
        "With long results of the same caller",
        format!(
            "Median milliseconds until a call is accepted, and until its first poll is answered, when the caller has so \
             many finished tasks of {BYTES} bytes each."
        ),
        &["0: call", "poll", "20: call", "poll", "100: call", "poll"],
    );
    for round in 1..=plan.rounds {
        for system in plan.in_round(round) {
            if system.protocol() != Protocol::Tasks {
                table.explain(system, "it has no call that is accepted and polled.");
                continue;
            }
            eprintln!("results: round {round} of {}: {}", plan.rounds, system.name());
            let folder = plan.ground.data(&format!("results-{round}-{system:?}"))?;
            if let Err(why) = one_system(plan, system, &folder, &mut table).await {
                table.failed(system, &why);
            }
            std::fs::remove_dir_all(folder)?;
        }
    }
    Ok(table)
}

async fn one_system(plan: &Plan, system: System, folder: &Path, table: &mut Table) -> anyhow::Result<()> {
    let running = Running::start(system, &plan.ground, folder).await?;
    let mut connection = running.connect().await?;
    let mut finished = 0;
    for (number, wanted) in FINISHED.into_iter().enumerate() {
        while finished < wanted {
            let blob = serde_json::to_string(&Blob { bytes: BYTES })?;
            live(&mut connection, "blob", &blob).await?;
            finished += 1;
        }
        let (mut calls, mut polls) = (Latencies::default(), Latencies::default());
        for _ in 0..CALLS {
            let asked = Instant::now();
            let answer = connection.send(wire::call("life", r#"{"steps":0,"pauseMs":0}"#)?).await?;
            calls.add(asked.elapsed());
            let id = wire::task_in(&answer)?.task_id.to_owned();
            let asked = Instant::now();
            connection.send(wire::poll(&id)?).await?;
            polls.add(asked.elapsed());
        }
        table.add(system, 2 * number, calls.percentile_ms(50));
        table.add(system, 2 * number + 1, polls.percentile_ms(50));
    }
    drop(connection);
    running.stop()
}

async fn live(connection: &mut Connection, tool: &str, arguments: &str) -> anyhow::Result<()> {
    let answer = connection.send(wire::call(tool, arguments)?).await?;
    let id = wire::task_in(&answer)?.task_id.to_owned();
    loop {
        let answer = connection.send(wire::poll(&id)?).await?;
        if wire::task_in(&answer)?.is_completed()? {
            return Ok(());
        }
        tokio::time::sleep(POLL_PAUSE).await;
    }
}
