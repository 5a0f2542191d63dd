//! A file with a million finished tasks beside an empty one.

use std::path::Path;
use std::process::Command;

use super::Plan;
use crate::connection::Connection;
use crate::figures::{Figure, Target};
use crate::filled;
use crate::load::{self, Work};
use crate::spawned::Spawned;

/// Finished tasks in the full file.
const FULL: usize = 1_000_000;

/// Finished tasks of the other one: what a page of a list shows.
const FEW: usize = 100;

/// Connections.
const CONNECTIONS: usize = 8;

/// How much slower the full file may be.
const SHARE: f64 = 1.0 / 1.2;

/// What one round gives for one server, each a second.
#[derive(Clone, Copy)]
struct Round {
    polls: f64,
    lists: f64,
    lives: f64,
    ready_ms: f64,
}

/// Measures both, one after the other in each round.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let (full_db, few_db) = (plan.file("million.db"), plan.file("few.db"));
    eprintln!("million: filling a file with {FULL} finished tasks");
    let full_ids = fill(plan, &full_db, FULL).await?;
    let few_ids = fill(plan, &few_db, FEW).await?;
    let (mut few, mut full) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        eprintln!("million: round {number} of {}", plan.rounds);
        few.push(round(plan, &few_db, &few_ids).await?);
        full.push(round(plan, &full_db, &full_ids).await?);
    }
    Ok(figures(&few, &full))
}

/// Lets the server itself create one finished task, and copies it.
async fn fill(plan: &Plan, db: &Path, count: usize) -> anyhow::Result<Vec<String>> {
    let server = Spawned::start(|address| noop(plan, address, db)).await?;
    let mut connection = Connection::open(server.address()).await?;
    load::live(&mut connection, "noop", "{}").await?;
    drop(connection);
    server.stop()?;
    filled::fill(db, count).await
}

fn noop(plan: &Plan, address: std::net::SocketAddr, db: &Path) -> Command {
    let mut command = Command::new(&plan.own);
    command.args(["serve-noop", &address.to_string()]).arg(db);
    command
}

async fn round(plan: &Plan, db: &Path, ids: &[String]) -> anyhow::Result<Round> {
    let server = Spawned::start(|address| noop(plan, address, db)).await?;
    let mut connections = Connection::open_many(server.address(), CONNECTIONS).await?;
    let polls = load::closed(&mut connections, Work::Poll(ids), plan.time).await?;
    let lists = load::closed(&mut connections, Work::List, plan.time).await?;
    let lives = load::closed(&mut connections, Work::Live, plan.time).await?;
    drop(connections);
    let ready_ms = server.ready().as_secs_f64() * 1e3;
    server.stop()?;
    Ok(Round { polls, lists, lives, ready_ms })
}

fn figures(few: &[Round], full: &[Round]) -> Vec<Figure> {
    type Take = fn(&Round) -> f64;
    let rows: [(&str, &'static str, Take); 4] = [
        ("polls", "/s", |round| round.polls),
        ("lists of 50", "/s", |round| round.lists),
        ("lives", "/s", |round| round.lives),
        ("ready after start", "ms", |round| round.ready_ms),
    ];
    let figure = |(name, unit, take): (&str, &'static str, Take)| {
        let of = |what: &str, rounds: &[Round]| {
            Figure::new(format!("{name} ({what})"), unit, rounds.iter().map(take).collect())
        };
        let few = of("100 finished tasks", few);
        let full = of("1,000,000 finished tasks", full).compared_with("100 finished tasks", &few);
        let least = few.median() * SHARE;
        [if unit == "/s" { full.target(Target::AtLeast(least)) } else { full }, few]
    };
    rows.into_iter().flat_map(figure).collect()
}
