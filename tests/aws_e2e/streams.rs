//! Streams, and sandboxes that stand still between requests: what the emulator does not do, on the Runtime API host.

use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::{Caller, structured};
use crate::gate::Gate;
use crate::ground::Ground;
use crate::programs::api;
use crate::runtime_host::front_door::{FrontDoor, Mode};
use crate::runtime_host::{Idle, NoAnswer};

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

    /// The data of the next frame that is here as a whole.
    fn arrived(&mut self) -> Option<String> {
        let (frame, rest) = self.begun.split_once("\n\n")?;
        let data: String = frame.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        let (data, rest) = (data.trim().to_owned(), rest.to_owned());
        self.begun = rest;
        Some(data)
    }

    async fn receive(&mut self) -> Option<()> {
        let chunk = self.answer.chunk().await.expect("the stream ends in good order")?;
        self.begun.push_str(std::str::from_utf8(&chunk).expect("events are text"));
        Some(())
    }
}

#[tokio::test]
async fn frames_arrive_one_by_one_while_the_tool_runs() {
    let ground = Ground::new().await;
    let door = ground.front_door(Mode::Streamed).await;
    let caller = Caller::new(door.url());
    let id = caller.call_task("countdown", json!({"seconds": 4, "steps": 8})).await;
    let params = json!({"notifications": {"taskIds": [id]}});
    let answer = caller.request("subscriptions/listen", params).send().await.unwrap();
    let mut frames = Frames { answer, begun: String::new() };
    // The stream keeps its sandbox busy.
    let other_door = ground.front_door(Mode::Streamed).await;
    let beside = Caller::new(other_door.url());
    let acknowledged = frames.next().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    // The acknowledgement is here before anybody works; the work begins only now.
    let _worker = ground.worker(None);
    let mut told = Vec::new();
    while let Some(frame) = frames.next().await {
        if frame["method"] == "notifications/tasks" {
            told.push(frame["params"]["statusMessage"].clone());
        }
        // The first news of progress are here while there is more to come.
        if told.len() == 2 {
            assert_eq!(beside.get(&id).await["status"], "working");
        }
    }
    assert!(told.len() > 2, "{told:?}");
    assert_eq!(beside.get(&id).await["status"], "completed");
}

#[tokio::test]
async fn streamed_and_buffered_answers_are_the_same() {
    let ground = Ground::new().await;
    let _worker = ground.worker(None);
    let (streaming, buffering) = (ground.front_door(Mode::Streamed).await, ground.front_door(Mode::Buffered).await);
    let (streamed, buffered) = (Caller::new(streaming.url()), Caller::new(buffering.url()));
    let id = streamed.call_task("large_result", json!({"bytes": 3 * 1024 * 1024})).await;
    let whole = buffered.until(&id, "completed").await;
    assert_eq!(streamed.get(&id).await["result"], whole["result"]);
    assert_eq!(
        streamed.error("tasks/get", json!({"taskId": "nothing"})).await["code"],
        buffered.error("tasks/get", json!({"taskId": "nothing"})).await["code"]
    );
}

#[tokio::test]
async fn what_one_frozen_instance_accepted_another_one_answers_for() {
    let ground = Ground::new().await;
    let door = ground.front_door(Mode::Streamed).await;
    let caller = Caller::new(door.url());
    // Requests go to the two instances in turn, and each stands still while it has none.
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await);
    }
    let _worker = ground.worker(None);
    for id in &ids {
        let done = caller.until(id, "completed").await;
        assert_eq!(structured(&done["result"])["attempts"], 1);
        assert_eq!(caller.get(id).await["result"], done["result"]);
    }
}

#[tokio::test]
async fn a_sandbox_that_never_thaws_takes_nothing_with_it() {
    let ground = Ground::new().await;
    let accepting = FrontDoor::open(api(), &ground.env(None), Idle::Frozen, Mode::Buffered, 1).await;
    let id = Caller::new(accepting.url()).call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    accepting.sandbox(0).await.polled(2).await;
    drop(accepting);
    let _worker = ground.worker(None);
    // No poll is needed to bring it about.
    crate::inside::until("the task has ended", async || {
        crate::inside::state_of(&ground.clients, &ground.table, &id).await.as_deref() == Some("completed")
    })
    .await;
}

#[tokio::test]
async fn nothing_is_left_to_do_once_an_answer_is_out() {
    for mode in [Mode::Buffered, Mode::Streamed] {
        let (ground, gate) = (Ground::new().await, Gate::open().await);
        let door = FrontDoor::open(api(), &ground.env(Some(&gate)), Idle::Running, mode, 1).await;
        let caller = Caller::new(door.url());
        let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
        caller.get(&id).await;
        caller.result("tasks/cancel", json!({"taskId": id})).await;
        caller.call("echo", json!({"text": "hello"})).await;
        let made = gate.calls().len();
        // It is not frozen, and could go on.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        assert_eq!(gate.calls().len(), made, "{mode:?}");
    }
}

#[tokio::test]
async fn a_worker_that_is_frozen_between_batches_goes_on_with_the_next_one() {
    let ground = Ground::new().await;
    let door = ground.front_door(Mode::Buffered).await;
    let caller = Caller::new(door.url());
    let worker = ground.worker(None);
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

#[tokio::test]
async fn an_event_that_cannot_be_read_fails_alone() {
    let ground = Ground::new().await;
    let worker = ground.idle_worker(None).await;
    let nonsense = worker.invoke(&json!({"Records": "none"}), Duration::from_secs(10)).await.whole().await;
    let Err(NoAnswer::Failed(said)) = nonsense else { panic!("that is no batch: {nonsense:?}") };
    assert!(said["errorMessage"].is_string(), "{said}");
    let empty = worker.invoke(&json!({"Records": []}), Duration::from_secs(10)).await.whole().await.unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&empty).unwrap(), json!({"batchItemFailures": []}));
}
