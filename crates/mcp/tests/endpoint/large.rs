//! Requests that would cost too much, in every protocol version; and what is stored of a call.

use std::sync::atomic::Ordering;

use futures::FutureExt;
use longhaul_core::{TaskKey, TraceParent};
use longhaul_engine::WorkerSignals;
use serde_json::{Value, json};

use crate::world::{Sent, World, alice, read};

/// 50,000 maps of one member.
fn many() -> Value {
    Value::Array(vec![json!({"": 0}); 50_000])
}

#[tokio::test]
async fn too_many_values_are_refused_wherever_they_are() {
    let world = World::new();
    let call = Sent::call("add", json!({"a": 1, "b": 2}));
    let sent = [
        call.clone().with_meta("x", many()),
        call.clone().with_param("arguments", json!({"x": many()})),
        call.clone().with_param("inputResponses", many()),
        call.clone().with_param("x", many()).legacy("2025-11-25"),
        call.clone().with_param("task", many()).legacy("2025-11-25"),
        call.clone().with_param("operation", json!({"token": many()})).legacy("next"),
        Sent::new("tools/async/call", json!({"name": "add", "arguments": {"x": many()}})).legacy("2025-06-18"),
        Sent::new("initialize", json!({"capabilities": {"experimental": {"x": many()}}})).legacy("2025-06-18"),
        Sent::new("notifications/x", json!({"x": many()})),
        Sent::new("tasks/update", json!({"taskId": "x", "inputResponses": {"x": many()}})),
        Sent::new("nothing", json!({"x": many()})),
    ];
    for sent in sent {
        let (status, code, message) = world.send(&sent).await.error();
        assert_eq!((status, code), (413, -32600), "{message}");
        assert!(message.contains("as one string"), "{message}");
    }
    let mut id = call.clone();
    id.body["id"] = many();
    assert_eq!(world.send(&id).await.error().0, 413);
    let text = call.with_meta("x", many().to_string().into());
    assert!(world.result(&text).await["taskId"].is_string(), "the same as one string is accepted");
}

#[tokio::test]
async fn deep_nesting_is_refused() {
    let world = World::new();
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let call = |levels| Sent::call("add", json!({"a": 1, "b": 2})).with_meta("x", deep(levels));
    let (status, code, message) = world.send(&call(126)).await.error();
    assert_eq!((status, code), (400, -32700), "{message}");
    assert!(world.result(&call(100)).await["taskId"].is_string());
}

/// Four such calls take all memory for the arguments of attempts. A fifth one once held its worker until one of them
/// had ended.
#[tokio::test]
async fn an_attempt_without_memory_gives_its_worker_back_until_there_is_some() {
    let world = World::new();
    let large = Sent::call("hangs", json!({})).with_meta("x", "x".repeat(4_000_000).into());
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(world.result(&large).await["taskId"].as_str().unwrap().to_owned());
    }
    let (runner, signals) = (world.mcp.runner(), WorkerSignals::default());
    let mut running = Vec::new();
    for number in 1..=4 {
        let delivery = world.queue.receive(1, 30_000, 0).await.unwrap().pop().unwrap();
        let (engine, runner, signals) = (&world.engine, &*runner, &signals);
        let mut attempt = Box::pin(async move { engine.run_delivery(&delivery, runner, signals).await });
        while world.observed.calls_begun.load(Ordering::SeqCst) < number {
            assert_eq!((&mut attempt).now_or_never(), None, "the tool hangs");
            tokio::task::yield_now().await;
        }
        running.push(attempt);
    }
    let small = world.start("add", json!({"a": 1, "b": 2})).await;
    // The fifth call and the small one are worked on by one worker, in their order.
    world.work().await;
    let waits = world.get(&ids[4]).await;
    assert_eq!((&waits["status"], &world.get(&small).await["status"]), (&json!("working"), &json!("completed")));
    drop(running);
    world.clock.advance_ms(5_000);
    let mut fifth = Box::pin(world.work());
    while world.observed.calls_begun.load(Ordering::SeqCst) < 5 {
        assert_eq!((&mut fifth).now_or_never(), None, "the tool hangs");
        tokio::task::yield_now().await;
    }
}

/// Some of this would not survive a reader: escapes, spaces, and digits beyond those of a double.
#[tokio::test]
async fn arguments_are_stored_as_their_client_wrote_them() {
    let world = World::new();
    let written = r#"{"b": 2, "a":1,"name":"caf\u00e9 \/", "digits": 18446744073709551616.50}"#;
    let sent = Sent::call("add", json!("HERE"));
    let mut request = sent.request();
    *request.body_mut() = sent.body.to_string().replace("\"HERE\"", written).into();
    let answer = read(world.mcp.respond(request, sent.owner).await).await;
    let id = answer.result()["taskId"].as_str().unwrap().parse().unwrap();
    let task = world.engine.poll(&TaskKey::new(alice(), id)).await.unwrap();
    let stored = world.engine.load(&task.key(), &task.request).await.unwrap();
    assert!(stored.starts_with(&format!(r#"{{"arguments":{written},"#)), "{stored}");
}

#[tokio::test]
async fn only_a_valid_traceparent_is_stored() {
    let world = World::new();
    let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    for (sent, stored) in [(json!(valid), Some(valid)), (json!("00-".repeat(1_000_000)), None), (json!(7), None)] {
        let call = Sent::call("add", json!({"a": 1, "b": 2})).with_meta("traceparent", sent);
        let id = world.result(&call).await["taskId"].as_str().unwrap().parse().unwrap();
        let task = world.engine.poll(&TaskKey::new(alice(), id)).await.unwrap();
        assert_eq!(task.trace, stored.and_then(TraceParent::parse));
        assert!(task.request.bytes() < 1_000, "{:?}", task.request);
        let request = world.engine.load(&task.key(), &task.request).await.unwrap();
        assert_eq!(request.contains("traceparent"), stored.is_some(), "{request}");
    }
}
