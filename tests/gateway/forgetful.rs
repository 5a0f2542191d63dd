//! Tasks of servers of revision `2025-11-25` that keep no sessions, or forget them.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::process::{Setup, ended, until, words};

/// A server with two tools. One is a task, which is done at the third poll, or when its question is answered. The other
/// takes five minutes.
struct Server {
    url: String,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    has_sessions: bool,
    asks: bool,
    /// The sessions that it knows, and how many there were.
    sessions: BTreeSet<String>,
    begun: usize,
    polls: usize,
    /// The sessions in which it was answered.
    answered_in: Vec<String>,
    slow_calls: usize,
}

impl Server {
    fn new(has_sessions: bool, asks: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let state = Arc::new(Mutex::new(State { has_sessions, asks, ..State::default() }));
        let serving = Arc::clone(&state);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let state = Arc::clone(&serving);
                std::thread::spawn(move || serve(connection.unwrap(), &state));
            }
        });
        Self { url, state }
    }

    fn gateway(&self) -> Setup {
        let tools = json!({"work": {"runAtMost": "30s"}});
        let server = json!({"protocol": "2025-11-25", "concurrency": 1, "tools": tools});
        Setup::config(|_| json!({"mcpServers": {"s": {"url": self.url}}, "longhaul": {"servers": {"s": server}}}))
    }
}

/// One request, on a connection of its own.
fn serve(connection: TcpStream, state: &Mutex<State>) {
    let mut reader = BufReader::new(connection);
    let (mut first, mut session, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).unwrap_or_default();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return;
        }
        let Some((name, value)) = line.trim().split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "mcp-session-id" => value.trim().clone_into(&mut session),
            "content-length" => length = value.trim().parse().unwrap(),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    if message["params"]["name"] == "slow" {
        state.lock().unwrap().slow_calls += 1;
        std::thread::sleep(std::time::Duration::from_secs(300));
    }
    let answer = state.lock().unwrap().answer(&message, &session, first.starts_with("POST"));
    reader.get_mut().write_all(answer.as_bytes()).unwrap_or_default();
}

fn http(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
}

impl State {
    fn answer(&mut self, message: &Value, session: &str, is_post: bool) -> String {
        let method = message["method"].as_str();
        if !is_post {
            return http("405 Method Not Allowed", "", "");
        }
        if self.has_sessions && method != Some("initialize") && !self.sessions.contains(session) {
            return http("404 Not Found", "content-type: application/json\r\n", "{}");
        }
        let (mut headers, id) = ("content-type: application/json\r\n".to_owned(), &message["id"]);
        let result = match method {
            Some("initialize") => {
                if self.has_sessions {
                    self.begun += 1;
                    let session = format!("session{}", self.begun);
                    headers.push_str(&format!("mcp-session-id: {session}\r\n"));
                    self.sessions.insert(session);
                }
                let tasks = json!({"requests": {"tools": {"call": {}}}, "cancel": {}});
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "tasks": tasks},
                    "serverInfo": {"name": "forgetful", "version": "1"}})
            }
            Some("tools/list") => json!({"tools": [
                {"name": "work", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
                {"name": "slow", "inputSchema": {"type": "object"}},
            ]}),
            Some("tools/call" | "tasks/get") => {
                self.polls += 1;
                let task = self.task();
                if method == Some("tools/call") { json!({"task": task}) } else { task }
            }
            Some("tasks/result") if self.is_open() => {
                let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
                let question = json!({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create",
                    "params": {"mode": "form", "message": "Who?", "requestedSchema": form}});
                let event = format!("data: {question}\n\n");
                return http("200 OK", "content-type: text/event-stream\r\n", &event);
            }
            Some("tasks/result") => json!({"content": [{"type": "text", "text": "done"}]}),
            Some(_) if !id.is_null() => json!({}),
            Some(_) => return http("202 Accepted", "", ""),
            None => {
                self.answered_in.push(session.to_owned());
                return http("202 Accepted", "", "");
            }
        };
        http("200 OK", &headers, &json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
    }

    /// Whether its question is not answered.
    fn is_open(&self) -> bool {
        self.asks && self.answered_in.is_empty()
    }

    fn task(&self) -> Value {
        let status = match self.asks {
            true if self.is_open() => "input_required",
            false if self.polls < 4 => "working",
            _ => "completed",
        };
        let now = "2026-01-01T00:00:00Z";
        let mut task = json!({"taskId": "1", "status": status, "ttl": null, "pollInterval": 200});
        (task["createdAt"], task["lastUpdatedAt"]) = (json!(now), json!(now));
        task
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_of_a_server_without_sessions_comes_to_its_end() {
    let server = Server::new(false, false);
    let setup = server.gateway();
    assert_eq!(words(&setup.start().ended("work", json!({})).await), "done");
}

/// A server that is restarted forgets its sessions, and the question that it had asked in one.
#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_forgotten_session_is_answered_in_the_next_one_without_asking_again() {
    let server = Server::new(true, true);
    let setup = server.gateway();
    let (_gateway, caller) = setup.started();
    let id = caller.call_task("work", json!({})).await;
    let asked = caller.until(&id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let begun = {
        let mut state = server.state.lock().unwrap();
        state.sessions.clear();
        state.begun
    };
    caller.accept(&id, &key, json!({"name": "Ann"})).await;
    until("the answer", || !server.state.lock().unwrap().answered_in.is_empty()).await;
    assert_eq!(words(&ended(&caller, &id).await), "done");
    let state = server.state.lock().unwrap();
    assert_eq!(state.answered_in, [format!("session{}", begun + 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn polls_and_answers_do_not_wait_for_calls_that_have_all_connections() {
    let server = Server::new(true, true);
    let setup = server.gateway();
    let (_gateway, caller) = setup.started();
    let id = caller.call_task("work", json!({})).await;
    let asked = caller.until(&id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    caller.call_task("slow", json!({})).await;
    until("the slow call", || server.state.lock().unwrap().slow_calls == 1).await;
    caller.accept(&id, &key, json!({"name": "Ann"})).await;
    assert_eq!(words(&ended(&caller, &id).await), "done");
}
