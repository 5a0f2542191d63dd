//! A server inside a program of its author's, which has the listener, other paths, layers and its own callers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use longhaul::rmcp::service::RequestContext;
use longhaul::rmcp::{self, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Caller, Options, Running};
use longhaul::{Server, TaskContext, TaskPolicy, VerifiedCaller};
use longhaul_core::settings::table;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, oneshot};

use crate::call_at;

struct Tools;

/// How often the recorded step of `continues` was run; and that its first attempt has recorded it.
static RUNS: AtomicU32 = AtomicU32::new(0);
static RECORDED: Notify = Notify::const_new();

#[tool_router]
impl Tools {
    #[tool]
    async fn who(&self, context: RequestContext<RoleServer>) -> String {
        let caller = VerifiedCaller::of(&context);
        caller.map_or("nobody".to_owned(), |caller| format!("{} of {}", caller.subject(), caller.claims()["team"]))
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

struct Continuing;

#[tool_router]
impl Continuing {
    #[tool]
    async fn continues(&self, task: TaskContext) -> String {
        task.step("once", async || RUNS.fetch_add(1, Ordering::Relaxed)).await;
        if task.attempt() == 1 {
            RECORDED.notify_one();
            std::future::pending::<()>().await;
        }
        format!("attempt {}", task.attempt())
    }
}

#[tool_handler]
impl ServerHandler for Continuing {}

async fn mounted(file: &Path) -> Running {
    let server = Server::new(|| Tools).task("who", TaskPolicy::optional());
    serve::start(&server, &Options::default().with(&table::DB, file).mounted()).await.unwrap()
}

/// A host that serves `router` until its other half is dropped.
#[expect(clippy::disallowed_methods, reason = "this is a program around the server, not the server")]
async fn host(router: Router) -> (SocketAddr, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = axum::serve(listener, router).with_graceful_shutdown(async { drop(stopped.await) });
    tokio::spawn(async move { serving.await.unwrap() });
    (address, stop)
}

/// Verifies callers as a host does.
async fn verified(mut request: Request, next: Next) -> Response {
    match request.headers().get("x-user").map(|user| user.to_str().unwrap().to_owned()) {
        Some(user) if user == "mallory" => StatusCode::FORBIDDEN.into_response(),
        Some(user) => {
            request.extensions_mut().insert(Caller::new("host", user).claim("team", "blue"));
            next.run(request).await
        }
        None => next.run(request).await,
    }
}

/// The text that a call of `who` returns.
async fn said(request: reqwest::RequestBuilder) -> String {
    let answer = request.send().await.unwrap().text().await.unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"));
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn a_server_below_any_path_of_another_program_serves_its_tools_and_the_callers_of_its_host() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = mounted(&folder.path().join("tasks.db")).await;
    let callers = mounted.service_for_callers();
    let router = Router::new()
        .route("/version", get(async || "1.0"))
        .nest_service("/open/mcp", mounted.service())
        .merge(Router::new().route_service("/mcp/of/users", callers).layer(from_fn(verified)));
    let (address, stop) = host(router).await;
    let at = |path: &str| format!("http://{address}{path}");

    assert_eq!(reqwest::get(at("/version")).await.unwrap().text().await.unwrap(), "1.0");
    assert_eq!(said(call_at(&at("/open/mcp"), "who")).await, "nobody");
    let alice = || call_at(&at("/mcp/of/users"), "who").header("x-user", "alice");
    assert_eq!(said(alice()).await, "alice of \"blue\"");
    let statuses = [
        (call_at(&at("/mcp/of/users"), "who"), 401),
        (call_at(&at("/mcp/of/users"), "who").header("x-user", "mallory"), 403),
        (alice().header("host", "evil.example"), 403),
        (call_at(&at("/mcp"), "who"), 404),
    ];
    for (number, (request, status)) in statuses.into_iter().enumerate() {
        assert_eq!(request.send().await.unwrap().status().as_u16(), status, "request {number}");
    }

    drop(stop);
    mounted.stop().await;
}

#[tokio::test]
async fn a_mounted_server_has_its_database_alone_until_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.db");
    let first = mounted(&file).await;
    let again =
        serve::start(&Server::new(|| Tools), &Options::default().with(&table::DB, file.clone()).mounted()).await;
    assert_eq!(again.err().unwrap().to_string(), "the database of --db cannot be opened", "the first one has it open");
    first.stop().await;
    mounted(&file).await.stop().await;
}

/// What the mounted server answers to a request of a client that knows tasks.
async fn answer(url: &str, method: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let name = params.get("name").or(params.get("taskId")).and_then(Value::as_str).unwrap().to_owned();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let request = reqwest::Client::new().post(url).body(body).header("content-type", "application/json");
    let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
    let answer = request.header("mcp-name", name).send().await.unwrap().text().await.unwrap();
    serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"))
}

/// The second program has the path and the route `/mcp` of its own that the first one had not.
#[tokio::test]
async fn an_unfinished_task_continues_in_the_next_mounted_server() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = async || {
        let server = Server::new(|| Continuing).task("continues", TaskPolicy::optional());
        let options = Options::default().with(&table::DB, folder.path().join("tasks.db")).with(&table::DRAIN_MS, 1_u64);
        serve::start(&server, &options.mounted()).await.unwrap()
    };
    let first = mounted().await;
    let (address, stop) = host(Router::new().nest_service("/a", first.service())).await;
    let called =
        answer(&format!("http://{address}/a"), "tools/call", json!({"name": "continues", "arguments": {}})).await;
    let id = called["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{called}")).to_owned();
    RECORDED.notified().await;
    drop(stop);
    first.stop().await;

    let second = mounted().await;
    let router = Router::new().route("/mcp", get(async || "mine")).nest_service("/b", second.service());
    let (address, stop) = host(router).await;
    assert_eq!(reqwest::get(format!("http://{address}/mcp")).await.unwrap().text().await.unwrap(), "mine");
    let ended =
        tokio::time::timeout(Duration::from_secs(60), end_of(&format!("http://{address}/b"), &id)).await.unwrap();
    assert_eq!(ended["result"]["result"]["content"][0]["text"], "attempt 2", "{ended}");
    assert_eq!(RUNS.load(Ordering::Relaxed), 1, "the step was recorded");
    drop(stop);
    second.stop().await;
}

/// The task as a client sees it that polls it to its end.
#[expect(clippy::disallowed_methods, reason = "a client waits between two polls")]
async fn end_of(url: &str, id: &str) -> Value {
    loop {
        let task = answer(url, "tasks/get", json!({"taskId": id})).await;
        if task["result"]["status"] != "working" {
            return task;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
