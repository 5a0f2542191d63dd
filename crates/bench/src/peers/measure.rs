//! The parts of the benchmark.

mod bare;
mod calls;
mod disk;
mod kill;
mod lives;
mod results;
mod start;

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use super::protocol::Protocol;
use super::system::{Stage, System};
use super::tables::Table;
use super::{Part, Plan};
use crate::connection::Connection;
use crate::latency::Latencies;
use crate::servers::life::Life;

/// Numbers of steps of a life.
const STEPS: [u32; 3] = [0, 1, 10];

/// Why there are rows without figures of the AWS SDK alone.
const RUNS_NOTHING: &str = "it is no system: it runs nothing.";

/// Measures all parts that are wanted.
pub(crate) async fn all(plan: &Plan) -> anyhow::Result<Vec<Table>> {
    let mut tables = Vec::new();
    for stage in [Stage::Machine, Stage::Aws] {
        let field = plan.field(stage);
        if field.systems.is_empty() {
            continue;
        }
        for part in &plan.parts {
            let begun = Instant::now();
            match part {
                Part::Lives => tables.extend(lives::measure(&field).await?),
                Part::Disk if stage == Stage::Machine => tables.push(disk::measure(&field).await?),
                Part::Results => tables.extend(results::measure(&field).await?),
                Part::Kill => tables.push(kill::measure(&field).await?),
                Part::Start => tables.push(start::measure(&field).await?),
                Part::Calls if stage == Stage::Aws => tables.extend(calls::measure(&field).await?),
                Part::Disk | Part::Calls => continue,
            }
            eprintln!("{part:?} {stage:?}: {} s", begun.elapsed().as_secs());
        }
    }
    Ok(tables)
}

/// The systems that are compared with each other.
struct Field<'a> {
    plan: &'a Plan,
    stage: Stage,
    systems: Vec<System>,
}

impl Plan {
    fn field(&self, stage: Stage) -> Field<'_> {
        let systems = self.systems.iter().copied().filter(|system| system.stage() == stage).collect();
        Field { plan: self, stage, systems }
    }
}

impl Field<'_> {
    fn table(&self, title: &str, about: impl Into<String>, columns: &[&str]) -> Table {
        Table::new(&self.systems, self.stage.title(title), about, columns)
    }

    /// A new folder for a system, whose name says for what.
    fn folder(&self, what: &str, system: System) -> anyhow::Result<PathBuf> {
        self.plan.ground.data(&format!("{what}-{system:?}"))
    }

    /// The systems in the order of a round: each round begins with another one, so that none always comes first.
    fn in_round(&self, round: u32) -> impl Iterator<Item = System> {
        let count = self.systems.len();
        let first = usize::try_from(round).unwrap_or(0) % count.max(1);
        self.systems.iter().copied().cycle().skip(first).take(count)
    }
}

/// Lives on all connections, one after the other on each, until `is_enough` of the lives done by all says so. Returns
/// how long each took, and how many there were per second.
async fn closed(
    protocol: Protocol,
    connections: &mut [Connection],
    life: &Life,
    enough: Enough,
) -> anyhow::Result<(Latencies, f64)> {
    let begun = Instant::now();
    let done = AtomicU32::new(0);
    let loops = connections.iter_mut().map(async |connection| {
        let mut latencies = Latencies::default();
        while !enough.is_reached(begun, done.load(Relaxed)) {
            done.fetch_add(1, Relaxed);
            let asked = Instant::now();
            protocol.live(connection, life).await?;
            latencies.add(asked.elapsed());
        }
        Ok::<_, anyhow::Error>(latencies)
    });
    let mut latencies = Latencies::default();
    for measured in try_join_all(loops).await? {
        latencies.merge(measured);
    }
    let per_second = f64::from(done.load(Relaxed)) / begun.elapsed().as_secs_f64();
    Ok((latencies, per_second))
}

/// When a closed loop ends.
#[derive(Clone, Copy, Debug)]
enum Enough {
    Time(Duration),
    Lives(u32),
}

impl Enough {
    fn is_reached(self, begun: Instant, done: u32) -> bool {
        match self {
            Self::Time(time) => begun.elapsed() >= time,
            Self::Lives(lives) => done >= lives,
        }
    }
}
