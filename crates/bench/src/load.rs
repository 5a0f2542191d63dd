//! Two ways to load a server. A closed loop sends the next request once the last is answered, and shows how many a
//! server can take. An open loop sends at fixed times, regardless of the answers. It counts each latency from the time
//! when its request was due. So a pause of the server counts for all requests that were due in it.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use tokio::sync::mpsc;

use crate::connection::Connection;
use crate::wire;

/// How long a client waits between two polls of a task that it waits for.
const POLL_PAUSE: Duration = Duration::from_millis(5);

/// Arguments of the tool that does nothing.
const NOTHING: &str = "{}";

/// How far apart the tasks of two polls are: neighbours share pages of the file, and would be found in memory. Prime,
/// so that all are polled.
const STRIDE: usize = 7_919;

/// The repeated work of a connection.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
    /// Polls one of these tasks.
    Poll(&'a [String]),
    /// Lists the newest tasks.
    List,
    /// Shows the console's page with the newest tasks.
    Console,
    /// A whole call: of the tool that does nothing, with polls until the task is completed.
    Live,
}

impl Work<'_> {
    /// Does it once, for the `turn`-th time.
    async fn once(self, connection: &mut Connection, turn: usize) -> anyhow::Result<()> {
        match self {
            Self::Poll(tasks) => {
                let Some(task_id) = tasks.get(turn.wrapping_mul(STRIDE) % tasks.len().max(1)) else { return Ok(()) };
                let answer = connection.send(wire::poll(task_id)?).await?;
                wire::task_in(&answer)?.is_completed().map(drop)
            }
            Self::List => {
                let answer = connection.send(wire::list()?).await?;
                anyhow::ensure!(
                    answer.starts_with(b"{") && wire::is_page(&answer),
                    "the answer is not a page of tasks"
                );
                Ok(())
            }
            Self::Console => {
                let page = connection.send(wire::console()?).await?;
                anyhow::ensure!(page.windows(6).any(|word| word == b"<table"), "the page has no tasks");
                Ok(())
            }
            Self::Live => live(connection, "noop", NOTHING).await.map(drop),
        }
    }
}

/// Calls `tool` and polls its task until it is completed. Returns the task's id.
pub(crate) async fn live(connection: &mut Connection, tool: &str, arguments: &str) -> anyhow::Result<String> {
    let answer = connection.send(wire::call(tool, arguments)?).await?;
    let task_id = wire::task_in(&answer)?.task_id.to_owned();
    loop {
        let answer = connection.send(wire::poll(&task_id)?).await?;
        if wire::task_in(&answer)?.is_completed()? {
            return Ok(task_id);
        }
        tokio::time::sleep(POLL_PAUSE).await;
    }
}

/// Does `work` on all connections for `time`, one after the other on each, and returns how often per second.
pub(crate) async fn closed(connections: &mut [Connection], work: Work<'_>, time: Duration) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let step = connections.len();
    let loops = connections.iter_mut().enumerate().map(|(number, connection)| async move {
        // Spread over the tasks, so that each connection polls others.
        let mut turn = number;
        let mut done: u32 = 0;
        while begun.elapsed() < time {
            work.once(connection, turn).await?;
            turn = turn.wrapping_add(step);
            done += 1;
        }
        Ok::<_, anyhow::Error>(done)
    });
    let done: u32 = try_join_all(loops).await?.into_iter().sum();
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

/// The outcome of an open loop.
pub(crate) struct Opened {
    /// How long each took.
    pub(crate) latencies: Latencies,
    /// How often the work was done per second, until the last answer.
    pub(crate) per_second: f64,
}

/// Does `work` `per_second` times a second for `time`, at even times, on the connections in turn.
pub(crate) async fn open(
    connections: &mut [Connection],
    work: Work<'_>,
    per_second: u32,
    time: Duration,
) -> anyhow::Result<Opened> {
    let begun = Instant::now();
    let mut turns = Vec::with_capacity(connections.len());
    let loops: Vec<_> = connections
        .iter_mut()
        .map(|connection| {
            let (turn, due) = mpsc::unbounded_channel();
            turns.push(turn);
            keep_up(connection, work, due)
        })
        .collect();
    // The runtime's timer has a resolution of milliseconds; a thread's sleep is finer.
    let pacer = std::thread::spawn(move || pace(&turns, begun, per_second, time));
    let mut latencies = Latencies::default();
    for measured in try_join_all(loops).await? {
        latencies.merge(measured);
    }
    let seconds = begun.elapsed().max(time).as_secs_f64();
    drop(pacer.join());
    let count = u32::try_from(latencies.count()).unwrap_or(u32::MAX);
    Ok(Opened { latencies, per_second: f64::from(count) / seconds })
}

/// Signals to the connections in turn when they are due.
fn pace(turns: &[mpsc::UnboundedSender<(usize, Instant)>], begun: Instant, per_second: u32, time: Duration) {
    let gap = Duration::from_secs(1) / per_second;
    let count = (time.as_nanos() / gap.as_nanos().max(1)).try_into().unwrap_or(usize::MAX);
    let mut due = begun;
    for (number, turn) in (0..count).zip(turns.iter().cycle()) {
        due += gap;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if turn.send((number, due)).is_err() {
            return;
        }
    }
}

async fn keep_up(
    connection: &mut Connection,
    work: Work<'_>,
    mut due: mpsc::UnboundedReceiver<(usize, Instant)>,
) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::default();
    while let Some((turn, due)) = due.recv().await {
        work.once(connection, turn).await?;
        latencies.add(due.elapsed());
    }
    Ok(latencies)
}

/// How long answers took, each from the time when its request was due.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    micros: Vec<u64>,
}

impl Latencies {
    /// Adds one.
    pub(crate) fn add(&mut self, latency: Duration) {
        self.micros.push(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds what this takes.
    pub(crate) async fn time(&mut self, what: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
        let begun = Instant::now();
        what.await?;
        self.add(begun.elapsed());
        Ok(())
    }

    /// Adds those of another connection.
    pub(crate) fn merge(&mut self, other: Self) {
        self.micros.extend(other.micros);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.micros.len()
    }

    /// The latency in milliseconds that `percent` of all do not exceed; 0 if there are none.
    pub(crate) fn percentile_ms(&mut self, percent: usize) -> f64 {
        self.micros.sort_unstable();
        let rank = (self.micros.len() * percent).div_ceil(100).max(1);
        self.micros.get(rank - 1).map_or(0.0, |micros| Duration::from_micros(*micros).as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let mut latencies = Latencies::default();
        assert!(latencies.percentile_ms(50).abs() < f64::EPSILON);
        for ms in (1..=100).rev() {
            latencies.add(Duration::from_millis(ms));
        }
        assert!((latencies.percentile_ms(50) - 50.0).abs() < 1e-9);
        assert!((latencies.percentile_ms(99) - 99.0).abs() < 1e-9);
        assert!((latencies.percentile_ms(100) - 100.0).abs() < 1e-9);
    }
}
