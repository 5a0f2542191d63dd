//! The other endpoint: an HTTP API in place of the function URL.

use serde_json::json;

use crate::caller::structured;
use crate::process::Setup;

#[tokio::test]
async fn a_browser_may_ask_an_http_api_that_wants_signatures() {
    let setup = Setup::with(&["Endpoint=http-api", "AuthMode=iam", "AllowOrigins=https://app.example.com"]);
    let server = setup.start();
    let client = reqwest::Client::new();
    let ask = client.request(reqwest::Method::OPTIONS, server.url()).header("origin", "https://app.example.com");
    let ask =
        ask.header("access-control-request-method", "POST").header("access-control-request-headers", "authorization");
    let answer = ask.send().await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
    assert_eq!(answer.headers()["access-control-allow-origin"], "https://app.example.com");
    // What it asked about still needs a signature.
    let unsigned = client.post(server.url()).body("{}").send().await.unwrap();
    assert_eq!(unsigned.status(), 403, "{unsigned:?}");
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
