//! The server's log of clients' requests: nothing long, no control characters, no arguments and results.

use harness::caller::json_of;
use harness::process::Server;
use serde_json::json;

use super::process::Setup;

/// A text that no log may have.
const SECRET: &str = "the-argument-of-a-call";

/// Requests of a client that wants to fill or forge the log. Which answers they get is not asked here.
async fn attack(server: &Server) {
    let caller = server.caller();
    let long = "m".repeat(1024 * 1024);
    let forged = "ping\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[31m\u{7}\u{85}";
    for method in [long.as_str(), forged] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
        let request = caller.request("ping", json!({}));
        drop(request.body(body.to_string()).send().await.unwrap().text().await);
        for version in ["2025-06-18", "2024-11-05"] {
            let request = reqwest::Client::new().post(server.url()).header("content-type", "application/json");
            let request = request.header("mcp-protocol-version", version).body(body.to_string());
            drop(request.send().await.unwrap().text().await);
        }
    }
    for tool in [long.as_str(), forged] {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}});
        drop(caller.request("tools/call", json!({})).body(body.to_string()).send().await.unwrap().text().await);
    }
    let parent = "00-".repeat(1_000_000);
    let meta = json!({"traceparent": parent, "tracestate": forged});
    let call = json!({"name": "countdown", "arguments": {"seconds": 0.2, "steps": 1}, "_meta": meta});
    let created = json_of(&caller.request("tools/call", call).send().await.unwrap().text().await.unwrap());
    caller.until(created["result"]["taskId"].as_str().unwrap(), "completed").await;
    let echoed = caller.call("echo", json!({"text": SECRET})).await;
    assert!(echoed.to_string().contains(SECRET));
    let host = caller.request("ping", json!({})).header("host", "h".repeat(10_000));
    assert!(host.send().await.unwrap().status().is_client_error());
}

fn longest_run(line: &str) -> usize {
    let mut longest = (0, 0, ' ');
    for char in line.chars() {
        let run = if char == longest.2 { longest.1 + 1 } else { 1 };
        longest = (longest.0.max(run), run, char);
    }
    longest.0
}

#[tokio::test]
async fn no_line_has_long_values_control_characters_or_payloads() {
    for (format, filter) in [("text", "debug"), ("json", "debug"), ("json", "trace"), ("text", "info,rmcp=trace")] {
        let setup = Setup::with(&["--diagnostics", "--log-format", format, "--log", filter]);
        let server = setup.start();
        attack(&server).await;
        let log = server.log();
        assert!(log.contains("an attempt begins"), "{log:.2000}");
        for line in log.lines() {
            assert!(longest_run(line) <= 256, "{format}, {filter}: {line:.3000}");
            assert!(line.chars().count() < 4_096, "{format}, {filter}: {line:.5000}");
            assert!(!line.chars().any(char::is_control), "{format}, {filter}: {line:?}");
            assert!(!line.starts_with("2026-01-01"), "{format}, {filter}: {line}");
            assert!(format == "text" || serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        }
        assert!(!log.contains(SECRET), "{format}, {filter}");
        assert!(!log.contains("00-00-00-"), "{format}, {filter}");
    }
}

#[tokio::test]
async fn arguments_are_logged_if_the_operator_says_so() {
    let setup = Setup::with(&["--diagnostics", "--log-format", "json", "--log", "debug", "--log-payloads"]);
    let server = setup.start();
    server.caller().call("echo", json!({"text": SECRET})).await;
    assert!(server.log().contains(SECRET));
}

#[tokio::test]
async fn the_audit_log_is_text_where_the_other_lines_are() {
    let setup = Setup::with(&["--diagnostics", "--log-format", "text"]);
    let server = setup.start();
    let id = server.caller().call_task("countdown", json!({"seconds": 60, "steps": 1})).await;
    let log = server.log();
    let line = log.lines().find(|line| line.contains(" INFO audit: ")).unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("event=accept outcome=done") && line.contains(&format!("task_id={id}")), "{line}");
}

/// The lines of the audit log.
fn audit(log: &str) -> Vec<serde_json::Value> {
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["target"] == "audit").collect()
}

#[tokio::test]
async fn the_audit_log_is_complete_whatever_the_filter_says_and_off_if_the_operator_says_so() {
    for (filter, is_on) in [("warn", true), ("off", true), ("audit=off", true), ("info", false)] {
        let wanted = if is_on { "on" } else { "off" };
        let setup = Setup::with(&["--diagnostics", "--log-format", "json", "--log", filter, "--audit", wanted]);
        let server = setup.start();
        let caller = server.caller();
        let call = json!({"name": "countdown", "arguments": {"seconds": 60, "steps": 1}});
        let forged =
            caller.request("tools/call", call).header("x-forwarded-for", "198.51.100.66").header("user-agent", "e2e/1");
        let created = json_of(&forged.send().await.unwrap().text().await.unwrap());
        let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned();
        caller.get(&id).await;
        caller.result("tasks/cancel", json!({"taskId": id})).await;
        caller.error("tasks/cancel", json!({"taskId": "0199aaaa-0000-7000-8000-00000000000a"})).await;
        let log = server.log();
        let lines = audit(&log);
        if !is_on {
            assert_eq!(lines.len(), 0, "{log}");
            continue;
        }
        let said: Vec<_> =
            lines.iter().map(|line| (line["event"].as_str().unwrap(), line["outcome"].as_str().unwrap())).collect();
        assert_eq!(said, [("accept", "done"), ("cancel", "done"), ("cancel", "not_found")], "{filter}: {log}");
        for line in &lines[..2] {
            assert_eq!((&line["task_id"], &line["tool"]), (&json!(id), &json!("countdown")), "{filter}");
        }
        for line in &lines {
            assert_eq!(
                (&line["address"], line["http_method"].as_str()),
                (&json!("127.0.0.1"), Some("POST")),
                "{filter}"
            );
        }
        assert_eq!(lines[0]["user_agent"], "e2e/1");
    }
}
