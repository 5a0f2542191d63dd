//! How much memory the functions need: after some hundred requests and tasks, and after a result of 3 MiB.

use std::time::Duration;

use super::setup::{SHORT, Setup, accept};
use crate::figures::{Figure, Target};
use crate::function::Function;
use crate::ground::endpoint;
use crate::wire;

/// The maximum memory, in MiB.
const MEMORY_MIB_MAX: f64 = 40.0;

/// Tasks of each kind: without steps, and with a step and its progress.
const TASKS: usize = 150;

/// A task with a step and its progress.
const STEPPED: (&str, &str) = ("countdown", r#"{"seconds":0,"steps":1}"#);

/// A task whose result is stored in parts.
const LARGE: (&str, &str) = ("large_result", r#"{"bytes":3145728}"#);

/// How long to wait between two polls of a task that is waited for.
const PAUSE: Duration = Duration::from_millis(20);

/// Loads one API function and one worker, and reads their peak memory.
pub(super) async fn measure(setup: &Setup<'_>) -> anyhow::Result<Vec<Figure>> {
    eprintln!("memory: {} tasks", 2 * TASKS);
    let api = setup.api().await?;
    let worker = Function::start(&setup.programs.worker, &setup.ground.env(endpoint(), &[])).await?;
    let started = [api.memory_peak_mib()?, worker.memory_peak_mib()?];
    for _ in 0..TASKS {
        for what in [SHORT, STEPPED] {
            api.send(wire::call("echo", r#"{"text":"a plain call"}"#)?).await?;
            live(setup, &api, &worker, what).await?;
        }
    }
    let loaded = [api.memory_peak_mib()?, worker.memory_peak_mib()?];
    live(setup, &api, &worker, LARGE).await?;
    let large = [api.memory_peak_mib()?, worker.memory_peak_mib()?];

    let figures = |what: &str, [api, worker]: [f64; 2]| {
        [("api", api), ("worker", worker)]
            .map(|(name, mib)| Figure::new(format!("peak memory {what} ({name})"), "MiB", vec![mib]))
    };
    let work = format!("after {} tasks", 2 * TASKS);
    let loaded = figures(&work, loaded).map(|figure| figure.target(Target::Below(MEMORY_MIB_MAX)));
    Ok([figures("after start", started), loaded, figures("after a result of 3 MiB", large)]
        .into_iter()
        .flatten()
        .collect())
}

/// Creates a task, runs it, and polls until it is completed.
async fn live(setup: &Setup<'_>, api: &Function, worker: &Function, what: (&str, &str)) -> anyhow::Result<()> {
    let task_id = accept(api, what).await?;
    loop {
        let messages = setup.mapping(endpoint(), &[]).receive().await;
        if !messages.is_empty() {
            let run = setup.mapping(endpoint(), &[]);
            run.run_batch(&worker.sandbox, &messages).await?;
        }
        if wire::task_in(&api.send(wire::poll(&task_id)?).await?)?.is_completed()? {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}
