//! The logs of the functions: each line says which task, attempt, owner and trace it belongs to.

use std::sync::Arc;

use aws_lambda_events::sqs::SqsEvent;
use longhaul_aws::read_message;
use longhaul_core::{Clock, ResultKind};
use longhaul_engine::{Attempt, AttemptEnd, ToolRunner};
use longhaul_lambda::{Audit, Auth, DeadLetters, LogSettings, Payloads, Worker, json_logs};
use longhaul_testkit::ManualClock;
use serde_json::Value;
use tracing::Subscriber;

use crate::answering::{answer, api, message, poll};
use crate::world::{World, event};
use longhaul_testkit::Lines;

/// The trace in the sample events.
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// The logs of a function, in these lines.
pub(crate) fn logs(filter: &str, audit: Audit, clock: &Arc<ManualClock>, lines: Lines) -> impl Subscriber + use<> {
    let clock = Arc::<ManualClock>::clone(clock);
    json_logs(&LogSettings { filter, payloads: Payloads::Hidden, audit, clock }, move || lines.clone())
}

/// Logs into these lines for as long as the guard lives.
fn capture(lines: &Lines) -> tracing::subscriber::DefaultGuard {
    tracing::subscriber::set_default(logs("info", Audit::On, &Arc::new(ManualClock::default()), lines.clone()))
}

/// The span of the line with the message `what`.
fn span_of(lines: &Lines, what: &str) -> Value {
    let text = lines.text();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let line = lines.find(|line| line["message"] == what).unwrap_or_else(|| panic!("{what}: {text}"));
    line["span"].clone()
}

#[tokio::test]
async fn a_request_is_logged_with_its_task() {
    let (world, lines) = (World::new(), Lines::default());
    let api = api(&world, Auth::Anonymous, &[]);
    let call = event("api-function-url-call");
    let _capturing = capture(&lines);
    let accepted = message(&answer(&api, &call).await);
    let id = accepted["result"]["taskId"].as_str().unwrap().to_owned();
    let asked = span_of(&lines, "answered");
    assert_eq!(
        (&asked["name"], &asked["task_id"], &asked["trace"]),
        (&"request".into(), &id.as_str().into(), &TRACE.into())
    );
    assert_eq!((asked["attempt"].as_u64(), asked["owner"].as_str().map(str::len)), (Some(0), Some(64)));
    // The poll has no trace of its own: the task's is logged.
    let _earlier = lines.take();
    answer(&api, &poll(&event("api-function-url"), &id)).await;
    let asked = span_of(&lines, "answered");
    assert_eq!((&asked["task_id"], &asked["trace"]), (&id.as_str().into(), &TRACE.into()));
}

/// Logs a line inside a step.
struct LogsInStep;

#[async_trait::async_trait]
impl ToolRunner for LogsInStep {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        let step = attempt.step("count", || async {
            tracing::info!("counting");
            Ok::<_, std::convert::Infallible>("1".to_owned())
        });
        let Ok(result) = step.await;
        AttemptEnd::Completed { result, kind: ResultKind::Success }
    }
}

/// Has no tool.
struct Lacks;

#[async_trait::async_trait]
impl ToolRunner for Lacks {
    async fn run(&self, _attempt: Attempt) -> AttemptEnd {
        AttemptEnd::NoSuchTool
    }
}

#[tokio::test]
async fn a_worker_without_the_tool_of_a_task_says_so() {
    let (world, lines, batch) = (World::new(), Lines::default(), event("worker-batch"));
    let key = read_message(batch["Records"][0]["body"].as_str().unwrap(), None).unwrap().task;
    world.accepted(key, "migrate").await;
    let dead_letters = DeadLetters::new(Arc::clone(&world.dead_letters) as _, "https://example.com/dead");
    let worker = Worker::new(world.engine.clone(), Arc::new(Lacks), dead_letters, 3);
    let _capturing = capture(&lines);
    let batch: SqsEvent = serde_json::from_value(batch).unwrap();
    worker.run_batch(batch, world.clock.now().plus_ms(900_000)).await;
    let text = lines.text();
    let line = text.lines().find(|line| line.contains("this worker does not have the tool")).unwrap();
    assert!(line.contains("migrate") && line.contains(&key.id.to_string()), "{line}");
}

#[tokio::test]
async fn a_delivery_and_its_steps_are_logged_with_task_attempt_owner_and_trace() {
    let (world, lines, batch) = (World::new(), Lines::default(), event("worker-batch"));
    let key = read_message(batch["Records"][0]["body"].as_str().unwrap(), None).unwrap().task;
    world.accepted_with(key, |record| record.trace = longhaul_core::TraceParent::parse(TRACE)).await;
    let dead_letters = DeadLetters::new(Arc::clone(&world.dead_letters) as _, "https://example.com/dead");
    let worker = Worker::new(world.engine.clone(), Arc::new(LogsInStep), dead_letters, 3);
    let _capturing = capture(&lines);
    let batch: SqsEvent = serde_json::from_value(batch).unwrap();
    worker.run_batch(batch, world.clock.now().plus_ms(900_000)).await;
    for (what, name) in [("an attempt begins", "delivery"), ("counting", "step")] {
        let span = span_of(&lines, what);
        assert_eq!((&span["name"], &span["attempt"]), (&name.into(), &1.into()), "{what}: {span}");
        assert_eq!(span["task_id"], key.id.to_string(), "{what}: {span}");
        assert_eq!(span["owner"], key.owner.to_string(), "{what}: {span}");
        assert_eq!(span["trace"], TRACE, "{what}: {span}");
    }
}
