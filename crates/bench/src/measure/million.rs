//! A file with a million finished tasks next to an empty one.

use std::path::Path;

use super::plan::Plan;
use crate::connection::Connection;
use crate::figures::{Figure, Target};
use crate::load::{self, Work};

/// Finished tasks in the full file.
const FULL: usize = 1_000_000;

/// Finished tasks of the other one: what a page of a list shows.
const FEW: usize = 100;

/// Connections.
const CONNECTIONS: usize = 8;

/// How much slower the full file may be.
const SHARE: f64 = 1.0 / 1.2;

/// The measurements of a round, of one server.
const ROWS: [(&str, &str); 4] = [("polls", "/s"), ("lists of 50", "/s"), ("calls", "/s"), ("ready after start", "ms")];

/// The figures of one round for one server: a value for each row.
type Round = [f64; ROWS.len()];

/// Measures both, one after the other in each round.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let (full_db, few_db) = (plan.file("million.db"), plan.file("few.db"));
    eprintln!("million: filling a file with {FULL} finished tasks");
    let full_ids = plan.fill(&full_db, FULL).await?;
    let few_ids = plan.fill(&few_db, FEW).await?;
    let (mut few, mut full) = (Vec::new(), Vec::new());
    for number in 1..=plan.rounds {
        eprintln!("million: round {number} of {}", plan.rounds);
        few.push(round(plan, &few_db, &few_ids).await?);
        full.push(round(plan, &full_db, &full_ids).await?);
    }
    Ok(figures(&few, &full))
}

async fn round(plan: &Plan, db: &Path, ids: &[String]) -> anyhow::Result<Round> {
    let server = plan.noop(db).await?;
    let mut connections = Connection::open_many(server.address(), CONNECTIONS).await?;
    let polls = load::closed(&mut connections, Work::Poll(ids), plan.time).await?;
    let lists = load::closed(&mut connections, Work::List, plan.time).await?;
    let lives = load::closed(&mut connections, Work::Live, plan.time).await?;
    drop(connections);
    let ready_ms = server.ready().as_secs_f64() * 1e3;
    server.stop()?;
    Ok([polls, lists, lives, ready_ms])
}

fn figures(few: &[Round], full: &[Round]) -> Vec<Figure> {
    let figure = |(number, (name, unit))| {
        let of = |what, rounds| Figure::of_row((number, name, unit), what, rounds);
        let few = of("100 finished tasks", few);
        let full = of("1,000,000 finished tasks", full).compared_with("100 finished tasks", &few);
        let least = few.median() * SHARE;
        [if unit == "/s" { full.target(Target::AtLeast(least)) } else { full }, few]
    };
    ROWS.into_iter().enumerate().flat_map(figure).collect()
}
