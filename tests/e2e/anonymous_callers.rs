//! A server that lets everyone in: callers who share an owner do not reach each other's tasks by names that they
//! choose.

use harness::caller::json_of;
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
