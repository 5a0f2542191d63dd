//! A server as its author builds, starts and tests it, with nothing but the public API.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test panics")]

mod args;
mod bearer;
mod chance;
mod cleanup;
mod command_line;
mod crashes;
mod deadlines;
mod declared;
mod disk;
mod hooks;
mod metrics;
mod mounted;
mod outside;
mod own_backend;
mod owners;
mod parallel;
mod programs;
mod questions;
mod races;
mod scopes;
mod starting;
mod steps;
#[cfg(feature = "aws")]
mod storage;
mod testing;
mod undo;
mod versions;

/// A call of this tool at a server, as a client makes it that does not know tasks: its answer comes with the task's
/// end.
fn call_of(tool: &str, server: &longhaul::serve::Running) -> reqwest::RequestBuilder {
    call_at(&format!("http://{}/mcp", server.address()), tool)
}

/// The same, at this URL.
fn call_at(url: &str, tool: &str) -> reqwest::RequestBuilder {
    let params = serde_json::json!({
        "name": tool,
        "arguments": {},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    });
    let request = serde_json::json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    reqwest::Client::new()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", tool)
        .body(request.to_string())
}
