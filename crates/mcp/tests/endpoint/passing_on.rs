//! Everything that is not about tasks reaches the author's handler.

use serde_json::json;

use crate::schema;
use crate::world::{Sent, World};

#[tokio::test]
async fn tools_are_listed_unchanged() {
    let world = World::new();
    let listed = world.result(&Sent::new("tools/list", json!({}))).await;
    schema::is("2026-07-28", "ListToolsResult", &listed);
    assert!(listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "add"));
}

#[tokio::test]
async fn prompts_resources_and_completions_are_passed_on() {
    let world = World::new();
    let prompt = world.result(&Sent::new("prompts/get", json!({"name": "hello"}))).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "prompt hello");
    let resource = world.result(&Sent::new("resources/read", json!({"uri": "test://a"}))).await;
    assert_eq!(resource["contents"][0]["text"], "contents");
    let params = json!({"ref": {"type": "ref/prompt", "name": "hello"}, "argument": {"name": "city", "value": "par"}});
    let completion = world.result(&Sent::new("completion/complete", params)).await;
    assert_eq!(completion["completion"]["values"], json!(["paris"]));
}

#[tokio::test]
async fn a_panic_anywhere_in_the_handler_is_an_error() {
    let world = World::new();
    let (_, code, _) = world.send(&Sent::new("prompts/get", json!({"name": "panics"}))).await.error();
    assert_eq!(code, -32603);
}

#[tokio::test]
async fn methods_of_older_revisions_are_passed_on_there() {
    let world = World::new();
    for method in ["ping", "logging/setLevel"] {
        let sent = Sent::new(method, json!({"level": "info"})).legacy("2025-11-25");
        assert_eq!(world.result(&sent).await, json!({}), "{method}");
    }
}
