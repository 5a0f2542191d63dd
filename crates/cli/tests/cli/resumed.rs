//! Streams that break off, and are read on where their server says from where; and what is said if they cannot be.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::command::Setup;
use crate::servers::{Server, answering_to, cutting, without_discovery};
use crate::sessions::{Asked, one_session_each};

/// How a server continues the answer to a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// In two further connections, of which the first has progress only.
    Comes,
    /// It has none.
    Unknown,
    /// It does not say from where.
    Unsaid,
}

/// A stream of events. The connection breaks off where more is promised than comes.
fn stream(events: &str, promised: usize) -> String {
    let length = events.len() + promised;
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n{events}")
}

/// A server of one tool, which breaks each connection off; and the requests that it has got, by their verb and method.
fn breaking_off(rest: Rest, has_session: bool) -> (String, Arc<Mutex<Vec<String>>>) {
    let (got, id) = (Arc::new(Mutex::new(Vec::new())), Mutex::new(Value::Null));
    let noted = Arc::clone(&got);
    let answer = move |head: &str, body: &str| {
        let asked = Asked::of(head, body);
        noted.lock().unwrap().push(format!("{} {}", asked.verb, asked.method()));
        let last = head.lines().find_map(|line| line.strip_prefix("last-event-id: "));
        match (asked.verb.as_str(), asked.method(), last) {
            ("POST", "server/discover", _) if has_session => asked.error(-32601),
            ("POST", "server/discover", _) => {
                asked.result("", &json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}))
            }
            ("POST", "initialize", _) => {
                let info = json!({"protocolVersion": "2025-11-25", "capabilities": {}});
                asked.result("mcp-session-id: s1\r\n", &info)
            }
            ("POST", "tools/list", _) => asked.result("", &json!({"tools": [{"name": "t", "inputSchema": {}}]})),
            ("POST", "tools/call", _) => {
                *id.lock().unwrap() = asked.message["id"].clone();
                let place = if rest == Rest::Unsaid { "" } else { "id: e0\nretry: 1\n" };
                stream(&format!("{place}data: \n\n: a comment\n\n"), 1_000)
            }
            ("GET", _, Some("e0")) if rest == Rest::Comes => {
                let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}});
                stream(&format!("id: e1\ndata: {progress}\n\n"), 0)
            }
            ("GET", _, Some("e1")) if rest == Rest::Comes => {
                let content = json!([{"type": "text", "text": "here it is"}]);
                let answer = json!({"jsonrpc": "2.0", "id": *id.lock().unwrap(), "result": {"content": content}});
                stream(&format!("data: {answer}\n\n"), 0)
            }
            ("GET" | "DELETE", ..) => "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
            _ => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
        }
    };
    (answering_to(answer).0, got)
}

fn count(got: &Mutex<Vec<String>>, what: &str) -> usize {
    got.lock().unwrap().iter().filter(|got| got.starts_with(what)).count()
}

#[test]
fn a_call_is_answered_over_connections_that_break_off_and_is_made_once() {
    for has_session in [false, true] {
        let mut setup = Setup::new();
        let (url, got) = breaking_off(Rest::Comes, has_session);
        setup.url = url;
        assert_eq!(setup.run(&["call", "t"]).out(), "here it is");
        assert_eq!((count(&got, "POST tools/call"), count(&got, "GET")), (1, 2), "{got:?}");
    }
}

#[test]
fn a_call_that_cannot_be_read_on_is_lost_and_is_made_once() {
    for (rest, asked) in [(Rest::Unknown, 1), (Rest::Unsaid, 0)] {
        let mut setup = Setup::new();
        let (url, got) = breaking_off(rest, true);
        setup.url = url;
        let said = setup.run(&["call", "t"]);
        assert!(said.code == 4 && said.err.contains("the answer was lost"), "{said:?}");
        assert_eq!((count(&got, "POST tools/call"), count(&got, "GET")), (1, asked), "{got:?}");
        let mut bridge = Bridge::to(&setup, &setup.url);
        bridge.ask(1, "tools/call", json!({"name": "t"}));
        let answer = bridge.answer(1);
        let why = answer["error"]["message"].as_str().unwrap();
        assert!(why.contains("the answer was lost") && !why.contains("cannot be reached"), "{answer}");
        assert_eq!((count(&got, "POST tools/call"), count(&got, "GET")), (2, 2 * asked), "{got:?}");
    }
}

/// A session of the shipped server, and a task in it that asks something.
fn asking(setup: &Setup, url: &str) -> Bridge {
    let mut bridge = Bridge::to(setup, url);
    let (client, capabilities) = (json!({"name": "t", "version": "1"}), json!({"elicitation": {}}));
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
    bridge.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}));
    assert_eq!(bridge.answer(1)["result"]["protocolVersion"], "2025-11-25");
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let params = json!({"name": "ask", "arguments": {"questions": ["Which month?"]}, "task": {}});
    bridge.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}));
    let task = bridge.answer(2)["result"]["task"]["taskId"].clone();
    bridge.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "tasks/result", "params": {"taskId": task}}));
    bridge
}

#[test]
fn a_result_is_waited_for_over_a_connection_that_is_cut_and_a_kill_of_the_server() {
    let (setup, server) = Setup::local();
    let cable = cutting(setup.port);
    let mut bridge = asking(&setup, &cable.url);
    let question = loop {
        let message = bridge.next();
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    cable.cut();
    server.kill();
    let _server = Server::local(setup.folder(), setup.port);
    let answer = json!({"action": "accept", "content": {"answer": "May"}});
    bridge.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    let answer = bridge.answer(3);
    assert!(answer["result"]["content"][0]["text"].as_str().is_some_and(|text| text.contains("May")), "{answer}");
}

#[test]
fn no_request_of_a_session_has_an_id_that_another_process_has_used() {
    let mut setup = Setup::new();
    let ids = Arc::new(Mutex::new(Vec::new()));
    let (noted, answer) = (Arc::clone(&ids), one_session_each());
    setup.url = answering_to(move |head, body| {
        let asked = Asked::of(head, body);
        noted.lock().unwrap().extend(asked.message.get("method").and(asked.message.get("id")).map(Value::to_string));
        answer(head, body)
    })
    .0;
    let id = setup.detach(&["t"]);
    for verb in ["watch", "result", "show"] {
        setup.run(&[verb, &id]).out();
    }
    let ids = ids.lock().unwrap();
    assert!(ids.len() > 8 && ids.iter().collect::<BTreeSet<_>>().len() == ids.len(), "{ids:?}");
}

#[test]
fn a_call_and_its_session_go_on_at_a_server_that_speaks_an_older_revision_only() {
    let (setup, server) = Setup::local();
    let url = without_discovery(setup.port);
    let said = setup.run(&["call", "countdown", "seconds=0.5", "steps=5", "--server", &url]);
    assert!(said.code == 0 && said.out.contains("\"steps\":5"), "{said:?}");
    let id = setup.run(&["call", "countdown", "seconds=2", "steps=20", "--detach", "--server", &url]).out();
    server.kill();
    let _server = Server::local(setup.folder(), setup.port);
    let said = setup.run(&["watch", &id, "--server", &url]);
    assert!(said.code == 0 && said.out.contains("\"steps\":20"), "{said:?}");
}
