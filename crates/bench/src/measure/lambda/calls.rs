//! The calls that the functions make to AWS in a task's life, counted on their way to the emulator.

use anyhow::ensure;
use harness::gate::{Call, Gate};

use super::setup::{SHORT, Setup, accept};
use crate::figures::{Figure, Target};
use crate::function::Function;
use crate::{ground, wire};

/// A task whose one step takes longer than `BEATS` heartbeats of a worker with the settings of `QUICK`.
const STEPPED: (&str, &str) = ("countdown", r#"{"seconds":5.5,"steps":1}"#);

/// Settings of a worker that sends a heartbeat every second.
const QUICK: [(&str, &str); 2] = [("LONGHAUL_HEARTBEAT_MS", "1000"), ("LONGHAUL_LEASE_MS", "3000")];

const BEATS: f64 = 5.0;

/// The operations whose calls go to the queue.
const QUEUE: [&str; 3] = ["SendMessage", "ChangeMessageVisibility", "DeleteMessage"];

/// A function whose calls are counted.
struct Counted {
    function: Function,
    gate: Gate,
    seen: usize,
}

/// Runs tasks through their lives, one call at a time.
pub(super) async fn measure(setup: &Setup<'_>) -> anyhow::Result<Vec<Figure>> {
    eprintln!("calls: three tasks");
    let gate = Gate::open(ground::endpoint()).await;
    let api = Function::start(&setup.programs.api, &setup.ground.env(gate.url(), &[])).await?;
    let mut api = Counted::new(api, gate);
    let gate = Gate::open(ground::endpoint()).await;
    let worker = Function::start(&setup.programs.worker, &setup.ground.env(gate.url(), &QUICK)).await?;
    let mut worker = Counted::new(worker, gate);

    let short = accept(&api.function, SHORT).await?;
    let accepted = api.calls();
    worker.run(setup).await?;
    let run = worker.calls();
    api.function.send(wire::poll(&short)?).await?;
    let polled = api.calls();

    let stepped = accept(&api.function, STEPPED).await?;
    worker.run(setup).await?;
    let in_steps = worker.calls();
    api.calls();
    api.function.send(wire::cancel(&accept(&api.function, STEPPED).await?)?).await?;
    let until_cancelled = api.calls();
    let accepts = until_cancelled.iter().position(|call| call.operation == "SendMessage").map_or(0, |at| at + 1);
    let cancelled = until_cancelled.get(accepts..).unwrap_or_default();
    let answer = api.function.send(wire::poll(&stepped)?).await?;
    ensure!(wire::task_in(&answer)?.is_completed()?, "the task with a step is not completed");
    // Its message is still in the queue.
    worker.run(setup).await?;

    let (finish, claim): (Vec<Call>, Vec<Call>) =
        table(&run).cloned().partition(|call| call.body.contains("completed"));
    let until_recorded = in_steps.iter().take_while(|call| call.operation != "PutItem");
    let beats = until_recorded.filter(|call| call.operation == "UpdateItem").count().saturating_sub(1);
    let once = Target::AtMost(1.0);
    let figure = |what: &str, count: usize| {
        let count = f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        Figure::new(format!("calls to {what}"), "", vec![count]).target(once)
    };
    let beats = f64::from(u32::try_from(beats)?) / BEATS;
    Ok(vec![
        figure("the table: accept", table(&accepted).count()),
        figure("the owner's count: accept", counter(&accepted).count()),
        figure("the table: claim", claim.len()),
        Figure::new("calls to the table: heartbeat", "", vec![beats]).target(once),
        figure("the table: finish", finish.len()),
        figure("the table: cancel", table(cancelled).count()),
        figure("the owner's count: cancel", counter(cancelled).count()),
        figure("the table: poll", table(&polled).count()),
        figure("the queue: accept", queue(&accepted).count()),
        figure("the queue: run without a heartbeat", queue(&run).count()),
    ])
}

impl Counted {
    /// Counts from now on.
    fn new(function: Function, gate: Gate) -> Self {
        let seen = gate.calls().len();
        Self { function, gate, seen }
    }

    /// The calls since the last time.
    fn calls(&mut self) -> Vec<Call> {
        let calls = self.gate.calls().split_off(self.seen);
        self.seen += calls.len();
        calls
    }

    /// Runs the next message.
    async fn run(&self, setup: &Setup<'_>) -> anyhow::Result<()> {
        let mapping = setup.mapping(ground::endpoint(), &[]);
        let messages = mapping.receive().await;
        ensure!(!messages.is_empty(), "there is no message");
        mapping.run_batch(&self.function.sandbox, &messages).await?;
        Ok(())
    }
}

fn queue(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| QUEUE.contains(&call.operation.as_str()))
}

/// The calls for tasks.
fn table(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| !QUEUE.contains(&call.operation.as_str()) && !is_of_counter(call))
}

/// The calls for the count of an owner's tasks: each creation reads it, and one in four changes it. The same applies to
/// the ends.
fn counter(calls: &[Call]) -> impl Iterator<Item = &Call> {
    calls.iter().filter(|call| is_of_counter(call))
}

fn is_of_counter(call: &Call) -> bool {
    call.body.contains(r#""S":"q#"#)
}
