//! How soon the next attempt begins after a worker was killed in the middle of a leg, with the template's lease.

use std::time::{Duration, Instant};

use futures::future::try_join_all;

use super::{Setup, accept};
use crate::figures::{Figure, Target};
use crate::ground::Ground;
use crate::process::endpoint;
use crate::runtime_host::Idle;
use crate::runtime_host::mapping::Worker;

/// How soon the next attempt has to begin, in seconds.
const SECONDS_MAX: f64 = 60.0;

/// How many workers are killed, all at the same moment.
const WORKERS: usize = 3;

/// A task that runs for longer than everything here.
const LONG: (&str, &str) = ("countdown", r#"{"seconds":600,"steps":600}"#);

/// How often a record is read.
const PAUSE: Duration = Duration::from_millis(100);

/// Kills workers, and waits until others have claimed their tasks. There are no polls meanwhile.
pub(super) async fn measure(setup: &Setup<'_>) -> anyhow::Result<Vec<Figure>> {
    eprintln!("recovery: {WORKERS} kills, with a lease of half a minute");
    let api = setup.api().await?;
    let mut tasks = Vec::new();
    for _ in 0..WORKERS {
        tasks.push(accept(&api, LONG).await?);
    }
    let start =
        || (0..WORKERS).map(|_| Worker::start(setup.mapping(endpoint(), &[]), Idle::Running)).collect::<Vec<_>>();
    let dying = start();
    try_join_all(tasks.iter().map(|task_id| reaches(setup, task_id, 1))).await?;
    let mut victims = Vec::new();
    for worker in &dying {
        victims.push(worker.sandbox().await.victim());
    }
    // No other workers replace them.
    drop(dying);
    victims.into_iter().for_each(|victim| victim.kill());
    let begun = Instant::now();
    let _following = start();
    let recovered = try_join_all(tasks.iter().map(async |task_id| {
        reaches(setup, task_id, 2).await?;
        Ok::<_, anyhow::Error>(begun.elapsed().as_secs_f64())
    }));
    let figure = Figure::new("next attempt after a kill", "s", recovered.await?);
    Ok(vec![figure.target(Target::Below(SECONDS_MAX))])
}

/// Waits until a task is in its `attempt`.
async fn reaches(setup: &Setup<'_>, task_id: &str, attempt: u32) -> anyhow::Result<()> {
    let key = Ground::key_of(task_id)?;
    loop {
        let record = setup.ground.item(&key).await?;
        let is = record.and_then(|record| record.get("attempt")?.as_n().ok()?.parse::<u32>().ok());
        if is.is_some_and(|is| is >= attempt) {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
