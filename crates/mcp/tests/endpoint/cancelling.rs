//! `notifications/cancelled` of revisions with sessions: it stops the call, on whichever instance that runs.

use std::sync::atomic::Ordering;

use longhaul_core::Status;
use longhaul_mcp::{McpServer, McpSettings};
use serde_json::{Value, json};

use crate::older_client::{Older, another_instance};
use crate::world::{Answer, Sent, World, alice, read};

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn cancelled(client: &Older, id: &Value) -> Sent {
    let mut sent = client.sent("notifications/cancelled", json!({"requestId": id, "reason": "changed my mind"}));
    sent.body.as_object_mut().unwrap().remove("id");
    sent
}

async fn cancel(server: &McpServer, sent: &Sent) {
    assert_eq!(read(server.respond(sent.request(), sent.owner).await).await.status, 202);
}

fn second(world: &World) -> McpServer {
    another_instance(world, McpSettings::new([7; 32]))
}

/// The answer to a call, and what happens while it runs.
async fn meanwhile(world: &World, call: &Sent, events: impl Future<Output = ()>) -> Answer {
    let answer = async { read(world.mcp.respond(call.request(), call.owner).await).await };
    world.while_working(async { tokio::join!(answer, events).0 }).await
}

async fn a_call_has_begun(world: &World) {
    while world.observed.calls_begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
}

async fn there_is_a_task(world: &World) {
    while world.engine.list(&alice(), None, 1).await.unwrap().tasks.is_empty() {
        tokio::task::yield_now().await;
    }
}

#[track_caller]
fn has_no_answer(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
    assert_eq!(answer.headers["content-type"], "text/event-stream");
}

#[tokio::test]
async fn a_plain_call_ends_without_an_answer() {
    for revision in REVISIONS {
        let world = World::plain();
        let client = Older::connect(&world.mcp, revision).await;
        let other_instance = second(&world);
        let answer = meanwhile(&world, &client.call("hangs", json!({})), async {
            a_call_has_begun(&world).await;
            cancel(&other_instance, &cancelled(&client, &json!(7))).await;
        })
        .await;
        has_no_answer(&answer);
        assert_eq!(world.observed.calls_dropped.load(Ordering::SeqCst), 1, "{revision}");
    }
}

#[tokio::test]
async fn the_task_of_a_job_is_cancelled_even_if_it_could_be_found_again() {
    for revision in REVISIONS {
        let (world, client) = Older::in_new_world(revision).await;
        let call = client.call("sleeps", json!({"ms": 120_000})).with_header("idempotency-key", "k");
        let answer = meanwhile(&world, &call, async {
            there_is_a_task(&world).await;
            cancel(&second(&world), &cancelled(&client, &json!(7))).await;
        })
        .await;
        has_no_answer(&answer);
        let tasks = world.engine.list(&alice(), None, 1).await.unwrap().tasks;
        assert_eq!(tasks[0].status(), Status::Cancelled, "{revision}");
    }
}

#[tokio::test]
async fn a_call_that_waits_for_an_answer_of_its_client_is_cancelled_too() {
    for world in [World::plain(), World::new()] {
        let client = Older::connect(&world.mcp, "2025-06-18").await;
        let call = client.call("reports", json!({}));
        let mut stream = world.while_working(client.stream(&world.mcp, &call)).await;
        let asked = world.while_working(stream.next()).await.unwrap();
        assert_eq!(asked["method"], "elicitation/create");
        cancel(&second(&world), &cancelled(&client, &json!(7))).await;
        assert_eq!(world.while_working(stream.next()).await, None);
        for task in world.engine.list(&alice(), None, 1).await.unwrap().tasks {
            assert_eq!(task.status(), Status::Cancelled);
        }
    }
}

#[tokio::test]
async fn a_cancellation_counts_for_its_own_session_and_request() {
    let world = World::plain();
    let client = Older::connect(&world.mcp, "2025-06-18").await;
    let other = Older::connect(&world.mcp, "2025-06-18").await;
    let answer = meanwhile(&world, &client.call("sleeps", json!({"ms": 10_000})), async {
        cancel(&world.mcp, &cancelled(&other, &json!(7))).await;
        cancel(&world.mcp, &cancelled(&client, &json!(7)).without_header("mcp-session-id")).await;
        for id in [json!("7"), json!(8), json!(null), json!({})] {
            cancel(&world.mcp, &cancelled(&client, &id)).await;
        }
    })
    .await;
    assert_eq!(answer.result()["content"][0]["text"], "attempt 1");
}

#[tokio::test]
async fn a_cancellation_does_not_count_for_a_later_request_of_the_same_id() {
    let world = World::plain();
    let client = Older::connect(&world.mcp, "2025-06-18").await;
    cancel(&world.mcp, &cancelled(&client, &json!(7))).await;
    world.clock.advance_ms(1_001);
    let answer = meanwhile(&world, &client.call("sleeps", json!({"ms": 10_000})), async {}).await;
    assert_eq!(answer.result()["content"][0]["text"], "attempt 1");
}

#[tokio::test]
async fn a_request_of_a_batch_can_be_cancelled() {
    let world = World::plain();
    let client = Older::connect(&world.mcp, "2025-03-26").await;
    let call = |id: i64, tool: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name":
        tool, "arguments": {"ms": 10_000}}})
    };
    let mut batch = client.sent("x", json!({}));
    batch.body = json!([call(1, "hangs"), call(2, "sleeps")]);
    let answer = meanwhile(&world, &batch, async {
        a_call_has_begun(&world).await;
        cancel(&world.mcp, &cancelled(&client, &json!(1))).await;
    })
    .await;
    let events = answer.events();
    assert_eq!(events.len(), 1);
    assert_eq!((&events[0]["id"], &events[0]["result"]["content"][0]["text"]), (&json!(2), &json!("attempt 1")));
}
