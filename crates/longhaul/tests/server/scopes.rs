//! Scopes at a local server: what a caller without them is told, from the first request to a call.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;

use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Options, Running};
use longhaul::{Server, TaskContext, TaskPolicy};
use longhaul_core::settings::table::{self, Callers};
use reqwest::Response;
use serde_json::{Value, json};

use crate::call_of;

const ANN: &str = "annannannannannannannannannannannann";

#[derive(Clone)]
struct Tools;

#[tool_router]
impl Tools {
    #[tool]
    async fn etl(&self, task: TaskContext) -> String {
        task.caller().map_or_else(String::new, |caller| caller.subject().to_owned())
    }

    #[tool]
    async fn sources(&self, task: TaskContext) -> String {
        task.caller().map_or_else(String::new, |caller| caller.subject().to_owned())
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

async fn start(options: Options) -> Running {
    let server =
        Server::new(|| Tools).task("etl", TaskPolicy::optional().scope("etl:run")).scope("sources", "etl:read");
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let set = |scope: &str| [scope.to_owned()];
    let options = options.with(&table::LISTEN, listen).with(&table::DB, ":memory:");
    let options = options.with(&table::SCOPE_CALL, set("mcp:call")).with(&table::SCOPE_READ, set("mcp:read"));
    serve::start(&server, &options).await.unwrap()
}

fn challenge(answer: &Response) -> &str {
    answer.headers()["www-authenticate"].to_str().unwrap()
}

async fn json_of(answer: Response) -> Value {
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_client_that_logs_in_is_told_the_scopes_of_methods() {
    let options = Options::default()
        .with(&table::AUTH, Callers::Oauth)
        .with(&table::OAUTH_ISSUER, ["http://127.0.0.1:9".to_owned()])
        .with(&table::OAUTH_AUDIENCE, ["http://127.0.0.1/mcp".to_owned()]);
    let running = start(options).await;
    let refused = call_of("etl", &running).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    let challenge = challenge(&refused);
    assert!(challenge.contains(r#"scope="mcp:call mcp:read""#), "{challenge}");
    let url = format!("http://{}/.well-known/oauth-protected-resource/mcp", running.address());
    let metadata = json_of(reqwest::get(url).await.unwrap()).await;
    assert_eq!(metadata["scopes_supported"], json!(["mcp:call", "mcp:read"]), "those of tools come with a call");
    running.stop().await;
}

#[tokio::test]
async fn a_caller_is_told_all_scopes_that_a_call_needs_and_is_known_to_the_tool() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(&file, format!("ann {ANN} mcp:call mcp:read etl:read\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let running =
        start(Options::default().with(&table::AUTH, Callers::Bearer).with(&table::TOKEN_FILE, file.as_path())).await;
    let send = async |tool: &str| {
        call_of(tool, &running).header("authorization", format!("Bearer {ANN}")).send().await.unwrap()
    };
    let refused = send("etl").await;
    assert_eq!(refused.status(), 403);
    let challenge = challenge(&refused).to_owned();
    assert!(challenge.contains(r#"error="insufficient_scope""#), "{challenge}");
    assert!(challenge.contains(r#"scope="etl:read etl:run mcp:call mcp:read""#), "{challenge}");
    let error = &json_of(refused).await["error"];
    assert_eq!((&error["code"], &error["data"]["scope"]), (&json!(-32600), &json!("etl:run mcp:call")));
    let answered = json_of(send("sources").await).await;
    assert_eq!(answered["result"]["content"][0]["text"], "ann");
    running.stop().await;
}
