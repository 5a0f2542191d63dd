//! A hundred thousand tasks that sleep: what they cost a server that has nothing else to do.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Plan;
use crate::connection::Connection;
use crate::figures::{Figure, Target};
use crate::spawned::Spawned;
use crate::{filled, wire};

/// Tasks that sleep for longer than everything here.
const SLEEPERS: usize = 100_000;

/// How long a server is left alone after its start, and how much longer its processor time is looked at: this many
/// times the length of a measurement.
const SETTLE: Duration = Duration::from_secs(3);
const TIMES: u32 = 10;

/// What a server needs.
#[derive(Clone, Copy)]
struct Idle {
    ready_ms: f64,
    memory_mib: f64,
    cpu_ms: f64,
}

/// Leaves a server with sleeping tasks alone, and one with an empty file.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let full = plan.file("sleepers.db");
    eprintln!("sleepers: filling a file with {SLEEPERS} tasks that sleep");
    let server = Spawned::start(|address| noop(plan, address, &full)).await?;
    let mut connection = Connection::open(server.address()).await?;
    let answer = connection.send(wire::call("nap", "{}")?).await?;
    let pattern = wire::task_in(&answer)?.task_id.to_owned();
    // Until its attempt has ended.
    tokio::time::sleep(SETTLE).await;
    drop(connection);
    server.stop()?;
    filled::fill_with_sleepers(&full, &pattern, SLEEPERS).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        eprintln!("sleepers: round {number} of {}", plan.rounds);
        without.push(idle(plan, &plan.file(&format!("nobody-{number}.db"))).await?);
        with.push(idle(plan, &full).await?);
    }
    Ok(figures(plan, &with, &without))
}

fn noop(plan: &Plan, address: std::net::SocketAddr, db: &Path) -> Command {
    let mut command = Command::new(&plan.own);
    command.args(["serve-noop", &address.to_string()]).arg(db);
    command
}

/// Starts a server, and does nothing.
async fn idle(plan: &Plan, db: &Path) -> anyhow::Result<Idle> {
    let server = Spawned::start(|address| noop(plan, address, db)).await?;
    tokio::time::sleep(SETTLE).await;
    let before = server.cpu()?;
    tokio::time::sleep(plan.time * TIMES).await;
    let cpu_ms = (server.cpu()? - before).as_secs_f64() * 1e3;
    let idle = Idle { ready_ms: server.ready().as_secs_f64() * 1e3, memory_mib: server.memory_peak_mib()?, cpu_ms };
    server.stop()?;
    Ok(idle)
}

fn figures(plan: &Plan, with: &[Idle], without: &[Idle]) -> Vec<Figure> {
    type Take = fn(&Idle) -> f64;
    let seconds = (plan.time * TIMES).as_secs();
    let rows: [(String, &'static str, Take); 3] = [
        ("peak memory".to_owned(), "MiB", |idle| idle.memory_mib),
        (format!("processor time of {seconds} s"), "ms", |idle| idle.cpu_ms),
        ("ready after start".to_owned(), "ms", |idle| idle.ready_ms),
    ];
    let figure = |(name, unit, take): (String, &'static str, Take)| {
        let of =
            |what: &str, idle: &[Idle]| Figure::new(format!("{name} ({what})"), unit, idle.iter().map(take).collect());
        let without = of("no task", without);
        let with = of("100,000 tasks that sleep", with).compared_with("no task", &without);
        let aims = unit == "MiB";
        [if aims { with.target(Target::AtMostTimes(1.5)) } else { with }, without]
    };
    rows.into_iter().flat_map(figure).collect()
}
