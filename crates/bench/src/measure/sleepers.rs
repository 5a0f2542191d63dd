//! A hundred thousand tasks that sleep: what they cost a server that has nothing else to do.

use std::path::Path;
use std::time::Duration;

use super::plan::Plan;
use crate::connection::Connection;
use crate::figures::{Figure, Target};
use crate::{filled, wire};

/// Tasks that sleep for longer than everything here.
const SLEEPERS: usize = 100_000;

/// How long a server is left alone after its start. Its processor time is then measured for this many times the length
/// of a measurement.
const SETTLE: Duration = Duration::from_secs(3);
const TIMES: u32 = 10;

/// The figures of one round for one server: its peak memory, its processor time, and when it was ready.
type Idle = [f64; 3];

/// Leaves a server with sleeping tasks alone, and one with an empty file.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let full = plan.file("sleepers.db");
    eprintln!("sleepers: filling a file with {SLEEPERS} tasks that sleep");
    fill(plan, &full, SLEEPERS).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        eprintln!("sleepers: round {number} of {}", plan.rounds);
        without.push(idle(plan, &plan.file(&format!("nobody-{number}.db"))).await?);
        with.push(idle(plan, &full).await?);
    }
    Ok(figures(plan, &with, &without))
}

/// Lets the server itself begin one task that sleeps in `db`, and copies it.
pub(super) async fn fill(plan: &Plan, db: &Path, count: usize) -> anyhow::Result<()> {
    let server = plan.noop(db).await?;
    let mut connection = Connection::open(server.address()).await?;
    let answer = connection.send(wire::call("nap", "{}")?).await?;
    let pattern = wire::task_in(&answer)?.task_id.to_owned();
    // Until its attempt has ended.
    tokio::time::sleep(SETTLE).await;
    drop(connection);
    server.stop()?;
    filled::fill_with_sleepers(db, &pattern, count).await
}

/// Starts a server, and does nothing.
async fn idle(plan: &Plan, db: &Path) -> anyhow::Result<Idle> {
    let server = plan.noop(db).await?;
    tokio::time::sleep(SETTLE).await;
    let before = server.cpu()?;
    tokio::time::sleep(plan.time * TIMES).await;
    let cpu_ms = (server.cpu()? - before).as_secs_f64() * 1e3;
    let idle = [server.memory_peak_mib()?, cpu_ms, server.ready().as_secs_f64() * 1e3];
    server.stop()?;
    Ok(idle)
}

fn figures(plan: &Plan, with: &[Idle], without: &[Idle]) -> Vec<Figure> {
    let cpu = format!("processor time of {} s", (plan.time * TIMES).as_secs());
    let rows = [("peak memory", "MiB"), (&cpu, "ms"), ("ready after start", "ms")];
    let figure = |(number, (name, unit))| {
        let of = |what, idle| Figure::of_row((number, name, unit), what, idle);
        let without = of("no task", without);
        let with = of("100,000 tasks that sleep", with).compared_with("no task", &without);
        [if unit == "MiB" { with.target(Target::AtMostTimes(1.5)) } else { with }, without]
    };
    rows.into_iter().enumerate().flat_map(figure).collect()
}
