//! A client of a revision with handshakes: it has a session, reads streams, and answers questions.

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use longhaul_core::OwnerId;
use longhaul_mcp::{Body, McpServer, McpSettings};
use serde_json::{Value, json};

use crate::schema;
use crate::tools::Tools;
use crate::world::{Answer, Sent, World, alice, read};

/// The schema against which every message of this revision is checked.
pub(crate) const REVISION: &str = "2025-11-25";

#[derive(Clone)]
pub(crate) struct Older {
    pub(crate) revision: String,
    pub(crate) session: String,
    pub(crate) owner: OwnerId,
    /// What the server said in the handshake.
    pub(crate) initialized: Value,
}

/// Another server of the same deployment, which shares only the store and the key.
pub(crate) fn another_instance(world: &World, settings: McpSettings) -> McpServer {
    let handler = Tools::new(std::sync::Arc::clone(&world.observed));
    McpServer::new(move || handler.clone(), world.policies.clone(), world.engine.clone(), settings)
}

pub(crate) fn everything() -> Value {
    json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}})
}

pub(crate) fn initialize(revision: &str, capabilities: Value) -> Sent {
    let mut sent = Sent::new("initialize", json!({})).legacy(revision).without_header("mcp-protocol-version");
    sent.body["params"] = json!({
        "protocolVersion": revision, "clientInfo": {"name": "t", "version": "1"}, "capabilities": capabilities,
    });
    sent
}

impl Older {
    pub(crate) async fn connect(server: &McpServer, revision: &str) -> Self {
        Self::connect_as(server, revision, alice(), everything()).await
    }

    /// The same in a world of its own.
    pub(crate) async fn in_new_world(revision: &str) -> (World, Self) {
        let world = World::new();
        let client = Self::connect(&world.mcp, revision).await;
        (world, client)
    }

    pub(crate) async fn connect_as(server: &McpServer, revision: &str, owner: OwnerId, capabilities: Value) -> Self {
        let sent = initialize(revision, capabilities).of(owner);
        let answer = read(server.respond(sent.request(), owner).await).await;
        let session = answer.headers["mcp-session-id"].to_str().unwrap().to_owned();
        assert!(session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{session}");
        Self { revision: revision.to_owned(), session, owner, initialized: answer.result() }
    }

    pub(crate) fn sent(&self, method: &str, params: Value) -> Sent {
        let meta = params.get("_meta").cloned();
        let mut sent = Sent::new(method, params).legacy(&self.revision).with_header("mcp-session-id", &self.session);
        if let Some(meta) = meta {
            sent.body["params"]["_meta"] = meta;
        }
        sent.of(self.owner)
    }

    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Sent {
        self.sent("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) async fn send(&self, server: &McpServer, method: &str, params: Value) -> Answer {
        let sent = self.sent(method, params);
        read(server.respond(sent.request(), self.owner).await).await
    }

    /// Code and message of an error, which older revisions send with status 200.
    pub(crate) async fn error(&self, server: &McpServer, method: &str, params: Value) -> (i64, String) {
        let json = self.send(server, method, params).await.json();
        schema::is(REVISION, "JSONRPCErrorResponse", &json);
        (json["error"]["code"].as_i64().unwrap(), json["error"]["message"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn result(&self, server: &McpServer, method: &str, params: Value) -> Value {
        self.send(server, method, params).await.result()
    }

    /// Sends a request whose answer is a stream.
    pub(crate) async fn stream(&self, server: &McpServer, sent: &Sent) -> Stream {
        Stream::of(server.respond(sent.request(), self.owner).await)
    }

    /// Resumes a stream.
    pub(crate) async fn resume(&self, server: &McpServer, last_event_id: &str) -> http::Response<Body> {
        let mut request = Request::get("/mcp").body(Bytes::new()).unwrap();
        request.headers_mut().insert("last-event-id", last_event_id.parse().unwrap());
        request.headers_mut().insert("mcp-session-id", self.session.parse().unwrap());
        server.respond(request, self.owner).await
    }

    /// Answers a question of the server. Returns the status.
    pub(crate) async fn reply(&self, server: &McpServer, id: &Value, outcome: (&str, Value)) -> u16 {
        let mut sent = self.sent("x", json!({}));
        sent.body = json!({"jsonrpc": "2.0", "id": id, outcome.0: outcome.1});
        let answer = read(server.respond(sent.request(), self.owner).await).await;
        assert!(!answer.status.is_success() || answer.text.is_empty(), "{}", answer.text);
        answer.status.as_u16()
    }

    /// Fills in a form with one field.
    pub(crate) async fn fill_in(&self, server: &McpServer, asked: &Value, value: &str) {
        schema::is(REVISION, "ElicitRequest", asked);
        let answer = json!({"action": "accept", "content": {"value": value}});
        assert_eq!(self.reply(server, &asked["id"], ("result", answer)).await, 202);
    }
}

/// A stream of events.
pub(crate) struct Stream {
    body: Body,
    /// The id of the last event that had one.
    pub(crate) last_event_id: String,
    /// When to reconnect, if the server said it.
    pub(crate) retry_ms: Option<u64>,
}

impl Stream {
    pub(crate) fn of(response: http::Response<Body>) -> Self {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { body: response.into_body(), last_event_id: String::new(), retry_ms: None }
    }

    /// The next message; `None` if the server closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            let frame = tokio::time::timeout(std::time::Duration::from_secs(60), self.body.frame());
            let frame = frame.await.expect("a frame")?.unwrap().into_data().unwrap();
            let text = String::from_utf8(frame.to_vec()).unwrap();
            assert!(text.ends_with("\n\n"), "{text:?}");
            let messages: Vec<Value> = text.lines().filter_map(|line| self.take(line)).collect();
            if let Some(message) = messages.into_iter().next_back() {
                return Some(message);
            }
        }
    }

    /// Takes one line of an event; the message, if the line has one.
    fn take(&mut self, line: &str) -> Option<Value> {
        match line.split_once(": ") {
            Some(("id", id)) => {
                assert_ne!(id, self.last_event_id, "every event has its own id");
                id.clone_into(&mut self.last_event_id);
            }
            Some(("retry", ms)) => self.retry_ms = Some(ms.parse().unwrap()),
            Some(("data", data)) if !data.is_empty() => return Some(serde_json::from_str(data).unwrap()),
            Some(("data", _)) | None => {}
            Some(other) => panic!("{other:?}"),
        }
        None
    }
}
