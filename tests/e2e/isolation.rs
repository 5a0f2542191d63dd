//! Callers of one server who are told apart by their tokens see nothing of each other: not in an answer, not in its status or
//! headers. What the calls cost is compared in `crates/mcp/tests/endpoint/isolation.rs`.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::process::{Local, Setup};

const ANN: &str = "annannannannannannannannannannannann";
const BOB: &str = "bobbobbobbobbobbobbobbobbobbobbobbob";
const NOBODY: &str = "evaevaevaevaevaevaevaevaevaevaevaeva";

/// What was never a task.
const UNKNOWN: &str = "0199aaaa-0000-7000-8000-00000000000a";

const REVISIONS: [&str; 4] = ["2025-11-25", "next", "2025-06-18", "2025-03-26"];

/// What a client sees of an answer, without what it named itself.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    headers: Vec<(String, String)>,
    text: String,
}

struct Client<'a> {
    server: &'a Local,
    token: Option<&'a str>,
}

impl Client<'_> {
    async fn see(&self, (revision, session): (&str, &str), body: &Value, named: &str) -> Seen {
        let request = reqwest::Client::new().post(self.server.url());
        let request = self.token.iter().fold(request, |request, token| request.bearer_auth(token));
        let request = request.header("accept", "application/json, text/event-stream");
        let mut request = request.header("content-type", "application/json").header("mcp-protocol-version", revision);
        if !session.is_empty() {
            request = request.header("mcp-session-id", session);
        }
        if revision == "2026-07-28" {
            request = request.header("mcp-method", body["method"].as_str().unwrap());
            let name = ["name", "taskId"].iter().find_map(|name| body["params"][*name].as_str());
            request = name.into_iter().fold(request, |request, name| request.header("mcp-name", name));
        }
        let answer = request.body(body.to_string()).send().await.unwrap();
        let status = answer.status().as_u16();
        let headers = answer.headers().iter().filter(|(name, _)| !["date", "content-length"].contains(&name.as_str()));
        let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        Seen { status, headers, text: answer.text().await.unwrap().replace(named, "<named>") }
    }

    async fn session(&self, revision: &str) -> String {
        let params =
            json!({"protocolVersion": revision, "clientInfo": {"name": "e2e", "version": "1"}, "capabilities": {}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let seen = self.see((revision, ""), &body, "<nothing>").await;
        let session = seen.headers.iter().find(|(name, _)| name == "mcp-session-id");
        session.unwrap_or_else(|| panic!("{seen:?}")).1.clone()
    }

    async fn sessions(&self) -> Vec<String> {
        let mut sessions = Vec::new();
        for revision in REVISIONS {
            sessions.push(self.session(revision).await);
        }
        sessions
    }
}

/// Requests that name a task, in each dialect.
fn requests(server: &Local, sessions: &[String], task: &str) -> Vec<((&'static str, String), Value)> {
    let message = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let job = |tool: &str| json!({"name": tool, "arguments": {"job_id": task, "wait_s": 0}});
    let answers = json!({"taskId": task, "inputResponses": {"name": {"action": "decline"}}});
    let newest = [
        ("tasks/get", json!({"taskId": task})),
        ("tasks/update", answers),
        ("tasks/cancel", json!({"taskId": task})),
        ("subscriptions/listen", json!({"notifications": {"taskIds": [task]}})),
        ("tools/call", job("get_job_status")),
        ("tools/call", job("cancel_job")),
    ];
    let newest = newest.map(|(method, mut params)| {
        params["_meta"] = server.caller().meta();
        (("2026-07-28", String::new()), message(method, params))
    });
    let older = REVISIONS.iter().zip(sessions).flat_map(|(revision, session)| {
        let each = [
            ("tasks/get", json!({"taskId": task})),
            ("tasks/result", json!({"taskId": task})),
            ("tasks/cancel", json!({"taskId": task})),
            ("tools/async/status", json!({"token": task})),
            ("tools/async/result", json!({"token": task})),
            ("tools/async/join", json!({"token": task})),
            ("tools/async/get", json!({"token": task, "timeout": 0})),
            ("tools/async/cancel", json!({"token": task})),
            ("resources/read", json!({"uri": format!("longhaul://tasks/{task}")})),
            ("tools/call", job("get_job_status")),
            ("tools/call", job("cancel_job")),
            ("tasks/list", json!({})),
        ];
        each.map(|(method, params)| ((*revision, session.clone()), message(method, params)))
    });
    newest.into_iter().chain(older).collect()
}

fn guarded() -> Setup {
    let mut setup = Setup::with(&["--diagnostics", "--auth", "bearer", "--log-format", "json", "--log", "warn"]);
    let file = setup.folder().join("tokens");
    std::fs::write(&file, format!("ann {ANN}\nbob {BOB}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    setup.add(&["--token-file", file.to_str().unwrap()]);
    setup
}

#[tokio::test]
async fn tasks_of_others_are_like_tasks_that_do_not_exist_in_every_dialect() {
    let setup = guarded();
    let server = setup.start();
    let ann = server.caller().with_token(ANN);
    let task = ann.call_task("countdown", json!({"seconds": 600, "steps": 600})).await;
    let bob = Client { server: &server, token: Some(BOB) };
    let sessions = bob.sessions().await;
    let pairs = requests(&server, &sessions, &task).into_iter().zip(requests(&server, &sessions, UNKNOWN));
    for (((revision, session), foreign), (_, unknown)) in pairs {
        let unknown = bob.see((revision, &session), &unknown, UNKNOWN).await;
        let seen = bob.see((revision, &session), &foreign, &task).await;
        assert_eq!(seen, unknown, "{revision} {foreign}");
    }
    assert_eq!(ann.get(&task).await["status"], "working", "nobody changed anything");
}

#[tokio::test]
async fn a_session_of_somebody_else_does_not_exist() {
    let setup = guarded();
    let server = setup.start();
    let (ann, bob) = (Client { server: &server, token: Some(ANN) }, Client { server: &server, token: Some(BOB) });
    for revision in REVISIONS {
        let hers = ann.session(revision).await;
        let mut unknown = hers.clone();
        let changed = if unknown.pop() == Some('A') { 'B' } else { 'A' };
        unknown.push(changed);
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}});
        let foreign = bob.see((revision, &hers), &ping, "<nothing>").await;
        assert_eq!(foreign, bob.see((revision, &unknown), &ping, "<nothing>").await);
        assert_eq!(foreign.status, 404, "{revision}: {foreign:?}");
    }
}

/// Nothing about a request shows in the answer to somebody who was not let in, and each such caller is in the audit log.
#[tokio::test]
async fn a_caller_who_is_not_let_in_gets_the_same_answer_to_everything() {
    let setup = guarded();
    let server = setup.start();
    let ann = server.caller().with_token(ANN);
    let task = ann.call_task("countdown", json!({"seconds": 600, "steps": 600})).await;
    let sessions = Client { server: &server, token: Some(ANN) }.sessions().await;
    for token in [None, Some(NOBODY)] {
        let eve = Client { server: &server, token };
        let mut all = requests(&server, &sessions, &task);
        all.extend(requests(&server, &sessions, UNKNOWN));
        let mut seen = Vec::new();
        for ((revision, session), body) in &all {
            seen.push(eve.see((revision, session), body, "<nothing>").await);
        }
        assert_eq!(seen[0].status, 401);
        assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
    }
    let log = server.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let denied: Vec<&Value> = lines.iter().filter(|line| line["event"] == "login").collect();
    assert!(denied.iter().all(|line| line["outcome"] == "denied" && line["address"] == "127.0.0.1"), "{log}");
    // Two floods of about a hundred requests, of which the last ones are counted and not written yet.
    assert!((2..40).contains(&denied.len()), "{}", denied.len());
    for secret in [ANN, BOB, NOBODY] {
        assert!(!log.contains(secret), "{log}");
    }
}
