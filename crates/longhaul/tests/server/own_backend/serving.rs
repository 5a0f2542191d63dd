//! A server on a store and a queue of its own.

use std::net::SocketAddr;
use std::sync::Arc;

use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Backend, Options};
use longhaul::{Server, SystemClock, TaskContext, TaskPolicy};
use longhaul_core::Clock;
use longhaul_core::ports::TaskStore;
use longhaul_core::settings::table;
use longhaul_core::{Identity, OwnerId, Status};
use serde_json::{Value, json};

use super::queue::MemoryQueue;
use super::store::MemoryStore;

#[derive(Clone)]
struct Tools;

#[tool_router]
impl Tools {
    #[tool]
    async fn add_up(&self, task: TaskContext) -> Result<String, ErrorData> {
        let mut sum = task.step("start", async || 30).await;
        sum += task.try_step("more", async || Ok::<_, ErrorData>(12)).await?;
        task.set("sum", &sum).await?;
        task.progress(2).of(2).message("added up").await;
        Ok(task.get::<u32>("sum").await?.unwrap_or_default().to_string())
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

/// Calls a tool as a client that does not know tasks: its answer is the result.
async fn call(url: &str, tool: &str) -> Value {
    let params = json!({
        "name": tool,
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    let request = reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string());
    let answer = request.send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&answer).unwrap()
}

#[tokio::test]
async fn a_server_runs_its_tasks_on_a_store_and_a_queue_of_its_own() {
    let store = Arc::new(MemoryStore::default());
    let queue = Arc::new(MemoryQueue::new(Arc::new(SystemClock)));
    // Nothing is kept in `db`: it is not what this server runs on.
    let (listen, db) = (SocketAddr::from(([127, 0, 0, 1], 0)), "/nowhere/at/all.db");
    let options = Options::default().with(&table::LISTEN, listen).with(&table::DB, db);
    let options = options.with(&table::METRICS_LISTEN, listen);
    let server = Server::new(|| Tools).task("add_up", TaskPolicy::optional());
    let running = serve::start(&server, &options.on(Backend::new(Arc::clone(&store) as Arc<dyn TaskStore>, queue)))
        .await
        .unwrap();

    let answer = call(&format!("http://{}/mcp", running.address()), "add_up").await;
    assert_eq!(answer["result"]["content"][0]["text"], "42", "{answer}");

    let everyone = OwnerId::of(Identity::Anonymous);
    let page = store.list(&everyone, None, 10, SystemClock.now()).await.unwrap();
    let [task] = &page.tasks[..] else { panic!("one task is on record: {page:?}") };
    assert_eq!((task.tool.as_str(), task.status()), ("add_up", Status::Completed));
    assert_eq!(store.journal(&task.key()).await.unwrap().len(), 2, "both steps are on record");

    let metrics = format!("http://{}/metrics", running.metrics_address().unwrap());
    let scraped = reqwest::get(metrics).await.unwrap().text().await.unwrap();
    let queue = |line: &&str| line.starts_with("longhaul_queue_messages") || line.starts_with("longhaul_queue_oldest");
    assert_eq!(scraped.lines().find(queue), None, "the depth of such a queue is not known");
    running.stop().await;
}

/// Such a server could not count the attempts of its tools.
#[tokio::test]
async fn a_server_on_a_store_without_permits_does_not_start_with_flow_control() {
    let (store, queue) = (Arc::new(MemoryStore::default()), Arc::new(MemoryQueue::new(Arc::new(SystemClock))));
    let server = Server::new(|| Tools).task("add_up", TaskPolicy::optional().concurrency(1));
    let listen = Options::default().with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0)));
    let refused = serve::start(&server, &listen.on(Backend::new(store, queue))).await.err().unwrap().to_string();
    assert!(refused.contains("name one with `Backend::permits`"), "{refused}");
}
