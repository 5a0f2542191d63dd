//! What a client sees of a task while it runs, and when: progress that a client finds with each of its polls, and ends
//! that whoever waits hears of at once.
//!
//! The clock stands still but where a test advances it, and servers look by themselves once in a while only: what a
//! waiting client is told here, it was told because the process that changed the task woke it.

use std::time::Duration;

use futures::FutureExt;
use http_body_util::BodyExt;
use longhaul_core::{OwnerId, TaskKey};
use longhaul_engine::Settings;
use longhaul_mcp::{Body, McpServer, McpSettings};
use serde_json::{Value, json};

use crate::older_client::{Older, Stream, another_instance};
use crate::schema;
use crate::world::{Sent, World, alice, no_tasks};

/// In real time, and generous: nothing is measured here.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many times the tool reports progress.
const REPORTS: u32 = 3;

/// Progress is written as soon as it is reported. With an interval, one that is counted from the answer of a write
/// could begin after the second that passes next: a client may see what was written before its worker has the answer.
fn world() -> World {
    World::with(Settings { progress_ms: 0, ..Settings::default() })
}

/// The server of `world`, whose waits read their tasks again after an hour only.
fn patient(world: &World) -> McpServer {
    another_instance(world, McpSettings { listen_poll_ms: 3_600_000, ..McpSettings::new([7; 32]) })
}

/// Runs `client` while a worker works. No time passes.
async fn with_worker<T>(world: &World, client: impl Future<Output = T>) -> T {
    let worker = async {
        loop {
            world.work().await;
            tokio::task::yield_now().await;
        }
    };
    let both = async {
        tokio::select! {
            done = client => done,
            never = worker => never,
        }
    };
    tokio::time::timeout(PATIENCE, both).await.expect("the client sees what it waits for")
}

/// Lets the tool take its next step, a second after the one before.
fn step(world: &World) {
    world.clock.advance_ms(1_000);
    world.observed.pace.add_permits(1);
}

/// Lets a second pass and the tool report once, and waits until the report is on record, without any more time.
async fn second(world: &World, owner: OwnerId, id: &str, number: u32) {
    step(world);
    let key = TaskKey::new(owner, id.parse().unwrap());
    loop {
        let task = world.engine.poll(&key).await.unwrap();
        if task.progress.as_ref().is_some_and(|progress| progress.done >= f64::from(number)) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

/// Polls each second; `shown` is what a client sees of the progress.
#[expect(clippy::future_not_send, reason = "a test awaits it where it is")]
async fn polls_each_second(world: &World, owner: OwnerId, id: &str, shown: impl AsyncFn() -> String) {
    with_worker(world, async {
        for number in 1..=REPORTS {
            second(world, owner, id, number).await;
            assert_eq!(shown().await, format!("{number}/3 paced"));
        }
    })
    .await;
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_client_of_the_tasks_extension_sees_the_progress_of_each_second() {
    let world = world();
    let id = world.start("is_paced", json!({})).await;
    polls_each_second(&world, alice(), &id, async || text(&world.get(&id).await["statusMessage"])).await;
}

#[tokio::test]
async fn a_client_of_core_tasks_sees_the_progress_of_each_second() {
    let world = world();
    let client = Older::connect(&world.mcp, "2025-11-25").await;
    let params = json!({"name": "is_paced", "arguments": {}, "task": {}});
    let created = client.result(&world.mcp, "tools/call", params).await;
    let id = text(&created["task"]["taskId"]);
    let shown = async || {
        let task = client.result(&world.mcp, "tasks/get", json!({"taskId": id})).await;
        text(&task["statusMessage"])
    };
    polls_each_second(&world, client.owner, &id, shown).await;
}

#[tokio::test]
async fn a_client_of_operations_sees_the_progress_of_each_second() {
    let world = world();
    let client = Older::connect(&world.mcp, "next").await;
    let params = json!({"name": "is_paced", "arguments": {}, "operation": {}});
    let accepted = client.result(&world.mcp, "tools/call", params.clone()).await;
    let token = text(&accepted["operation"]["token"]);
    let id = text(&accepted["_meta"]["io.modelcontextprotocol/related-task"]["taskId"]);
    let shown = async || {
        let status = client.result(&world.mcp, "tools/async/status", json!({"token": token})).await;
        schema::is("operations", "GetOperationStatusResult", &status);
        let progress = status["_meta"]["dev.longhaul/progress"].clone();
        // The same, as a notification.
        let params = json!({"token": token, "_meta": {"progressToken": "p1"}});
        let mut stream = client.stream(&world.mcp, &client.sent("tools/async/status", params)).await;
        let mut notified = stream.next().await.unwrap();
        schema::is("2025-11-25", "ProgressNotification", &notified);
        assert_eq!(notified["params"]["progressToken"].take(), "p1");
        notified["params"].as_object_mut().unwrap().remove("progressToken");
        assert_eq!(notified["params"], progress);
        assert_eq!(stream.next().await.unwrap()["result"]["status"], "working");
        format!("{}/{} {}", progress["progress"], progress["total"], text(&progress["message"])).replace(".0", "")
    };
    polls_each_second(&world, client.owner, &id, shown).await;
    let accepted = client.result(&world.mcp, "tools/call", params).await;
    // Enough for both operations: the worker of the first one has left it.
    world.observed.pace.add_permits(8);
    world.clock.advance_ms(60_000);
    world.work().await;
    let params = json!({"token": accepted["operation"]["token"]});
    let status = client.result(&world.mcp, "tools/async/status", params).await;
    assert_eq!((&status["status"], status.get("_meta")), (&json!("completed"), None));
}

#[tokio::test]
async fn a_client_of_asynchronous_calls_sees_the_progress_of_each_second() {
    let world = world();
    let client = Older::connect(&world.mcp, "2025-06-18").await;
    let accepted = client.result(&world.mcp, "tools/async/call", json!({"name": "is_paced"})).await;
    let id = text(&accepted["_meta"]["io.modelcontextprotocol/related-task"]["taskId"]);
    let shown = async || {
        let params = json!({"token": accepted["token"], "timeout": 0});
        let pending = client.result(&world.mcp, "tools/async/get", params).await;
        text(&pending["content"][0]["text"])
    };
    polls_each_second(&world, client.owner, &id, shown).await;
}

#[tokio::test]
async fn a_client_with_a_job_sees_the_progress_of_each_second() {
    let world = world();
    let server = another_instance(&world, McpSettings { inline_wait_ms: 0, ..McpSettings::new([7; 32]) });
    let call = |tool: &str, arguments: Value| Sent::call(tool, arguments).declaring(no_tasks());
    let result = async |sent: Sent| crate::world::read(server.respond(sent.request(), sent.owner).await).await.result();
    let job = result(call("is_paced", json!({}))).await["structuredContent"]["data"].clone();
    let id = text(&job["job_id"]);
    let shown = async || {
        let status = result(call("get_job_status", json!({"job_id": id}))).await;
        text(&status["structuredContent"]["data"]["progress"])
    };
    polls_each_second(&world, alice(), &id, shown).await;
}

/// Follows a stream from the first report to the end. `found` is the next thing that its client sees: progress, or the
/// text of the result.
async fn follows(world: &World, mut found: impl AsyncFnMut() -> String) {
    with_worker(world, async {
        for number in 1..=REPORTS {
            step(world);
            assert_eq!(found().await, format!("{number}/3"));
        }
        // No look is due: no time passes.
        world.observed.pace.add_permits(1);
        assert_eq!(found().await, "arrived");
    })
    .await;
}

/// What a message on a stream says: how far the tool is, or its result.
fn said(message: &Value) -> Option<String> {
    if message["method"] == "notifications/progress" {
        let params = &message["params"];
        return Some(format!("{}/{}", params["progress"], params["total"]).replace(".0", ""));
    }
    message["result"]["content"][0]["text"].as_str().map(str::to_owned)
}

async fn next_said(stream: &mut Stream) -> String {
    loop {
        let message = stream.next().await.expect("another message");
        if let Some(said) = said(&message) {
            return said;
        }
    }
}

#[tokio::test]
async fn a_subscriber_hears_of_progress_and_of_the_end_at_once() {
    let world = world();
    let server = patient(&world);
    let id = world.start("is_paced", json!({})).await;
    let listen = Sent::new("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    let mut body = server.respond(listen.request(), listen.owner).await.into_body();
    let found = async || loop {
        if let Some(seen) = seen(&next(&mut body).await["params"]) {
            return seen;
        }
    };
    follows(&world, found).await;
}

/// What a subscriber sees of the task: how far it is, or its result.
fn seen(task: &Value) -> Option<String> {
    match task["status"].as_str() {
        Some("working") => task["statusMessage"].as_str().map(|words| words.replace(" paced", "")),
        Some("completed") => Some(text(&task["result"]["content"][0]["text"])),
        _ => None,
    }
}

async fn next(body: &mut Body) -> Value {
    let frame = body.frame().await.expect("another frame").unwrap().into_data().unwrap();
    let text = String::from_utf8(frame.to_vec()).unwrap();
    text.strip_prefix("data: ").map_or(Value::Null, |data| serde_json::from_str(data).unwrap())
}

#[tokio::test]
async fn a_client_that_waits_for_a_result_hears_of_progress_and_of_the_end_at_once() {
    let world = world();
    let server = patient(&world);
    let client = Older::connect(&server, "2025-11-25").await;
    let params = json!({"name": "is_paced", "arguments": {}, "task": {}, "_meta": {"progressToken": "p1"}});
    let created = client.result(&server, "tools/call", params).await;
    let waits = client.sent("tasks/result", json!({"taskId": created["task"]["taskId"]}));
    let mut stream = client.stream(&server, &waits).await;
    follows(&world, async || next_said(&mut stream).await).await;
}

#[tokio::test]
async fn a_client_that_waits_for_an_asynchronous_call_hears_of_progress_and_of_the_end_at_once() {
    let world = world();
    let server = patient(&world);
    let client = Older::connect(&server, "2025-06-18").await;
    let params = json!({"name": "is_paced", "_meta": {"progressToken": "p1"}});
    let accepted = client.result(&server, "tools/async/call", params).await;
    let waits = client.sent("tools/async/get", json!({"token": accepted["token"]}));
    // The answer begins with the first message.
    let mut opening = Box::pin(client.stream(&server, &waits));
    assert!((&mut opening).now_or_never().is_none());
    let (mut opening, mut stream) = (Some(opening), None);
    let found = async || {
        if let Some(opening) = opening.take() {
            stream = Some(opening.await);
        }
        next_said(stream.as_mut().unwrap()).await
    };
    follows(&world, found).await;
}

#[tokio::test]
async fn a_client_without_tasks_hears_of_progress_and_of_the_end_at_once() {
    let world = world();
    let server = patient(&world);
    let per_request = Sent::call("is_paced", json!({})).declaring(no_tasks()).with_meta("progressToken", "p1".into());
    let client = Older::connect(&server, "2025-06-18").await;
    let params = json!({"name": "is_paced", "arguments": {}, "_meta": {"progressToken": "p1"}});
    for sent in [per_request, client.sent("tools/call", params)] {
        follow_call(&world, &server, &sent).await;
    }
}

/// Follows the answer to an open call, which begins with the first message.
#[expect(clippy::future_not_send, reason = "a test awaits it where it is")]
async fn follow_call(world: &World, server: &McpServer, sent: &Sent) {
    let mut opening = Box::pin(server.respond(sent.request(), sent.owner));
    let early = (&mut opening).now_or_never();
    let (mut opening, mut stream) = (Some(opening), early.map(Stream::of));
    let found = async || {
        if let (None, Some(opening)) = (&stream, opening.take()) {
            stream = Some(Stream::of(opening.await));
        }
        next_said(stream.as_mut().unwrap()).await
    };
    follows(world, found).await;
}

#[tokio::test]
async fn a_client_without_tasks_that_asks_for_no_progress_is_answered_at_once() {
    let world = world();
    let server = patient(&world);
    world.observed.pace.add_permits(4);
    let sent = Sent::call("is_paced", json!({})).declaring(no_tasks());
    let answer = with_worker(&world, async {
        crate::world::read(server.respond(sent.request(), sent.owner).await).await.result()
    });
    assert_eq!(answer.await["content"][0]["text"], "arrived");
    assert_eq!(world.now_ms(), World::new().now_ms(), "no time has passed");
}

/// What each protocol version that repeats its advice says of a task of this age.
#[tokio::test]
async fn a_client_is_told_to_ask_a_young_task_again_soon() {
    let (world, id) = World::with_task("is_paced").await;
    let client = Older::connect(&world.mcp, "2025-11-25").await;
    let mut age_ms = 0;
    for (at_ms, advised_ms) in [(0, 100), (99, 100), (250, 250), (999, 999), (1_500, 1_000), (11_000, 3_000)] {
        world.clock.advance_ms(at_ms - age_ms);
        age_ms = at_ms;
        assert_eq!(world.get(&id).await["pollIntervalMs"], advised_ms, "at {at_ms} ms");
        let task = client.result(&world.mcp, "tasks/get", json!({"taskId": id})).await;
        assert_eq!(task["pollInterval"], advised_ms, "at {at_ms} ms");
    }
    // An operation's client is told once, and would keep asking at that pace.
    let client = Older::connect(&world.mcp, "next").await;
    let params = json!({"name": "is_paced", "arguments": {}, "operation": {}});
    let accepted = client.result(&world.mcp, "tools/call", params).await;
    assert_eq!(accepted["operation"]["pollFrequency"], 1);
}
