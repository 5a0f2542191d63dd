//! Clients of older revisions.

use serde_json::{Value, json};

use super::process::{Gateway, Setup};
use super::subscriptions::Hearing;

/// A client of `2025-06-18`.
pub(crate) struct Older {
    http: reqwest::Client,
    url: String,
    session: String,
}

impl Older {
    pub(crate) async fn begin(gateway: &Gateway) -> Self {
        let begun = Self { http: reqwest::Client::new(), url: gateway.url().to_owned(), session: String::new() };
        let client = json!({"name": "older", "version": "1"});
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let answer = begun.request("initialize", &hello).send().await.unwrap();
        let session = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        Self { session, ..begun }
    }

    fn request(&self, method: &str, params: &Value) -> reqwest::RequestBuilder {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.http.post(&self.url).header("accept", "application/json, text/event-stream").json(&body)
    }

    /// Everything that a request is answered with: notifications, and the answer as the last one.
    pub(crate) async fn messages(&self, method: &str, params: &Value) -> Vec<Value> {
        let request = self.request(method, params).header("mcp-session-id", &self.session);
        let answer = request.header("mcp-protocol-version", "2025-06-18").send().await.unwrap().text().await.unwrap();
        if answer.starts_with('{') {
            return vec![serde_json::from_str(&answer).unwrap()];
        }
        let data = answer.lines().filter_map(|line| line.strip_prefix("data:"));
        data.filter(|data| !data.trim().is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// The stream of its session.
    pub(crate) async fn stream(&self) -> Hearing {
        let request =
            self.http.get(&self.url).header("accept", "text/event-stream").header("mcp-session-id", &self.session);
        let answer = request.header("mcp-protocol-version", "2025-06-18").send().await.unwrap();
        assert_eq!(answer.status(), 200);
        Hearing::new(answer)
    }

    /// The answer when it subscribes to a resource.
    pub(crate) async fn subscribe(&self, uri: &str) -> Value {
        self.messages("resources/subscribe", &json!({"uri": uri})).await.remove(0)
    }

    /// The result of a call.
    async fn call(&self, tool: &str) -> Value {
        let messages = self.messages("tools/call", &json!({"name": tool, "arguments": {}})).await;
        messages.last().unwrap()["result"].clone()
    }
}

/// A gateway in front of a server of `2026-07-28`, and what the first messages to it are.
fn in_front_of(modes: &[&str], repeat: &str) -> Setup {
    Setup::config(|setup| {
        let longhaul = json!({"defaults": {"repeat": repeat}});
        json!({"mcpServers": {"only": setup.server("per-request", modes)}, "longhaul": longhaul})
    })
}

fn first_messages(setup: &Setup) -> Vec<String> {
    let noted = std::fs::read_to_string(setup.path("first")).unwrap();
    noted.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_server_of_both_eras_is_called_in_that_of_the_caller_if_the_call_may_be_repeated() {
    for (repeat, first) in [("always", "initialize"), ("never", "server/discover")] {
        let (setup, gateway) = in_front_of(&["--both"], repeat).running();
        assert_eq!(Older::begin(&gateway).await.call("count").await["content"][0]["text"], "done: 1");
        gateway.caller().call("count", json!({})).await;
        assert_eq!(first_messages(&setup), ["server/discover", first, "server/discover"], "{repeat}");
    }
}

#[tokio::test]
async fn a_server_of_the_newer_era_only_is_asked_once_whether_it_speaks_the_older_one() {
    let (setup, gateway) = in_front_of(&[], "always").running();
    for answer in ["done: 1", "done: 2"] {
        assert_eq!(Older::begin(&gateway).await.call("count").await["content"][0]["text"], answer);
    }
    let discover = "server/discover";
    assert_eq!(first_messages(&setup), [discover, "initialize", discover, discover]);
}

/// The strings of log messages.
fn logged(messages: &[Value]) -> Vec<&str> {
    let logs = messages.iter().filter(|message| message["method"] == "notifications/message");
    logs.map(|message| message["params"]["data"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn what_a_server_logs_reaches_a_caller_who_waits_from_its_level_on() {
    let (_setup, gateway) = Setup::fixture(&[]).running();
    let log = json!({"name": "log_read_only", "arguments": {}});
    let older = Older::begin(&gateway).await;
    assert_eq!(logged(&older.messages("tools/call", &log).await), ["for everybody", "for a careful one"]);
    let set = older.messages("logging/setLevel", &json!({"level": "warning"})).await;
    assert_eq!(set[0]["result"], json!({}), "{set:?}");
    assert_eq!(logged(&older.messages("tools/call", &log).await), ["for a careful one"]);
    assert_eq!(logged(&Older::begin(&gateway).await.messages("tools/call", &log).await).len(), 2, "another session");
}
