//! Functions that are killed, and messages that arrive twice or not at all: an accepted task ends once, as it should.

use std::time::{Duration, Instant};

use harness::caller::{Caller, structured};
use harness::runtime_host::Idle;
use harness::runtime_host::front_door::{HttpFrontend, Mode};
use serde_json::json;

use super::ground::Resources;
use super::inside::{cleanup_of, messages_in, state_of, steps_of, until};
use super::process::{Setup, key_of};

/// Promise 4: a crash costs seconds.
const RECOVERED_WITHIN: Duration = Duration::from_secs(60);

/// Nothing listens there.
const NOWHERE: &str = "http://127.0.0.1:9";

#[tokio::test]
async fn a_worker_killed_during_an_attempt_costs_seconds_and_no_recorded_step() {
    let setup = Setup::new();
    let caller = setup.start().caller();
    let id = caller.call_task("countdown", json!({"seconds": 6, "steps": 4})).await;
    let has_a_step =
        |task: &serde_json::Value| task["statusMessage"].as_str().is_some_and(|message| message.starts_with('1'));
    caller.until_it(&id, "a first step", has_a_step).await;
    let killed = Instant::now();
    assert_eq!(setup.kill_all_of("WorkerFunction"), 1);
    let done = caller.until(&id, "completed").await;
    assert!(killed.elapsed() < RECOVERED_WITHIN, "{:?}", killed.elapsed());
    assert_eq!(structured(&done["result"]), json!({"seconds": 6.0, "steps": 4, "attempts": 2}));
    let steps = steps_of(&Setup::clients(), setup.output("Table"), &id).await;
    assert_eq!(steps, ["step 1", "step 2", "step 3", "step 4"]);
}

/// Lambda's poller takes the message, and its invocation of the worker is throttled. The message is hidden for the
/// visibility timeout, and no worker shortens it.
#[tokio::test]
async fn a_throttled_message_comes_back_when_its_visibility_timeout_is_over() {
    let resources = Resources::new().await;
    let frontend = resources.frontend(Mode::Buffered).await;
    let id = Caller::new(frontend.url()).call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    let take = resources.clients.sqs.receive_message().queue_url(&resources.queue_url).visibility_timeout(3);
    assert_eq!(take.wait_time_seconds(5).send().await.unwrap().messages().len(), 1);
    let _worker = resources.worker(None);
    // No client polls.
    until("the task has ended", async || {
        state_of(&resources.clients, &resources.table, &id).await.as_deref() == Some("completed")
    })
    .await;
    assert_eq!(messages_in(&resources.clients, &resources.dead_letter_url).await, 0);
}

#[tokio::test]
async fn what_a_cancelled_task_left_is_cleaned_up_although_nobody_polls() {
    let resources = Resources::new().await;
    let _worker = resources.worker(None);
    let frontend = resources.frontend(Mode::Buffered).await;
    let caller = Caller::new(frontend.url());
    let id = caller.call_task("fail", json!({"how": "hang"})).await;
    until("the task runs", async || {
        state_of(&resources.clients, &resources.table, &id).await.as_deref() == Some("running")
    })
    .await;
    caller.result("tasks/cancel", json!({"taskId": id})).await;
    until("all is clean", async || {
        let cleanup = cleanup_of(&resources.clients, &resources.table, &id).await;
        cleanup.is_some_and(|cleanup| cleanup.contains("done"))
    })
    .await;
}

/// An API function of the deployment that cannot reach the queue: as if it died between the record and the message.
async fn api_without_a_queue(setup: &Setup) -> HttpFrontend {
    let env = [
        ("AWS_ENDPOINT_URL", super::process::endpoint().to_owned()),
        ("AWS_ENDPOINT_URL_SQS", NOWHERE.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "test".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "test".to_owned()),
        ("LONGHAUL_AUTH", "anonymous".to_owned()),
        ("LONGHAUL_DIAGNOSTICS", "true".to_owned()),
        ("LONGHAUL_TABLE", setup.output("Table").to_owned()),
        ("LONGHAUL_QUEUE_URL", setup.output("QueueUrl").to_owned()),
    ];
    let env = env.map(|(name, value)| (name.to_owned(), value));
    HttpFrontend::open(super::programs::api(), &env, Idle::Frozen, Mode::Buffered, 1).await
}

#[tokio::test]
async fn a_task_whose_message_was_never_sent_is_run_although_nobody_polls() {
    let setup = Setup::with(&["--resend-unclaimed"]);
    // Only the function that finds unclaimed tasks can send its message. The API function, which accepts it, cannot.
    let frontend = api_without_a_queue(&setup).await;
    let id = Caller::new(frontend.url()).call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    let clients = Setup::clients();
    until("the task has ended", async || {
        state_of(&clients, setup.output("Table"), &id).await.as_deref() == Some("completed")
    })
    .await;
    assert_eq!(messages_in(&clients, setup.output("DeadLetterQueueUrl")).await, 0);
}

#[tokio::test]
async fn a_dead_letter_of_a_healthy_task_is_sent_again() {
    let setup = Setup::new();
    let cut_off = api_without_a_queue(&setup).await;
    let lost = Caller::new(cut_off.url());
    let id = lost.call_task("countdown", json!({"seconds": 0.5, "steps": 2})).await;
    let clients = Setup::clients();
    let message = longhaul_core::ports::Message { task: key_of(&id), trace: None, attempt: None };
    let body = longhaul_aws::body_of(&message);
    let letter = clients.sqs.send_message().queue_url(setup.output("DeadLetterQueueUrl")).message_body(body);
    letter.send().await.unwrap();
    // No client polls: the dead-letter function alone brings it back.
    until("the task has ended", async || {
        state_of(&clients, setup.output("Table"), &id).await.as_deref() == Some("completed")
    })
    .await;
}

#[tokio::test]
async fn a_tool_that_kills_its_worker_fails_when_no_retries_are_left_even_without_polls() {
    let setup = Setup::new();
    let caller = setup.start().caller();
    // Later than the answer to this call.
    let id = caller.call_task("fail", json!({"how": "exit", "after_s": 1})).await;
    let clients = Setup::clients();
    until("the task has ended", async || {
        state_of(&clients, setup.output("Table"), &id).await.as_deref() == Some("failed")
    })
    .await;
    let failed = caller.get(&id).await;
    assert!(failed["statusMessage"].as_str().unwrap().contains("3 failures in a row"), "{failed}");
    assert!(failed["error"]["code"].is_i64(), "{failed}");
    // The function is alive and serves other calls.
    let next = caller.call_task("countdown", json!({"seconds": 0, "steps": 1})).await;
    caller.until(&next, "completed").await;
}

#[tokio::test]
async fn a_message_that_cannot_be_read_becomes_a_dead_letter_and_blocks_nothing() {
    // It is delivered again after the queue's own visibility timeout, which is the worker's timeout.
    let setup = Setup::with(&["WorkerTimeoutSeconds=5"]);
    let (caller, clients) = (setup.start().caller(), Setup::clients());
    let poison = clients.sqs.send_message().queue_url(setup.output("QueueUrl")).message_body("not a task");
    poison.send().await.unwrap();
    let id = caller.call_task("countdown", json!({"seconds": 1, "steps": 4})).await;
    assert_eq!(structured(&caller.until(&id, "completed").await["result"])["attempts"], 1);
    until("it is a dead letter", async || messages_in(&clients, setup.output("DeadLetterQueueUrl")).await == 1).await;
    until("it has left the work queue", async || messages_in(&clients, setup.output("QueueUrl")).await == 0).await;
}

#[tokio::test]
async fn a_tool_that_runs_longer_than_the_function_continues_in_further_attempts() {
    let setup = Setup::with(&["WorkerTimeoutSeconds=5"]);
    let caller = setup.start().caller();
    let id = caller.call_task("countdown", json!({"seconds": 12, "steps": 48})).await;
    let done = caller.until(&id, "completed").await;
    let attempts = structured(&done["result"])["attempts"].as_u64().unwrap();
    assert!(attempts >= 3, "an attempt has at most four seconds: {done}");
    assert_eq!(steps_of(&Setup::clients(), setup.output("Table"), &id).await.len(), 48);
}
