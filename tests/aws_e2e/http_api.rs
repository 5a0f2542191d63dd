//! The other endpoint: an HTTP API instead of the function URL, and its own authorizer.

use harness::auth_server::AuthServer;
use harness::caller::structured;
use serde_json::json;

use super::process::Setup;

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

/// A user's token goes through the gateway's authorizer; the function sees its claims and not the token.
#[tokio::test]
async fn an_http_api_verifies_tokens_and_its_users_see_their_own_tasks_only() {
    let auth = AuthServer::start();
    let audience = "https://mcp.example.com/mcp";
    let (issuers, audiences) = (format!("OAuthIssuers={}", auth.issuer()), format!("OAuthAudiences={audience}"));
    let setup = Setup::with(&["Endpoint=http-api", "AuthMode=gateway", &issuers, &audiences]);
    let server = setup.start();
    let user = |name: &str| server.caller().with_token(&auth.issue(name, audience, "mcp:tools"));
    let (ann, bob) = (user("ann"), user("bob"));
    let id = ann.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    assert_eq!(structured(&ann.until(&id, "completed").await["result"])["attempts"], 1);
    let hidden = bob.request("tasks/get", json!({"taskId": id})).send().await.unwrap().text().await.unwrap();
    assert!(hidden.contains("-32602") && !hidden.contains("attempts"), "{hidden}");

    for nobody in [
        server.caller(),
        server.caller().with_token("not-a-token"),
        server.caller().with_token(&auth.issue("ann", "https://other.example.com/mcp", "mcp:tools")),
    ] {
        assert_eq!(nobody.request("tools/list", json!({})).send().await.unwrap().status(), 401);
    }
    let open = async |path: &str| reqwest::get(server.url().replace("/mcp", path)).await.unwrap();
    assert_eq!(open("/healthz").await.status(), 200);
    let document = open("/.well-known/oauth-protected-resource/mcp").await.text().await.unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(
        (&document["resource"], &document["authorization_servers"]),
        (&json!(audience), &json!([auth.issuer()]))
    );
}
