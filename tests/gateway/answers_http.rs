//! The same over Streamable HTTP, with the faults that a response may have around its message.

use serde_json::{Value, json};

use super::answers::{Gets, answers, check, write};
use super::process::{Gateway, Setup, Somewhere, ended, until, why, words};
use Gets::{Fails, Text};

const DONE: &str = r#"{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"done"}]}}"#;

/// A gateway in front of a server that answers so, and that server.
fn in_front_of(files: &[(&str, Vec<u8>)], terms: &Value) -> (Setup, Somewhere) {
    let mut somewhere = None;
    let setup = Setup::config(|setup| {
        for (name, bytes) in files {
            write(setup, name, bytes);
        }
        let (server, url) = Somewhere::fixture("scripted-http", &[&setup.path("")]);
        somewhere = Some(server);
        json!({"mcpServers": {"only": {"url": url}}, "longhaul": {"servers": {"only": terms}}})
    });
    (setup, somewhere.unwrap())
}

fn short() -> Value {
    json!({"tools": {"*": {"runAtMost": "20s"}}})
}

async fn check_all(cases: Vec<(&'static str, Vec<u8>, Gets)>) {
    let files: Vec<_> = cases.iter().map(|(name, bytes, _)| (format!("tools.call.{name}"), bytes.clone())).collect();
    let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let (setup, _server) = in_front_of(&files, &short());
    let gateway = setup.start();
    check(&setup, &gateway, cases).await;
}

fn after(head: &str, body: &[u8]) -> Vec<u8> {
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn every_answer_in_a_body_ends_its_call() {
    let json = "200\ncontent-type: application/json\n\n";
    check_all(answers().into_iter().map(|(name, bytes, gets)| (name, after(json, &bytes), gets)).collect()).await;
}

#[tokio::test]
async fn every_answer_in_an_event_ends_its_call() {
    let event = "200\ncontent-type: text/event-stream\nx-then: hold\n\ndata: ";
    let bytes = |bytes: &[u8]| after(event, &[bytes, b"\n\n"].concat());
    // A stream of events is UTF-8, or ends.
    let cases = answers().into_iter().filter(|(name, ..)| *name != "latin");
    check_all(cases.map(|(name, answer, gets)| (name, bytes(&answer), gets)).collect()).await;
}

#[tokio::test]
async fn every_response_ends_its_call() {
    let response = |head: &str| after(&format!("{head}\n\n"), DONE.as_bytes());
    let plain = |head: &str, body: &str| after(&format!("{head}\n\n"), body.as_bytes());
    let events = format!("event: message\ndata: {DONE}\n\n");
    let error = r#"{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"boom"}}"#;
    check_all(vec![
        ("typeless", response("200"), Text("done")),
        ("texts", response("200\ncontent-type: text/plain"), Text("done")),
        ("capitals", response("200\ncontent-type: Application/JSON; charset=UTF-8"), Text("done")),
        ("created", response("201\ncontent-type: application/json"), Text("done")),
        ("endless", response("200\ncontent-type: application/json\nx-then: hold"), Text("done")),
        ("eventful", plain("200\ncontent-type: text/plain", &events), Text("done")),
        ("stream", plain("200\ncontent-type: Text/Event-Stream;charset=utf-8", &events), Text("done")),
        ("unended", plain("200\ncontent-type: text/event-stream", &format!("data: {DONE}")), Text("done")),
        ("named", plain("200\ncontent-type: text/event-stream", &events.replace("message", "result")), Text("done")),
        ("mistaken", response("200\ncontent-type: text/event-stream"), Text("done")),
        ("page", plain("200\ncontent-type: text/html", "<html>log in</html>"), Fails(&["`only`", "<html>log in"])),
        ("accepted", plain("202", ""), Fails(&["`only`", "empty", "202"])),
        ("void", plain("200\ncontent-type: application/json", ""), Fails(&["`only`", "empty", "200"])),
        ("bad", plain("400\ncontent-type: text/plain", "no such thing"), Fails(&["`only`", "400", "no such thing"])),
        ("teapot", plain("418", ""), Fails(&["`only`", "418"])),
        ("large", plain("413", "too much"), Fails(&["`only`", "413", "too much"])),
        ("failure", plain("500\ncontent-type: application/json", error), Fails(&["boom"])),
        ("errant", plain("400\ncontent-type: application/json", error), Fails(&["boom"])),
        (
            "unauthorized",
            plain("401\nwww-authenticate: Bearer error=\"invalid_token\"", ""),
            Fails(&["`only`", "credentials", "401", "invalid_token"]),
        ),
        ("forbidden", plain("403", "not you"), Fails(&["`only`", "credentials", "403", "not you"])),
        (
            "far",
            plain("307\nlocation: http://127.0.0.1:1/mcp?key=hunter2", ""),
            Fails(&["`only`", "redirects", "`http://127.0.0.1:1/mcp`"]),
        ),
        ("moved", plain("302\nlocation: /elsewhere", ""), Fails(&["`only`", "redirects", "/elsewhere"])),
    ])
    .await;
}

#[tokio::test]
async fn a_server_that_refuses_a_notification_is_served() {
    let refused =
        b"400\ncontent-type: application/json\n\n{\"id\":null,\"error\":{\"code\":-32600,\"message\":\"no\"}}";
    let done = after("200\ncontent-type: application/json\n\n", DONE.as_bytes());
    let files = [("notifications.initialized", refused.to_vec()), ("tools.call.w", done)];
    let (setup, _server) = in_front_of(&files, &short());
    assert_eq!(words(&setup.start().ended("w", json!({})).await), "done");
}

#[tokio::test]
async fn a_redirect_to_the_same_server_is_followed() {
    let near = b"307\nlocation: /mcp/\n\n".to_vec();
    let done = after("200\ncontent-type: application/json\n\n", DONE.as_bytes());
    let (setup, _server) = in_front_of(&[("tools.call.w", near), ("tools.call.w.2", done)], &short());
    assert_eq!(words(&setup.start().ended("w", json!({})).await), "done");
    assert_eq!(setup.lines("paths").last().unwrap(), "/mcp/");
}

#[tokio::test]
async fn a_server_that_is_busy_is_asked_again_when_it_says_so() {
    let done = after("200\ncontent-type: application/json\n\n", DONE.as_bytes());
    for status in ["429", "503"] {
        let busy = format!("{status}\nretry-after: 1\n\nlater").into_bytes();
        let files = [("tools.call.w", busy.clone()), ("tools.call.w.3", done.clone())];
        let (setup, _server) = in_front_of(&files, &short());
        assert_eq!(words(&setup.start().ended("w", json!({})).await), "done");
        assert_eq!(setup.calls().len(), 3, "{status}");
    }
}

#[tokio::test]
async fn a_server_that_is_away_is_waited_for() {
    let done = after("200\ncontent-type: application/json\n\n", DONE.as_bytes());
    let (setup, server) = in_front_of(&[("tools.call.w", done)], &json!({}));
    let (_gateway, caller) = setup.started();
    let port = server.port();
    drop(server);
    let id = caller.call_task("w", json!({})).await;
    let says = |task: &Value| task["statusMessage"].as_str().is_some_and(|words| words.contains("cannot be reached"));
    caller.until_it(&id, "why it waits", says).await;
    let _server = Somewhere::fixture("scripted-http", &[&setup.path(""), &port]);
    assert_eq!(words(&ended(&caller, &id).await), "done");
    assert_eq!(setup.calls(), ["w"]);
}

/// The answers of a server with sessions, which get other names each time.
fn with_sessions() -> Vec<(String, Vec<u8>)> {
    let info = json!({"name": "s", "version": "1"});
    let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info});
    let greeting = |session: usize| {
        let head = format!("200\ncontent-type: application/json\nmcp-session-id: s{session}\n\n");
        after(&head, format!(r#"{{"jsonrpc":"2.0","id":%d,"result":{result}}}"#).as_bytes())
    };
    let name = |number: usize| if number == 1 { "initialize".to_owned() } else { format!("initialize.{number}") };
    (1..9).map(|number| (name(number), greeting(number))).collect()
}

#[tokio::test]
async fn a_call_that_is_refused_with_its_session_is_made_in_a_new_one() {
    let done = after("200\ncontent-type: application/json\n\n", DONE.as_bytes());
    for (status, body) in [
        ("400", r#"{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"No valid session ID provided"}}"#),
        ("400", "Bad Request"),
        ("404", r#"{"error":"Session not found"}"#),
        ("410", ""),
        ("422", "unknown session"),
    ] {
        let gone = format!("{status}\ncontent-type: application/json\n\n{body}").into_bytes();
        let mut files: Vec<_> = with_sessions();
        files.extend([("tools.call.w".to_owned(), done.clone()), ("tools.call.w.2".to_owned(), gone)]);
        files.push(("tools.call.w.3".to_owned(), done.clone()));
        let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
        let (setup, _server) = in_front_of(&files, &json!({"process": "pool"}));
        let gateway = setup.start();
        for calls in [1, 3] {
            assert_eq!(words(&gateway.ended("w", json!({})).await), "done", "{status} {body}");
            assert_eq!(setup.calls().len(), calls, "{status} {body}");
        }
        let sessions: Vec<_> =
            setup.lines("methods").into_iter().filter(|line| line.starts_with("tools.call")).collect();
        assert_ne!(sessions[1], sessions[2], "{status} {body}");
    }
}

#[tokio::test]
async fn a_call_that_every_session_refuses_ends_with_the_servers_words() {
    let refusal = r#"{"jsonrpc":"2.0","id":%d,"error":{"code":-32000,"message":"No valid session ID provided"}}"#;
    let gone = after("400\ncontent-type: application/json\n\n", refusal.as_bytes());
    let mut files: Vec<_> = with_sessions();
    files.push(("tools.call.w".to_owned(), gone));
    let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let (setup, _server) = in_front_of(&files, &short());
    let why = why(&setup.start().ended("w", json!({})).await);
    assert!(why.contains("No valid session ID provided"), "{why}");
    assert_eq!(setup.calls().len(), 2);
}

/// A server of `2025-11-25` that makes tasks and has no sessions.
fn with_tasks(states: &[(&str, &str)]) -> Vec<(String, Vec<u8>)> {
    let message = |result: Value| {
        after(
            "200\ncontent-type: application/json\n\n",
            format!(r#"{{"jsonrpc":"2.0","id":%d,"result":{result}}}"#).as_bytes(),
        )
    };
    let task = |status: &str, words: &str| {
        json!({"taskId": "t1", "status": status, "statusMessage": words, "ttl": 60_000, "pollInterval": 200,
            "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z"})
    };
    let tasks = json!({"requests": {"tools": {"call": {}}}});
    let tool = json!({"name": "t", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"},
        "annotations": {"readOnlyHint": true}});
    let mut files = vec![
        (
            "initialize".to_owned(),
            message(json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "tasks": tasks},
                "serverInfo": {"name": "s", "version": "1"}})),
        ),
        ("tools.list".to_owned(), message(json!({"tools": [tool]}))),
        ("tools.call.t".to_owned(), message(json!({"task": task("working", "")}))),
        ("tasks.result".to_owned(), message(json!({"content": [{"type": "text", "text": "done"}]}))),
    ];
    for (number, (status, words)) in (1..).zip(states) {
        let name = if number == 1 { "tasks.get".to_owned() } else { format!("tasks.get.{number}") };
        let state = match status.parse::<u16>() {
            Ok(_) => after(&format!("{status}\n\n"), words.as_bytes()),
            Err(_) => message(task(status, words)),
        };
        files.push((name, state));
    }
    files
}

fn task_server(states: &[(&str, &str)]) -> (Setup, Somewhere, Gateway) {
    let files = with_tasks(states);
    let files: Vec<_> = files.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let (setup, server) = in_front_of(&files, &short());
    let gateway = setup.start();
    (setup, server, gateway)
}

#[tokio::test]
async fn a_task_of_a_server_without_sessions_ends() {
    let (setup, _server, gateway) = task_server(&[("working", "a"), ("working", "b"), ("completed", "c")]);
    assert_eq!(words(&gateway.ended("t", json!({})).await), "done");
    assert_eq!(setup.calls(), ["t"]);
}

#[tokio::test]
async fn the_words_of_a_task_are_shown_as_they_were_said() {
    for said in ["reading files", "404 Not Found", "3/10 reading", "0.5"] {
        let (_setup, _server, gateway) = task_server(&[("working", said)]);
        let caller = gateway.caller();
        let id = caller.call_task("t", json!({})).await;
        caller.until_it(&id, said, |task| task["statusMessage"] == said).await;
    }
}

#[tokio::test]
async fn credentials_that_are_refused_in_the_middle_of_a_task_are_told_and_may_be_renewed() {
    let refused = [("working", "at first"), ("401", "expired"), ("401", "expired"), ("401", "expired")];
    let (setup, _server, gateway) = task_server(&refused);
    let caller = gateway.caller();
    let id = caller.call_task("t", json!({})).await;
    let says = |task: &Value| task["statusMessage"].as_str().is_some_and(|words| words.contains("401"));
    caller.until_it(&id, "the refusal", says).await;
    for (name, bytes) in with_tasks(&[("completed", "")]).into_iter().filter(|(name, _)| name == "tasks.get") {
        for number in 2..=4 {
            std::fs::remove_file(setup.path(&format!("answers/tasks.get.{number}"))).unwrap_or_default();
        }
        write(&setup, &name, &bytes);
    }
    assert_eq!(words(&ended(&caller, &id).await), "done");
    until("one call", || setup.calls() == ["t"]).await;
}
