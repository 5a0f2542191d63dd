//! The client of the comparison with other systems. `peers/compare.py` starts the systems and asks this program to make
//! their calls. Each request is a line of JSON on the standard input, and each answer one on the standard output.

mod protocol;
mod sdk;

use std::io::{BufRead, Write, stdin, stdout};
use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use futures::future::{join_all, try_join_all};
use serde::Deserialize;
use serde_json::{Value, json};

use self::protocol::Protocol;
use self::sdk::Sdk;
use crate::connection::Connection;
use crate::load::Latencies;
use crate::servers::life::{Blob, Life};
use crate::{load, wire};

/// A system, and how the client speaks to it.
#[derive(Deserialize)]
struct Peer {
    front: SocketAddr,
    protocol: Protocol,
    #[serde(default)]
    pause_ms: u64,
}

/// The arguments.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
enum Request {
    /// Lives on so many connections, one after the other on each, for some seconds or until there are so many.
    Lives { peer: Peer, life: Life, connections: usize, seconds: Option<f64>, lives: Option<u32> },
    /// Begins a call with each of these names, and returns their ids.
    Begin { peer: Peer, life: Life, names: Vec<Option<String>> },
    /// Waits for the ends of lives, and counts those that did not come in time.
    End { peer: Peer, life: Life, ids: Vec<String>, patience_s: u64 },
    /// Polls a call once. It has to be completed.
    Poll { peer: Peer, life: Life, id: String },
    /// Completes tasks with results of so many bytes.
    Blobs { peer: Peer, count: usize, bytes: usize },
    /// The median times until a call is accepted, and until its first poll is answered.
    Accepted { peer: Peer, calls: usize },
    /// One of the calls of the AWS SDK that a task needs at least.
    Sdk(sdk::Request),
}

/// Answers requests until the input ends.
pub(crate) async fn run() -> anyhow::Result<()> {
    let mut sdk = None;
    let mut output = stdout().lock();
    for line in stdin().lock().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(request) => answer(request, &mut sdk).await,
            Err(error) => Err(error.into()),
        };
        let answer = answer.unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

async fn answer(request: Request, sdk: &mut Option<Sdk>) -> anyhow::Result<Value> {
    match request {
        Request::Lives { peer, life, connections, seconds, lives } => {
            let is_enough = |begun: Instant, done: u32| {
                seconds.is_some_and(|seconds| begun.elapsed().as_secs_f64() >= seconds)
                    || lives.is_some_and(|lives| done >= lives)
            };
            let mut connections = Connection::open_many(peer.front, connections).await?;
            let (mut latencies, per_second) = closed(&peer, &mut connections, &life, is_enough).await?;
            let (p50, p99) = (latencies.percentile_ms(50), latencies.percentile_ms(99));
            Ok(json!({"p50": p50, "p99": p99, "per_second": per_second, "count": latencies.count()}))
        }
        Request::Begin { peer, life, names } => {
            let mut connection = Connection::open(peer.front).await?;
            let mut ids = Vec::new();
            for id in names {
                let life = Life { id, ..life.clone() };
                ids.push(peer.protocol.begin(&mut connection, &life).await?);
            }
            Ok(json!({"ids": ids}))
        }
        Request::End { peer, life, ids, patience_s } => {
            let mut connections = Connection::open_many(peer.front, ids.len()).await?;
            let ends = connections.iter_mut().zip(&ids).map(async |(connection, id)| {
                let end = peer.protocol.end(connection, id, &life, peer.pause());
                matches!(tokio::time::timeout(Duration::from_secs(patience_s), end).await, Ok(Ok(())))
            });
            Ok(json!({"lost": join_all(ends).await.iter().filter(|ended| !**ended).count()}))
        }
        Request::Poll { peer, life, id } => {
            let answer = Connection::open(peer.front).await?.send(wire::poll(&id)?).await?;
            anyhow::ensure!(
                protocol::is_completed(&answer, &life)?,
                "a life is not completed although the system rests"
            );
            Ok(json!({}))
        }
        Request::Blobs { peer, count, bytes } => {
            let mut connection = Connection::open(peer.front).await?;
            for _ in 0..count {
                load::live(&mut connection, "blob", &serde_json::to_string(&Blob { bytes })?).await?;
            }
            Ok(json!({}))
        }
        Request::Accepted { peer, calls } => accepted(&peer, calls).await,
        Request::Sdk(request) => sdk.get_or_insert_with(|| Sdk::new(&request)).make(&request).await,
    }
}

impl Peer {
    const fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms)
    }
}

/// Lives on all connections, one after the other on each, until `is_enough` of the lives done by all says so. Returns
/// how long each took, and how many there were per second.
async fn closed(
    peer: &Peer,
    connections: &mut [Connection],
    life: &Life,
    is_enough: impl Fn(Instant, u32) -> bool,
) -> anyhow::Result<(Latencies, f64)> {
    let (begun, done) = (Instant::now(), AtomicU32::new(0));
    let loops = connections.iter_mut().map(async |connection| {
        let mut latencies = Latencies::default();
        while !is_enough(begun, done.load(Relaxed)) {
            done.fetch_add(1, Relaxed);
            let asked = Instant::now();
            peer.protocol.live(connection, life, peer.pause()).await?;
            latencies.add(asked.elapsed());
        }
        Ok::<_, anyhow::Error>(latencies)
    });
    let mut latencies = Latencies::default();
    for measured in try_join_all(loops).await? {
        latencies.merge(measured);
    }
    Ok((latencies, f64::from(done.load(Relaxed)) / begun.elapsed().as_secs_f64()))
}

async fn accepted(peer: &Peer, calls: usize) -> anyhow::Result<Value> {
    let mut connection = Connection::open(peer.front).await?;
    let (mut accepted, mut polled) = (Latencies::default(), Latencies::default());
    for _ in 0..calls {
        let asked = Instant::now();
        let id = peer.protocol.begin(&mut connection, &Life::default()).await?;
        accepted.add(asked.elapsed());
        let asked = Instant::now();
        connection.send(wire::poll(&id)?).await?;
        polled.add(asked.elapsed());
    }
    Ok(json!({"call": accepted.percentile_ms(50), "poll": polled.percentile_ms(50)}))
}
