//! `subscriptions/listen` with `taskIds`.

use std::time::Duration;

use http_body_util::BodyExt;
use longhaul_mcp::Body;
use serde_json::{Value, json};

use crate::schema;
use crate::world::{Sent, World, bob};

fn listen(ids: Value) -> Sent {
    Sent::new("subscriptions/listen", json!({"notifications": {"taskIds": ids}}))
}

/// The next message of a stream; keep-alive comments are skipped.
async fn next(body: &mut Body) -> Option<Value> {
    loop {
        let frame = tokio::time::timeout(Duration::from_secs(60), body.frame()).await.expect("a frame")?;
        let text = String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap();
        if let Some(data) = text.strip_prefix("data: ") {
            assert!(text.ends_with("\n\n"));
            return Some(serde_json::from_str(data).unwrap());
        }
        assert_eq!(text, ":\n\n");
    }
}

fn acknowledged(message: &Value) -> &Value {
    schema::is("2026-07-28", "SubscriptionsAcknowledgedNotification", message);
    let acknowledged = &message["params"]["notifications"];
    schema::is("tasks-extension", "TaskSubscriptionAcknowledgedNotifications", acknowledged);
    assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
    &acknowledged["taskIds"]
}

/// The task in the notification; checks that `tasks/get` shows the same.
async fn task(world: &World, message: &Value, id: &str) -> Value {
    schema::is("tasks-extension", "TaskStatusNotification", message);
    let mut shown = message["params"].clone();
    let meta = shown.as_object_mut().unwrap().remove("_meta").unwrap();
    assert_eq!(meta, json!({"io.modelcontextprotocol/subscriptionId": 7}));
    let mut got = world.get(id).await;
    got.as_object_mut().unwrap().remove("resultType");
    assert_eq!(shown, got);
    shown
}

fn closed(message: &Value) {
    schema::is("2026-07-28", "JSONRPCResultResponse", message);
    let result = json!({"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": 7}});
    assert_eq!(*message, json!({"jsonrpc": "2.0", "id": 7, "result": result}));
}

#[tokio::test]
async fn a_subscriber_is_sent_for_each_change_what_a_poll_would_return_and_then_the_end() {
    let (world, id) = World::with_task("reports").await;
    let sent = listen(json!([id]));
    let response = world.mcp.respond(sent.request(), sent.owner).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    let mut body = response.into_body();
    assert_eq!(*acknowledged(&next(&mut body).await.unwrap()), json!([id]));
    assert_eq!(task(&world, &next(&mut body).await.unwrap(), &id).await["status"], "working");
    world.work().await;
    let message = world.while_time_passes(next(&mut body)).await.unwrap();
    assert_eq!(message["params"]["statusMessage"], "3/10 adding up");
    assert_eq!(task(&world, &message, &id).await["status"], "input_required");
    world.update(&id, json!({"go_on": {"action": "accept", "content": {"value": "yes"}}})).await;
    world.work().await;
    let message = world.while_time_passes(next(&mut body)).await.unwrap();
    assert_eq!(task(&world, &message, &id).await["status"], "completed");
    closed(&next(&mut body).await.unwrap());
    assert_eq!(next(&mut body).await, None);
}

#[tokio::test]
async fn a_task_that_has_ended_already_is_reported_once() {
    let world = World::new();
    let id = world.start("large", json!({"bytes": 200_000})).await;
    world.work().await;
    let answer = world.send(&listen(json!([id, id]))).await;
    let events = answer.events();
    assert_eq!(events.len(), 3);
    assert_eq!(*acknowledged(&events[0]), json!([id]));
    assert_eq!(task(&world, &events[1], &id).await["status"], "completed");
    closed(&events[2]);
}

#[tokio::test]
async fn tasks_that_do_not_exist_or_are_anothers_are_left_out() {
    let world = World::new();
    let id = world.start("add", json!({"a": 1, "b": 1})).await;
    for sent in [listen(json!([id])).of(bob()), listen(json!(["0199aaaa-0000-7000-8000-000000000000", "no id"]))] {
        let events = world.send(&sent).await.events();
        assert_eq!(*acknowledged(&events[0]), json!([]));
        closed(&events[1]);
        assert_eq!(events.len(), 2);
    }
}

#[tokio::test]
async fn a_stream_ends_properly_when_the_longest_wait_is_over_and_sends_keep_alive_comments() {
    let world = World::new();
    let id = world.start("add", json!({"a": 1, "b": 1})).await;
    let before_ms = world.now_ms();
    let answer = world.while_time_passes(world.send(&listen(json!([id])))).await;
    assert!(world.now_ms() - before_ms >= 300_000);
    let events = answer.events();
    assert_eq!(events.len(), 3, "{events:?}");
    closed(&events[2]);
    let comments = answer.text.lines().filter(|line| *line == ":").count();
    assert_eq!(comments, 20, "one every 15 s of 300");
}

#[tokio::test]
async fn open_streams_end_properly_when_the_server_closes() {
    let world = World::new();
    let id = world.start("add", json!({"a": 1, "b": 1})).await;
    let sent = listen(json!([id]));
    let mut body = world.mcp.respond(sent.request(), sent.owner).await.into_body();
    next(&mut body).await.unwrap();
    next(&mut body).await.unwrap();
    world.mcp.close();
    closed(&next(&mut body).await.unwrap());
    assert_eq!(next(&mut body).await, None);
}

#[tokio::test]
async fn a_subscription_names_a_limited_number_of_tasks() {
    let world = World::new();
    let ids: Vec<String> = (0..101).map(|number| number.to_string()).collect();
    assert_eq!(world.send(&listen(json!(ids))).await.error().1, -32602);
}

#[tokio::test]
async fn a_subscription_that_is_not_about_tasks_is_the_handlers_and_limited_in_time_too() {
    let world = World::new();
    let sent = |filter| Sent::new("subscriptions/listen", json!({ "notifications": filter }));
    let unknown = world.send(&sent(json!({"toolsListChanged": true}))).await;
    assert_eq!((unknown.error().0, unknown.error().1), (404, -32601), "this handler has no subscriptions");
    let answer = world.while_time_passes(world.send(&sent(json!({"promptsListChanged": true})))).await;
    let events = answer.events();
    assert_eq!(events[0]["params"]["notifications"], json!({"promptsListChanged": true}));
    assert_eq!(events.last().unwrap()["result"]["resultType"], "complete");
    assert_eq!(events.len(), 2);
}
