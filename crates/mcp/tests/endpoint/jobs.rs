//! Clients that know no tasks: an answer within a limited time, or a job id and two tools that manage the job.

use longhaul_core::limits;
use rmcp::model::CallToolResult;
use serde_json::{Value, json};

use crate::older_client::{Older, Stream};
use crate::schema;
use crate::world::{Sent, World, alice, bob, no_tasks};

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

fn call(tool: &str, arguments: Value) -> Sent {
    Sent::call(tool, arguments).declaring(no_tasks())
}

fn status(job_id: &str) -> Sent {
    call("get_job_status", json!({"job_id": job_id, "wait_s": 0}))
}

fn accept(value: &str) -> Value {
    json!({"action": "accept", "content": {"value": value}})
}

/// The envelope, which is in the structured content for programs and in the text for models.
fn data(result: &Value) -> Value {
    schema::is("2026-07-28", "CallToolResult", result);
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    text["data"].clone()
}

/// Calls a tool that takes long; returns the answer.
async fn take_long(world: &World) -> Value {
    world.served(&call("sleeps", json!({"ms": 120_000}))).await.result()
}

#[tokio::test]
async fn a_quick_call_is_answered_as_a_plain_call_would_be() {
    let world = World::new();
    let result = world.served(&call("add", json!({"a": 1, "b": 2}))).await.result();
    schema::is("2026-07-28", "CallToolResult", &result);
    assert_eq!(result["content"], json!([{"type": "text", "text": "3"}]));
    let error = world.served(&call("fails", json!({}))).await.error();
    assert_eq!(error, (200, -32602, "no such city".to_owned()));
    let failed = world.served(&call("tool_error", json!({}))).await.result();
    assert_eq!((&failed["isError"], &failed["content"][0]["text"]), (&json!(true), &json!("it did not work")));
    let (_, code, _) = world.served(&call("gone", json!({}))).await.error();
    assert_eq!(code, -32602);
}

#[tokio::test]
async fn a_long_call_is_answered_with_a_job_and_what_to_do_with_it() {
    let world = World::new();
    let result = take_long(&world).await;
    let job = data(&result);
    assert_eq!((&job["status"], &job["poll_after_s"]), (&json!("running"), &json!(5)));
    let id = job["job_id"].as_str().unwrap();
    assert!(job["enqueued_at"].as_str().unwrap().ends_with('Z'));
    let sentence = result["content"][1]["text"].as_str().unwrap();
    for word in ["get_job_status", "cancel_job", id, "20 s"] {
        assert!(sentence.contains(word), "{sentence}");
    }
    assert_eq!(result.get("isError").unwrap_or(&json!(false)), &json!(false));
    serde_json::from_value::<CallToolResult>(result).unwrap();
}

#[tokio::test]
async fn a_job_is_queued_then_running_then_completed() {
    let world = World::new();
    // No worker is running.
    let result = world.while_time_passes(world.result(&call("sleeps", json!({"ms": 120_000})))).await;
    let job = data(&result);
    assert_eq!(job["status"], "queued");
    let id = job["job_id"].as_str().unwrap();
    assert_eq!(data(&world.result(&status(id)).await)["status"], "queued");
    world.work().await;
    assert_eq!(data(&world.result(&status(id)).await)["status"], "running");
    world.clock.advance_ms(120_000);
    world.work().await;
    let done = data(&world.result(&status(id)).await);
    assert_eq!(done["status"], "completed");
    assert_eq!(done["result"]["content"][0]["text"], "attempt 2");
    assert_eq!(done["job_id"], id);
}

#[tokio::test]
async fn a_request_for_a_jobs_status_waits_for_its_end() {
    let world = World::new();
    let id = data(&take_long(&world).await)["job_id"].as_str().unwrap().to_owned();
    let patient = call("get_job_status", json!({"job_id": id}));
    let mut looks = 0;
    loop {
        let before = world.now_ms();
        let job = data(&world.served(&patient).await.result());
        if job["status"] == "completed" {
            break;
        }
        assert_eq!(job["status"], "running");
        assert!(world.now_ms() - before >= 20_000, "it did not wait");
        looks += 1;
        assert!(looks < 10);
    }
}

#[tokio::test]
async fn a_job_that_failed_says_why() {
    let world = World::new();
    for (tool, code, message) in [("fails", "failed", "no such city"), ("tool_error", "tool_error", "it did not work")]
    {
        let id = world.start(tool, json!({})).await;
        world.work().await;
        let job = data(&world.result(&status(&id)).await);
        assert_eq!(job["status"], "failed");
        assert_eq!((&job["error"]["code"], &job["error"]["message"]), (&json!(code), &json!(message)));
    }
}

#[tokio::test]
async fn a_cancelled_job_has_failed_and_its_worker_stops() {
    let world = World::new();
    let id = data(&take_long(&world).await)["job_id"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let job = data(&world.result(&call("cancel_job", json!({"job_id": id}))).await);
        assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("cancelled")));
    }
    assert_eq!(world.get(&id).await["status"], "cancelled");
}

#[tokio::test]
async fn only_clients_without_tasks_are_shown_the_job_tools() {
    let world = World::new();
    let list = |sent: Sent| {
        let world = &world;
        async move { world.result(&sent).await["tools"].as_array().unwrap().clone() }
    };
    let named = |tools: &[Value], name: &str| tools.iter().find(|tool| tool["name"] == name).cloned();
    let without = list(Sent::new("tools/list", json!({})).declaring(no_tasks())).await;
    for name in ["get_job_status", "cancel_job"] {
        let tool = named(&without, name).expect(name);
        assert_eq!(tool["inputSchema"]["required"], json!(["job_id"]));
    }
    let description = named(&without, "add").unwrap()["description"].as_str().unwrap().to_owned();
    assert!(description.contains("job_id") && description.contains("20 s"), "{description}");
    let with = list(Sent::new("tools/list", json!({}))).await;
    assert_eq!(named(&with, "get_job_status"), None);
    assert!(!named(&with, "add").unwrap().to_string().contains("job_id"));
    for revision in REVISIONS {
        let client = Older::connect(&world.mcp, revision).await;
        let tools = list(client.sent("tools/list", json!({}))).await;
        assert!(named(&tools, "cancel_job").is_some(), "{revision}");
    }
    let plain = World::plain();
    let tools = plain.result(&Sent::new("tools/list", json!({})).declaring(no_tasks())).await["tools"].clone();
    assert_eq!(named(tools.as_array().unwrap(), "get_job_status"), None, "nothing becomes a job there");
}

#[tokio::test]
async fn a_question_of_a_job_ends_the_call_and_its_retry_continues_the_same_job() {
    let world = World::new();
    let call = call("steps", json!({}));
    let asked = world.served(&call).await.result();
    schema::is("2026-07-28", "InputRequiredResult", &asked);
    assert_eq!(asked["inputRequests"]["name"]["params"]["message"], "Name?");
    let retry = call
        .clone()
        .with_param("inputResponses", json!({"name": accept("Ann")}))
        .with_param("requestState", asked["requestState"].clone());
    let result = world.served(&retry).await.result();
    // The first step is not run again, as it would be in a plain call.
    assert_eq!(result["content"][0]["text"], "Ann 1 2");
    let (_, code, _) = world.served(&retry.of(bob())).await.error();
    assert_eq!(code, -32602, "the state belongs to its owner");
}

#[tokio::test]
async fn each_round_of_a_job_has_another_state() {
    let world = World::new();
    let call = call("after_input", json!({}));
    let first = world.served(&call).await.result();
    let retry = call
        .with_param("inputResponses", json!({"name": accept("Ann")}))
        .with_param("requestState", first["requestState"].clone());
    let second = world.served(&retry).await.result();
    assert_eq!(second["resultType"], "input_required", "{second}");
    assert_ne!(second["requestState"], first["requestState"]);
}

#[tokio::test]
async fn an_answer_that_is_refused_leaves_the_job_as_it_was() {
    let world = World::new();
    let call = call("steps", json!({}));
    let asked = world.served(&call).await.result();
    let retry = |name: &str| {
        let answered = call.clone().with_param("inputResponses", json!({"name": accept(name)}));
        answered.with_param("requestState", asked["requestState"].clone())
    };
    let too_long = "x".repeat(limits::ENTRY_BYTES_MAX);
    assert_eq!(world.served(&retry(&too_long)).await.error().1, -32602);
    assert_eq!(world.served(&retry("Ann")).await.result()["content"][0]["text"], "Ann 1 2");
}

#[tokio::test]
async fn a_job_asks_an_older_client_while_its_call_is_open() {
    let (world, client) = Older::in_new_world("2025-06-18").await;
    let sent = client.call("steps", json!({}));
    let mut stream = world.while_working(client.stream(&world.mcp, &sent)).await;
    let asked = stream.next().await.unwrap();
    client.fill_in(&world.mcp, &asked, "Ann").await;
    let last = world.while_working(stream.next()).await.unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "Ann 1 2");
}

#[tokio::test]
async fn a_job_that_asks_later_asks_the_client_that_requests_its_status() {
    let (world, id) = World::with_task("after_rounds_of_sleep").await;
    world.clock.advance_ms(60_000);
    world.work_until(&id, "input_required").await;
    let look = call("get_job_status", json!({"job_id": id}));
    let asked = world.served(&look).await.result();
    assert_eq!(asked["resultType"], "input_required");
    let retry = look
        .clone()
        .with_param("inputResponses", json!({"name": accept("Ann")}))
        .with_param("requestState", asked["requestState"].clone());
    assert_eq!(data(&world.served(&retry).await.result())["status"], "completed");
}

#[tokio::test]
async fn a_job_whose_client_cannot_be_asked_fails_as_the_plain_call_would() {
    let world = World::new();
    let sent = Sent::call("steps", json!({})).declaring(json!({}));
    assert_eq!(world.served(&sent).await.error().1, -32021);
}

#[tokio::test]
async fn a_retry_with_a_key_finds_the_same_job() {
    let world = World::new();
    let sent = call("sleeps", json!({"ms": 120_000})).with_header("idempotency-key", "k");
    let first = data(&world.served(&sent).await.result());
    let second = data(&world.served(&sent).await.result());
    assert_eq!(first["job_id"], second["job_id"]);
}

/// A job of a client of an older revision that was asked for a name while its call is open, and the job's id.
async fn asked_while_its_call_is_open() -> (World, Older, Stream, Value, String) {
    let (world, client) = Older::in_new_world("2025-11-25").await;
    let mut stream = world.while_working(client.stream(&world.mcp, &client.call("steps", json!({})))).await;
    let asked = stream.next().await.unwrap();
    let tasks = world.engine.list(&alice(), None, 2).await.unwrap().tasks;
    let [task] = tasks.as_slice() else { panic!("{tasks:?}") };
    let id = task.id.to_string();
    (world, client, stream, asked, id)
}

/// The client is told that it is no longer asked. Returns what comes then.
async fn withdrawn(world: &World, stream: &mut Stream, asked: &Value) -> Value {
    // Together: a worker that stops between them would leave the attempt to the next one, after its lease.
    let (told, last) =
        world.while_working(async { (stream.next().await.unwrap(), stream.next().await.unwrap()) }).await;
    assert_eq!(told["method"], "notifications/cancelled", "{told}");
    assert_eq!(told["params"]["requestId"], asked["id"]);
    last
}

#[tokio::test]
async fn a_question_that_nobody_has_answered_when_its_call_ends_stays_open() {
    let (world, _client, mut stream, _asked, id) = asked_while_its_call_is_open().await;
    let last = world.while_working(stream.next()).await.unwrap();
    assert_eq!(last["result"]["structuredContent"]["data"]["job_id"], id.as_str(), "{last}");
    let task = world.get(&id).await;
    assert_eq!((&task["status"], task["inputRequests"].get("name").is_some()), (&json!("input_required"), true));
    world.update(&id, json!({"name": accept("Ann")})).await;
    let done = world.work_until(&id, "completed").await;
    assert_eq!(done["result"]["content"][0]["text"], "Ann 1 2");
}

#[tokio::test]
async fn an_error_with_which_a_client_answers_is_its_answer() {
    let (world, client, mut stream, asked, _id) = asked_while_its_call_is_open().await;
    let error = ("error", json!({"code": -1, "message": "no window"}));
    assert_eq!(client.reply(&world.mcp, &asked["id"], error).await, 202);
    let last = world.while_working(stream.next()).await.unwrap();
    assert_eq!(last["error"]["message"], "no window", "{last}");
}

#[tokio::test]
async fn a_question_that_another_client_answers_is_withdrawn() {
    let (world, _client, mut stream, asked, id) = asked_while_its_call_is_open().await;
    world.update(&id, json!({"name": accept("Bob")})).await;
    let last = withdrawn(&world, &mut stream, &asked).await;
    assert_eq!(last["result"]["content"][0]["text"], "Bob 1 2", "{last}");
}

#[tokio::test]
async fn a_call_whose_job_is_cancelled_ends_and_its_question_is_withdrawn() {
    let (world, _client, mut stream, asked, id) = asked_while_its_call_is_open().await;
    let began_ms = world.now_ms();
    world.cancel(&id).await;
    let last = withdrawn(&world, &mut stream, &asked).await;
    assert_eq!(last["error"]["message"], "the call was cancelled", "{last}");
    assert!(world.now_ms() < began_ms + 60_000, "it waited for the client");
}

#[tokio::test]
async fn the_state_of_a_jobs_question_is_valid_for_as_long_as_the_job() {
    let world = World::new();
    let call = call("steps", json!({}));
    let asked = world.served(&call).await.result();
    world.clock.advance_ms(20 * 60_000);
    let retry = call
        .with_param("inputResponses", json!({"name": accept("Ann")}))
        .with_param("requestState", asked["requestState"].clone());
    assert_eq!(world.served(&retry).await.result()["content"][0]["text"], "Ann 1 2");
}
