//! A server over standard input and output that answers at once: what a gateway adds to it is all the gateway's.

use std::io::{BufRead, Write, stdin, stdout};

use serde_json::{Value, json};

/// The tool's only answer.
pub(crate) const ANSWER: &str = "answered at once";

/// Serves until the end of its input.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut output = stdout().lock();
    for line in stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let (Some(id), Some(method)) = (message.get("id"), message.get("method").and_then(Value::as_str)) else {
            continue;
        };
        let answer = match result(method, &message) {
            Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            None => json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "Method not found"}}),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

fn result(method: &str, message: &Value) -> Option<Value> {
    let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}});
    match method {
        "initialize" => Some(json!({
            "protocolVersion": message.pointer("/params/protocolVersion"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "at-once", "version": "1"},
        })),
        "ping" => Some(json!({})),
        "tools/list" => Some(json!({"tools": [tool("plain"), tool("durable")]})),
        "tools/call" => Some(json!({"content": [{"type": "text", "text": ANSWER}]})),
        _ => None,
    }
}
