//! The metrics of the functions, as CloudWatch reads them.

use std::sync::Arc;

use http::Response;
use longhaul_core::ports::{Delivery, Purpose};
use longhaul_core::{RequestedTerms, ResultKind, TaskKey, Terms};
use longhaul_engine::{Attempt, AttemptEnd, Call, Cleaned, Ended, ToolRunner, WorkerSignals};
use longhaul_lambda::metrics::EmbeddedMetrics;
use longhaul_lambda::{Auth, IamOwner};
use longhaul_testkit::given;
use serde_json::{Value, json};

use crate::answering::{answer, api};
use crate::world::{World, event};
use longhaul_testkit::Lines;

struct Completes;

#[async_trait::async_trait]
impl ToolRunner for Completes {
    async fn run(&self, _attempt: Attempt) -> AttemptEnd {
        AttemptEnd::Completed { result: "{}".to_owned(), kind: ResultKind::Success }
    }
}

/// The numbers of all lines, in their order.
fn numbers(lines: &[Value]) -> Vec<(String, u64)> {
    let numbers_of = |line: &Value| {
        let metrics = line["_aws"]["CloudWatchMetrics"][0]["Metrics"].as_array().unwrap().clone();
        let number = |metric: Value| {
            let name = metric["Name"].as_str().unwrap().to_owned();
            let value = line[&name].as_u64().unwrap();
            (name, value)
        };
        metrics.into_iter().map(number).collect::<Vec<_>>()
    };
    lines.iter().flat_map(numbers_of).collect()
}

async fn accept(world: &World) -> (longhaul_engine::Engine, Lines, TaskKey) {
    accept_with(world, longhaul_core::Cleanup::None).await
}

async fn accept_with(world: &World, cleanup: longhaul_core::Cleanup) -> (longhaul_engine::Engine, Lines, TaskKey) {
    let lines = Lines::default();
    let metrics =
        EmbeddedMetrics::new("Longhaul/test".to_owned(), Arc::clone(&world.clock) as _, Box::new(lines.clone()));
    let engine = world.engine.clone().observed_by(Arc::new(metrics));
    let call = Call {
        owner: given::owner("ann"),
        tool: "countdown".to_owned(),
        request: "{}".to_owned(),
        terms: Terms::negotiate(&given::policy(), RequestedTerms::default()),
        idempotency: None,
        trace: None,
        cleanup,
        not_before: None,
        flow: None,
        labels: longhaul_core::Labels::default(),
    };
    let task = engine.accept(call).await.unwrap().into_task();
    (engine, lines, task.key())
}

fn delivery(task: TaskKey) -> Delivery {
    Delivery {
        message: longhaul_core::ports::Message { task, trace: None, attempt: None },
        receipt: "r".to_owned(),
        receives: 1,
        purpose: Purpose::Work,
    }
}

#[tokio::test]
async fn a_line_has_the_form_that_cloudwatch_reads() {
    let world = World::new();
    let (_, lines, key) = accept(&world).await;
    let [line]: [Value; 1] = lines.take().try_into().unwrap();
    let expected = json!({
        "_aws": {
            "Timestamp": given::NOW.as_ms(),
            "CloudWatchMetrics": [{
                "Namespace": "Longhaul/test",
                "Dimensions": [[]],
                "Metrics": [{"Name": "TasksAccepted", "Unit": "Count"}],
            }],
        },
        "TasksAccepted": 1, "tool": "countdown", "task_id": key.id.to_string(), "attempt": 0,
    });
    assert_eq!(line, expected);
}

#[tokio::test]
async fn a_task_is_counted_once() {
    let world = World::new();
    let (engine, lines, key) = accept(&world).await;
    world.clock.advance_ms(250);
    engine.run_delivery(&delivery(key), &Completes, &WorkerSignals::default()).await;
    engine.run_delivery(&delivery(key), &Completes, &WorkerSignals::default()).await;
    engine.cancel(&key).await.unwrap();
    let lines = lines.take();
    let expected = [
        ("TasksAccepted", 1),
        ("Attempts", 1),
        ("QueueWait", 250),
        ("TasksEnded", 1),
        ("TaskTime", 250),
        ("AttemptTime", 0),
    ];
    assert_eq!(numbers(&lines), expected.map(|(name, value)| (name.to_owned(), value)));
    let ended = lines.iter().find(|line| line["TasksEnded"] == 1).unwrap();
    assert_eq!(ended["Status"], "completed");
    let declared = &ended["_aws"]["CloudWatchMetrics"];
    assert_eq!(declared[0]["Dimensions"], json!([["Status"]]));
    // The share of failed tasks is an average over all ends.
    assert_eq!(declared[1]["Dimensions"], json!([[]]));
    assert_eq!((&declared[1]["Metrics"][0]["Name"], &ended["TasksFailed"]), (&json!("TasksFailed"), &json!(0)));
}

#[tokio::test]
async fn a_failed_task_counts_as_one() {
    struct Fails;
    #[async_trait::async_trait]
    impl ToolRunner for Fails {
        async fn run(&self, _attempt: Attempt) -> AttemptEnd {
            AttemptEnd::Failed { message: "no".to_owned(), detail: "{}".to_owned() }
        }
    }
    let world = World::new();
    let (engine, lines, key) = accept(&world).await;
    engine.run_delivery(&delivery(key), &Fails, &WorkerSignals::default()).await;
    let ended = lines.take().into_iter().find(|line| line["TasksEnded"] == 1).unwrap();
    assert_eq!((&ended["Status"], &ended["TasksFailed"]), (&json!("failed"), &json!(1)));
}

#[tokio::test]
async fn cleanup_that_is_given_up_is_counted_once() {
    struct NeverCleans;
    #[async_trait::async_trait]
    impl ToolRunner for NeverCleans {
        async fn run(&self, _attempt: Attempt) -> AttemptEnd {
            AttemptEnd::NoSuchTool
        }

        async fn clean(&self, _ended: &Ended) -> Cleaned {
            Cleaned::Failed { reason: "no network".to_owned() }
        }
    }
    let world = World::new();
    let (engine, lines, key) = accept_with(&world, longhaul_core::Cleanup::ARMED).await;
    engine.cancel(&key).await.unwrap();
    for _ in 0..10 {
        world.clock.advance_ms(60_000);
        engine.run_delivery(&delivery(key), &NeverCleans, &WorkerSignals::default()).await;
    }
    let given_up = lines.take().into_iter().filter(|line| line["CleanupsGivenUp"] == 1).count();
    assert_eq!(given_up, 1);
}

#[tokio::test]
async fn every_answer_is_counted_with_its_time_and_a_failed_one_as_an_error() {
    let world = World::new();
    let lines = Lines::default();
    let clock = Arc::clone(&world.clock) as _;
    let metrics = EmbeddedMetrics::new("Longhaul/test".to_owned(), clock, Box::new(lines.clone()));
    for (status, took_ms) in [(200, 12), (503, 7), (404, 1)] {
        metrics.answered(&Response::builder().status(status).body(()).unwrap(), took_ms);
    }
    let expected = [("AnswerTime", 12), ("RequestErrors", 0), ("AnswerTime", 7), ("RequestErrors", 1)];
    let expected = expected.into_iter().chain([("AnswerTime", 1), ("RequestErrors", 0)]);
    assert_eq!(numbers(&lines.take()), expected.map(|(name, value)| (name.to_owned(), value)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_poll_that_resends_a_message_is_a_recovery() {
    let world = World::new();
    let (engine, lines, key) = accept(&world).await;
    world.clock.advance_ms(engine.settings().resend_ms);
    engine.poll(&key).await.unwrap();
    engine.poll(&key).await.unwrap();
    assert_eq!(numbers(&lines.take()), [("TasksAccepted".to_owned(), 1), ("Recoveries".to_owned(), 1)]);
}

/// Every kind of request without a verified caller is counted, and no request of a verified one, with any outcome.
#[tokio::test]
async fn a_denied_log_in_is_counted_in_the_line_that_every_answer_has() {
    let world = World::new();
    for (name, denied) in [
        ("api-function-url-call", 1),
        ("api-http-api-jwt", 1),
        ("api-rest-api", 1),
        ("api-function-url-iam", 0),
        ("api-rest-api-iam", 0),
    ] {
        let lines = Lines::default();
        let clock = Arc::clone(&world.clock) as _;
        let metrics = EmbeddedMetrics::new("Longhaul/test".to_owned(), clock, Box::new(lines.clone()));
        let api = api(&world, Auth::Iam(IamOwner::Principal), &[]).measured_by(Arc::new(metrics));
        answer(&api, &event(name)).await;
        let mut elsewhere = event("api-function-url-iam");
        elsewhere["rawPath"] = "/other".into();
        assert_eq!(answer(&api, &elsewhere).await["statusCode"], 404);
        let lines = lines.take();
        let counted: Vec<_> = numbers(&lines).into_iter().filter(|(name, _)| name == "DeniedLogIns").collect();
        assert_eq!(counted, vec![("DeniedLogIns".to_owned(), 1); denied], "{name}");
        assert_eq!(lines.len(), 2, "{name}: a line for each answer");
    }
}
