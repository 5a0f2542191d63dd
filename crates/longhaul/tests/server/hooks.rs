//! The hooks of a handler, called by messages over HTTP. `tests/stdio` has those over standard input and output.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use longhaul::rmcp::model::{CustomNotification, ServerCapabilities, ServerConfig, TASKS_EXTENSION_ID};
use longhaul::rmcp::service::NotificationContext;
use longhaul::rmcp::{RoleServer, ServerHandler};
use longhaul::serve::{self, Options};
use longhaul::{Server, TaskPolicy};
use longhaul_core::settings::table;
use serde_json::{Value, json};

#[derive(Clone, Default)]
struct Hooked(Arc<Mutex<Vec<String>>>);

impl Hooked {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
}

impl ServerHandler for Hooked {
    #[expect(deprecated, reason = "clients of older revisions have roots")]
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let refused = context.peer.list_roots().await.map(drop).unwrap_err().to_string();
        self.note(format!("on_initialized: {refused}"));
    }

    async fn on_roots_list_changed(&self, _context: NotificationContext<RoleServer>) {
        self.note("on_roots_list_changed");
        panic!("a panic in a hook is logged");
    }

    async fn on_custom_notification(&self, custom: CustomNotification, _context: NotificationContext<RoleServer>) {
        self.note(custom.method);
    }
}

async fn post(url: &str, session: Option<&str>, message: Value) -> reqwest::Response {
    let request = reqwest::Client::new().post(url).header("content-type", "application/json");
    let request = request.header("accept", "application/json, text/event-stream").body(message.to_string());
    match session {
        Some(session) => request.header("mcp-session-id", session).send().await.unwrap(),
        None => request.send().await.unwrap(),
    }
}

#[tokio::test]
async fn notifications_over_http_are_answered_when_the_hook_has_returned() {
    let hooked = Hooked::default();
    let handler = hooked.clone();
    let options =
        Options::default().with(&table::DB, ":memory:").with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0)));
    let running = serve::start(&Server::new(move || handler.clone()).named("shop", "2.0.0"), &options).await.unwrap();
    let url = format!("http://{}/mcp", running.address());
    let info = json!({"name": "c", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"roots": {}}, "clientInfo": info});
    let begun = post(&url, None, json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})).await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let begun: Value = serde_json::from_str(&begun.text().await.unwrap()).unwrap();
    assert_eq!(begun["result"]["serverInfo"], json!({"name": "shop", "version": "2.0.0"}));

    for method in ["notifications/initialized", "notifications/roots/list_changed", "notifications/mine"] {
        let answer = post(&url, Some(&session), json!({"jsonrpc": "2.0", "method": method})).await;
        assert_eq!(answer.status().as_u16(), 202, "{method}");
    }
    let noted = hooked.0.lock().unwrap().clone();
    assert!(noted[0].contains("the client cannot be asked while it notifies the server over HTTP"), "{noted:?}");
    assert_eq!(noted[1..], ["on_roots_list_changed", "notifications/mine"]);
    running.stop().await;
}

struct OwnTasks;

impl ServerHandler for OwnTasks {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::default();
        capabilities.extensions.get_or_insert_default().insert(TASKS_EXTENSION_ID.to_owned(), serde_json::Map::new());
        ServerConfig::new(capabilities)
    }
}

#[tokio::test]
async fn a_handler_with_tasks_of_its_own_does_not_start() {
    let refused = Server::new(|| OwnTasks).task("work", TaskPolicy::optional()).check().await.unwrap_err();
    let said = refused.to_string();
    assert!(said.contains("`cancel_task` would never be called"), "{said}");
}
