//! The lines that users paste into their clients, so that these call a server with a token.

use serde_json::{Value, json};

/// The name of the server in clients.
const NAME: &str = "longhaul";

/// The lines for each client, below a line that names it.
pub(super) fn lines(url: &str, token: &str) -> String {
    let authorization = format!("Bearer {token}");
    let headers = json!({"Authorization": authorization});
    let server = |kind: &str, server: Value| json!({ kind: { NAME: server } }).to_string();
    // Claude Desktop splits arguments at blanks, so that the value with a blank is in a variable.
    let bridge = json!({
        "command": "npx",
        "args": ["-y", "mcp-remote", url, "--header", "Authorization:${LONGHAUL_AUTHORIZATION}"],
        "env": {"LONGHAUL_AUTHORIZATION": authorization},
    });
    [
        (
            "Claude Code",
            format!("claude mcp add --transport http {NAME} '{url}' --header 'Authorization: {authorization}'"),
        ),
        ("Claude Desktop (claude_desktop_config.json)", server("mcpServers", bridge)),
        ("VS Code (.vscode/mcp.json)", server("servers", json!({"type": "http", "url": url, "headers": headers}))),
        ("Cursor (.cursor/mcp.json)", server("mcpServers", json!({"url": url, "headers": headers}))),
        (
            "SDK for TypeScript",
            format!(
                "new StreamableHTTPClientTransport(new URL(\"{url}\"), {{ requestInit: {{ headers: {{ Authorization: \
                 \"{authorization}\" }} }} }})"
            ),
        ),
        (
            "SDK for Python",
            format!(
                "streamable_http_client(\"{url}\", http_client=create_mcp_http_client(headers={{\"Authorization\": \
                 \"{authorization}\"}}))"
            ),
        ),
    ]
    .map(|(client, line)| format!("{client}:\n  {line}"))
    .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_gets_the_url_and_the_token() {
        let lines = lines("https://x.example/mcp", "longhaul_1");
        let clients = ["Claude Code:", "Claude Desktop", "VS Code", "Cursor", "SDK for TypeScript", "SDK for Python"];
        assert!(clients.iter().all(|client| lines.contains(client)), "{lines}");
        let pasted: Vec<&str> = lines.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(pasted.len(), clients.len());
        for line in pasted {
            assert!(line.contains("https://x.example/mcp") && line.contains("Bearer longhaul_1"), "{line}");
            if line.starts_with("  {") {
                serde_json::from_str::<Value>(line).unwrap();
            }
        }
    }
}
