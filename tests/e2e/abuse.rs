//! Garbage, oversized requests and wrong arguments: each gets a clear error, and the server keeps running.

use harness::caller::json_of;
use serde_json::{Value, json};

use super::connections::{holding, status, until_closed};
use super::process::Setup;

#[tokio::test]
async fn garbage_is_answered_with_json_rpc_errors() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "[1]",
        "\u{0}",
        "{\"jsonrpc\":\"2.0\"}",
        "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"x\"}",
        &deep,
    ];
    for body in bodies {
        let request = caller.request("ping", json!({})).body(body.to_owned());
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_client_error(), "{}: {body:.20}", answer.status());
        let text = answer.text().await.unwrap();
        let error: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{body:.20}: {text}"));
        assert!(error["error"]["code"].is_i64(), "{body:.20}: {error}");
    }
    assert_eq!(caller.call("echo", json!({"text": "still here"})).await["resultType"], "complete");
}

#[tokio::test]
async fn a_request_above_the_limit_is_refused_and_one_below_it_is_not() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let call = |bytes: usize| json!({"name": "echo", "arguments": {"text": "x".repeat(bytes)}});
    let fits = caller.request("tools/call", call(4_000_000)).send().await.unwrap();
    assert!(fits.status().is_success(), "{}", fits.status());
    let answer = caller.request("tools/call", call(8_000_000)).send().await.unwrap();
    assert_eq!(answer.status(), 413);
    assert_eq!(caller.call("echo", json!({"text": "still here"})).await["resultType"], "complete");
}

#[tokio::test]
async fn other_methods_and_paths_get_the_right_status() {
    let setup = Setup::new();
    let server = setup.start();
    let http = reqwest::Client::new();
    for method in [reqwest::Method::GET, reqwest::Method::DELETE, reqwest::Method::PUT] {
        let answer = http.request(method.clone(), server.url()).send().await.unwrap();
        assert_eq!(answer.status(), 405, "{method}");
        assert!(answer.headers()["allow"].to_str().unwrap().contains("POST"), "{method}");
    }
    let base = server.url().trim_end_matches("/mcp");
    assert_eq!(http.get(format!("{base}/healthz")).send().await.unwrap().status(), 200);
    assert_eq!(http.get(format!("{base}/nothing")).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn pages_of_other_origins_are_refused() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let evil = caller.request("tools/list", json!({})).header("origin", "http://evil.example.com");
    assert_eq!(evil.send().await.unwrap().status(), 403);
    let rebound = caller.request("tools/list", json!({})).header("host", "evil.example.com");
    assert_eq!(rebound.send().await.unwrap().status(), 403);
    let local = caller.request("tools/list", json!({})).header("origin", "http://localhost:6274");
    assert_eq!(local.send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn bodies_that_pages_may_send_without_asking_are_refused_in_every_revision() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let kinds = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""];
    for revision in ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "next"] {
        for kind in kinds {
            let call = caller.request("tools/call", json!({"name": "echo", "arguments": {"text": "x"}}));
            let mut request = call.header("origin", "http://localhost:3000").build().unwrap();
            request.headers_mut().insert("mcp-protocol-version", revision.parse().unwrap());
            match kind {
                "" => drop(request.headers_mut().remove("content-type")),
                kind => drop(request.headers_mut().insert("content-type", kind.parse().unwrap())),
            }
            let answer = reqwest::Client::new().execute(request).await.unwrap();
            assert_eq!(answer.status(), 415, "{revision} {kind}");
            let error = json_of(&answer.text().await.unwrap());
            assert!(error["error"]["message"].as_str().unwrap().contains("application/json"), "{error}");
        }
    }
    assert_eq!(caller.call("echo", json!({"text": "still here"})).await["resultType"], "complete");
}

#[tokio::test]
async fn a_request_that_is_not_clear_about_its_server_is_refused() {
    let setup = Setup::new();
    let server = setup.start();
    let status_of = |target: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
        status(&until_closed(&holding(&server, &format!("GET {target} HTTP/1.1\r\n{hosts}Connection: close\r\n\r\n"))))
    };
    // The endpoint answers, and this is not how to ask it.
    assert_eq!(status_of("/mcp", &["localhost"]), "405");
    assert_eq!(status_of("http://localhost:80/mcp", &["LOCALHOST"]), "405");
    for hosts in [["localhost", "localhost"], ["localhost", "evil.example.com"], ["evil.example.com", "localhost"]] {
        assert_eq!(status_of("/mcp", &hosts), "400", "{hosts:?}");
    }
    for host in ["evil@localhost", "localhost:abc", "localhost:65536", "localhost:+80"] {
        assert_eq!(status_of("/mcp", &[host]), "400", "{host}");
    }
    for target in ["http://evil.example.com/mcp", "http://localhost:81/mcp", "http://evil@localhost/mcp"] {
        assert_eq!(status_of(target, &["localhost"]), "400", "{target}");
    }
    for host in ["evil.example.com", "localhost.evil.example.com", "localhost."] {
        assert_eq!(status_of("/mcp", &[host]), "403", "{host}");
    }
}

#[tokio::test]
async fn wrong_arguments_are_errors_and_nothing_hangs() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    for (tool, arguments) in [
        ("countdown", json!({"seconds": -1})),
        ("countdown", json!({"seconds": "soon"})),
        ("fail", json!({"how": "otherwise"})),
        ("profile_dataset", json!({"path": "../../etc/passwd"})),
        ("profile_dataset", json!({"url": "http://127.0.0.1/x"})),
        ("profile_dataset", json!({"url": "https://localhost/x"})),
        ("bulk_generate_access_codes", json!({"count": 0})),
    ] {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = json_of(&caller.request("tools/call", params).send().await.unwrap().text().await.unwrap());
        if let Some(id) = answer["result"]["taskId"].as_str() {
            let ended =
                caller.until_it(id, "an end", |task| task["status"] == "completed" || task["status"] == "failed").await;
            assert!(
                ended["result"]["isError"] == true || ended["error"]["code"].is_i64(),
                "{tool} {arguments}: {ended}"
            );
        } else {
            assert!(
                answer["error"]["code"].is_i64() || answer["result"]["isError"] == true,
                "{tool} {arguments}: {answer}"
            );
        }
    }
}

/// Two keys that are not text were once converted to the same text, and so two calls were taken for one.
#[tokio::test]
async fn idempotency_keys_that_are_not_text_are_refused() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let call = || caller.request("tools/call", json!({"name": "countdown", "arguments": {"seconds": 0.1, "steps": 1}}));
    for key in [&b"\xff\xfe"[..], b"\xfd\xfc", b"a\xc3"] {
        let key = reqwest::header::HeaderValue::from_bytes(key).unwrap();
        let answer = call().header("idempotency-key", key).send().await.unwrap();
        assert_eq!(answer.status(), 400);
        let error = json_of(&answer.text().await.unwrap());
        assert_eq!((&error["id"], error["error"]["code"].as_i64()), (&json!(1), Some(-32602)), "{error}");
        assert!(error["error"]["message"].as_str().unwrap().contains("Idempotency-Key"), "{error}");
    }
    let twice = call().header("idempotency-key", "a").header("idempotency-key", "b").send().await.unwrap();
    assert_eq!(twice.status(), 400);
    let long = call().header("idempotency-key", "k".repeat(257)).send().await.unwrap().text().await.unwrap();
    assert!(json_of(&long)["error"]["message"].as_str().unwrap().contains("256"), "{long}");
    let text = call().header("idempotency-key", reqwest::header::HeaderValue::from_bytes("ä".as_bytes()).unwrap());
    assert!(json_of(&text.send().await.unwrap().text().await.unwrap())["result"]["taskId"].is_string());
}
