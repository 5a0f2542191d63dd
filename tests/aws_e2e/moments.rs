//! Kills at exact times, by a proxy between the function and AWS: right before and right after a call takes effect.

use std::time::Duration;

use harness::caller::{Caller, json_of, structured};
use harness::gate::{Gate, Held};
use harness::runtime_host::front_door::{HttpFrontend, Mode};
use harness::runtime_host::mapping::Worker;
use harness::runtime_host::{Idle, NoAnswer};
use serde_json::{Value, json};

use super::ground::Resources;
use super::inside::{messages_in, state_of, until};
use super::process::endpoint;
use super::programs::api;

/// A call that carries an idempotency key, so that a client can repeat it.
async fn call_with_key(caller: &Caller, key: &str) -> Option<Value> {
    let params = json!({"name": "countdown", "arguments": {"seconds": 0.2, "steps": 2}});
    let request = caller.request("tools/call", params).header("idempotency-key", key.to_owned());
    let answer = request.send().await.ok()?;
    let text = if answer.status().is_success() { answer.text().await.ok()? } else { return None };
    Some(json_of(&text)["result"].clone())
}

/// Kills the API function while it calls `operation`, and checks what a client gets that calls again.
async fn call_through_a_kill(operation: &'static str, held: Held) {
    let (resources, gate) = (Resources::new().await, Gate::open(endpoint()).await);
    // Anonymous callers of this revision have no idempotency keys.
    let signed = ("LONGHAUL_AUTH", "iam");
    let mut env = resources.env(Some(&gate));
    env.push((signed.0.to_owned(), signed.1.to_owned()));
    let dying = HttpFrontend::open(api(), &env, Idle::Frozen, Mode::Buffered, 1).await;
    let caught = gate.hold(operation, "", held);
    let victim = dying.sandbox(0).await.victim();
    let caller = Caller::new(dying.url());
    let call = tokio::spawn(async move { call_with_key(&caller, "once").await });
    caught.await.expect("the function makes this call");
    victim.kill();
    assert!(call.await.unwrap().is_none(), "the function is dead");

    let _worker = resources.worker(None);
    let frontend = resources.frontend_with(Mode::Buffered, &[signed]).await;
    let caller = Caller::new(frontend.url());
    let again = call_with_key(&caller, "once").await.expect("the next instance answers");
    let id = again["taskId"].as_str().unwrap();
    let done = caller.until(id, "completed").await;
    assert_eq!(structured(&done["result"])["attempts"], 1);
    // One task, even if the first call left something behind.
    let once_more = call_with_key(&caller, "once").await.unwrap();
    assert_eq!(once_more["taskId"], again["taskId"]);
    assert_eq!(resources.tasks().await, 1);
}

/// One test for each time of a kill: the call of AWS that is held when the function is killed, and its further
/// conditions.
macro_rules! killed {
    ($by:ident: $($name:ident($($told:expr),+);)+) => {$(
        #[tokio::test]
        async fn $name() {
            $by($($told),+).await;
        }
    )+};
}

killed! { call_through_a_kill:
    an_api_killed_before_its_record_is_written_leaves_nothing("TransactWriteItems", Held::BeforeEffect);
    an_api_killed_between_record_and_message_leaves_a_task_that_a_retry_finds("SendMessage", Held::BeforeEffect);
    an_api_killed_between_message_and_answer_leaves_a_task_that_a_retry_finds("SendMessage", Held::AfterEffect);
}

/// Runs a task of three steps whose worker is killed while it calls `operation` with a body that contains `mentions`.
/// Each step is recorded once, and the task ends in the attempt of this number.
async fn run_through_a_kill(operation: &'static str, mentions: &'static str, held: Held, attempts: u64) {
    let (resources, gate) = (Resources::new().await, Gate::open(endpoint()).await);
    let frontend = resources.frontend(Mode::Buffered).await;
    let caller = Caller::new(frontend.url());
    let caught = gate.hold(operation, mentions, held);
    let worker = resources.worker(Some(&gate));
    let id = caller.call_task("countdown", json!({"seconds": 0.3, "steps": 3})).await;
    caught.await.expect("the worker makes this call");
    worker.sandbox().await.kill().await;
    let task = caller.until(&id, "completed").await;
    let steps = ["step 1", "step 2", "step 3"];
    assert_eq!(resources.steps_of(&id).await, steps);
    until("the queue is empty", async || messages_in(&resources.clients, &resources.queue_url).await == 0).await;
    assert_eq!(structured(&task["result"])["attempts"], attempts);
    // A call that was held before its effect never took effect, and is not in the list.
    assert_eq!(steps.map(|step| gate.calls_of("PutItem", &format!("\"{step}\""))), [1, 1, 1]);
    // A repeated delivery finds nothing to do.
    assert_eq!(state_of(&resources.clients, &resources.table, &id).await.as_deref(), Some("completed"));
}

killed! { run_through_a_kill:
    a_worker_killed_before_its_claim_takes_effect_costs_nothing_but_time("UpdateItem", "", Held::BeforeEffect, 1);
    a_worker_killed_after_its_claim_took_effect_is_followed_by_the_next_attempt("UpdateItem", "", Held::AfterEffect, 2);
    a_step_that_was_recorded_is_not_run_again_after_a_kill("PutItem", "\"step 2\"", Held::AfterEffect, 2);
    a_step_that_was_not_recorded_is_run_again_after_a_kill("PutItem", "\"step 2\"", Held::BeforeEffect, 2);
    a_worker_killed_before_its_result_is_written_is_followed_by_the_same_result(
        "UpdateItem", "completed", Held::BeforeEffect, 2
    );
    a_worker_killed_after_its_result_is_written_changes_nothing("UpdateItem", "completed", Held::AfterEffect, 1);
}

#[tokio::test]
async fn a_worker_that_was_frozen_for_longer_than_its_lease_cannot_write() {
    let (resources, _frontend, caller) = Resources::with_caller(Mode::Buffered).await;
    let id = caller.call_task("countdown", json!({"seconds": 2, "steps": 4})).await;
    let mapping = resources.mapping(None);
    let messages = mapping.receive().await;
    let sleeper = resources.idle_worker(None).await;
    let attempt = async { mapping.run_batch(&sleeper, &messages).await };
    let others = async {
        caller.until_it(&id, "a step", |task| task["statusMessage"].is_string()).await;
        sleeper.freeze();
        let _worker = resources.worker(None);
        let done = caller.until(&id, "completed").await;
        assert_eq!(structured(&done["result"])["attempts"], 2);
        sleeper.thaw();
        done
    };
    let (answer, done) = tokio::join!(attempt, others);
    answer.expect("it is thawed, finds that it is too late, and ends its attempt");
    let after = caller.get(&id).await;
    assert_eq!((&after["result"], &after["lastUpdatedAt"]), (&done["result"], &done["lastUpdatedAt"]));
}

#[tokio::test]
async fn a_worker_that_hangs_is_killed_at_its_timeout_and_the_task_continues() {
    let (resources, _frontend, caller) = Resources::with_caller(Mode::Buffered).await;
    let id = caller.call_task("countdown", json!({"seconds": 2, "steps": 4})).await;
    let mut mapping = resources.mapping(None);
    mapping.timeout = Duration::from_secs(4);
    let messages = mapping.receive().await;
    let hanging = resources.idle_worker(None).await;
    let attempt = mapping.run_batch(&hanging, &messages);
    let hang = async {
        caller.until_it(&id, "a step", |task| task["statusMessage"].is_string()).await;
        hanging.freeze();
    };
    let (answer, ()) = tokio::join!(attempt, hang);
    assert!(matches!(answer, Err(NoAnswer::Died)), "{answer:?}");
    let _worker = resources.worker(None);
    let done = caller.until(&id, "completed").await;
    assert_eq!(structured(&done["result"])["attempts"], 2);
}

#[tokio::test]
async fn a_step_that_is_longer_than_the_function_may_run_fails_in_the_end() {
    let (resources, _frontend, caller) = Resources::with_caller(Mode::Buffered).await;
    let id = caller.call_task("countdown", json!({"seconds": 60, "steps": 1})).await;
    let mut mapping = resources.mapping(None);
    mapping.timeout = Duration::from_secs(3);
    let worker = Worker::start(mapping, Idle::Frozen);
    let failed = caller.until(&id, "failed").await;
    assert!(failed["statusMessage"].as_str().is_some_and(|message| !message.is_empty()), "{failed}");
    assert!(worker.sandbox().await.is_alive(), "each attempt ended by itself, before the function's time was over");
}
