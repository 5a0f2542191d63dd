//! How soon the next attempt begins after a worker was killed in the middle of an attempt, with the template's lease.

use std::time::{Duration, Instant};

use futures::future::try_join_all;
use harness::runtime_host::Idle;
use harness::runtime_host::mapping::Worker;

use super::setup::{Setup, accept};
use crate::figures::{Figure, Target};
use crate::ground::{Ground, endpoint};

/// How soon the next attempt has to begin, in seconds.
const SECONDS_MAX: f64 = 15.0;

/// When workers are killed, after their claims. At once the lease has the longest time left, and after a heartbeat the
/// message is hidden the longest.
pub(super) const KILLED_AFTER: [(&str, Duration); 2] =
    [("next attempt after a kill", Duration::ZERO), ("next attempt after a kill 6 s later", Duration::from_secs(6))];

/// How many workers are killed, all at the same time.
const WORKERS: usize = 3;

/// A task that runs for longer than everything here.
const LONG: (&str, &str) = ("countdown", r#"{"seconds":600,"steps":600}"#);

/// How often a record is read.
const PAUSE: Duration = Duration::from_millis(100);

/// Kills workers so long after their claims, and waits until others have claimed their tasks. There are no polls
/// meanwhile.
pub(super) async fn measure(setup: &Setup<'_>, (name, after): (&str, Duration)) -> anyhow::Result<Figure> {
    eprintln!("recovery: {WORKERS} kills after {} s, with the default lease", after.as_secs());
    let figure = Figure::new(name, "s", killed(setup, after).await?);
    Ok(figure.target(Target::AtMost(SECONDS_MAX)))
}

/// The seconds from the kills, so long after the claims, to the next claims.
async fn killed(setup: &Setup<'_>, after: Duration) -> anyhow::Result<Vec<f64>> {
    let api = setup.api().await?;
    let mut tasks = Vec::new();
    for _ in 0..WORKERS {
        tasks.push(accept(&api, LONG).await?);
    }
    let start =
        || (0..WORKERS).map(|_| Worker::start(setup.mapping(endpoint(), &[]), Idle::Running)).collect::<Vec<_>>();
    let dying = start();
    try_join_all(tasks.iter().map(|task_id| reaches(setup, task_id, 1))).await?;
    tokio::time::sleep(after).await;
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
    recovered.await
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
