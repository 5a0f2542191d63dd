//! `longhaul bridge`: lines over its standard input and output, also such that no client writes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::command::Setup;
use crate::servers::{Lossy, PATIENCE, Server, answering, answering_to, json_of, serving};

/// A bridge that a test speaks to by hand.
pub(crate) struct Bridge {
    child: Child,
    input: Option<ChildStdin>,
    lines: mpsc::Receiver<Value>,
}

impl Bridge {
    pub(crate) fn to(setup: &Setup, url: &str) -> Self {
        Self::start(&mut setup.command(&["bridge", url]))
    }

    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // A line that is not JSON is a mistake of the bridge's.
                drop(send.send(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"))));
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    pub(crate) fn write(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    /// A request of revision `2026-07-28`, which says everything itself.
    pub(crate) fn ask(&mut self, id: u64, method: &str, mut params: Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// The next message.
    pub(crate) fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("the bridge writes something")
    }

    /// The answer to a request. Notifications before it are passed over.
    pub(crate) fn answer(&self, id: u64) -> Value {
        loop {
            let message = self.next();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Closes its input. How it ends, if it does in this time.
    pub(crate) fn close_within(mut self, time: Duration) -> Option<i32> {
        drop(self.input.take());
        let begun = Instant::now();
        while begun.elapsed() < time {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }

    /// Closes its input, and waits for its end.
    fn close(mut self) -> (i32, Vec<Value>) {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        (status.code().unwrap(), self.lines.iter().collect())
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_server_that_is_killed_is_waited_for() {
    let (setup, server) = Setup::local();
    let mut bridge = Bridge::to(&setup, &setup.url);
    bridge.ask(1, "tools/call", json!({"name": "countdown", "arguments": {"seconds": 1}}));
    let task = bridge.answer(1)["result"]["taskId"].as_str().unwrap().to_owned();
    server.kill();
    bridge.ask(2, "tasks/get", json!({"taskId": task}));
    // Nothing was sent, so that even a call is made later.
    bridge.ask(3, "tools/call", json!({"name": "echo", "arguments": {"text": "late"}}));
    let _server = Server::local(setup.folder(), setup.port);
    let (mut seen, mut ids) = (Vec::new(), Vec::new());
    while ids.len() < 2 {
        let message = bridge.next();
        ids.extend(message["id"].as_u64());
        seen.push(message);
    }
    assert!(seen.iter().all(|message| message.get("error").is_none()), "{seen:?}");
    assert_eq!(bridge.close().0, 0);
}

#[test]
fn a_session_goes_on_after_a_kill_of_its_server() {
    let (setup, server) = Setup::local();
    let mut bridge = Bridge::to(&setup, &setup.url);
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    bridge.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}));
    assert_eq!(bridge.answer(1)["result"]["protocolVersion"], "2025-11-25");
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    server.kill();
    // Another server, which does not know the session: its keys are in another database.
    for file in ["tasks.db", "tasks.db-wal"] {
        std::fs::remove_file(setup.folder().join(file)).unwrap();
    }
    let _server = Server::local(setup.folder(), setup.port);
    bridge.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    assert!(bridge.answer(2)["result"]["tools"].is_array());
    assert_eq!(bridge.close().0, 0);
}

/// A server with a tool whose argument has to be in a header.
fn wanting_headers(_server: &str, head: &str) -> String {
    let of = |status: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
    };
    let tool = r#"{"name":"t","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}"#;
    if head.contains("mcp-method: tools/list") {
        return of("200 OK", &format!(r#"{{"jsonrpc":"2.0","id":"longhaul bridge","result":{{"tools":[{tool}]}}}}"#));
    }
    match head.contains("mcp-param-region: eu\r\n") {
        true => of("200 OK", r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#),
        false => of("400 Bad Request", r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"no region"}}"#),
    }
}

#[test]
fn arguments_are_in_headers_where_the_server_wants_that() {
    let setup = Setup::new();
    let (url, heads) = serving(wanting_headers);
    let mut bridge = Bridge::to(&setup, &url);
    bridge.ask(1, "tools/call", json!({"name": "t", "arguments": {"region": "eu"}}));
    assert!(bridge.answer(1).get("result").is_some());
    // The learned headers are known from then on.
    bridge.ask(1, "tools/call", json!({"name": "t", "arguments": {"region": "eu"}}));
    assert!(bridge.answer(1).get("result").is_some());
    bridge.ask(1, "tools/call", json!({"name": "t", "arguments": {"region": "us"}}));
    assert_eq!(bridge.answer(1)["error"]["message"], "no region");
    assert_eq!(heads.lock().unwrap().len(), 5);
}

/// A server whose tool wants another header once it was called.
#[test]
fn a_tool_whose_headers_have_changed_is_read_again() {
    let (setup, calls) = (Setup::new(), AtomicU32::new(0));
    let (url, heads) = answering_to(move |head, body| {
        let id = serde_json::from_str::<Value>(body).unwrap()["id"].clone();
        let answer = |more: Value| {
            let mut message = json!({"jsonrpc": "2.0", "id": id});
            message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json_of("200 OK", "", &message)
        };
        let wanted = if calls.load(Ordering::SeqCst) == 0 { "Region" } else { "Zone" };
        if head.contains("mcp-method: tools/list") {
            let properties = json!({"region": {"type": "string", "x-mcp-header": wanted}});
            return answer(json!({"result": {"tools": [{"name": "t", "inputSchema": {"properties": properties}}]}}));
        }
        if head.contains(&format!("mcp-param-{}: eu", wanted.to_lowercase())) {
            calls.fetch_add(1, Ordering::SeqCst);
            return answer(json!({"result": {"content": []}}));
        }
        answer(json!({"error": {"code": -32020, "message": "no header"}}))
    });
    let mut bridge = Bridge::to(&setup, &url);
    bridge.ask(1, "tools/list", json!({}));
    bridge.answer(1);
    for id in 2..4 {
        bridge.ask(id, "tools/call", json!({"name": "t", "arguments": {"region": "eu"}}));
        assert!(bridge.answer(id).get("result").is_some());
    }
    // The list, a call, and a call that was refused, with the list again.
    assert_eq!(heads.lock().unwrap().len(), 5);
}

/// A server whose streams break off, and say from where to continue.
fn breaking_off(server: &str, head: &str) -> String {
    let of = |status: &str, more: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 {status}\r\n{more}content-length: {length}\r\n\r\n{body}")
    };
    let stream = |event: &str| of("200 OK", "content-type: text/event-stream\r\n", &format!("{event}\n\n"));
    let has = |header: &str| head.contains(header);
    match head.split(' ').next().unwrap() {
        "POST" if has("mcp-session-id: s1") => stream("id: a1\nretry: 1\ndata: "),
        "POST" => of(
            "200 OK",
            "content-type: application/json\r\nmcp-session-id: s1\r\n",
            r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#,
        ),
        "GET" if has("last-event-id: a1") => stream(r#"data: {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}"#),
        "GET" if has("last-event-id: g1") => {
            stream(r#"data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":2}}"#)
        }
        "GET" => stream(
            "id: g1\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\ndata: \
             \"method\":\"notifications/message\",\"params\":{\"data\":1}}",
        ),
        method => of("405 Method Not Allowed", "", &format!("{server} {method}")),
    }
}

#[test]
fn streams_that_break_off_are_read_to_their_end() {
    let setup = Setup::new();
    let mut bridge = Bridge::to(&setup, &serving(breaking_off).0);
    bridge.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}));
    bridge.answer(1);
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    // The messages that the server sends outside of answers: two, in one line each, and the rest.
    assert_eq!(bridge.next()["params"]["data"], 1);
    assert_eq!(bridge.next()["params"]["data"], 2);
    bridge.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}));
    assert_eq!(bridge.answer(2)["result"]["tools"], json!([]));
}

#[test]
fn a_call_whose_answer_is_lost_is_made_once_unless_it_has_a_key() {
    let (setup, _server) = Setup::local();
    for (key, is_answered) in [(None, false), (Some("k"), true)] {
        let lossy = Lossy::before(setup.port);
        let mut bridge = Bridge::to(&setup, &lossy.url);
        let mut params = json!({"name": "countdown", "arguments": {"seconds": 0.1}});
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
        });
        if let Some(key) = key {
            params["_meta"]["dev.longhaul/idempotencyKey"] = key.into();
        }
        bridge.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}));
        let answer = bridge.answer(7);
        assert!(lossy.has_lost());
        assert_eq!(answer.get("result").is_some(), is_answered, "{answer}");
        if !is_answered {
            assert!(answer["error"]["message"].as_str().unwrap().contains("the answer was lost"), "{answer}");
        }
    }
    let listed = setup.run(&["tasks", "--json"]).json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 2, "{listed}");
}

#[test]
fn a_cancelled_request_is_not_answered() {
    let (setup, _server) = Setup::local();
    let mut bridge = Bridge::to(&setup, &setup.url);
    let id = setup.detach(&["countdown", "seconds=600"]);
    let listen = json!({"notifications": {"taskIds": [id]}});
    bridge.ask(1, "subscriptions/listen", listen.clone());
    assert_eq!(bridge.next()["method"], "notifications/subscriptions/acknowledged");
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    // Its id is free again.
    bridge.ask(1, "tools/list", json!({}));
    assert!(bridge.answer(1)["result"]["tools"].is_array());
    bridge.ask(2, "subscriptions/listen", listen);
    while bridge.next()["method"] != "notifications/subscriptions/acknowledged" {}
    let (code, rest) = bridge.close();
    assert!(code == 0 && rest.iter().all(|message| message.get("id").is_none()), "{rest:?}");
}

#[test]
fn lines_that_are_no_messages_are_refused_and_the_next_one_is_read() {
    let (setup, _server) = Setup::local();
    let mut bridge = Bridge::to(&setup, &setup.url);
    for line in ["x", "1", "{\"id\":1", "", "\u{feff}{}"] {
        bridge.write(line);
    }
    bridge.write(&"y".repeat((16 << 20) + 1));
    for _ in 0..5 {
        let refused = bridge.next();
        assert!(refused["id"].is_null() && refused["error"]["code"] == -32700, "{refused}");
    }
    bridge.ask(1, "tools/list", json!({}));
    assert!(bridge.answer(1)["result"]["tools"].is_array());
}

#[test]
fn what_a_server_answers_by_a_status_is_an_error_with_the_id_of_the_request() {
    let setup = Setup::new();
    for (answer, expected) in [
        ("HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer\r\ncontent-length: 0\r\n\r\n", "longhaul login"),
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "404"),
        ("HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 0\r\n\r\n", "the answer is empty"),
        (
            "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: \
             57\r\n\r\n{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32020,\"message\":\"no!\"}} ",
            "no!",
        ),
    ] {
        let mut bridge = Bridge::to(&setup, &answering(answer));
        bridge.ask(5, "tools/call", json!({"name": "t"}));
        let answered = bridge.answer(5);
        assert!(answered["error"]["message"].as_str().unwrap().contains(expected), "{answered}");
    }
}
