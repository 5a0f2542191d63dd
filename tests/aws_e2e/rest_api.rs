//! A REST API instead of the function URL. The emulator sends answers as a whole, and the Runtime API host streams
//! them.

use harness::caller::{Caller, structured};
use harness::runtime_host::front_door::{Door, Mode};
use harness::{output_of, root};
use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use reqwest::{Method, StatusCode};
use serde_json::json;

use super::ground::Resources;
use super::process::Setup;

const PAGE: &str = "https://app.example.com";

#[tokio::test]
async fn a_rest_api_wants_signatures_on_what_callers_use() {
    let setup = Setup::with(&["Endpoint=rest-api-buffered", "AuthMode=iam", "AllowOrigins=https://app.example.com"]);
    let server = setup.start();
    let status = async |method: Method, path: &str| {
        let url = server.url().replace("/mcp", path);
        let request = reqwest::Client::new().request(method, url).body("{}");
        let request = request.header("origin", PAGE).header("access-control-request-method", "POST");
        request.send().await.unwrap().status().as_u16()
    };
    for (method, path) in
        [(Method::POST, "/mcp"), (Method::GET, "/mcp"), (Method::DELETE, "/mcp"), (Method::GET, "/healthz")]
    {
        assert_eq!(status(method, path).await, 403, "{path}");
    }
    // Browsers cannot sign what they ask, and the function answers.
    assert_eq!(status(Method::OPTIONS, "/mcp").await, 204);
    assert_eq!(status(Method::GET, "/.well-known/oauth-protected-resource").await, 404);
    assert_eq!(status(Method::PUT, "/mcp").await, 403);
}

#[tokio::test]
async fn other_endpoints_serve_the_same_as_a_function_url() {
    for (endpoint, part_of_its_url) in
        [("Endpoint=http-api", ".execute-api."), ("Endpoint=rest-api-buffered", "/prod/mcp")]
    {
        let setup = Setup::with(&[endpoint]);
        let server = setup.start();
        let caller = server.caller();
        assert!(setup.output("TemplateMcpUrl").contains(part_of_its_url), "it is the endpoint that was asked for");
        assert_eq!(caller.call("echo", json!({"text": "hello"})).await["resultType"], "complete");
        let id = caller.call_task("countdown", json!({"seconds": 0.5, "steps": 5})).await;
        let done = caller.until(&id, "completed").await;
        assert_eq!(structured(&done["result"])["attempts"], 1);
        let health = server.url().replace("/mcp", "/healthz");
        assert_eq!(reqwest::get(health).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn every_endpoint_streams_or_sends_the_same() {
    let resources = Resources::new().await;
    let _worker = resources.worker(None);
    for mode in [Mode::Streamed, Mode::Buffered] {
        let frontend = resources.frontend(mode).await;
        for door in Door::ALL {
            let caller = Caller::new(&frontend.url_through(door));
            let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
            let done = caller.until(&id, "completed").await;
            assert_eq!(structured(&done["result"])["attempts"], 1, "{mode:?} {door:?}");
        }
    }
}

#[tokio::test]
async fn a_rest_api_passes_a_stream_on_while_it_lasts() {
    let resources = Resources::new().await;
    let frontend = resources.frontend(Mode::Streamed).await;
    let caller = Caller::new(&frontend.url_through(Door::RestApi));
    let id = caller.call_task("countdown", json!({"seconds": 1, "steps": 2})).await;
    let params = json!({"notifications": {"taskIds": [id]}});
    let mut stream = caller.request("subscriptions/listen", params).send().await.unwrap();
    // There is no worker yet, so the stream cannot have ended.
    let first = stream.chunk().await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("acknowledged"), "{first:?}");
    let _worker = resources.worker(None);
    let mut rest = Vec::new();
    while let Some(chunk) = stream.chunk().await.unwrap() {
        rest.extend_from_slice(&chunk);
    }
    assert!(String::from_utf8_lossy(&rest).contains("completed"));
}

/// The headers of the answer to a caller whom no gateway has verified.
async fn refusal(url: &str, page: Option<&str>) -> HeaderMap {
    let list = Caller::new(url).request("tools/list", json!({}));
    let list = page.into_iter().fold(list, |list, page| list.header("origin", page));
    let listed = list.send().await.unwrap();
    assert_eq!(listed.status(), StatusCode::UNAUTHORIZED);
    listed.headers().clone()
}

#[tokio::test]
async fn an_http_api_keeps_a_challenge_and_others_rename_it() {
    let resources = Resources::new().await;
    for mode in [Mode::Streamed, Mode::Buffered] {
        let settings = [("LONGHAUL_AUTH", "gateway"), ("LONGHAUL_ALLOW_ORIGIN", PAGE)];
        let frontend = resources.frontend_with(mode, &settings).await;
        for door in Door::ALL {
            let headers = refusal(&frontend.url_through(door), Some(PAGE)).await;
            assert!(headers["x-amzn-remapped-www-authenticate"].to_str().unwrap().starts_with("Bearer"));
            assert_eq!(headers.contains_key(WWW_AUTHENTICATE), door == Door::HttpApi, "{door:?}");
            // CloudFront in front of the others can put this one back.
            assert_eq!(headers["x-longhaul-www-authenticate"], headers["x-amzn-remapped-www-authenticate"]);
            // Only a REST API leaves it to the function to say which page may read that.
            assert_eq!(headers.contains_key("access-control-allow-origin"), door == Door::RestApi, "{door:?}");
        }
    }
}

/// The headers of an endpoint's answer after Lambda@Edge. The event is that of an origin response, the only one that
/// CloudFront has for answers with status 400 or higher.
fn behind_cloudfront(headers: &HeaderMap) -> serde_json::Value {
    let named = headers.iter().map(|(name, value)| {
        // Its own headers are not shown to it.
        let shown = (!name.as_str().starts_with("x-amzn-"))
            .then(|| json!([{"key": name.as_str(), "value": value.to_str().unwrap()}]));
        shown.map(|shown| (name.to_string(), shown))
    });
    let response = json!({"status": "401", "headers": named.flatten().collect::<serde_json::Map<_, _>>()});
    let event = json!({"Records": [{"cf": {"config": {"eventType": "origin-response"}, "response": response}}]});
    let program = std::fs::read_to_string(root().join("infra/cloudfront/www-authenticate.js")).unwrap();
    let answered = "then(response => console.log(JSON.stringify(response.headers)))";
    let program = format!("{program}\nexports.handler({event}).{answered};");
    let node = root().join(".cache/tools/bin/node");
    serde_json::from_str(&output_of(std::process::Command::new(node).args(["-e", &program]))).unwrap()
}

#[tokio::test]
async fn cloudfront_can_give_a_challenge_its_name_back() {
    let resources = Resources::new().await;
    let frontend = resources.frontend_with(Mode::Streamed, &[("LONGHAUL_AUTH", "gateway")]).await;
    for door in Door::ALL {
        let headers = behind_cloudfront(&refusal(&frontend.url_through(door), None).await);
        let challenge = &headers["www-authenticate"][0];
        assert_eq!(challenge["key"], "WWW-Authenticate", "{door:?}");
        assert!(challenge["value"].as_str().unwrap().starts_with("Bearer"), "{door:?}");
        assert!(headers.as_object().unwrap().keys().all(|name| !name.starts_with("x-")), "{door:?}: {headers}");
    }
}
