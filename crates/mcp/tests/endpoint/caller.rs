//! What tools and other handlers see of who calls.

use longhaul_core::{Principal, Scopes, VerifiedIdentity};
use longhaul_mcp::McpSettings;
use serde_json::{Value, json};

use crate::older_client::{Older, another_instance};
use crate::world::{Sent, World, alice, no_tasks, read};

/// A member of the team that is Alice's owner.
fn member(subject: &str) -> Principal {
    let mut identity = VerifiedIdentity::new("https://id.example.com", subject);
    identity.claims.insert("team".to_owned(), "blue".into());
    let scopes = Scopes::Granted(["etl:run".to_owned(), "mcp:call".to_owned()].into());
    Principal { owner: alice(), identity: Some(identity), scopes }
}

fn seen(subject: &str) -> Value {
    json!({
        "issuer": "https://id.example.com", "subject": subject, "team": "blue",
        "scopes": ["etl:run", "mcp:call"], "may": [true, false],
    })
}

async fn result(world: &World, sent: &Sent, caller: Principal) -> Value {
    read(world.mcp.respond(sent.request(), caller).await).await.result()
}

fn text(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    serde_json::from_str(text).unwrap()
}

/// Twice what is seen: at the beginning of the attempt, and after the question.
fn twice(seen: Value) -> Value {
    json!([seen, seen])
}

#[tokio::test]
async fn a_task_shows_who_called_in_every_attempt_on_every_machine() {
    let world = World::new();
    let created = result(&world, &Sent::call("shows_caller", json!({})), member("ann")).await;
    let id = created["taskId"].as_str().unwrap().to_owned();
    world.work().await;
    assert_eq!(world.get(&id).await["status"], "input_required");
    // Somebody else of the team answers, and another machine goes on.
    let answer = json!({"go_on": {"action": "accept", "content": {"value": "x"}}});
    let sent = Sent::new("tasks/update", json!({"taskId": id, "inputResponses": answer}));
    result(&world, &sent, member("bea")).await;
    world.work_with(&*another_instance(&world, McpSettings::new([7; 32])).runner()).await;
    assert_eq!(text(&world.get(&id).await["result"]), twice(seen("ann")));
}

#[tokio::test]
async fn every_protocol_version_stores_who_called() {
    let world = World::new();
    let calls = [
        ("2025-11-25", "tools/call", json!({"name": "shows_caller", "arguments": {}, "task": {}})),
        ("2025-06-18", "tools/async/call", json!({"name": "shows_caller", "arguments": {}})),
        ("next", "tools/call", json!({"name": "shows_caller", "arguments": {}, "operation": {}})),
    ];
    for (revision, method, params) in calls {
        let client = Older::connect(&world.mcp, revision).await;
        result(&world, &client.sent(method, params), member(revision)).await;
    }
    let job = Sent::call("shows_caller", json!({})).declaring(no_tasks());
    world.while_working(async { result(&world, &job, member("job")).await }).await;
    world.work().await;
    let client = Older::connect(&world.mcp, "2025-11-25").await;
    let tasks = client.result(&world.mcp, "tasks/list", json!({})).await["tasks"].clone();
    let mut shown = Vec::new();
    for task in tasks.as_array().unwrap() {
        let id = task["taskId"].as_str().unwrap();
        world.update(id, json!({"go_on": {"action": "decline"}})).await;
        world.work().await;
        shown.push(text(&world.get(id).await["result"])[0]["subject"].as_str().unwrap().to_owned());
    }
    shown.sort_unstable();
    assert_eq!(shown, ["2025-06-18", "2025-11-25", "job", "next"]);
}

#[tokio::test]
async fn a_plain_call_shows_who_calls_with_and_without_a_context() {
    let world = World::plain();
    let sent = Sent::call("shows_caller", json!({}));
    let asked = result(&world, &sent, member("ann")).await;
    let answer = json!({"go_on": {"action": "accept", "content": {"value": "x"}}});
    let next = sent.with_param("requestState", asked["requestState"].clone()).with_param("inputResponses", answer);
    assert_eq!(text(&result(&world, &next, member("bea")).await), twice(seen("bea")), "each request has its own");
    let client = Older::connect(&world.mcp, "2025-11-25").await;
    assert_eq!(text(&result(&world, &client.call("asks_for_caller", json!({})), member("ann")).await), seen("ann"));
    let prompt = result(&world, &Sent::new("prompts/get", json!({"name": "shows_caller"})), member("ann")).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "prompt for ann");
}

#[tokio::test]
async fn callers_whom_nobody_identifies_are_not_shown() {
    let world = World::plain();
    assert_eq!(text(&world.result(&Sent::call("asks_for_caller", json!({}))).await), Value::Null);
    let (world, id) = World::with_task("shows_caller_late").await;
    world.kill_a_worker_in_the_middle().await;
    let task = world.work_until(&id, "completed").await;
    assert_eq!(text(&task["result"])["caller"], Value::Null);
}

#[tokio::test]
async fn what_is_stored_about_a_caller_has_a_limit() {
    let world = World::new();
    let mut caller = member("ann");
    caller.identity.as_mut().unwrap().claims.insert("groups".to_owned(), "x".repeat(16 * 1024).into());
    let sent = Sent::call("shows_caller", json!({}));
    let (_, code, message) = read(world.mcp.respond(sent.request(), caller.clone()).await).await.error();
    assert_eq!(code, -32600);
    assert!(message.contains("at most 16384 are stored") && message.contains("fewer claims"), "{message}");
    let plain = World::plain();
    assert_eq!(text(&result(&plain, &Sent::call("asks_for_caller", json!({})), caller).await), seen("ann"));
}
