//! Polls, and whole calls of tools that do nothing: on a new file, on one with many finished tasks, and on `rmcp`
//! alone.

use std::process::Command;

use super::plan::Plan;
use crate::connection::Connection;
use crate::figures::{Figure, Target};
use crate::load::{self, Work};
use crate::spawned::Spawned;
use crate::wire;

/// Finished tasks in the full file.
const FULL: usize = 100_000;

/// Finished tasks that polls are spread over if the file is new.
const FEW: usize = 100;

/// Tasks that never end; they hold two of the server's attempts.
const HELD: usize = 2;

/// Connections of each kind of work.
const CONNECTIONS: usize = 16;

/// The target load: polls and lives per second.
const POLLS: u32 = 3_000;
const LIVES: u32 = 300;

/// The measurements of a round, of one server.
const ROWS: [(&str, &str, Option<Target>); 11] = [
    ("polls", "/s", Some(Target::AtLeast(POLLS as f64))),
    ("calls", "/s", Some(Target::AtLeast(LIVES as f64))),
    ("poll p50 at a quarter of the load", "ms", Some(Target::Below(1.0))),
    ("poll p99 at a quarter of the load", "ms", Some(Target::Below(10.0))),
    ("whole load at once: polls", "/s", None),
    ("whole load at once: calls", "/s", None),
    ("whole load at once: poll p99", "ms", None),
    ("ready after start", "ms", Some(Target::Below(200.0))),
    ("peak memory over the round", "MiB", None),
    ("server's processor time per poll", "us", None),
    ("server's processor time per call", "us", None),
];

/// The figures of one round for one server: a value for each row.
type Round = [f64; ROWS.len()];

/// Measures all three servers, one after the other in each round, so that a slowdown of the machine affects all.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let full_db = plan.file("full.db");
    eprintln!("tasks: filling a file with {FULL} finished tasks");
    let finished = plan.fill(&full_db, FULL).await?;
    let (mut new, mut full, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        eprintln!("tasks: round {number} of {}", plan.rounds);
        let db = plan.file(&format!("new-{number}.db"));
        let server = plan.noop(&db).await?;
        new.push(round(plan, server, Vec::new()).await?);
        let server = plan.noop(&full_db).await?;
        full.push(round(plan, server, finished.clone()).await?);
        let alone_server = Spawned::start(|address| {
            let mut command = Command::new(&plan.own);
            command.args(["serve-rmcp", &address.to_string()]);
            command
        });
        alone.push(round(plan, alone_server.await?, Vec::new()).await?);
    }
    Ok(figures(&new, &full, &alone))
}

/// One round on one server. `finished` are tasks that it already has.
async fn round(plan: &Plan, server: Spawned, finished: Vec<String>) -> anyhow::Result<Round> {
    let mut pollers = Connection::open_many(server.address(), CONNECTIONS).await?;
    let mut livers = Connection::open_many(server.address(), CONNECTIONS).await?;
    let polled = polled(&mut livers, finished).await?;
    let (poll, live) = (Work::Poll(&polled), Work::Live);

    let cpu = server.cpu()?;
    let polls = load::closed(&mut pollers, poll, plan.time).await?;
    let poll_cpu = server.cpu()? - cpu;
    let cpu = server.cpu()?;
    let lives = load::closed(&mut livers, live, plan.time).await?;
    let life_cpu = server.cpu()? - cpu;

    let quarter = futures::future::try_join(
        load::open(&mut pollers, poll, POLLS / 4, plan.time),
        load::open(&mut livers, live, LIVES / 4, plan.time),
    );
    let (mut quarter, _lives) = quarter.await?;
    let both = futures::future::try_join(
        load::open(&mut pollers, poll, POLLS, plan.time),
        load::open(&mut livers, live, LIVES, plan.time),
    );
    let (mut both_polls, both_lives) = both.await?;
    drop((pollers, livers));
    let (ready_ms, memory_peak_mib) = (server.ready().as_secs_f64() * 1e3, server.memory_peak_mib()?);
    server.stop()?;
    let seconds = plan.time.as_secs_f64();
    Ok([
        polls,
        lives,
        quarter.latencies.percentile_ms(50),
        quarter.latencies.percentile_ms(99),
        both_polls.per_second,
        both_lives.per_second,
        both_polls.latencies.percentile_ms(99),
        ready_ms,
        memory_peak_mib,
        poll_cpu.as_secs_f64() * 1e6 / (polls * seconds),
        life_cpu.as_secs_f64() * 1e6 / (lives * seconds),
    ])
}

/// The tasks that are polled: finished ones and working ones in turn.
async fn polled(connections: &mut [Connection], mut finished: Vec<String>) -> anyhow::Result<Vec<String>> {
    let Some(connection) = connections.first_mut() else { return Ok(finished) };
    if finished.is_empty() {
        for _ in 0..FEW {
            finished.push(load::live(connection, "noop", r#"{"keep":true}"#).await?);
        }
    }
    let mut held = Vec::new();
    for _ in 0..HELD {
        let answer = connection.send(wire::call("hold", r#"{"keep":true}"#)?).await?;
        held.push(wire::task_in(&answer)?.task_id.to_owned());
    }
    Ok(finished.into_iter().zip(held.into_iter().cycle()).flat_map(|(ended, working)| [ended, working]).collect())
}

fn figures(new: &[Round], full: &[Round], alone: &[Round]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (number, (name, unit, target)) in ROWS.into_iter().enumerate() {
        let of = |what, rounds| Figure::of_row((number, name, unit), what, rounds);
        let aim = |figure: Figure| target.into_iter().fold(figure, Figure::target);
        let alone = of("rmcp alone", alone);
        let new = aim(of("new file", new)).compared_with("rmcp alone", &alone);
        let full = aim(of("100,000 finished tasks", full)).compared_with("new file", &new);
        figures.extend([new, full, alone]);
    }
    figures
}
