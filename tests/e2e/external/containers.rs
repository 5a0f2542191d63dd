//! Several processes on one table and one queue, as on ECS or Kubernetes: kills, rolling restarts, roles, health.

use std::time::Duration;

use aws_sdk_sqs::types::QueueAttributeName;
use harness::caller::{Caller, structured};
use harness::emulator;
use serde_json::{Value, json};

use super::instances::{Ground, Instance, until};

/// How long it takes if no worker waits for a lease, with much to spare; less than one lease of [`LONG_LEASES`].
const WITHOUT_A_LEASE: Duration = Duration::from_secs(40);

/// Leases that outlast the test.
const LONG_LEASES: [&str; 6] = ["--lease-ms", "50000", "--heartbeat-ms", "500", "--resend-ms", "600000"];

fn three(ground: &Ground) -> Vec<Instance> {
    ["a", "b", "c"].map(|name| ground.start(name, &[])).into()
}

/// The instance that runs the task now, and the others.
async fn split(mut instances: Vec<Instance>, id: &str) -> (Instance, Vec<Instance>) {
    until("some instance runs the task", async || instances.iter().any(|instance| instance.ran(id))).await;
    let at = instances.iter().position(|instance| instance.ran(id)).unwrap();
    (instances.remove(at), instances)
}

/// Waits until the task has finished a step.
async fn first_step(caller: &Caller, id: &str) -> f64 {
    done_of(&caller.until_it(id, "a first step", |task| done_of(task) >= 1.0).await)
}

fn done_of(task: &Value) -> f64 {
    let message = task["statusMessage"].as_str().unwrap_or_default();
    message.split(['/', ' ']).next().and_then(|done| done.parse().ok()).unwrap_or(0.0)
}

#[tokio::test]
async fn a_question_asked_through_one_instance_is_answered_through_another() {
    let ground = Ground::new().await;
    let instances = three(&ground);
    let id = instances[0].caller().call_task("ask", json!({"questions": ["which one?"]})).await;
    let asks = instances[1].caller().until(&id, "input_required").await["inputRequests"].clone();
    let key = asks.as_object().unwrap().keys().next().unwrap().clone();
    instances[2].caller().accept(&id, &key, json!({"answer": "this one"})).await;
    instances[0].caller().until(&id, "completed").await;
}

#[tokio::test]
async fn another_instance_continues_after_a_kill_and_repeats_no_step() {
    let ground = Ground::new().await;
    let instances = three(&ground);
    let id = instances[0].caller().call_task("countdown", json!({"seconds": 6, "steps": 12})).await;
    let (running, others) = split(instances, &id).await;
    let before = first_step(&others[0].caller(), &id).await;
    running.kill();
    let caller = others[1].caller();
    let resumed = caller.until_it(&id, "a further step", |task| done_of(task) > before).await;
    assert!(done_of(&resumed) > before, "{resumed}");
    let done = structured(&caller.until(&id, "completed").await["result"]);
    assert_eq!((done["steps"].as_u64(), done["attempts"].as_u64()), (Some(12), Some(2)), "{done}");
}

#[tokio::test]
async fn an_instance_that_is_asked_to_stop_gives_its_attempts_back_at_a_step_boundary() {
    let test = async {
        let ground = Ground::new().await;
        // So long that nothing but a step boundary ends an attempt.
        let drain = [&LONG_LEASES[..], &["--drain-ms", "3600000"]].concat();
        let instances = ["a", "b", "c"].map(|name| ground.start(name, &drain));
        let id = instances[0].caller().call_task("countdown", json!({"seconds": 12, "steps": 6})).await;
        let (running, others) = split(instances.into(), &id).await;
        first_step(&others[0].caller(), &id).await;
        running.terminate();
        until("it says that it drains", async || running.get("/readyz").await.0 == 503).await;
        assert!(running.get("/readyz").await.1.contains("draining"));
        assert_eq!(running.get("/healthz").await.0, 200);
        assert!(running.wait().success(), "an orderly stop is not a failure");
        let done = structured(&others[1].caller().until(&id, "completed").await["result"]);
        assert_eq!((done["steps"].as_u64(), done["attempts"].as_u64()), (Some(6), Some(2)), "{done}");
    };
    tokio::time::timeout(WITHOUT_A_LEASE, test).await.expect("somebody waited for a lease");
}

#[tokio::test]
async fn idle_instances_that_stop_take_no_message_with_them() {
    let test = async {
        let ground = Ground::new().await;
        let idle = ground.start("idle", &LONG_LEASES);
        let caller = ground.start("http", &[&LONG_LEASES[..], &["--role", "http"]].concat());
        until("it waits for messages", async || idle.get("/readyz").await.0 == 200).await;
        idle.terminate();
        assert!(idle.wait().success());
        let id = caller.caller().call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
        let _next = ground.start("next", &LONG_LEASES);
        caller.caller().until(&id, "completed").await;
    };
    tokio::time::timeout(WITHOUT_A_LEASE, test).await.expect("a message was hidden for a lease");
}

#[tokio::test]
async fn requests_and_work_may_be_apart() {
    let ground = Ground::new().await;
    let http = ground.start("http", &["--role", "http"]);
    let id = http.caller().call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    // A worker that gets no calls needs no access rules, on any address.
    let worker = ground.start("worker", &["--role", "worker", "--listen", "0.0.0.0:0"]);
    http.caller().until(&id, "completed").await;
    assert!(worker.ran(&id) && !http.ran(&id));
    assert_eq!((worker.get("/healthz").await.0, worker.get("/readyz").await.0), (200, 200));
    let (status, body) = worker.get("/mcp").await;
    assert!(status == 404 && body.contains("/readyz"), "{status} {body}");
    worker.terminate();
    assert!(worker.wait().success());
}

#[tokio::test]
async fn an_instance_without_its_table_says_so_and_begins_when_it_is_there() {
    let ground = Ground::new().await;
    let table = ground.table.clone();
    let missing = format!("{table}-missing");
    let ground = ground.on_table(&missing);
    let instance = ground.start("a", &[]);
    until("it says so", async || instance.log().contains("the table")).await;
    let log = instance.log();
    assert!(log.contains(&missing) && log.contains("--store") && log.contains("ResourceNotFound"), "{log}");
    let (status, body) = instance.get("/readyz").await;
    assert!(status == 503 && !body.contains(&missing), "{status} {body}");
    assert_eq!(instance.get("/healthz").await.0, 200);
    let refused = instance.caller().request("tools/list", json!({})).send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].as_bytes()), (503, &b"1"[..]));
    emulator::create_table(&ground.clients, &missing).await;
    until("it is ready", async || instance.get("/readyz").await.0 == 200).await;
    let id = instance.caller().call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
    instance.caller().until(&id, "completed").await;
}

#[tokio::test]
async fn an_instance_without_its_queue_says_so_also_later() {
    let ground = Ground::new().await;
    let there = ground.start("there", &[]);
    until("it is ready", async || there.get("/readyz").await.0 == 200).await;
    let queue_url = ground.queue_url.clone();
    let ground = ground.on_queue(&format!("{queue_url}-missing"));
    let instance = ground.start("missing", &[]);
    until("it says so", async || instance.log().contains("the queue")).await;
    let log = instance.log();
    assert!(log.contains("-missing") && log.contains("--queue"), "{log}");
    assert_eq!(instance.get("/readyz").await.0, 503);
    instance.terminate();
    assert!(instance.wait().success(), "it can be stopped while it waits");
    ground.clients.sqs.delete_queue().queue_url(&queue_url).send().await.unwrap();
    until("the other one notices", async || there.get("/readyz").await.0 == 503).await;
    assert!(there.get("/readyz").await.1.contains("the queue"));
}

#[tokio::test]
async fn a_dead_letter_brings_its_task_back_and_one_that_cannot_be_read_is_kept() {
    let ground = Ground::new().await;
    let http = ground.start("http", &["--role", "http", "--resend-ms", "600000"]);
    let id = http.caller().call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
    let sqs = &ground.clients.sqs;
    let taken = sqs.receive_message().queue_url(&ground.queue_url).wait_time_seconds(5).send().await.unwrap();
    let [message] = taken.messages() else { panic!("{taken:?}") };
    let receipt = message.receipt_handle().unwrap();
    sqs.delete_message().queue_url(&ground.queue_url).receipt_handle(receipt).send().await.unwrap();
    for body in ["not a task", message.body().unwrap()] {
        sqs.send_message().queue_url(&ground.dead_letter_url).message_body(body).send().await.unwrap();
    }
    let _worker = ground.start("worker", &["--role", "worker"]);
    http.caller().until(&id, "completed").await;
    let hidden = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
    until("the other one is put aside", async || {
        let ask = sqs.get_queue_attributes().queue_url(&ground.dead_letter_url).attribute_names(hidden.clone());
        let attributes = ask.send().await.unwrap().attributes.unwrap();
        attributes[&hidden] == "1"
    })
    .await;
}
