//! Extensions of servers that pass through the gateway: MCP Apps and skills.

use serde_json::{Value, json};

use super::answers::write;
use super::process::Setup;

fn answer(result: &Value) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","id":%d,"result":{result}}}"#).into_bytes()
}

/// A server with a tool that has a user interface, and with a skill.
fn server(setup: &Setup) -> Value {
    let extensions = json!({"io.modelcontextprotocol/ui": {}, "io.modelcontextprotocol/skills": {}});
    let capabilities = json!({"tools": {}, "resources": {}, "extensions": extensions});
    let info = json!({"name": "s", "version": "1"});
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info});
    write(setup, "initialize", &answer(&greeting));
    let ui = json!({"resourceUri": "ui://chart/view.html", "csp": {"connectDomains": ["https://example.com"]}});
    let tool = json!({"name": "chart", "inputSchema": {"type": "object"}, "_meta": {"ui": ui}});
    write(setup, "tools.list", &answer(&json!({"tools": [tool]})));
    let view = json!({"uri": "ui://chart/view.html", "name": "view", "mimeType": "text/html;profile=mcp-app"});
    write(setup, "resources.list", &answer(&json!({"resources": [view]})));
    let content = json!({"uri": "ui://chart/view.html", "mimeType": "text/html;profile=mcp-app", "text": "<html>"});
    write(setup, "resources.read", &answer(&json!({"contents": [content]})));
    write(setup, "skills.list", &answer(&json!({"skills": [skill(), without_itself()]})));
    write(setup, "skills.get", &answer(&json!({"skill": skill()})));
    setup.server("scripted", &[])
}

fn skill() -> Value {
    let frontmatter = json!({"name": "deploy", "description": "Deploys a stack"});
    let itself = json!({"uri": "skill://deploy/SKILL.md", "digest": format!("sha256:{}", "0".repeat(64)), "size": 1});
    json!({"uri": "skill://deploy/SKILL.md", "frontmatter": frontmatter, "resources": [itself]})
}

/// One that is not valid, since it does not list its own text. It alone is left out.
fn without_itself() -> Value {
    let mut skill = skill();
    (skill["uri"], skill["resources"]) = (json!("skill://odd/SKILL.md"), json!([]));
    skill
}

#[tokio::test]
async fn apps_and_skills_pass_through() {
    let (setup, _gateway, caller) = Setup::config(|setup| json!({"mcpServers": {"only": server(setup)}})).begun();
    let declared = caller.result("server/discover", json!({})).await["capabilities"]["extensions"].clone();
    assert!(declared["io.modelcontextprotocol/ui"].is_object(), "{declared}");
    assert!(declared["io.modelcontextprotocol/skills"].is_object(), "{declared}");
    let tools = caller.result("tools/list", json!({})).await;
    assert_eq!(tools["tools"][0]["_meta"]["ui"]["resourceUri"], "ui://chart/view.html", "{tools}");
    let view = caller.result("resources/read", json!({"uri": "ui://chart/view.html"})).await;
    assert_eq!(view["contents"][0]["mimeType"], "text/html;profile=mcp-app", "{view}");
    let skills = caller.result("skills/list", json!({})).await;
    assert_eq!(skills["skills"], json!([skill()]));
    let one = caller.result("skills/get", json!({"uri": "skill://deploy/SKILL.md"})).await;
    assert_eq!(one["skill"], skill());
    // Such servers show the tool only to those who know the extension.
    assert!(setup.lines("received").iter().any(|line| line.contains("io.modelcontextprotocol/ui")));
}
