//! A retry of the same call is the same task.

use http::HeaderValue;
use serde_json::{Value, json};

use crate::world::{Sent, World, alice, read};

async fn id(world: &World, sent: &Sent) -> Value {
    world.result(sent).await["taskId"].clone()
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

/// Some languages write `1.0` for `1`.
#[tokio::test]
async fn a_retry_may_write_its_numbers_in_another_form() {
    let world = World::new();
    let call = |arguments| Sent::call("add", arguments).with_header("idempotency-key", "k1");
    let first = id(&world, &call(json!({"a": 0, "b": 2}))).await;
    assert_eq!(id(&world, &call(json!({"a": 0.0, "b": 2.0}))).await, first);
}

/// Two keys that are not text were once converted to the same text, and so two calls were taken for one.
#[tokio::test]
async fn a_key_that_is_empty_or_too_long_or_not_text_is_refused() {
    let world = World::new();
    let long = vec![b'k'; 257];
    for (keys, code) in [
        (&[&b""[..]][..], -32602),
        (&[&long], -32602),
        (&[b"\xff\xfe"], -32602),
        (&[b"a\xc3"], -32602),
        (&[b"a", b"b"], -32602),
    ] {
        let mut request = Sent::call("add", json!({"a": 1, "b": 2})).request();
        for key in keys {
            request.headers_mut().append("idempotency-key", HeaderValue::from_bytes(key).unwrap());
        }
        assert_eq!(read(world.mcp.respond(request, alice()).await).await.error().1, code, "{keys:?}");
    }
    let list = Sent::new("tools/list", json!({})).with_header("idempotency-key", &"k".repeat(257));
    let (status, code, message) = world.send(&list).await.error();
    assert_eq!((status, code), (400, -32602), "it is refused for every method alike: {message}");
    let text = Sent::call("add", json!({"a": 1, "b": 2})).with_header("idempotency-key", "\u{e4}");
    assert!(world.result(&text).await["taskId"].is_string());
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
