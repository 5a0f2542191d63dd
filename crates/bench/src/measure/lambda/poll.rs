//! How long a poll through the API function takes, compared with a bare `GetItem` of the same record.

use anyhow::Context;
use serde_json::Value;

use super::setup::{SHORT, Setup, accept};
use crate::figures::{Figure, Target};
use crate::function::{Function, event_of};
use crate::ground::{Ground, Key, endpoint};
use crate::load::Latencies;
use crate::wire;

/// How much longer a poll may take than the read that it needs.
const TIMES_MAX: f64 = 1.5;

/// How often each way is measured in a round.
const TURNS: u32 = 200;

/// How often each way is run before anything is measured.
const WARM_UP: u32 = 20;

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

    let mut rounds: [Vec<f64>; 5] = Default::default();
    for turns in std::iter::once(WARM_UP).chain((0..setup.plan.rounds).map(|_| TURNS)) {
        let mut latencies: [Latencies; 4] = Default::default();
        let [by_poll, by_buffered, by_bare, by_read] = &mut latencies;
        let cpu = api.cpu()?;
        for _ in 0..turns {
            by_poll.time(invoke(&api, &poll)).await?;
            by_buffered.time(invoke(&buffered, &poll)).await?;
            by_bare.time(invoke(&bare, &poll)).await?;
            by_read.time(read(setup, &key)).await?;
        }
        let cpu = api.cpu()?.saturating_sub(cpu);
        if turns == TURNS {
            let p50 = latencies.map(|mut latencies| latencies.percentile_ms(50));
            let cpu_us = cpu.as_secs_f64() * 1e6 / f64::from(turns);
            rounds.iter_mut().zip(p50.into_iter().chain([cpu_us])).for_each(|(round, value)| round.push(value));
        }
    }
    Ok(figures(rounds))
}

fn figures([poll, buffered, bare, read, cpu_us]: [Vec<f64>; 5]) -> Vec<Figure> {
    let p50 = |what: &str, rounds| Figure::new(format!("p50 of {what}"), "ms", rounds);
    let read = p50("GetItem by the SDK alone", read);
    let target = Target::AtMostTimes(TIMES_MAX);
    vec![
        p50("a poll through api, streamed", poll).target(target).compared_with("GetItem", &read),
        p50("a poll through api, buffered", buffered).target(target).compared_with("GetItem", &read),
        p50("GetItem through bare", bare).compared_with("GetItem", &read),
        read,
        Figure::new("processor time per poll (api, streamed)", "us", cpu_us),
    ]
}

async fn invoke(function: &Function, event: &Value) -> anyhow::Result<()> {
    function.answer(event).await.map(drop)
}

/// Reads a record as the functions read it.
async fn read(setup: &Setup<'_>, key: &Key) -> anyhow::Result<()> {
    setup.ground.item(key).await?.context("the record no longer exists").map(drop)
}
