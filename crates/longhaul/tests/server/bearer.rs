//! A local server that others reach, who show a token of a file.
#![expect(clippy::disallowed_methods, reason = "these tests wait in real time")]

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Options, Running, ServeError};
use longhaul::{Server, TaskPolicy};
use longhaul_core::settings::table::{self, Callers};
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

const ANN: &str = "annannannannannannannannannannannann";
const BOB: &str = "bobbobbobbobbobbobbobbobbobbobbobbob";

#[derive(Clone)]
struct Tools;

#[tool_router]
impl Tools {
    #[tool]
    async fn work(&self) -> String {
        std::future::pending().await
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("tokens")
    }

    /// Puts a file with `text` in the place of the one that is there.
    fn put(&self, text: &str) -> PathBuf {
        self.put_with_mode(text, 0o600)
    }

    fn put_with_mode(&self, text: &str, mode: u32) -> PathBuf {
        let new = self.0.path().join("new");
        std::fs::write(&new, text).unwrap();
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(mode)).unwrap();
        std::fs::rename(new, self.file()).unwrap();
        self.file()
    }
}

fn options(file: &Path) -> Options {
    let options = Options::default().with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0)));
    options.with(&table::DB, ":memory:").with(&table::AUTH, Callers::Bearer).with(&table::TOKEN_FILE, file)
}

async fn start(options: &Options) -> Result<Running, ServeError> {
    serve::start(&Server::new(|| Tools).task("work", TaskPolicy::required()), options).await
}

/// Why a server does not start, with all causes.
async fn refusal(options: &Options) -> String {
    let refused = start(options).await.map(|running| running.address()).unwrap_err();
    let mut text = refused.to_string();
    let mut cause = std::error::Error::source(&refused);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

async fn send(running: &Running, authorization: &[&str], method: &str, mut params: Value) -> Response {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
    });
    let mut request = reqwest::Client::new()
        .post(format!("http://{}/mcp", running.address()))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    if let Some(name) = params.get("name").or(params.get("taskId")).and_then(Value::as_str) {
        request = request.header("mcp-name", name.to_owned());
    }
    for value in authorization {
        request = request.header("authorization", *value);
    }
    request
        .body(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string())
        .send()
        .await
        .unwrap()
}

async fn status(running: &Running, authorization: &[&str]) -> StatusCode {
    send(running, authorization, "tools/list", json!({})).await.status()
}

async fn answer(running: &Running, token: &str, method: &str, params: Value) -> Value {
    let answered = send(running, &[&format!("Bearer {token}")], method, params).await;
    serde_json::from_str(&answered.text().await.unwrap()).unwrap()
}

/// Waits until a request with this token is answered in this way. How long that takes is not tested.
async fn until(running: &Running, token: &str, wanted: StatusCode) {
    for _ in 0..600 {
        if status(running, &[&format!("Bearer {token}")]).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the answer does not become {wanted}");
}

#[tokio::test]
async fn each_name_is_an_owner_of_its_own() {
    let folder = Folder::new();
    let running = start(&options(&folder.put(&format!("ann {ANN}\nbob {BOB}\n")))).await.unwrap();
    let call = answer(&running, ANN, "tools/call", json!({"name": "work", "arguments": {}})).await;
    let id = call["result"]["taskId"].as_str().unwrap().to_owned();
    let seen = answer(&running, ANN, "tasks/get", json!({"taskId": id})).await;
    assert_eq!(seen["result"]["taskId"], id.as_str(), "{seen}");
    let hidden = answer(&running, BOB, "tasks/get", json!({"taskId": id})).await;
    assert_eq!(hidden["error"]["code"], -32602, "{hidden}");
    running.stop().await;
}

#[tokio::test]
async fn who_has_no_token_is_told_to_send_one() {
    let folder = Folder::new();
    let running = start(&options(&folder.put(&format!("ann {ANN}")))).await.unwrap();
    let (basic, bare) = (format!("Basic {ANN}"), ANN.to_owned());
    let unknown = format!("Bearer {BOB}");
    let one = format!("Bearer {ANN}");
    let invalid = r#"error="invalid_token""#;
    for (sent, challenge) in [
        (vec![], "Bearer"),
        (vec!["Bearer"], "Bearer"),
        (vec![basic.as_str()], "Bearer"),
        (vec![bare.as_str()], "Bearer"),
        (vec!["Bearer x"], invalid),
        (vec![unknown.as_str()], invalid),
    ] {
        let refused = send(&running, &sent, "tools/list", json!({})).await;
        assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{sent:?}");
        let header = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
        assert!(header.starts_with("Bearer") && header.contains(challenge), "{sent:?}: {header}");
        let body = refused.text().await.unwrap();
        assert!(body.contains("Authorization: Bearer TOKEN") && !body.contains(ANN) && !body.contains(BOB), "{body}");
    }
    let twice = send(&running, &[&one, &one], "tools/list", json!({})).await;
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
    assert!(twice.headers()["www-authenticate"].to_str().unwrap().contains(r#"error="invalid_request""#));
    for sent in [format!("Bearer {ANN}"), format!("bearer {ANN}"), format!("BEARER  {ANN}")] {
        assert_eq!(status(&running, &[&sent]).await, StatusCode::OK, "{sent}");
    }
    let in_query = format!("http://{}/mcp?access_token={ANN}", running.address());
    assert_eq!(reqwest::Client::new().post(in_query).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    let health = reqwest::get(format!("http://{}/healthz", running.address())).await.unwrap();
    assert_eq!(health.status(), StatusCode::OK, "who looks after the server needs no token");
    running.stop().await;
}

#[tokio::test]
async fn a_file_that_becomes_useless_keeps_the_tokens_that_it_had() {
    let folder = Folder::new();
    let good = format!("ann {ANN}");
    let running = start(&options(&folder.put(&good))).await.unwrap();
    let spoil: [&dyn Fn(); 5] = [
        &|| drop(folder.put("bob short")),
        &|| drop(folder.put("")),
        &|| drop(folder.put_with_mode(&format!("bob {BOB}"), 0o644)),
        &|| std::fs::remove_file(folder.file()).unwrap(),
        &|| std::fs::create_dir(folder.file()).unwrap(),
    ];
    for spoil in spoil {
        spoil();
        // Longer than the file goes unread.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert_eq!(status(&running, &[&format!("Bearer {ANN}")]).await, StatusCode::OK);
        assert_eq!(status(&running, &[&format!("Bearer {BOB}")]).await, StatusCode::UNAUTHORIZED);
    }
    std::fs::remove_dir(folder.file()).unwrap();
    folder.put(&format!("bob {BOB}"));
    until(&running, BOB, StatusCode::OK).await;
    until(&running, ANN, StatusCode::UNAUTHORIZED).await;
    running.stop().await;
}

#[tokio::test]
async fn tokens_of_one_owner_share_tasks_and_an_expired_one_is_refused_as_such() {
    let folder = Folder::new();
    let lines = format!("ann {ANN}\nlaptop {BOB} owner=ann expires=2100-01-01\n");
    let running = start(&options(&folder.put(&lines))).await.unwrap();
    let call = answer(&running, ANN, "tools/call", json!({"name": "work", "arguments": {}})).await;
    let id = call["result"]["taskId"].as_str().unwrap().to_owned();
    let seen = answer(&running, BOB, "tasks/get", json!({"taskId": id})).await;
    assert_eq!(seen["result"]["taskId"], id.as_str(), "{seen}");
    folder.put(&lines.replace("2100", "2020"));
    until(&running, BOB, StatusCode::UNAUTHORIZED).await;
    let refused = send(&running, &[&format!("Bearer {BOB}")], "tools/list", json!({})).await;
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap();
    assert!(challenge.contains("the token has expired"), "{challenge}");
    running.stop().await;
}

/// As `longhaul token revoke` leaves it after the last token.
#[tokio::test]
async fn a_file_with_a_comment_alone_lets_in_nobody() {
    let folder = Folder::new();
    let running = start(&options(&folder.put(&format!("# tokens\nann {ANN}")))).await.unwrap();
    assert_eq!(status(&running, &[&format!("Bearer {ANN}")]).await, StatusCode::OK);
    folder.put("# tokens\n");
    until(&running, ANN, StatusCode::UNAUTHORIZED).await;
    running.stop().await;
}

#[tokio::test]
async fn a_server_does_not_start_with_a_file_that_it_cannot_use() {
    let folder = Folder::new();
    let missing = refusal(&options(&folder.file())).await;
    assert!(missing.contains(folder.file().to_str().unwrap()) && missing.contains("cannot be read"), "{missing}");
    for mode in [0o640, 0o604, 0o620, 0o602, 0o610] {
        let open = refusal(&options(&folder.put_with_mode(&format!("ann {ANN}"), mode))).await;
        assert!(open.contains("chmod 600"), "{mode:o}: {open}");
    }
    let short = refusal(&options(&folder.put("# those who may call\nann sesame"))).await;
    assert!(short.contains("line 2: a token must have 32 to 512") && !short.contains("sesame"), "{short}");
    assert!(refusal(&options(folder.0.path())).await.contains("not a regular file"));
    let large = folder.put(&"#".repeat(300 * 1024));
    assert!(refusal(&options(&large)).await.contains("256 KiB"));
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_word_about_who_may_call() {
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = refusal(&Options::default().with(&table::DB, ":memory:").with(&table::LISTEN, everywhere)).await;
    for way in ["--auth bearer --token-file FILE", "--auth oauth", "--auth anonymous", "127.0.0.1"] {
        assert!(refused.contains(way), "{way} in {refused}");
    }
    let folder = Folder::new();
    let options = options(&folder.put(&format!("ann {ANN}"))).with(&table::LISTEN, everywhere);
    let running = start(&options).await.unwrap();
    assert_eq!(running.address().ip(), everywhere.ip());
    running.stop().await;
    let open = Options::default().with(&table::DB, ":memory:").with(&table::LISTEN, everywhere);
    start(&open.with(&table::AUTH, Callers::Anonymous)).await.unwrap().stop().await;
}

#[tokio::test]
async fn tokens_and_the_way_of_using_them_belong_together() {
    let folder = Folder::new();
    let without = Options::default().with(&table::DB, ":memory:").with(&table::AUTH, Callers::Bearer);
    assert!(refusal(&without).await.contains("--token-file FILE"));
    let file = folder.put(&format!("ann {ANN}"));
    let unused = options(&file).with(&table::AUTH, Callers::Anonymous);
    assert!(refusal(&unused).await.contains("`token-file`"));
}
