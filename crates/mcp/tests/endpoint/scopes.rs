//! What callers may do who come with scopes: the same in every protocol version.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::{Request, Response};
use longhaul_core::{MissingScopes, Principal, Scopes, VerifiedIdentity};
use longhaul_mcp::{Body, McpServer, McpSettings, NeededScopes, TaskPolicy};
use serde_json::{Value, json};

use crate::older_client::{Older, another_instance, everything, initialize};
use crate::world::{Answer, Sent, World, alice, no_tasks, read};

pub(super) const CALL: &str = "mcp:call";
pub(super) const READ: &str = "mcp:read";
pub(super) const CANCEL: &str = "mcp:cancel";

/// What the tools `add` (a task) and `links` (plain) need besides.
pub(super) const ADD: &str = "add:run";
pub(super) const LINKS: &str = "links:show";

/// A caller whose owner is Alice's: a member of her team, if it is somebody else.
pub(super) fn member(subject: &str, scopes: &[&str]) -> Principal {
    let granted = scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let identity = Some(VerifiedIdentity::new("https://id.example.com", subject));
    Principal { owner: alice(), identity, scopes: Scopes::Granted(granted) }
}

fn needed() -> NeededScopes {
    let set = |scope: &str| BTreeSet::from([scope.to_owned()]);
    NeededScopes {
        call: set(CALL),
        read: set(READ),
        cancel: set(CANCEL),
        tools: [("links".to_owned(), set(LINKS))].into(),
    }
}

/// A world whose tool `add` has a policy with a scope, and a server over it in which methods need scopes.
pub(super) fn scoped() -> (World, McpServer) {
    let mut world = World::new();
    world.policies.insert("add".to_owned(), TaskPolicy::optional().scope(ADD));
    let server = another_instance(&world, settings(needed()));
    (world, server)
}

fn settings(scopes: NeededScopes) -> McpSettings {
    McpSettings { scopes, inline_wait_ms: 0, ..McpSettings::new([7; 32]) }
}

/// A request, and the scopes that it needs.
struct Case {
    what: String,
    request: Request<Bytes>,
    needs: Vec<&'static str>,
}

fn case(what: impl Into<String>, sent: &Sent, needs: &[&'static str]) -> Case {
    Case { what: what.into(), request: sent.request(), needs: needs.to_vec() }
}

fn notification(mut sent: Sent) -> Sent {
    sent.body.as_object_mut().unwrap().remove("id");
    sent
}

fn add() -> Value {
    json!({"a": 1, "b": 2})
}

/// Requests of the Tasks extension and of job tools. `id` is a task, or the id of none.
fn newest(id: &str) -> Vec<Case> {
    let task = || json!({"taskId": id});
    let job = json!({"job_id": id, "wait_s": 0});
    let status = Sent::call("get_job_status", job.clone()).declaring(no_tasks());
    let answers = json!({"name": "x", "arguments": add(), "inputResponses": {}});
    vec![
        case("a task", &Sent::call("add", add()), &[CALL, ADD]),
        case("a job", &Sent::call("add", add()).declaring(no_tasks()), &[CALL, ADD]),
        case("a plain call", &Sent::call("at_once", json!({})), &[CALL]),
        case("a plain call with a scope", &Sent::call("links", json!({})), &[CALL, LINKS]),
        case("no such tool", &Sent::call("no_such_tool", json!({})), &[CALL]),
        case("answers of a round", &Sent::new("tools/call", answers).with_header("mcp-name", "x"), &[CALL]),
        case("job status", &status, &[READ]),
        case("job status with answers", &status.clone().with_param("inputResponses", json!({})), &[CALL, READ]),
        case("cancelling a job", &Sent::call("cancel_job", job).declaring(no_tasks()), &[CANCEL]),
        case("tasks/get", &Sent::new("tasks/get", task()), &[READ]),
        case("inspecting", &Sent::new("dev.longhaul/tasks/inspect", task()), &[READ]),
        case("resuming", &Sent::new("dev.longhaul/tasks/resume", task()), &[CALL]),
        case("listing", &Sent::new("dev.longhaul/tasks/list", json!({})), &[READ]),
        case("tasks/update", &Sent::new("tasks/update", json!({"taskId": id, "inputResponses": {}})), &[CALL]),
        case("tasks/cancel", &Sent::new("tasks/cancel", task()), &[CANCEL]),
        case("listening", &Sent::new("subscriptions/listen", json!({"notifications": {"taskIds": [id]}})), &[READ]),
        case("discovering", &Sent::new("server/discover", json!({})), &[]),
        case("listing tools", &Sent::new("tools/list", json!({})), &[]),
        case("a prompt", &Sent::new("prompts/get", json!({"name": "p"})), &[]),
        case("a resource", &Sent::new("resources/read", json!({"uri": "test://r"})), &[]),
    ]
}

/// Requests of a revision with handshakes, in all protocol versions that have a method or do not know it.
fn older(client: &Older, id: &str) -> Vec<Case> {
    let sent = |method: &str, params: Value| client.sent(method, params);
    let call = |params: Value| client.sent("tools/call", params);
    let reply = |outcome: &str| {
        let mut sent = client.sent("x", json!({}));
        sent.body = json!({"jsonrpc": "2.0", "id": "made.up", outcome: {}});
        sent
    };
    let token = || json!({"token": id, "timeout": 0});
    let task = || json!({"taskId": id});
    let resource = json!({"uri": format!("longhaul://tasks/{id}")});
    let cancelled = json!({"requestId": 7});
    let mut cases = vec![
        case("a call", &call(json!({"name": "add", "arguments": add()})), &[CALL, ADD]),
        case("a core task", &call(json!({"name": "add", "arguments": add(), "task": {}})), &[CALL, ADD]),
        case("an operation", &call(json!({"name": "add", "arguments": add(), "operation": {}})), &[CALL, ADD]),
        case("nested", &call(json!({"request": {"name": "add", "arguments": add()}})), &[CALL, ADD]),
        case("two names", &call(json!({"name": "at_once", "request": {"name": "add"}})), &[CALL, ADD]),
        case("a plain call", &call(json!({"name": "at_once"})), &[CALL]),
        case("a plain call with a scope", &call(json!({"name": "links"})), &[CALL, LINKS]),
        case("no such tool", &call(json!({"name": "no_such_tool"})), &[CALL]),
        case("no name", &call(json!({})), &[CALL]),
        case("job status", &call(json!({"name": "get_job_status", "arguments": {"job_id": id}})), &[READ]),
        case("cancelling a job", &call(json!({"name": "cancel_job", "arguments": {"job_id": id}})), &[CANCEL]),
        case("tasks/get", &sent("tasks/get", task()), &[READ]),
        case("tasks/result", &sent("tasks/result", task()), &[READ]),
        case("tasks/list", &sent("tasks/list", json!({})), &[READ]),
        case("a filtered list", &sent("dev.longhaul/tasks/list", json!({"tool": "add"})), &[READ]),
        case("tasks/cancel", &sent("tasks/cancel", task()), &[CANCEL]),
        case("tasks/update", &sent("tasks/update", task()), &[CALL]),
        case("tools/async/call", &sent("tools/async/call", json!({"name": "add", "arguments": add()})), &[CALL, ADD]),
        case("tools/async/call, plain", &sent("tools/async/call", json!({"name": "links"})), &[CALL, LINKS]),
        case("tools/async/join", &sent("tools/async/join", token()), &[READ]),
        case("tools/async/get", &sent("tools/async/get", token()), &[READ]),
        case("tools/async/status", &sent("tools/async/status", token()), &[READ]),
        case("tools/async/result", &sent("tools/async/result", token()), &[READ]),
        case("tools/async/cancel", &sent("tools/async/cancel", token()), &[CANCEL]),
        case("tools/async/cancel as it should be", &notification(sent("tools/async/cancel", token())), &[CANCEL]),
        case("notifications/cancelled", &notification(sent("notifications/cancelled", cancelled)), &[CANCEL]),
        case("the resource of a task", &sent("resources/read", resource), &[READ]),
        case("an answer", &reply("result"), &[CALL]),
        case("an answer that is an error", &reply("error"), &[CALL]),
        case("resuming a stream", &sent("x", json!({})), &[READ]),
        case("initialize", &initialize(&client.revision, everything()), &[]),
        case("initialized", &notification(sent("notifications/initialized", json!({}))), &[]),
        case("ping", &sent("ping", json!({})), &[]),
        case("listing tools", &sent("tools/list", json!({})), &[]),
        case("another resource", &sent("resources/read", json!({"uri": "test://r"})), &[]),
    ];
    for case in cases.iter_mut().filter(|case| case.what == "resuming a stream") {
        *case.request.method_mut() = http::Method::GET;
        case.request.headers_mut().insert("last-event-id", "made.up".parse().unwrap());
    }
    for case in &mut cases {
        case.what = format!("{}: {}", client.revision, case.what);
    }
    cases
}

async fn cases(server: &McpServer, id: &str) -> Vec<Case> {
    let mut cases = newest(id);
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "next"] {
        cases.extend(older(&Older::connect(server, revision).await, id));
    }
    cases
}

/// What the caller of a denied request is told to come back with.
fn missing(answer: &Response<Body>) -> Option<BTreeSet<String>> {
    answer.extensions().get::<MissingScopes>().map(|missing| missing.wanted.clone())
}

fn joined(scopes: &BTreeSet<&str>) -> String {
    scopes.iter().copied().collect::<Vec<_>>().join(" ")
}

/// The one answer to a request that needs scopes which its caller lacks.
pub(super) fn assert_denied(what: &str, answer: &Answer, needs: &BTreeSet<&str>) {
    assert_eq!(answer.status, 403, "{what}: {}", answer.text);
    let error = answer.json()["error"].clone();
    let needs = joined(needs);
    let expected = json!({
        "code": -32600,
        "message": format!("insufficient scope: this request needs a token with the scopes `{needs}`"),
        "data": {"error": "insufficient_scope", "scope": needs},
    });
    assert_eq!(error, expected, "{what}");
}

#[tokio::test]
async fn every_method_of_every_protocol_version_needs_what_it_does() {
    let (world, server) = scoped();
    let id = world.start("sleeps", json!({"ms": 60_000})).await;
    let grants: [&[&str]; 7] =
        [&[], &[CALL], &[READ], &[CANCEL], &[CALL, ADD], &[ADD, LINKS], &[CALL, READ, CANCEL, ADD, LINKS]];
    for granted in grants {
        let caller = member("alice", granted);
        for Case { what, request, needs } in cases(&server, &id).await {
            let what = format!("{what}, with {granted:?}");
            let needs: BTreeSet<&str> = needs.into_iter().collect();
            let granted: BTreeSet<&str> = granted.iter().copied().collect();
            let answer = server.respond(request, caller.clone()).await;
            assert_answered(&what, answer, &needs, &granted).await;
        }
    }
}

/// A request that needs these scopes has the answer that a caller with those gets.
async fn assert_answered(what: &str, answer: Response<Body>, needs: &BTreeSet<&str>, granted: &BTreeSet<&str>) {
    if needs.is_subset(granted) {
        assert!(missing(&answer).is_none() && answer.status() != 403, "{what}: {}", answer.status());
        return;
    }
    // With what the caller has already, for clients that replace their token.
    let wanted: BTreeSet<String> = needs.union(granted).map(|scope| (*scope).to_owned()).collect();
    assert_eq!(missing(&answer), Some(wanted), "{what}");
    let lacks = &answer.extensions().get::<MissingScopes>().unwrap().missing;
    assert!(lacks.iter().map(String::as_str).eq(needs.difference(granted).copied()), "{what}: {lacks:?}");
    assert_denied(what, &read(answer).await, needs);
}

#[tokio::test]
async fn a_request_that_is_denied_writes_nothing_and_tells_nothing_about_tasks() {
    let (world, server) = scoped();
    let id = world.start("sleeps", json!({"ms": 60_000})).await;
    let before = world.get(&id).await;
    let unknown = id.chars().rev().collect::<String>();
    let caller = member("alice", &[ADD, LINKS]);
    let mut denied = 0;
    for (known, other) in cases(&server, &id).await.into_iter().zip(cases(&server, &unknown).await) {
        if known.needs.is_empty() {
            continue;
        }
        let known = (known.what, read(server.respond(known.request, caller.clone()).await).await);
        let other = read(server.respond(other.request, caller.clone()).await).await;
        assert_eq!((known.1.status, &known.1.text), (other.status, &other.text), "{}", known.0);
        assert_eq!(known.1.headers, other.headers, "{}", known.0);
        denied += 1;
    }
    assert!(denied > 100, "{denied}");
    assert_eq!(world.get(&id).await, before);
    let client = Older::connect(&world.mcp, "2025-11-25").await;
    let listed = client.result(&world.mcp, "tasks/list", json!({})).await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test]
async fn callers_whom_something_identified_that_knows_no_scopes_may_do_everything() {
    let (world, server) = scoped();
    let id = world.start("sleeps", json!({"ms": 60_000})).await;
    for Case { what, request, .. } in cases(&server, &id).await {
        let answer = server.respond(request, alice()).await;
        assert!(answer.status() != 403 && missing(&answer).is_none(), "{what}");
    }
}

/// Readers of parameters differ in which of two members counts.
#[tokio::test]
async fn no_way_to_write_a_name_hides_it() {
    let (_world, server) = scoped();
    let client = Older::connect(&server, "next").await;
    let written = [
        r#"{"name": "at_once", "name": "add", "arguments": {"a": 1, "b": 2}}"#,
        r#"{"name": "add", "name": "at_once"}"#,
        r#"{"name": "\u0061dd"}"#,
        r#"{"n\u0061me": "add"}"#,
        r#"{"request": {"name": "at_once"}, "request": {"name": "add"}}"#,
        r#"{"name": "get_job_status", "request": {"name": "add"}}"#,
        r#"{"\ud800": 1, "name": "add"}"#,
    ];
    for method in ["tools/call", "tools/async/call"] {
        for params in written {
            let mut request = client.sent(method, json!({})).request();
            let body = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {params}}}"#);
            *request.body_mut() = body.into();
            let answer = server.respond(request, member("alice", &[CALL, READ])).await;
            let wanted = missing(&answer).unwrap_or_else(|| panic!("{method} {params}: {}", answer.status()));
            assert!(wanted.contains(ADD), "{method} {params}: {wanted:?}");
        }
    }
}

/// Some readers take a list for an object, by position: then no scope of a tool is looked for.
#[tokio::test]
async fn a_list_in_place_of_an_object_calls_nothing() {
    let (_world, server) = scoped();
    let client = Older::connect(&server, "next").await;
    for params in [
        r#"["add", {"a": 1, "b": 2}]"#,
        r#"["at_once", null, null, ["add", {"a": 1, "b": 2}]]"#,
        r#"{"request": ["add"]}"#,
    ] {
        for method in ["tools/call", "tools/async/call"] {
            let mut request = client.sent(method, json!({})).request();
            let body = format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {params}}}"#);
            *request.body_mut() = body.into();
            let answer = read(server.respond(request, member("alice", &[CALL, READ])).await).await;
            assert_eq!(answer.error().1, -32602, "{method} {params}");
        }
    }
}

#[tokio::test]
async fn a_batch_with_one_message_that_is_denied_is_refused_as_a_whole() {
    let (world, server) = scoped();
    let client = Older::connect(&server, "2025-03-26").await;
    let request =
        |id: i64, method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let send = async |messages: Value, scopes: &[&str]| {
        let mut sent = client.sent("x", json!({}));
        sent.body = messages;
        let answer = server.respond(sent.request(), member("alice", scopes)).await;
        (missing(&answer), read(answer).await)
    };
    let call = request(1, "tools/call", json!({"name": "add", "arguments": add()}));
    let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let messages = json!([call, request(2, "ping", json!({})), cancelled, 7]);
    let (wanted, answer) = send(messages.clone(), &[CALL, ADD]).await;
    assert_eq!(wanted.unwrap().into_iter().collect::<Vec<_>>(), [ADD, CALL, CANCEL]);
    assert_eq!(answer.status, 403);
    let answers = answer.json();
    assert_eq!(answers.as_array().unwrap().len(), 2, "{answers}");
    for (answer, id) in answers.as_array().unwrap().iter().zip([1, 2]) {
        assert_eq!((&answer["id"], &answer["error"]["data"]["error"]), (&json!(id), &json!("insufficient_scope")));
    }
    let (_, answer) = send(json!([cancelled]), &[CALL]).await;
    assert_denied("a notification", &answer, &[CANCEL].into());
    let client = Older::connect(&world.mcp, "2025-11-25").await;
    let listed = client.result(&world.mcp, "tasks/list", json!({})).await;
    assert_eq!(listed["tasks"], json!([]), "nothing of the batch was done");
    let (wanted, answer) = send(messages, &[CALL, ADD, CANCEL]).await;
    assert_eq!((wanted, answer.status.as_u16()), (None, 200));
}

#[tokio::test]
async fn a_get_without_a_stream_to_resume_is_refused_as_always() {
    let (_world, server) = scoped();
    let caller = member("alice", &[]);
    let answer = server.respond(Request::get("/mcp").body(Bytes::new()).unwrap(), caller).await;
    assert_eq!((answer.status().as_u16(), missing(&answer)), (405, None), "clients look for a stream with it");
}
