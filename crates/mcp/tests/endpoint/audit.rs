//! The audit log: one line for whatever somebody did to a task, the same in every protocol version, with who it was and
//! from where.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use longhaul_core::audit::{CallerSpan, Source};
use longhaul_core::limits::PollLimit;
use longhaul_core::logs::{AuditLog, Audited, LineFormat, audited};
use longhaul_core::{OwnerId, Principal, VerifiedIdentity};
use longhaul_engine::Settings;
use longhaul_mcp::{Body, McpServer, McpSettings};
use longhaul_testkit::Lines;
use serde_json::{Value, json};
use tracing::Instrument;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;

use crate::older_client::{Older, Stream, another_instance, everything};
use crate::world::{Answer, Sent, World, alice, bob, no_tasks, read};

/// Keeps the audit log in these lines for as long as the guard lives.
fn capture(lines: &Lines, world: &World) -> DefaultGuard {
    let writer = lines.clone();
    let log = AuditLog::to(move || writer.clone(), LineFormat::Json, Arc::clone(&world.clock) as _);
    longhaul_testkit::capture(registry().with(log.with_filter(audited(Audited::Only))))
}

/// The only line, which is about a request of `owner`, and says this; the task that it names.
fn only(lines: &Lines, what: &str, owner: OwnerId, expected: (&str, &str)) -> Value {
    let lines = lines.take();
    let [line] = &lines[..] else { panic!("{what}, {expected:?}: {lines:?}") };
    assert_eq!((&line["event"], &line["outcome"]), (&json!(expected.0), &json!(expected.1)), "{what}: {line}");
    for (name, value) in [
        ("issuer", "tests"),
        ("address", "203.0.113.7"),
        ("http_method", "POST"),
        ("request_id", "r-1"),
        ("user_agent", "client/1"),
        ("owner", &owner.to_string()),
    ] {
        assert_eq!(line[name], value, "{what}: {line}");
    }
    assert!(line["subject"].is_string() && line["count"] == 1, "{what}: {line}");
    for secret in ["600000", "Ann", "a secret"] {
        assert!(!line.to_string().contains(secret), "{what}: {line}");
    }
    line.clone()
}

/// Sends the request as a platform does. The body of the answer is read outside of the request's span.
async fn open(world: &World, sent: &Sent) -> Response<Body> {
    open_at(&world.mcp, sent.request(), sent.owner).await
}

async fn open_at(server: &McpServer, request: Request<Bytes>, owner: OwnerId) -> Response<Body> {
    let (address, request_id, user_agent) = (Some("203.0.113.7"), Some("r-1"), Some("client/1"));
    let caller = CallerSpan::new(Source { address, http_method: "POST", request_id, user_agent });
    let identity = Some(VerifiedIdentity::new("tests", "somebody"));
    let principal = Principal { identity, ..owner.into() };
    caller.identified(&principal);
    server.respond(request, principal).instrument(caller.span().clone()).await
}

async fn send(world: &World, sent: &Sent) -> Answer {
    let answer = async { read(open(world, sent).await).await };
    world.while_time_passes(answer).await
}

/// Clients of one owner.
struct Clients {
    owner: OwnerId,
    core: Older,
    next: Older,
    june: Older,
    march: Older,
}

impl Clients {
    async fn of(world: &World, owner: OwnerId) -> Self {
        let connect = async |revision| Older::connect_as(&world.mcp, revision, owner, everything()).await;
        Self {
            owner,
            core: connect("2025-11-25").await,
            next: connect("next").await,
            june: connect("2025-06-18").await,
            march: connect("2025-03-26").await,
        }
    }

    /// A call that becomes a task, in each protocol version.
    fn calls(&self, tool: &str, arguments: &Value) -> Vec<(&'static str, Sent)> {
        let plain = json!({"name": tool, "arguments": arguments});
        let with = |name: &str, value: Value| {
            let mut params = plain.clone();
            params[name] = value;
            params
        };
        let mut batch = self.march.sent("x", json!({}));
        batch.body = json!([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": plain}]);
        vec![
            ("tasks extension", Sent::call(tool, arguments.clone()).of(self.owner)),
            ("core tasks", self.core.sent("tools/call", with("task", json!({})))),
            ("operations", self.next.sent("tools/call", with("operation", json!({"token": "t"})))),
            ("async calls", self.june.sent("tools/async/call", plain.clone())),
            ("a job", Sent::call(tool, arguments.clone()).of(self.owner).declaring(no_tasks())),
            ("a job of a session", self.june.sent("tools/call", plain.clone())),
            ("a batch", batch),
        ]
    }

    /// A request to cancel a task, in each protocol version.
    fn cancels(&self, task: &str) -> Vec<(&'static str, Sent)> {
        let job = json!({"name": "cancel_job", "arguments": {"job_id": task}});
        let mut notification = self.june.sent("tools/async/cancel", json!({"token": task}));
        notification.body.as_object_mut().unwrap().remove("id");
        let mut batch = self.march.sent("x", json!({}));
        batch.body = json!([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": job}]);
        vec![
            ("tasks extension", Sent::new("tasks/cancel", json!({"taskId": task})).of(self.owner)),
            ("core tasks", self.core.sent("tasks/cancel", json!({"taskId": task}))),
            ("operations", self.next.sent("tools/async/cancel", json!({"token": task}))),
            ("async calls", self.june.sent("tools/async/cancel", json!({"token": task}))),
            ("a notification", notification),
            ("a job", Sent::new("tools/call", job.clone()).of(self.owner).declaring(no_tasks())),
            ("a job of a session", self.june.sent("tools/call", job)),
            ("a batch", batch),
        ]
    }
}

fn long() -> Value {
    json!({"ms": 600_000})
}

#[tokio::test]
async fn an_accepted_call_has_one_line_and_its_retry_says_that_it_is_one() {
    let (world, lines) = (World::new(), Lines::default());
    let clients = Clients::of(&world, alice()).await;
    let _capturing = capture(&lines, &world);
    for (number, (protocol_version, sent)) in clients.calls("sleeps", &long()).into_iter().enumerate() {
        let sent = sent.with_header("idempotency-key", &format!("key {number}"));
        send(&world, &sent).await;
        let line = only(&lines, protocol_version, alice(), ("accept", "done"));
        assert_eq!(line["tool"], "sleeps", "{protocol_version}");
        world.get(line["task_id"].as_str().unwrap()).await;
        world.clock.advance_ms(1_000);
        send(&world, &sent).await;
        let retry = only(&lines, protocol_version, alice(), ("accept", "repeated"));
        assert_eq!(retry["task_id"], line["task_id"], "{protocol_version}");
    }
}

#[tokio::test]
async fn a_refused_call_has_one_line_that_says_why() {
    let lines = Lines::default();
    let world = World::with(Settings { open_tasks_max: 1, inline_sleep_ms_max: 0, ..Settings::default() });
    let clients = Clients::of(&world, alice()).await;
    world.start("sleeps", long()).await;
    let _capturing = capture(&lines, &world);
    for (protocol_version, sent) in clients.calls("sleeps", &long()) {
        send(&world, &sent).await;
        let line = only(&lines, protocol_version, alice(), ("accept", "refused"));
        assert_eq!((&line["reason"], line.get("task_id")), (&json!("too_many_open"), None), "{protocol_version}");
        // Otherwise the next one is counted with it.
        world.clock.advance_ms(60_000);
        longhaul_core::audit::flush();
    }
}

#[tokio::test]
async fn a_cancelled_task_has_one_line_for_each_request_that_wanted_it() {
    let (world, lines) = (World::new(), Lines::default());
    let (clients, others) = (Clients::of(&world, alice()).await, Clients::of(&world, bob()).await);
    for number in 0..clients.cancels("x").len() {
        let task = world.start("sleeps", long()).await;
        let _capturing = capture(&lines, &world);
        let (protocol_version, foreign) = others.cancels(&task).swap_remove(number);
        send(&world, &foreign).await;
        let line = only(&lines, protocol_version, bob(), ("cancel", "not_found"));
        assert_eq!((line["task_id"].as_str(), line.get("tool")), (Some(task.as_str()), None), "{protocol_version}");
        let (protocol_version, own) = clients.cancels(&task).swap_remove(number);
        for outcome in ["done", "unchanged"] {
            send(&world, &own).await;
            let line = only(&lines, protocol_version, alice(), ("cancel", outcome));
            assert_eq!((&line["task_id"], &line["tool"]), (&json!(task), &json!("sleeps")), "{protocol_version}");
            world.clock.advance_ms(1_000);
        }
    }
}

#[tokio::test]
async fn an_operation_that_is_cancelled_by_its_request_has_a_line() {
    let (world, lines) = (World::new(), Lines::default());
    let clients = Clients::of(&world, alice()).await;
    let params = json!({"name": "sleeps", "arguments": long(), "operation": {}});
    world.result(&clients.next.sent("tools/call", params)).await;
    let mut sent = clients.next.sent("notifications/cancelled", json!({"requestId": 7}));
    sent.body.as_object_mut().unwrap().remove("id");
    let _capturing = capture(&lines, &world);
    send(&world, &sent).await;
    only(&lines, "operations", alice(), ("cancel", "done"));
}

fn accepts() -> Value {
    json!({"action": "accept", "content": {"value": "Ann"}})
}

#[tokio::test]
async fn an_answer_has_one_line_and_a_late_one_says_so() {
    let (world, lines) = (World::new(), Lines::default());
    let clients = Clients::of(&world, alice()).await;
    let _capturing = capture(&lines, &world);
    let task = world.start("asks_side_by_side", json!({})).await;
    world.work_until(&task, "input_required").await;
    let mut stream = Stream::of(open(&world, &clients.core.sent("tasks/result", json!({"taskId": task}))).await);
    let asked = [stream.next().await.unwrap(), stream.next().await.unwrap()];
    drop(lines.take());
    let update = Sent::new("tasks/update", json!({"taskId": task, "inputResponses": {"name": accepts()}}));
    let mut reply = clients.core.sent("x", json!({}));
    reply.body = json!({"jsonrpc": "2.0", "id": asked[1]["id"], "result": accepts()});
    for (what, sent) in [("tasks extension", update), ("core tasks", reply)] {
        for outcome in ["done", "unchanged"] {
            send(&world, &sent).await;
            let line = only(&lines, what, alice(), ("answer", outcome));
            assert_eq!((&line["task_id"], &line["tool"]), (&json!(task), &json!("asks_side_by_side")), "{what}");
        }
        send(&world, &Sent { owner: bob(), ..sent.clone() }).await;
        let foreign = lines.take();
        let expected: &[&str] = if what == "core tasks" { &[] } else { &["not_found"] };
        let outcomes: Vec<_> = foreign.iter().map(|line| line["outcome"].as_str().unwrap()).collect();
        assert_eq!(outcomes, expected, "{what}: a signed id of somebody else names nothing");
    }
}

#[tokio::test]
async fn an_answer_to_a_job_has_one_line() {
    let (world, lines) = (World::new(), Lines::default());
    let call = Sent::call("asks_side_by_side", json!({})).declaring(no_tasks());
    let asked = world.served(&call).await.result();
    let state = asked["requestState"].clone();
    let answers = json!({"name": accepts()});
    let retried = call.with_param("inputResponses", answers).with_param("requestState", state);
    let _capturing = capture(&lines, &world);
    send(&world, &retried).await;
    only(&lines, "a job", alice(), ("answer", "done"));
}

#[tokio::test]
async fn reading_has_no_line() {
    let (world, lines) = (World::new(), Lines::default());
    let clients = Clients::of(&world, alice()).await;
    let task = world.start("sleeps", long()).await;
    let _capturing = capture(&lines, &world);
    for sent in [
        Sent::new("tasks/get", json!({"taskId": task})),
        Sent::new("dev.longhaul/tasks/inspect", json!({"taskId": task})),
        Sent::call("at_once", json!({})),
        Sent::new("dev.longhaul/tasks/list", json!({"status": ["working"]})),
        clients.core.sent("tasks/list", json!({})),
        clients.core.sent("dev.longhaul/tasks/list", json!({})),
        clients.next.sent("tools/async/status", json!({"token": task})),
        clients.june.sent("tools/async/get", json!({"token": task, "timeout": 0})),
        clients.june.sent("tools/list", json!({})),
    ] {
        assert_eq!(send(&world, &sent).await.status, 200);
        assert_eq!(lines.take(), [Value::Null; 0]);
    }
}

/// Requests that poll a task, in each protocol version.
fn polls(clients: &Clients, task: &str, token: &str) -> Vec<(&'static str, Sent)> {
    let job = json!({"name": "get_job_status", "arguments": {"job_id": task, "wait_s": 0}});
    vec![
        ("tasks extension", Sent::new("tasks/get", json!({"taskId": task})).of(clients.owner)),
        ("an inspection", Sent::new("dev.longhaul/tasks/inspect", json!({"taskId": task})).of(clients.owner)),
        ("core tasks", clients.core.sent("tasks/get", json!({"taskId": task}))),
        ("the result of core tasks", clients.core.sent("tasks/result", json!({"taskId": task}))),
        ("operations", clients.next.sent("tools/async/status", json!({"token": token}))),
        ("the result of operations", clients.next.sent("tools/async/result", json!({"token": token}))),
        ("async calls", clients.june.sent("tools/async/get", json!({"token": task, "timeout": 0}))),
        ("a resource", clients.june.sent("resources/read", json!({"uri": format!("longhaul://tasks/{task}")}))),
        ("a job", Sent::new("tools/call", job.clone()).of(clients.owner).declaring(no_tasks())),
        ("a job of a session", clients.june.sent("tools/call", job)),
    ]
}

#[tokio::test]
async fn a_flood_of_refused_polls_has_a_few_lines_whose_counts_add_up_in_every_protocol_version() {
    let (world, lines) = (World::new(), Lines::default());
    let settings = McpSettings { poll_limit: PollLimit::Refuse, ..McpSettings::new([7; 32]) };
    let server = another_instance(&world, settings);
    let clients = Clients::of(&world, alice()).await;
    for number in 0..polls(&clients, "x", "x").len() {
        let token = format!("token {number}");
        let params = json!({"name": "sleeps", "arguments": long(), "operation": {"token": token}});
        let begun = world.result(&clients.next.sent("tools/call", params)).await;
        let task = begun["_meta"]["io.modelcontextprotocol/related-task"]["taskId"].as_str().unwrap().to_owned();
        let (protocol_version, poll) = polls(&clients, &task, &token).swap_remove(number);
        let _capturing = capture(&lines, &world);
        let mut refused = 0;
        for _ in 0..200 {
            // A stream that is dropped at once is an answer, too.
            let answer = open_at(&server, poll.request(), alice()).await;
            let is_stream = answer.headers()["content-type"] == "text/event-stream";
            refused += u64::from(!is_stream && read(answer).await.text.contains("retryAfterMs"));
        }
        longhaul_core::audit::flush();
        let written = lines.take();
        let counts: Vec<u64> = written.iter().map(|line| line["count"].as_u64().unwrap()).collect();
        assert!(refused > 100 && counts.iter().sum::<u64>() == refused, "{protocol_version}: {refused}, {written:?}");
        assert!(written.len() < 10, "{protocol_version}: {written:?}");
        for line in &written {
            let said = ["event", "outcome", "reason", "task_id", "owner", "address"].map(|name| &line[name]);
            let owner = alice().to_string();
            assert_eq!(
                said,
                ["request", "refused", "too_many_polls", &task, &owner, "203.0.113.7"],
                "{protocol_version}: {line}"
            );
        }
    }
}

#[tokio::test]
async fn a_poll_that_is_only_slowed_has_no_line() {
    let (world, lines) = (World::new(), Lines::default());
    let settings = McpSettings { poll_limit: PollLimit::Slow, ..McpSettings::new([7; 32]) };
    let server = another_instance(&world, settings);
    let poll = Sent::new("tasks/get", json!({"taskId": world.start("sleeps", long()).await}));
    let _capturing = capture(&lines, &world);
    for _ in 0..15 {
        world.while_time_passes(open_at(&server, poll.request(), alice())).await;
    }
    assert_eq!(lines.take(), [Value::Null; 0]);
}

#[tokio::test]
async fn a_refused_stream_has_a_line_and_a_wait_that_is_cut_short_has_none() {
    let (world, lines) = (World::new(), Lines::default());
    let settings = McpSettings { streams_max: Some(1), ..McpSettings::new([7; 32]) };
    let server = another_instance(&world, settings);
    let clients = Clients::of(&world, alice()).await;
    let task = world.start("sleeps", long()).await;
    let result = clients.core.sent("tasks/result", json!({"taskId": task}));
    let mut first = clients.core.stream(&server, &result).await;
    world.while_time_passes(async { while first.next().await.is_some() {} }).await;
    let mut resumed = Request::get("/mcp").body(Bytes::new()).unwrap();
    resumed.headers_mut().insert("last-event-id", first.last_event_id.parse().unwrap());
    resumed.headers_mut().insert("mcp-session-id", clients.core.session.parse().unwrap());
    let listen = Sent::new("subscriptions/listen", json!({"notifications": {"taskIds": [task]}}));
    let _open = server.respond(listen.request(), alice()).await;
    let _capturing = capture(&lines, &world);
    for (what, request) in [
        ("a subscription", listen.request()),
        ("a result", result.request()),
        ("a stream that is resumed", resumed),
        ("a plain call", Sent::call("at_once", json!({})).request()),
    ] {
        open_at(&server, request, alice()).await;
        let line = only(&lines, what, alice(), ("request", "refused"));
        assert_eq!(line["reason"], "too_many_streams", "{what}");
        world.clock.advance_ms(60_000);
        longhaul_core::audit::flush();
    }
    let job = json!({"name": "get_job_status", "arguments": {"job_id": task}});
    for cut_short in [
        Sent::new("tools/call", job).declaring(no_tasks()),
        clients.june.sent("tools/async/get", json!({"token": task})),
    ] {
        assert_eq!(open_at(&server, cut_short.request(), alice()).await.status(), 200);
        assert_eq!(lines.take(), [Value::Null; 0], "the answer came at once, and is no refusal");
    }
    for _ in 0..300 {
        open_at(&server, listen.request(), alice()).await;
    }
    longhaul_core::audit::flush();
    let written = lines.take();
    let counts: u64 = written.iter().map(|line| line["count"].as_u64().unwrap()).sum();
    assert!(written.len() <= 10 && counts == 300, "{written:?}");
}
