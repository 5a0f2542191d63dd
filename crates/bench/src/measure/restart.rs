//! How soon a killed server works on its tasks again.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::plan::Plan;
use crate::connection::Connection;
use crate::figures::{Figure, Target};
use crate::spawned::{Spawned, demo};
use crate::wire;

/// Tasks in flight, each of ten steps of 200 ms.
const TASKS: usize = 20;
const ARGUMENTS: &str = r#"{"seconds":2,"steps":10}"#;

/// How long the tasks run before the server is killed.
const RUN: Duration = Duration::from_millis(500);

/// How long the restarted server may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills a server with tasks in flight, and starts it again on its file.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    eprintln!("restart: {} times", plan.rounds);
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        let (begun_ms, ended_ms) = round(plan, number).await?;
        begun.push(begun_ms);
        ended.push(ended_ms);
    }
    let name = |what: &str| format!("killed with {TASKS} tasks of 10 x 200 ms: {what} after the restart");
    Ok(vec![
        Figure::new(name("all begun again"), "ms", begun).target(Target::Below(200.0)),
        Figure::new(name("all ended"), "ms", ended),
    ])
}

/// Milliseconds from the start of the second server until every task has a new attempt, and until all have ended.
async fn round(plan: &Plan, number: u32) -> anyhow::Result<(f64, f64)> {
    let db = plan.file(&format!("restart-{number}.db"));
    let start = || {
        Spawned::start(|address| {
            let mut command = demo(&plan.longhaul, address, &db, &plan.folder);
            command.arg("--diagnostics");
            command
        })
    };
    let server = start().await?;
    let mut connection = Connection::open(server.address()).await?;
    let mut ids = Vec::new();
    for _ in 0..TASKS {
        let answer = connection.send(wire::call("countdown", ARGUMENTS)?).await?;
        ids.push(wire::task_in(&answer)?.task_id.to_owned());
    }
    tokio::time::sleep(RUN).await;
    let mut before = Vec::new();
    for id in &ids {
        before.push(updated(&mut connection, id).await?);
    }
    // SIGKILL.
    drop(server);
    let begin = Instant::now();
    let server = start().await?;
    let mut connection = Connection::open(server.address()).await?;
    // A claim changes the time of the last update; so would progress, but no heartbeat comes as soon.
    for (id, before) in ids.iter().zip(&before) {
        while updated(&mut connection, id).await? == *before {
            ensure!(begin.elapsed() < PATIENCE, "task {id} is not worked on");
        }
    }
    let begun_ms = begin.elapsed().as_secs_f64() * 1e3;
    for id in &ids {
        while !wire::task_in(&connection.send(wire::poll(id)?).await?)?.is_completed()? {
            ensure!(begin.elapsed() < PATIENCE, "task {id} does not end");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let ended_ms = begin.elapsed().as_secs_f64() * 1e3;
    server.stop()?;
    Ok((begun_ms, ended_ms))
}

async fn updated(connection: &mut Connection, id: &str) -> anyhow::Result<String> {
    let answer = connection.send(wire::poll(id)?).await?;
    Ok(wire::task_in(&answer)?.last_updated_at.to_owned())
}
