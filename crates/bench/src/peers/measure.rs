//! The parts of the benchmark.

mod disk;
mod kill;
mod lives;
mod results;
mod start;

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use futures::future::try_join_all;

use super::protocol::Protocol;
use super::system::System;
use super::tables::Table;
use super::{Part, Plan};
use crate::connection::Connection;
use crate::latency::Latencies;
use crate::servers::life::Life;

/// Numbers of steps of a life.
const STEPS: [u32; 3] = [0, 1, 10];

/// Measures all parts that are wanted.
pub(crate) async fn all(plan: &Plan) -> anyhow::Result<Vec<Table>> {
    let mut tables = Vec::new();
    for part in &plan.parts {
        match part {
            Part::Lives => tables.extend(lives::measure(plan).await?),
            Part::Disk => tables.push(disk::measure(plan).await?),
            Part::Results => tables.push(results::measure(plan).await?),
            Part::Kill => tables.push(kill::measure(plan).await?),
            Part::Start => tables.push(start::measure(plan).await?),
        }
    }
    Ok(tables)
}

impl Plan {
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
