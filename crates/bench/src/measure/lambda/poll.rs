//! How long a poll through the API function takes, beside a bare `GetItem` of the same record.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use super::{SHORT, Scene, accept};
use crate::figures::{Figure, Target};
use crate::function::{Function, event_of};
use crate::ground::{Ground, Key};
use crate::latency::Latencies;
use crate::process::endpoint;
use crate::wire;

/// How much longer a poll may take than the read that it needs.
const TIMES_MAX: f64 = 1.5;

/// How often each way is taken in a round.
const TURNS: u32 = 200;

/// How often each way is taken before anything is measured.
const WARM_UP: u32 = 20;

/// Ways to learn of a task, and what each took.
struct Ways {
    poll: Vec<f64>,
    poll_buffered: Vec<f64>,
    bare: Vec<f64>,
    read: Vec<f64>,
    poll_cpu_us: Vec<f64>,
}

/// Takes each way in turn, again and again.
pub(super) async fn measure(scene: &Scene<'_>) -> anyhow::Result<Vec<Figure>> {
    eprintln!("poll: {} rounds of {TURNS} turns", scene.plan.rounds);
    let ground = &scene.ground;
    let api = scene.api().await?;
    let buffered = ground.env(endpoint(), &[("LONGHAUL_RESPONSES", "buffered")]);
    let buffered = Function::start(&scene.programs.api, &buffered).await?;
    let bare = ground.env(endpoint(), &[("BARE_TABLE", &ground.table)]);
    let bare = Function::start(&scene.programs.bare, &bare).await?;
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
    for turns in std::iter::once(WARM_UP).chain((0..scene.plan.rounds).map(|_| TURNS)) {
        let mut latencies: [Latencies; 4] = Default::default();
        let [by_poll, by_buffered, by_bare, by_read] = &mut latencies;
        let cpu = api.cpu()?;
        for _ in 0..turns {
            by_poll.add(timed(invoke(&api, &poll)).await?);
            by_buffered.add(timed(invoke(&buffered, &poll)).await?);
            by_bare.add(timed(invoke(&bare, &poll)).await?);
            by_read.add(timed(read(scene, &key)).await?);
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
            p50("a poll through api, streamed", self.poll).target(target).beside("GetItem", &read),
            p50("a poll through api, buffered", self.poll_buffered).target(target).beside("GetItem", &read),
            p50("GetItem through bare", self.bare).beside("GetItem", &read),
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
async fn read(scene: &Scene<'_>, key: &Key) -> anyhow::Result<()> {
    scene.ground.item(key).await?.context("the record is gone").map(drop)
}
