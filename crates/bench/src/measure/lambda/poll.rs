//! How long a poll through the API function takes, compared with a bare `GetItem` of the same record.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use super::{SHORT, Setup, accept};
use crate::figures::{Figure, Target};
use crate::function::{Function, event_of};
use crate::ground::{Ground, Key};
use crate::latency::Latencies;
use crate::process::endpoint;
use crate::wire;

/// How much longer a poll may take than the read that it needs.
const TIMES_MAX: f64 = 1.5;

/// How often each way is measured in a round.
const TURNS: u32 = 200;

/// How often each way is run before anything is measured.
const WARM_UP: u32 = 20;

/// The ways to read a task, and the latencies of each.
struct Ways {
    poll: Vec<f64>,
    poll_buffered: Vec<f64>,
    bare: Vec<f64>,
    read: Vec<f64>,
    poll_cpu_us: Vec<f64>,
}

/// Runs each way in turn, repeatedly.
pub(super) async fn measure(setup: &Setup<'_>) -> anyhow::Result<Vec<Figure>> {
    eprintln!("poll: {} rounds of {TURNS} turns", setup.plan.rounds);
    let ground = &setup.ground;
    let api = setup.api().await?;
    let buffered = ground.env(endpoint(), &[("LONGHAUL_RESPONSES", "buffered")]);
    let buffered = Function::start(&setup.programs.api, &buffered).await?;
    let bare = ground.env(endpoint(), &[("BARE_TABLE", &ground.table)]);
    let bare = Function::start(&setup.programs.bare, &bare).await?;
    let task_id = accept(&api, SHORT).await?;
    let poll = event_of(wire::poll(&task_id)?).await?;
    let key = Ground::key_of(&task_id)?;

    let mut ways = Ways {
        poll: Vec::new(),
        poll_buffered: Vec::new(),
        bare: Vec::new(),
        read: Vec::new(),
        poll_cpu_us: Vec::new(),
    };
    for turns in std::iter::once(WARM_UP).chain((0..setup.plan.rounds).map(|_| TURNS)) {
        let mut latencies: [Latencies; 4] = Default::default();
        let [by_poll, by_buffered, by_bare, by_read] = &mut latencies;
        let cpu = api.cpu()?;
        for _ in 0..turns {
            by_poll.add(timed(invoke(&api, &poll)).await?);
            by_buffered.add(timed(invoke(&buffered, &poll)).await?);
            by_bare.add(timed(invoke(&bare, &poll)).await?);
            by_read.add(timed(read(setup, &key)).await?);
        }
        let cpu = api.cpu()?.saturating_sub(cpu);
        if turns == TURNS {
            let [poll, buffered, bare, read] = latencies.map(|mut latencies| latencies.percentile_ms(50));
            ways.poll.push(poll);
            ways.poll_buffered.push(buffered);
            ways.bare.push(bare);
            ways.read.push(read);
            ways.poll_cpu_us.push(cpu.as_secs_f64() * 1e6 / f64::from(turns));
        }
    }
    Ok(ways.figures())
}

impl Ways {
    fn figures(self) -> Vec<Figure> {
        let p50 = |what: &str, rounds| Figure::new(format!("p50 of {what}"), "ms", rounds);
        let read = p50("GetItem by the SDK alone", self.read);
        let target = Target::AtMostTimes(TIMES_MAX);
        vec![
            p50("a poll through api, streamed", self.poll).target(target).compared_with("GetItem", &read),
            p50("a poll through api, buffered", self.poll_buffered).target(target).compared_with("GetItem", &read),
            p50("GetItem through bare", self.bare).compared_with("GetItem", &read),
            read,
            Figure::new("processor time per poll (api, streamed)", "us", self.poll_cpu_us),
        ]
    }
}

async fn timed(what: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    what.await?;
    Ok(begun.elapsed())
}

async fn invoke(function: &Function, event: &Value) -> anyhow::Result<()> {
    function.answer(event).await.map(drop)
}

/// Reads a record as the functions read it.
async fn read(setup: &Setup<'_>, key: &Key) -> anyhow::Result<()> {
    setup.ground.item(key).await?.context("the record no longer exists").map(drop)
}
