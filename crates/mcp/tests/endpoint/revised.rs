//! What each revision has, and what it therefore gets.

use serde_json::{Value, json};

use crate::older_client::Older;
use crate::schema;
use crate::world::World;

async fn called(world: &World, revision: &str, tool: &str) -> Value {
    let client = Older::connect(&world.mcp, revision).await;
    world.served(&client.call(tool, json!({}))).await.result()
}

#[tokio::test]
async fn structured_content_is_sent_to_revisions_that_have_it() {
    // Once as plain calls, and once as jobs.
    for world in [World::plain(), World::new()] {
        for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let result = called(&world, revision, "greets").await;
            let has_structure = revision >= "2025-06-18";
            let structure = json!({"greeting": "hello"});
            assert_eq!(result.get("structuredContent"), has_structure.then_some(&structure), "{revision}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), structure, "{revision}");
        }
    }
}

#[tokio::test]
async fn a_result_with_nothing_else_is_shown_as_text() {
    let world = World::plain();
    for revision in ["2024-11-05", "2025-03-26"] {
        let result = called(&world, revision, "measures").await;
        assert_eq!(result["content"], json!([{"type": "text", "text": "{\"meters\":3}"}]), "{revision}");
    }
    assert_eq!(called(&world, "2025-06-18", "measures").await["content"], json!([]));
}

#[tokio::test]
async fn content_that_a_revision_does_not_have_is_shown_as_text() {
    let world = World::plain();
    let kinds = async |revision| {
        let result = called(&world, revision, "links").await;
        result["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(kinds("2025-06-18").await, ["resource_link", "audio"]);
    assert_eq!(kinds("2025-03-26").await, ["text", "audio"]);
    assert_eq!(kinds("2024-11-05").await, ["text", "text"]);
    let result = called(&world, "2025-03-26", "links").await;
    assert_eq!(result["content"][0]["text"], "report: file:///report.pdf");
}

#[tokio::test]
async fn an_async_call_is_answered_with_the_results_of_its_revision() {
    let world = World::new();
    for revision in ["2025-03-26", "2025-06-18"] {
        let client = Older::connect(&world.mcp, revision).await;
        let accepted = client.result(&world.mcp, "tools/async/call", json!({"name": "greets"})).await;
        world.work().await;
        let result = client.result(&world.mcp, "tools/async/get", json!({"token": accepted["token"]})).await;
        assert_eq!(result.get("structuredContent").is_some(), revision == "2025-06-18", "{result}");
    }
}

async fn asked(world: &World, revision: &str) -> Value {
    let client = Older::connect(&world.mcp, revision).await;
    let mut stream = client.stream(&world.mcp, &client.call("asks_choices", json!({}))).await;
    stream.next().await.unwrap()["params"].clone()
}

#[tokio::test]
async fn a_form_has_the_fields_of_its_revision() {
    let world = World::plain();
    let newer = asked(&world, "2025-11-25").await;
    assert_eq!(
        (&newer["mode"], &newer["requestedSchema"]["properties"]["name"]["default"]),
        (&json!("form"), &json!("nobody"))
    );
    let older = asked(&world, "2025-06-18").await;
    let mut fields: Vec<_> = older.as_object().unwrap().keys().collect();
    fields.sort();
    assert_eq!(fields, ["message", "requestedSchema"]);
    let properties = json!({
        "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
        "sure": {"type": "boolean", "default": true},
        "name": {"type": "string"},
    });
    assert_eq!(older["requestedSchema"], json!({"type": "object", "properties": properties}));
}

#[tokio::test]
async fn a_question_that_a_revision_does_not_have_is_not_asked() {
    let world = World::plain();
    for (revision, refused) in [("2025-06-18", true), ("2025-11-25", false)] {
        let client = Older::connect(&world.mcp, revision).await;
        if refused {
            let answer = world.served(&client.call("asks_url", json!({}))).await.json();
            schema::is("2025-11-25", "JSONRPCErrorResponse", &answer);
            assert!(answer["error"]["message"].as_str().unwrap().contains("`url`"), "{answer}");
        } else {
            let mut stream = client.stream(&world.mcp, &client.call("asks_url", json!({}))).await;
            assert_eq!(stream.next().await.unwrap()["params"]["mode"], "url");
        }
    }
}
