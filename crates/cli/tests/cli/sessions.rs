//! Servers that show a task to its session only, sessions that are ended, and servers that say when to come again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::command::Setup;
use crate::servers::{answering_to, json_of};

/// The parts of a request: its method by HTTP, its session, and its message.
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) session: String,
    pub(crate) message: Value,
}

impl Asked {
    pub(crate) fn of(head: &str, body: &str) -> Self {
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap_or_default();
        let verb = head.split(' ').next().unwrap_or_default().to_owned();
        Self { verb, session: session.to_owned(), message: serde_json::from_str(body).unwrap_or_default() }
    }

    pub(crate) fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn result(&self, more: &str, result: &Value) -> String {
        json_of("200 OK", more, &json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result}))
    }

    pub(crate) fn error(&self, code: i64) -> String {
        let error = json!({"code": code, "message": "no"});
        json_of("200 OK", "", &json!({"jsonrpc": "2.0", "id": self.message["id"], "error": error}))
    }
}

/// A server of `2025-11-25` that makes a task of each call, and shows it to the session of the call only.
pub(crate) fn one_session_each() -> impl Fn(&str, &str) -> String + Send + 'static {
    let (sessions, cancelled) = (AtomicU32::new(0), Mutex::new(Vec::<String>::new()));
    move |head, body| {
        let asked = Asked::of(head, body);
        let task =
            |status: &str| json!({"taskId": format!("t{}", asked.session), "status": status, "pollInterval": 100});
        let is_own = asked.message["params"]["taskId"] == format!("t{}", asked.session);
        match asked.method() {
            "initialize" => {
                let session = format!("mcp-session-id: s{}\r\n", sessions.fetch_add(1, Ordering::SeqCst));
                let tasks = json!({"requests": {"tools": {"call": {}}}, "cancel": {}});
                let info = json!({"protocolVersion": "2025-11-25", "capabilities": {"tasks": tasks}});
                asked.result(&session, &info)
            }
            "tools/list" => {
                let tool = json!({"name": "t", "inputSchema": {}, "execution": {"taskSupport": "optional"}});
                asked.result("", &json!({"tools": [tool]}))
            }
            "tools/call" => asked.result("", &json!({"task": task("working")})),
            "tasks/get" | "tasks/cancel" | "tasks/result" if !is_own => asked.error(-32602),
            "tasks/cancel" => {
                cancelled.lock().unwrap().push(asked.session.clone());
                asked.result("", &task("cancelled"))
            }
            "tasks/get" if cancelled.lock().unwrap().contains(&asked.session) => asked.result("", &task("cancelled")),
            "tasks/get" => asked.result("", &task("completed")),
            "tasks/result" => asked.result("", &json!({"content": [{"type": "text", "text": asked.session}]})),
            "notifications/initialized" => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            _ if asked.verb == "DELETE" => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned(),
            _ => asked.error(-32601),
        }
    }
}

#[test]
fn each_task_is_asked_for_in_the_session_that_began_it() {
    let mut setup = Setup::new();
    setup.url = answering_to(one_session_each()).0;
    let [a, b, c] = [(); 3].map(|()| setup.detach(&["t"]));
    assert_eq!([a.as_str(), b.as_str(), c.as_str()], ["ts0", "ts1", "ts2"]);
    let listed = setup.run(&["tasks", "--json"]).json();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 3, "{listed}");
    assert_eq!(setup.run(&["watch", &a, &b]).out().lines().count(), 2);
    let said = setup.run(&["cancel", &a, &b]);
    assert!(said.code == 0 && said.err.matches("asked to cancel").count() == 2, "{said:?}");
    let said = setup.run(&["watch", &a, &c, &b, "--json"]);
    let ends: Vec<Value> = said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((said.code, ends.len()), (8, 3), "{said:?}");
    assert_eq!(setup.run(&["result", &c]).out(), "s2");
}

#[test]
fn a_session_that_no_task_is_shown_to_is_ended() {
    let mut setup = Setup::new();
    let (url, heads) = answering_to(one_session_each());
    setup.url = url;
    let counted = || {
        let heads = heads.lock().unwrap();
        let begun = heads.iter().filter(|head| head.contains("initialize")).count();
        (heads.iter().filter(|head| head.starts_with("DELETE")).count(), begun)
    };
    setup.run(&["tools"]).out();
    assert_eq!(counted().0, 1);
    assert_eq!(setup.run(&["call", "nothing"]).code, 2);
    assert_eq!(counted().0, 2);
    setup.run(&["tasks"]).out();
    assert_eq!(counted().0, 3);
    assert_eq!(setup.run(&["show", "01a1fde7-1b32-78d1-93e4-b5ba23776d60"]).code, 2);
    assert_eq!(counted().0, 4);
    let id = setup.detach(&["t"]);
    setup.run(&["watch", &id]).out();
    setup.run(&["result", &id]).out();
    assert_eq!(counted().0, 4, "the task is shown to this session only");
}

/// A server of `2026-07-28` that has its list in the older revision only.
#[test]
fn a_list_of_the_older_revision_is_read_in_one_session() {
    let mut setup = Setup::new();
    let (url, heads) = answering_to(|head, body| {
        let asked = Asked::of(head, body);
        match asked.method() {
            "server/discover" => asked.result("", &json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})),
            "initialize" => {
                let info = json!({"protocolVersion": "2025-11-25", "capabilities": {"tasks": {"list": {}}}});
                asked.result("mcp-session-id: s1\r\n", &info)
            }
            _ if asked.verb == "DELETE" => "HTTP/1.1 200 OK\r\nx-begun: 1\r\ncontent-length: 0\r\n\r\n".to_owned(),
            _ => asked.result("", &json!({"tasks": []})),
        }
    });
    setup.url = url;
    let mut child = setup.command(&["tasks", "--watch", "--json"]).spawn().unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        std::io::BufRead::read_line(&mut out, &mut String::new()).unwrap();
    }
    drop(out);
    assert_eq!(Setup::end(child).code, 0);
    let heads = heads.lock().unwrap();
    let of = |part: &str| heads.iter().filter(|head| head.contains(part)).count();
    // The list three times, each in the session that one handshake has begun, and its end.
    assert_eq!((of("mcp-session-id: s1") - of("DELETE"), of("DELETE")), (4, 1), "{heads:?}");
}

#[test]
fn a_server_that_says_when_to_come_again_is_waited_for() {
    let mut setup = Setup::new();
    let count = AtomicU32::new(0);
    let (url, heads) = answering_to(move |head, body| {
        let asked = Asked::of(head, body);
        match count.fetch_add(1, Ordering::SeqCst) {
            0 => "HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n".to_owned(),
            1 => asked.result("", &json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})),
            _ => asked.result("", &json!({"tools": []})),
        }
    });
    setup.url = url;
    setup.run(&["tools"]).out();
    assert_eq!(heads.lock().unwrap().len(), 3);
    setup.url = answering_to(|_head, _body| {
        "HTTP/1.1 429 Too Many Requests\r\nretry-after: 86400\r\ncontent-length: 0\r\n\r\n".to_owned()
    })
    .0;
    for verb in [&["tools"][..], &["watch", "a"]] {
        let said = setup.run(verb);
        assert!(said.code == 4 && said.err.contains("wants to be asked again in 86400 s"), "{said:?}");
    }
}

/// A call that the server had no time for was not made, so that it is made later even if it may not be repeated.
#[test]
fn a_call_that_was_refused_for_now_is_made_once_later() {
    let mut setup = Setup::new();
    let calls = AtomicU32::new(0);
    setup.url = answering_to(move |head, body| {
        let asked = Asked::of(head, body);
        match asked.method() {
            "server/discover" => asked.result("", &json!({"supportedVersions": ["2026-07-28"], "capabilities": {}})),
            "tools/list" => asked.result("", &json!({"tools": [{"name": "t", "inputSchema": {}}]})),
            _ if calls.fetch_add(1, Ordering::SeqCst) == 0 => {
                "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 0\r\n\r\n".to_owned()
            }
            _ => {
                let made = calls.load(Ordering::SeqCst).to_string();
                asked.result("", &json!({"content": [{"type": "text", "text": made}]}))
            }
        }
    })
    .0;
    assert_eq!(setup.run(&["call", "t"]).out(), "2");
}
