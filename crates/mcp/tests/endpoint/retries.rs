//! A retry of the same call is the same task.

use serde_json::{Value, json};

use crate::world::{Sent, World, bob};

async fn id(world: &World, sent: &Sent) -> Value {
    world.result(sent).await["taskId"].clone()
}

#[tokio::test]
async fn the_same_key_and_the_same_request_are_the_same_task() {
    let world = World::new();
    let call = Sent::call("add", json!({"a": 1, "b": 2})).with_header("idempotency-key", "k1");
    let first = id(&world, &call).await;
    let mut other_order = call.clone();
    let text = other_order.body.to_string().replace(r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
    other_order.body = serde_json::from_str(&text).unwrap();
    assert_eq!(id(&world, &other_order).await, first);
    world.work().await;
    let answer = world.result(&call).await;
    assert_eq!((&answer["taskId"], &answer["status"]), (&first, &json!("completed")));
    assert_eq!(answer.get("result"), None, "a handle carries no result");
}

#[tokio::test]
async fn the_key_may_be_in_the_body_for_clients_that_cannot_set_headers() {
    let world = World::new();
    let call = Sent::call("add", json!({"a": 1, "b": 2}));
    let first = id(&world, &call.clone().with_header("idempotency-key", "k1")).await;
    assert_eq!(id(&world, &call.with_meta("dev.longhaul/idempotencyKey", "k1".into())).await, first);
}

#[tokio::test]
async fn the_same_key_with_another_request_is_an_error() {
    let world = World::new();
    let call = |arguments| Sent::call("add", arguments).with_header("idempotency-key", "k1");
    id(&world, &call(json!({"a": 1, "b": 2}))).await;
    let (_, code, message) = world.send(&call(json!({"a": 1, "b": 3}))).await.error();
    assert_eq!(code, -32602);
    assert!(message.contains("another request"), "{message}");
}

#[tokio::test]
async fn other_keys_and_other_owners_are_other_tasks() {
    let world = World::new();
    let call = Sent::call("add", json!({"a": 1, "b": 2}));
    let ids = [
        id(&world, &call).await,
        id(&world, &call).await,
        id(&world, &call.clone().with_header("idempotency-key", "k1")).await,
        id(&world, &call.clone().with_header("idempotency-key", "k2")).await,
        id(&world, &call.with_header("idempotency-key", "k1").of(bob())).await,
    ];
    for (index, id) in ids.iter().enumerate() {
        assert!(!ids[index + 1..].contains(id), "{index}");
    }
}

#[tokio::test]
async fn a_key_that_is_empty_or_too_long_is_refused() {
    let world = World::new();
    for key in [String::new(), "k".repeat(257)] {
        let call = Sent::call("add", json!({"a": 1, "b": 2})).with_header("idempotency-key", &key);
        assert_eq!(world.send(&call).await.error().1, -32602);
    }
}

#[tokio::test]
async fn arguments_of_4_mib_are_taken_and_a_request_over_the_limit_is_refused() {
    let world = World::new();
    let call = |bytes| Sent::call("add", json!({"a": 1, "b": 2, "rest": "x".repeat(bytes)}));
    let id = id(&world, &call(4 * 1024 * 1024)).await;
    world.work().await;
    assert_eq!(world.get(id.as_str().unwrap()).await["result"]["content"][0]["text"], "3");
    let call = call(4 * 1024 * 1024 + 64 * 1024);
    let (_, code, message) = world.send(&call).await.error();
    assert_eq!(code, -32602);
    assert!(message.contains("at most"), "{message}");
    let far_over = Sent::call("add", json!({"rest": "x".repeat(6 * 1024 * 1024)}));
    assert_eq!(world.send(&far_over).await.error().0, 413);
}
