//! The limits of an owner that free themselves: new tasks in a minute, polls that come too early, open streams.

use http::header::RETRY_AFTER;
use longhaul_core::limits::PollLimit;
use longhaul_engine::Settings;
use longhaul_mcp::{McpServer, McpSettings, StreamsCounted};
use serde_json::{Value, json};

use crate::older_client::{Older, another_instance, everything};
use crate::world::{Answer, Sent, World, alice, bob, no_tasks, read};

const KEY: [u8; 32] = [7; 32];

/// What every refusal says: which limit, and when to come again.
#[track_caller]
fn refusal(answer: &Answer, limit: &str) -> (u16, u64) {
    let error = &answer.json()["error"];
    assert_eq!((&error["code"], &error["data"]["limit"]), (&json!(-32000), &json!(limit)), "{error}");
    let retry_ms = error["data"]["retryAfterMs"].as_u64().unwrap();
    let retry_s: u64 = answer.headers[RETRY_AFTER].to_str().unwrap().parse().unwrap();
    assert_eq!(retry_s, retry_ms.div_ceil(1_000));
    (answer.status.as_u16(), retry_ms)
}

async fn sent(server: &McpServer, sent: &Sent) -> Answer {
    read(server.respond(sent.request(), sent.owner).await).await
}

fn add() -> Value {
    json!({"name": "add", "arguments": {"a": 1, "b": 1}})
}

// New tasks in a minute.

async fn with_two_new_tasks() -> World {
    let world = World::with(Settings { new_tasks_max: Some(2), ..Settings::default() });
    world.start("add", json!({"a": 1, "b": 1})).await;
    world.start("add", json!({"a": 1, "b": 1})).await;
    world
}

#[tokio::test]
async fn a_call_above_the_limit_of_new_tasks_is_told_when_to_come_again_in_every_protocol_version() {
    let world = with_two_new_tasks().await;
    let refused = world.send(&Sent::new("tools/call", add())).await;
    assert_eq!(refusal(&refused, "newTasksPerMinute"), (429, 60_000));
    assert!(refused.text.contains("2 tasks within a minute"), "{}", refused.text);
    let job = world.send(&Sent::new("tools/call", add()).declaring(no_tasks())).await;
    assert_eq!(refusal(&job, "newTasksPerMinute"), (429, 60_000));

    let mut as_task = add();
    as_task["task"] = json!({});
    let mut as_operation = add();
    as_operation["operation"] = json!({"token": "t"});
    for (revision, method, params) in [
        ("2025-11-25", "tools/call", as_task),
        ("2025-11-25", "tools/call", add()),
        ("2025-06-18", "tools/async/call", add()),
        ("2025-03-26", "tools/call", add()),
        ("next", "tools/call", as_operation),
    ] {
        let client = Older::connect(&world.mcp, revision).await;
        let refused = client.send(&world.mcp, method, params.clone()).await;
        let (status, retry_ms) = refusal(&refused, "newTasksPerMinute");
        assert!(status == 200 && retry_ms <= 60_000, "{revision} {method}: {status}, {retry_ms} ms");
        world.clock.advance_ms(60_000);
        let accepted = world.while_working(client.send(&world.mcp, method, params)).await;
        assert!(accepted.json().get("error").is_none(), "{}", accepted.text);
        world.start("add", json!({"a": 1, "b": 1})).await;
    }
}

// Polls.

fn polled(world: &World, poll_limit: PollLimit) -> McpServer {
    another_instance(world, McpSettings { poll_limit, ..McpSettings::new(KEY) })
}

fn get(id: &str) -> Sent {
    Sent::new("tasks/get", json!({"taskId": id}))
}

#[tokio::test]
async fn clients_that_follow_the_poll_interval_are_never_limited() {
    let world = World::new();
    let id = world.start("sleeps", json!({"ms": 1_200_000})).await;
    let instances = [polled(&world, PollLimit::Refuse), polled(&world, PollLimit::Refuse)];
    // Two clients with a jitter of a fifth, each on any instance.
    for round in 0..200_usize {
        let mut interval_ms = 0;
        for client in 0..2 {
            let answer = sent(&instances[(round / 3 + client) % 2], &get(&id)).await;
            interval_ms = answer.result()["pollIntervalMs"].as_u64().unwrap();
        }
        let jitter = [80, 120, 95, 105, 85][round % 5];
        world.clock.advance_ms(interval_ms * jitter / 100);
    }
}

#[tokio::test]
async fn a_loop_of_polls_is_refused_and_nobody_else_is() {
    let world = World::new();
    let server = polled(&world, PollLimit::Refuse);
    let id = world.start("sleeps", json!({"ms": 1_200_000})).await;
    let other = world.start("sleeps", json!({"ms": 1_200_000})).await;
    let quiet = world.result(&Sent::call("sleeps", json!({"ms": 1_200_000})).of(bob())).await["taskId"].clone();
    let quiet = get(quiet.as_str().unwrap()).of(bob());
    world.clock.advance_ms(120_000);
    let mut refused = 0;
    for _ in 0..100 {
        let answer = sent(&server, &get(&id)).await;
        if answer.status != 200 {
            assert_eq!(refusal(&answer, "polls"), (429, 500));
            refused += 1;
        }
    }
    assert_eq!(refused, 90, "ten at once are answered");
    assert!(sent(&server, &get(&other)).await.result().is_object());
    assert!(sent(&server, &quiet).await.result().is_object());
    let cancelled = sent(&server, &Sent::new("tasks/cancel", json!({"taskId": id}))).await;
    assert!(cancelled.result().is_object(), "a cancel is no poll");
    world.clock.advance_ms(500);
    assert!(sent(&server, &get(&id)).await.result().is_object());
    // Another instance, and this one after a restart, count for themselves.
    assert!(sent(&polled(&world, PollLimit::Refuse), &get(&id)).await.result().is_object());
}

#[tokio::test]
async fn a_loop_of_polls_is_limited_in_every_protocol_version() {
    let world = World::new();
    let server = polled(&world, PollLimit::Refuse);
    let id = world.start("sleeps", json!({"ms": 1_200_000})).await;
    let operations = Older::connect(&server, "next").await;
    let call = json!({"name": "sleeps", "arguments": {"ms": 1_200_000}, "operation": {"token": "t"}});
    operations.result(&server, "tools/call", call).await;
    let resource = format!("longhaul://tasks/{id}");
    for (revision, method, params, limit) in [
        ("2025-11-25", "tasks/get", json!({"taskId": id}), "polls"),
        ("2025-06-18", "resources/read", json!({"uri": resource}), "polls"),
        (
            "2025-06-18",
            "tools/call",
            json!({"name": "get_job_status", "arguments": {"job_id": id, "wait_s": 0}}),
            "polls",
        ),
        ("next", "tools/async/status", json!({"token": "t"}), "polls"),
        ("next", "tools/async/result", json!({"token": "t"}), "polls"),
    ] {
        world.clock.advance_ms(60_000);
        let client = Older::connect(&server, revision).await;
        let mut refused = 0;
        for _ in 0..15 {
            let answer = client.send(&server, method, params.clone()).await;
            let is_refused = answer.headers.contains_key(RETRY_AFTER);
            assert!(!is_refused || refusal(&answer, limit) == (200, 500), "{method}");
            refused += usize::from(is_refused);
        }
        assert_eq!(refused, 5, "{revision} {method}");
    }
    let results = Older::connect(&server, "2025-11-25").await;
    world.clock.advance_ms(60_000);
    for _ in 0..10 {
        sent(&server, &get(&id)).await.result();
    }
    refusal(&results.send(&server, "tasks/result", json!({"taskId": id})).await, "polls");
}

#[tokio::test]
async fn a_loop_of_polls_is_slowed_and_every_poll_answered() {
    let world = World::new();
    let server = polled(&world, PollLimit::Slow);
    let id = world.start("sleeps", json!({"ms": 1_200_000})).await;
    world.clock.advance_ms(120_000);
    let before = world.now_ms();
    for _ in 0..10 {
        sent(&server, &get(&id)).await.result();
    }
    assert_eq!(world.now_ms(), before, "ten at once are answered");
    for _ in 0..4 {
        world.while_time_passes(sent(&server, &get(&id))).await.result();
    }
    assert_eq!(world.now_ms() - before, 2_000);
    let before = world.now_ms();
    let request = get(&id);
    let many = futures::future::join_all((0..50).map(|_| sent(&server, &request)));
    for answer in world.while_time_passes(many).await {
        answer.result();
    }
    assert_eq!(world.now_ms() - before, 2_000, "however many come at once, none waits longer");
}

// Streams.

fn listen(id: &str) -> Sent {
    Sent::new("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}))
}

fn two_streams(world: &World, streams_counted: StreamsCounted) -> McpServer {
    let settings =
        McpSettings { streams_max: Some(2), streams_counted, listen_ms_max: 50_000, ..McpSettings::new(KEY) };
    another_instance(world, settings)
}

#[tokio::test]
async fn an_owner_has_so_many_streams_and_each_that_is_dropped_makes_room() {
    let world = World::new();
    let server = two_streams(&world, StreamsCounted::InProcess);
    let id = world.start("sleeps", json!({"ms": 1_200_000})).await;
    let client = Older::connect(&server, "2025-11-25").await;
    let first = server.respond(listen(&id).request(), alice()).await;
    let second = client.stream(&server, &client.sent("tasks/result", json!({"taskId": id}))).await;
    assert_eq!(refusal(&sent(&server, &listen(&id)).await, "openStreams"), (429, 1_000));
    // Streams that are not about tasks count too.
    let other = Sent::new("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    assert_eq!(refusal(&sent(&server, &other).await, "openStreams").0, 429);
    let result = client.send(&server, "tasks/result", json!({"taskId": id})).await;
    assert_eq!(refusal(&result, "openStreams"), (200, 1_000));
    assert!(sent(&server, &get(&id)).await.result().is_object(), "a poll needs no stream");
    let of_bob = server.respond(listen(&id).of(bob()).request(), bob()).await;
    assert_eq!(of_bob.status(), 200, "another owner has its own");
    // The connection of the first one dies.
    drop(first);
    let third = server.respond(listen(&id).request(), alice()).await;
    assert_eq!(third.status(), 200);
    refusal(&sent(&server, &listen(&id)).await, "openStreams");
    drop((second, third));
    for _ in 0..5 {
        assert_eq!(server.respond(listen(&id).request(), alice()).await.status(), 200);
    }
}

#[tokio::test]
async fn an_owner_with_too_many_streams_is_not_refused_calls_only_made_to_wait_less() {
    let world = World::new();
    let server = two_streams(&world, StreamsCounted::InProcess);
    let id = world.start("sleeps", json!({"ms": 1_200_000})).await;
    let _open =
        [server.respond(listen(&id).request(), alice()).await, server.respond(listen(&id).request(), alice()).await];
    let before = world.now_ms();
    let job = Sent::call("sleeps", json!({"ms": 1_200_000})).declaring(no_tasks());
    let job = sent(&server, &job).await.result();
    let job_id = job["structuredContent"]["data"]["job_id"].as_str().unwrap();
    let status = Sent::call("get_job_status", json!({"job_id": job_id})).declaring(no_tasks());
    assert_eq!(sent(&server, &status).await.result()["structuredContent"]["data"]["status"], "queued");
    let client = Older::connect_as(&server, "2025-06-18", alice(), everything()).await;
    let pending = client.result(&server, "tools/async/get", json!({"token": id})).await;
    assert_eq!(pending["isPending"], true);
    assert_eq!(world.now_ms(), before, "nobody waited");
    let plain = sent(&server, &Sent::call("at_once", json!({}))).await;
    assert_eq!(refusal(&plain, "openStreams").0, 429);
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_yet_is_told_when_to_come_again() {
    let world = World::new();
    let server = two_streams(&world, StreamsCounted::InProcess);
    let id = world.start("sleeps", json!({"ms": 1_200_000})).await;
    let client = Older::connect(&server, "2025-11-25").await;
    let mut first = client.stream(&server, &client.sent("tasks/result", json!({"taskId": id}))).await;
    world.while_time_passes(async { while first.next().await.is_some() {} }).await;
    let open =
        [server.respond(listen(&id).request(), alice()).await, server.respond(listen(&id).request(), alice()).await];
    let refused = read(client.resume(&server, &first.last_event_id).await).await;
    assert_eq!(refusal(&refused, "openStreams"), (429, 1_000));
    drop(open);
    assert_eq!(client.resume(&server, &first.last_event_id).await.status(), 200, "nothing was lost");
}

#[tokio::test]
async fn many_instances_count_the_streams_of_an_owner_in_the_store() {
    let world = World::new();
    let instances = [(); 4].map(|()| two_streams(&world, StreamsCounted::InStore));
    let id = world.start("sleeps", json!({"ms": 1_200_000})).await;
    let request = listen(&id);
    let open =
        futures::future::join_all(instances.iter().map(|server| server.respond(request.request(), alice()))).await;
    let statuses: Vec<u16> = open.iter().map(|answer| answer.status().as_u16()).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 2, "{statuses:?}");
    let (_, retry_ms) = refusal(&sent(&instances[0], &listen(&id)).await, "openStreams");
    assert_eq!(retry_ms, 50_000);
    let of_bob = instances[0].respond(listen(&id).of(bob()).request(), bob()).await;
    assert_eq!(of_bob.status(), 200, "another owner has its own");
    // The instances die: nothing gives the places back, and they are free again by themselves.
    drop(open);
    refusal(&sent(&instances[1], &listen(&id)).await, "openStreams");
    world.clock.advance_ms(retry_ms);
    let later = two_streams(&world, StreamsCounted::InStore);
    for _ in 0..2 {
        assert_eq!(later.respond(listen(&id).request(), alice()).await.status(), 200);
    }
    refusal(&sent(&later, &listen(&id)).await, "openStreams");
}
