//! The other endpoint: an HTTP API in place of the function URL.

use serde_json::json;

use crate::caller::structured;
use crate::process::Setup;

#[tokio::test]
async fn an_http_api_wants_signatures_on_every_path_that_it_has() {
    let setup = Setup::with(&["Endpoint=http-api", "AuthMode=iam"]);
    let server = setup.start();
    let status = async |method: reqwest::Method, path: &str| {
        let url = server.url().replace("/mcp", path);
        reqwest::Client::new().request(method, url).body("{}").send().await.unwrap().status().as_u16()
    };
    assert_eq!(status(reqwest::Method::POST, "/mcp").await, 403);
    assert_eq!(status(reqwest::Method::GET, "/healthz").await, 403);
    // There is no other route, not even a default one.
    assert_eq!(status(reqwest::Method::POST, "/other").await, 404);
    assert_eq!(status(reqwest::Method::PUT, "/mcp").await, 404);
}

#[tokio::test]
async fn an_http_api_serves_the_same_as_a_function_url() {
    let setup = Setup::with(&["Endpoint=http-api"]);
    let server = setup.start();
    let caller = server.caller();
    assert!(setup.output("TemplateMcpUrl").contains(".execute-api."), "it is the endpoint that was asked for");
    assert_eq!(caller.call("echo", json!({"text": "hello"})).await["resultType"], "complete");
    let id = caller.call_task("countdown", json!({"seconds": 0.5, "steps": 5})).await;
    let done = caller.until(&id, "completed").await;
    assert_eq!(structured(&done["result"])["attempts"], 1);
    let health = server.url().replace("/mcp", "/healthz");
    assert_eq!(reqwest::get(health).await.unwrap().status(), 200);
}
