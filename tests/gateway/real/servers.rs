//! Real servers, unchanged, from their registries.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::older::Older;
use super::super::process::{Setup, ended, tool, until, words};
use super::super::subscriptions::Hearing;

fn entry(command: &str, args: &[&str]) -> Value {
    json!({"command": tool(command), "args": args})
}

fn only(name: &str, entry: &Value) -> Setup {
    Setup::config(|_| json!({"mcpServers": {name: entry}}))
}

#[tokio::test]
async fn a_server_in_typescript_asks_reports_and_answers() {
    let (setup, gateway, caller) = only("everything", &entry("server-everything", &[])).begun();
    assert_eq!(words(&gateway.ended("echo", json!({"message": "hi"})).await), "Echo: hi");
    // Its schemas are of draft-07.
    let refused = caller.result("tools/call", json!({"name": "echo", "arguments": {"message": 5}})).await;
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("`message` must be a string"), "{refused}");
    let structured = gateway.ended("get-structured-content", json!({"location": "Chicago"})).await;
    assert!(structured["result"]["structuredContent"].is_object(), "{structured}");
    let image = gateway.ended("get-tiny-image", json!({})).await;
    let content = image["result"]["content"].as_array().unwrap();
    assert!(content.iter().any(|block| block["type"] == "image"), "{image}");
    let id = caller.call_task("trigger-long-running-operation", json!({"duration": 2, "steps": 4})).await;
    caller.until_it(&id, "progress", |task| task.get("statusMessage").is_some()).await;
    gateway.kill();
    let again = setup.start();
    assert!(words(&ended(&again.caller(), &id).await).starts_with("Long running operation completed"));
}

#[tokio::test]
async fn a_server_in_typescript_is_subscribed_to_while_somebody_listens() {
    let (_setup, gateway) = only("everything", &entry("server-everything", &[])).running();
    let uri = "demo://resource/dynamic/text/1";
    let mut hearing = Hearing::listen(&gateway, &[uri]).await;
    hearing.until_changed(uri, &[]).await;
    until("the server's word", || gateway.log().contains("Received Subscribe Resource request")).await;
    drop(hearing);
    let client = Older::begin(&gateway).await;
    let mut hearing = client.stream().await;
    assert_eq!(client.subscribe(uri).await["result"], json!({}));
    hearing.until_changed(uri, &[]).await;
}

#[tokio::test]
async fn servers_in_two_languages_and_two_eras_work_side_by_side() {
    let setup = Setup::config(|setup| {
        std::fs::write(setup.path("a.txt"), "one").unwrap();
        json!({"mcpServers": {
            "files": entry("server-filesystem", &[&setup.path("")]),
            "memory": {"command": tool("server-memory"), "env": {"MEMORY_FILE_PATH": setup.path("memory.json")}},
            "time": entry("mcp-server-time", &["--local-timezone", "Europe/Berlin"])
        }})
    });
    let gateway = setup.start();
    let read = gateway.ended("files_read_text_file", json!({"path": setup.path("a.txt")})).await;
    assert_eq!(words(&read), "one");
    let entity = json!({"name": "Ann", "entityType": "person", "observations": ["writes"]});
    gateway.ended("memory_create_entities", json!({"entities": [entity]})).await;
    // Another process has the second call, and what the first one wrote.
    assert!(words(&gateway.ended("memory_read_graph", json!({})).await).contains("Ann"));
    let time = gateway.ended("time_get_current_time", json!({"timezone": "Europe/Berlin"})).await;
    assert!(words(&time).contains("Europe/Berlin"), "{time}");
}

/// A web site on this machine whose only page comes in pieces. Returns its URL.
fn slow_site() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/page", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for visitor in listener.incoming().flatten() {
            std::thread::spawn(move || visit(&visitor));
        }
    });
    url
}

fn visit(mut visitor: &TcpStream) {
    let mut request = String::new();
    let mut lines = BufReader::new(visitor);
    while lines.read_line(&mut request).unwrap() > 2 {}
    let is_page = request.starts_with("GET /page ");
    let head = if is_page { "200 OK\r\ncontent-type: text/plain" } else { "404 Not Found\r\ncontent-length: 0" };
    let pieces = if is_page { 20 } else { 0 };
    // A visitor that has left is gone.
    drop(write!(visitor, "HTTP/1.1 {head}\r\nconnection: close\r\n\r\n"));
    for piece in 1..=pieces {
        drop(writeln!(visitor, "piece {piece}"));
        std::thread::sleep(Duration::from_millis(150));
    }
}

#[tokio::test]
async fn a_page_that_comes_slowly_is_fetched_as_a_task() {
    let setup = Setup::config(|_| {
        let longhaul = json!({"defaults": {"handleAfter": "500ms"}});
        json!({"mcpServers": {"fetch": entry("mcp-server-fetch", &["--allow-private-ips"])}, "longhaul": longhaul})
    });
    let (_gateway, caller) = setup.started();
    let id = caller.call_task("fetch", json!({"url": slow_site()})).await;
    assert!(words(&ended(&caller, &id).await).contains("piece 20"));
}
