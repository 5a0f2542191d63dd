//! Streams, and sandboxes that are frozen between requests: what the emulator does not do, on the Runtime API host.

use std::time::Duration;

use harness::caller::{Caller, structured};
use harness::gate::Gate;
use harness::runtime_host::Idle;
use harness::runtime_host::front_door::{HttpFrontend, Mode};
use serde_json::{Value, json};

use super::ground::Resources;
use super::process::endpoint;
use super::programs::api;

/// Reads a stream of events frame by frame.
struct Frames {
    answer: reqwest::Response,
    begun: String,
}

impl Frames {
    async fn next(&mut self) -> Option<Value> {
        loop {
            match self.arrived() {
                Some(data) if data.is_empty() => {}
                Some(data) => {
                    return Some(serde_json::from_str(&data).unwrap_or_else(|error| panic!("{error}: {data}")));
                }
                None => self.receive().await?,
            }
        }
    }

    /// The data of the next frame that has arrived as a whole.
    fn arrived(&mut self) -> Option<String> {
        let (frame, rest) = self.begun.split_once("\n\n")?;
        let data: String = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        let (data, rest) = (data.trim().to_owned(), rest.to_owned());
        self.begun = rest;
        Some(data)
    }

    async fn receive(&mut self) -> Option<()> {
        let chunk = self.answer.chunk().await.expect("the stream ends without an error")?;
        self.begun.push_str(std::str::from_utf8(&chunk).expect("events are text"));
        Some(())
    }
}

#[tokio::test]
async fn frames_arrive_one_by_one_while_the_tool_runs() {
    let (resources, _frontend, caller) = Resources::with_caller(Mode::Streamed).await;
    let id = caller.call_task("countdown", json!({"seconds": 4, "steps": 8})).await;
    let params = json!({"notifications": {"taskIds": [id]}});
    let answer = caller.request("subscriptions/listen", params).send().await.unwrap();
    let mut frames = Frames { answer, begun: String::new() };
    // The stream keeps its sandbox busy.
    let other_frontend = resources.frontend(Mode::Streamed).await;
    let other = Caller::new(other_frontend.url());
    let acknowledged = frames.next().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    // The acknowledgement arrives before the work, which begins only now.
    let _worker = resources.worker(None);
    let mut updates = Vec::new();
    while let Some(frame) = frames.next().await {
        if frame["method"] == "notifications/tasks" {
            updates.push(frame["params"]["statusMessage"].clone());
        }
        // The first updates arrive while there are more to come.
        if updates.len() == 2 {
            assert_eq!(other.get(&id).await["status"], "working");
        }
    }
    assert!(updates.len() > 2, "{updates:?}");
    assert_eq!(other.get(&id).await["status"], "completed");
}

#[tokio::test]
async fn a_result_that_cannot_be_delivered_whole_is_refused_and_can_be_streamed() {
    let resources = Resources::new().await;
    let (streaming, buffering) = (resources.frontend(Mode::Streamed).await, resources.frontend(Mode::Buffered).await);
    // In an answer that is sent whole, each of them takes four bytes.
    let arguments = json!({"text": "\"".repeat(1_600_000)});
    let whole = Caller::new(streaming.url()).call("echo", arguments.clone()).await;
    assert_eq!(whole["content"][0]["text"], arguments["text"]);
    let refused =
        Caller::new(buffering.url()).error("tools/call", json!({"name": "echo", "arguments": arguments})).await;
    assert_eq!(refused["data"]["reason"], "answer_too_large", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("Endpoint=function-url"), "{refused}");
}

#[tokio::test]
async fn a_task_that_one_frozen_instance_accepted_is_found_by_another_one() {
    let (resources, _frontend, caller) = Resources::with_caller(Mode::Streamed).await;
    // Requests go to the two instances in turn, and each is frozen while it has none.
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await);
    }
    let _worker = resources.worker(None);
    for id in &ids {
        let done = caller.until(id, "completed").await;
        assert_eq!(structured(&done["result"])["attempts"], 1);
        assert_eq!(caller.get(id).await["result"], done["result"]);
    }
}

#[tokio::test]
async fn a_sandbox_that_never_thaws_takes_nothing_with_it() {
    let resources = Resources::new().await;
    let accepting = HttpFrontend::open(api(), &resources.env(None), Idle::Frozen, Mode::Buffered, 1).await;
    let id = Caller::new(accepting.url()).call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    accepting.sandbox(0).await.polled(2).await;
    drop(accepting);
    let _worker = resources.worker(None);
    // No poll is needed for that.
    super::inside::until("the task has ended", async || {
        super::inside::state_of(&resources.clients, &resources.table, &id).await.as_deref() == Some("completed")
    })
    .await;
}

#[tokio::test]
async fn nothing_is_left_to_do_once_an_answer_is_out() {
    for mode in [Mode::Buffered, Mode::Streamed] {
        let (resources, gate) = (Resources::new().await, Gate::open(endpoint()).await);
        let frontend = HttpFrontend::open(api(), &resources.env(Some(&gate)), Idle::Running, mode, 1).await;
        let caller = Caller::new(frontend.url());
        let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
        caller.get(&id).await;
        caller.result("tasks/cancel", json!({"taskId": id})).await;
        caller.call("echo", json!({"text": "hello"})).await;
        let made = gate.calls().len();
        // It is not frozen, and could keep working.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(gate.calls().len(), made, "{mode:?}");
    }
}

#[tokio::test]
async fn a_worker_that_is_frozen_between_batches_runs_the_next_one() {
    let (resources, _frontend, caller) = Resources::with_caller(Mode::Buffered).await;
    let worker = resources.worker(None);
    for round in 1..4 {
        let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
        worker.began(round).await;
        let done = caller.until(&id, "completed").await;
        assert_eq!(structured(&done["result"])["attempts"], 1);
        worker.sandbox().await.polled(round + 1).await;
        // Longer than a lease, with nothing to do.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
    }
}
