//! A server that lets everyone in: callers who share an owner do not reach each other's tasks by names that they
//! choose.

use harness::caller::{TASKS, json_of};
use harness::process::Server;
use serde_json::{Value, json};

use super::process::Setup;

/// A client of a revision with sessions.
struct Client {
    http: reqwest::Client,
    url: String,
    session: Option<String>,
}

impl Client {
    async fn connect(server: &Server) -> Self {
        let mut client = Self { http: reqwest::Client::new(), url: server.url().to_owned(), session: None };
        let params =
            json!({"protocolVersion": "next", "clientInfo": {"name": "e2e", "version": "1"}, "capabilities": {}});
        let answer = client.request("initialize", 1, params).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        client.session = Some(answer.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        client
    }

    fn without_session(&self) -> Self {
        Self { http: self.http.clone(), url: self.url.clone(), session: None }
    }

    fn request(&self, method: &str, id: u32, params: Value) -> reqwest::RequestBuilder {
        let mut body = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if !method.starts_with("notifications/") {
            body["id"] = id.into();
        }
        let request = self.http.post(&self.url).header("accept", "application/json, text/event-stream");
        let request = request.header("content-type", "application/json").header("mcp-protocol-version", "next");
        let request = self.session.iter().fold(request, |request, session| request.header("mcp-session-id", session));
        request.body(body.to_string())
    }

    async fn answer(&self, method: &str, params: Value) -> Value {
        let answer = self.request(method, 1, params).send().await.unwrap();
        json_of(&answer.text().await.unwrap())
    }

    /// Starts an operation, and returns the id of its task.
    async fn start(&self, token: &str) -> String {
        let arguments = json!({"seconds": 60, "steps": 1});
        let params = json!({"name": "countdown", "arguments": arguments, "operation": {"token": token}});
        let answer = self.answer("tools/call", params).await;
        let id = answer["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"].as_str();
        id.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    async fn status(&self, token: &str) -> Value {
        self.answer("tools/async/status", json!({"token": token})).await
    }
}

fn anonymous() -> Setup {
    Setup::with(&["--diagnostics", "--auth", "anonymous"])
}

#[tokio::test]
async fn sessions_do_not_share_tokens_request_ids_or_keys() {
    let setup = anonymous();
    let server = setup.start();
    let (first, second) = (Client::connect(&server).await, Client::connect(&server).await);
    let id = first.start("1").await;
    assert_eq!(second.status("1").await["error"]["code"], -32602, "the token was guessed");
    assert_ne!(second.start("1").await, id, "nobody takes a token first");
    let refused = first.without_session().status("1").await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("send `initialize` first"), "{refused}");
    // Request id 1 started the operation.
    for anonymous_caller in [&second, &first.without_session()] {
        let cancel = anonymous_caller.request("notifications/cancelled", 0, json!({"requestId": 1}));
        assert_eq!(cancel.send().await.unwrap().status(), 202);
    }
    assert_ne!(first.status("1").await["result"]["status"], "canceled");
    let call = json!({"name": "countdown", "arguments": {"seconds": 60}, "operation": {}});
    let mut ids = Vec::new();
    for client in [&first, &second, &first] {
        let request = client.request("tools/call", 2, call.clone()).header("idempotency-key", "k");
        let answer = json_of(&request.send().await.unwrap().text().await.unwrap());
        ids.push(answer["result"]["operation"]["token"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned());
    }
    assert_eq!(ids[0], ids[2]);
    assert_ne!(ids[0], ids[1]);
    first.request("notifications/cancelled", 0, json!({"requestId": 1})).send().await.unwrap();
    assert_eq!(first.status("1").await["result"]["status"], "canceled");
}

#[tokio::test]
async fn a_revision_without_sessions_has_no_idempotency_keys_there() {
    let setup = anonymous();
    let server = setup.start();
    let caller = server.caller().declaring(json!({"extensions": {TASKS: {}}}));
    let params = json!({"name": "countdown", "arguments": {"seconds": 0}});
    let keyed = caller.request("tools/call", params.clone()).header("idempotency-key", "k");
    let refused = json_of(&keyed.send().await.unwrap().text().await.unwrap());
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("call without it"), "{refused}");
    assert_eq!(caller.result("tools/call", params).await["resultType"], "task");
}

#[tokio::test]
async fn sessions_and_tokens_last_through_a_kill() {
    let setup = anonymous();
    let server = setup.start();
    let mut client = Client::connect(&server).await;
    client.start("t").await;
    server.kill();
    let again = setup.start();
    again.url().clone_into(&mut client.url);
    assert_eq!(client.status("t").await["result"]["_operation"]["token"], "t");
}

/// Such a server once let everyone in, with a warning in its log.
#[test]
fn a_server_for_one_user_listens_on_loopback_only() {
    for (flags, named, what_to_do) in [
        (["--listen", "0.0.0.0:0", "--auth", "loopback"], "--listen", "--auth bearer --token-file FILE"),
        (["--listen", "0.0.0.0:0", "--auth", "loopback"], "--listen", "--auth oauth"),
        (["--listen", "0.0.0.0:0", "--auth", "loopback"], "--listen", "--auth anonymous"),
        (["--listen", "127.0.0.1:0", "--auth", "iam"], "--auth", "`loopback`, `bearer`, `oauth` or"),
    ] {
        let out = harness::demo().args(["--db", ":memory:"]).args(flags).output();
        let out = out.unwrap();
        assert!(!out.status.success());
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(error.contains(named) && error.contains(what_to_do), "{error}");
    }
    let out = harness::demo().args(["--db", ":memory:", "--listen", "0.0.0.0:0"]).output().unwrap();
    assert!(!out.status.success(), "loopback is the default");
}
