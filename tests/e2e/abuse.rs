//! Garbage, oversized requests and requests from elsewhere: the program has what refuses them, and keeps running.

use serde_json::{Value, json};

use super::connections::{holding, status, until_closed};
use super::process::Setup;

#[tokio::test]
async fn hostile_requests_are_refused_and_the_server_keeps_running() {
    let (_setup, server) = Setup::started();
    let caller = server.caller();
    let echo = |text: &str| caller.request("tools/call", json!({"name": "echo", "arguments": {"text": text}}));
    let mut of_a_form = echo("x").build().unwrap();
    of_a_form.headers_mut().insert("content-type", "text/plain".parse().unwrap());
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for (what, request, expected) in [
        ("garbage", echo("x").body("{").build().unwrap(), 400),
        ("deep garbage", echo("x").body(deep).build().unwrap(), 400),
        ("a page of another origin", echo("x").header("origin", "http://evil.example.com").build().unwrap(), 403),
        ("another name", echo("x").header("host", "evil.example.com").build().unwrap(), 403),
        ("what a page may send without asking", of_a_form, 415),
        ("too much", echo(&"x".repeat(8_000_000)).build().unwrap(), 413),
    ] {
        let answer = reqwest::Client::new().execute(request).await.unwrap();
        assert_eq!(answer.status(), expected, "{what}");
        let error: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
        assert!(error["error"]["code"].is_i64(), "{what}: {error}");
    }
    for (method, path, expected) in [("GET", "/mcp", 405), ("PUT", "/mcp", 405), ("GET", "/nothing", 404)] {
        let url = server.url().replace("/mcp", path);
        let request = reqwest::Client::new().request(method.parse().unwrap(), url);
        assert_eq!(request.send().await.unwrap().status(), expected, "{method} {path}");
    }
    let local = echo("x").header("origin", "http://localhost:6274");
    assert_eq!(local.send().await.unwrap().status(), 200);
    assert_eq!(caller.call("echo", json!({"text": "still here"})).await["resultType"], "complete");
}

#[tokio::test]
async fn a_request_that_is_not_clear_about_its_server_is_refused() {
    let (_setup, server) = Setup::started();
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
