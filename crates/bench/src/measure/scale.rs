//! Ten million finished tasks and a million sleeping ones in one file, next to a file with a hundred tasks.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::plan::Plan;
use super::sleepers;
use crate::connection::Connection;
use crate::figures::Figure;
use crate::filled;
use crate::load::{self, Work};
use crate::spawned::Spawned;

const FINISHED: u32 = 10_000_000;
const SLEEPING: u32 = 1_000_000;
const FEW: u32 = 100;
const CONNECTIONS: usize = 8;

/// How long deleting is measured.
const PURGED_FOR: Duration = Duration::from_secs(10);

const ROWS: [(&str, &str); 8] = [
    ("ready after start", "ms"),
    ("processor time of the first 30 s", "ms"),
    ("polls", "/s"),
    ("lists of 50", "/s"),
    ("calls", "/s"),
    ("a page of the console", "ms"),
    ("`longhaul tasks`", "ms"),
    ("peak memory", "MiB"),
];

type Round = [f64; ROWS.len()];

/// Measures both files once, and deletes from the large one.
pub(crate) async fn measure(plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let (full_db, few_db) = (plan.file("scale.db"), plan.file("few.db"));
    eprintln!("scale: filling a file with {FINISHED} finished tasks");
    let begun = Instant::now();
    let full_ids = plan.fill(&full_db, FINISHED as usize).await?;
    let written = f64::from(FINISHED) / begun.elapsed().as_secs_f64();
    eprintln!("scale: adding {SLEEPING} tasks that sleep");
    sleepers::fill(plan, &full_db, SLEEPING as usize).await?;
    let few_ids = plan.fill(&few_db, FEW as usize).await?;
    let gib = std::fs::metadata(&full_db)?.len() as f64 / f64::from(1 << 30);
    let few = [round(plan, &few_db, &few_ids).await?];
    let full = [round(plan, &full_db, &full_ids).await?];
    eprintln!("scale: deleting");
    let purged = filled::purge_for(&full_db, PURGED_FOR).await?;
    let mut figures = vec![
        Figure::new("tasks written to the large file", "/s", vec![written]),
        Figure::new("size of the large file", "GiB", vec![gib]),
        Figure::new("tasks deleted from the large file", "/s", vec![purged]),
    ];
    for (number, (name, unit)) in ROWS.into_iter().enumerate() {
        let of = |what, rounds| Figure::of_row((number, name, unit), what, rounds);
        let few = of("100 tasks", &few);
        figures.push(of("11 million tasks", &full).compared_with("100 tasks", &few));
        figures.push(few);
    }
    Ok(figures)
}

async fn round(plan: &Plan, db: &Path, ids: &[String]) -> anyhow::Result<Round> {
    let server = plan.noop(db).await?;
    let before = server.cpu()?;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let idle_ms = (server.cpu()? - before).as_secs_f64() * 1e3;
    let mut connections = Connection::open_many(server.address(), CONNECTIONS).await?;
    let polls = load::closed(&mut connections, Work::Poll(ids), plan.time).await?;
    let lists = load::closed(&mut connections, Work::List, plan.time).await?;
    let calls = load::closed(&mut connections, Work::Live, plan.time).await?;
    // One operator, who reads one page after the other.
    let mut operator = [Connection::open(server.address()).await?];
    let pages = load::closed(&mut operator, Work::Console, plan.time).await?;
    let command_ms = command(plan, &server)?;
    drop((connections, operator));
    let memory = server.memory_peak_mib()?;
    let ready_ms = server.ready().as_secs_f64() * 1e3;
    server.stop()?;
    Ok([ready_ms, idle_ms, polls, lists, calls, 1e3 / pages, command_ms, memory])
}

/// How long `longhaul tasks` takes.
fn command(plan: &Plan, server: &Spawned) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let mut command = Command::new(&plan.longhaul);
    command.args(["tasks", "--json", "--server", &format!("http://{}/mcp", server.address())]);
    let output = command.stderr(Stdio::null()).output()?;
    ensure!(output.status.success() && !output.stdout.is_empty(), "`longhaul tasks` ended with {}", output.status);
    Ok(begun.elapsed().as_secs_f64() * 1e3)
}
