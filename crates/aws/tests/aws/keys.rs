//! The keys that sign sessions: servers that share nothing but a table have the same ones, and change them together.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, SqsQueue};
use longhaul_core::{Clock, OwnerId};
use longhaul_engine::{Engine, Ports, Settings};
use longhaul_mcp::{McpServer, McpSettings};
use longhaul_testkit::{ManualClock, SeededIds};
use rmcp::ServerHandler;
use serde_json::json;

use crate::fresh;

const OWNER: OwnerId = OwnerId::from_bytes([3; 32]);
const DAY_MS: u64 = 24 * 3_600_000;
/// How long a key signs.
const PERIOD_MS: u64 = 30 * DAY_MS;

struct Nothing;

impl ServerHandler for Nothing {}

fn server(clients: &Clients, table: &str, clock: &Arc<ManualClock>, seed: u64) -> McpServer {
    let ports = Ports {
        store: Arc::new(DynamoStore::new(clients.dynamo.clone(), table)),
        queue: Arc::new(SqsQueue::new(clients.sqs.clone(), "https://sqs.example/work", "")),
        clock: Arc::<ManualClock>::clone(clock),
        ids: Arc::new(SeededIds::new(seed)),
    };
    let engine = Engine::new(ports, Settings::default());
    McpServer::new(|| Nothing, longhaul_mcp::Policies::default(), engine, McpSettings::new([7; 32]))
}

fn request(body: &serde_json::Value) -> http::request::Builder {
    Request::post("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-method", body["method"].as_str().unwrap())
}

/// A new session.
async fn connect(server: &McpServer) -> String {
    let client = json!({"name": "t", "version": "1"});
    let params = json!({"protocolVersion": "2025-06-18", "clientInfo": client, "capabilities": {}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let answer = server.respond(request(&body).body(Bytes::from(body.to_string())).unwrap(), OWNER).await;
    assert_eq!(answer.status(), StatusCode::OK);
    answer.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

async fn ping(server: &McpServer, session: &str) -> StatusCode {
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let request = request(&body).header("mcp-session-id", session).header("mcp-protocol-version", "2025-06-18");
    server.respond(request.body(Bytes::from(body.to_string())).unwrap(), OWNER).await.status()
}

#[tokio::test(flavor = "multi_thread")]
async fn instances_change_their_key_together_and_old_sessions_go_on() {
    let (clients, table) = fresh().await;
    let clock = Arc::new(ManualClock::default());
    clock.advance_ms(2 * PERIOD_MS - clock.now().as_ms() % PERIOD_MS - 2 * DAY_MS);
    let servers = [1, 2].map(|seed| server(&clients, &table, &clock, seed));
    let (first, second) = futures::join!(connect(&servers[0]), connect(&servers[1]));
    for (server, session) in [(&servers[0], &second), (&servers[1], &first)] {
        assert_eq!(ping(server, session).await, StatusCode::OK);
    }
    clock.advance_ms(3 * DAY_MS);
    let later = connect(&servers[1]).await;
    assert_ne!(later.split('.').nth(1), first.split('.').nth(1), "another key signs");
    let started_now = server(&clients, &table, &clock, 3);
    for server in [&servers[0], &servers[1], &started_now] {
        for session in [&first, &second, &later] {
            assert_eq!(ping(server, session).await, StatusCode::OK);
        }
    }
    clock.advance_ms(PERIOD_MS);
    assert_eq!(ping(&servers[0], &later).await, StatusCode::NOT_FOUND);
}
