//! Real clients log in: from the first `401` through the server's metadata, the authorization server's metadata,
//! dynamic registration and PKCE to a task's result. The flow is the SDK's own; the authorization server is a certified
//! one.

use harness::auth_server::AuthServer;
use harness::caller::structured;
use harness::process::Server;
use harness::proxy::Proxy;
use hyper::header::{HeaderName, WWW_AUTHENTICATE};
use serde_json::{Value, json};

use super::clients::{PYTHON, TYPESCRIPT};
use super::legacy_clients::{OF_2025_06_18, drive};
use super::process::Setup;

/// How much the clocks of an issuer and of this server may differ, in seconds.
const LEEWAY_S: u32 = 30;

/// A server that wants access tokens, and the authorization server that issues them.
pub(crate) struct Ground {
    pub(crate) auth: AuthServer,
    proxy: Proxy,
    pub(crate) server: Server,
    _setup: Setup,
}

impl Ground {
    pub(crate) fn new(auth: AuthServer) -> Self {
        Self::with(auth, None, &[])
    }

    /// One with these additional flags, behind a proxy that hides a header.
    pub(crate) fn with(auth: AuthServer, hidden: Option<HeaderName>, flags: &[&str]) -> Self {
        let proxy = Proxy::hiding(hidden);
        let of_oauth = ["--auth", "oauth", "--oauth-issuer", auth.issuer(), "--oauth-audience", proxy.url()];
        let setup = Setup::with(&[&["--diagnostics"], &of_oauth[..], flags].concat());
        let server = setup.start();
        proxy.lead_to(server.url());
        Self { auth, proxy, server, _setup: setup }
    }

    /// The MCP endpoint as clients know it: the audience of their tokens.
    pub(crate) fn url(&self) -> &str {
        self.proxy.url()
    }

    /// Runs a flow of an older client as `user`.
    fn legacy(&self, (program, driver): (&str, &[&str]), user: &str, flow: &str) -> Value {
        let driver = [driver, &["--login", user]].concat();
        drive(program, &driver, self.url(), flow)
    }
}

const TYPESCRIPT_OF_2025_11_25: (&str, &[&str]) = ("node", &["ts-legacy/core_tasks.mjs"]);
const PYTHON_OF_2025_11_25: (&str, &[&str]) = ("python-1.30.0", &["python-legacy/core_tasks.py"]);

/// Registered once, logged in once, and used what it got.
fn assert_logged_in_once(seen: &Value) {
    let login = &seen["login"];
    assert_eq!((&login["registrations"], &login["logins"]), (&json!(1), &json!(1)), "{seen}");
}

#[test]
fn the_typescript_client_logs_in() {
    let ground = Ground::new(AuthServer::start());
    for flow in ["list", "task", "ask", "cancel"] {
        assert_logged_in_once(&TYPESCRIPT.run(ground.url(), flow, &["--login", "ann"]));
    }
}

#[test]
fn the_python_client_logs_in() {
    let ground = Ground::new(AuthServer::start());
    for flow in ["list", "task", "ask", "cancel"] {
        assert_logged_in_once(&PYTHON.run(ground.url(), flow, &["--login", "ann"]));
    }
}

#[test]
fn clients_of_older_revisions_log_in() {
    let ground = Ground::new(AuthServer::start());
    for client in [TYPESCRIPT_OF_2025_11_25, PYTHON_OF_2025_11_25] {
        for flow in ["task", "list", "ask"] {
            assert_logged_in_once(&ground.legacy(client, "ann", flow));
        }
    }
    // This SDK holds a lock until an answer has ended, so that a question in the middle of a call cannot be answered.
    let (program, driver) = OF_2025_06_18;
    assert_logged_in_once(&ground.legacy((program, &driver), "ann", "plain"));
}

/// API Gateway renames the header that says where to log in.
#[test]
fn clients_find_the_way_without_the_header_that_shows_it() {
    let ground = Ground::with(AuthServer::start(), Some(WWW_AUTHENTICATE), &[]);
    for client in [TYPESCRIPT, PYTHON] {
        assert_logged_in_once(&client.run(ground.url(), "task", &["--login", "ann"]));
    }
    for client in [TYPESCRIPT_OF_2025_11_25, PYTHON_OF_2025_11_25] {
        assert_logged_in_once(&ground.legacy(client, "ann", "task"));
    }
    let (program, driver) = OF_2025_06_18;
    assert_logged_in_once(&ground.legacy((program, &driver), "ann", "plain"));
}

#[test]
fn a_token_that_expires_in_the_middle_of_a_task_is_renewed_without_a_login() {
    // Python renews a token before it has expired. TypeScript renews it when it is refused, which is at once, because
    // the issuer's clock is as far behind as it may be.
    let refused_at_once = ["--access-token-s", "3", "--clock-behind-s", &LEEWAY_S.to_string()];
    for (client, flags) in [(TYPESCRIPT, &refused_at_once[..]), (PYTHON, &refused_at_once[..2])] {
        let ground = Ground::new(AuthServer::with(flags));
        let seen = client.run(ground.url(), "task", &["--login", "ann", "--seconds", "6"]);
        assert_logged_in_once(&seen);
        assert!(seen["login"]["tokens"].as_u64().unwrap() > 1, "{seen}");
        assert_eq!(seen["result"]["structuredContent"]["attempts"], 1, "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scope_that_is_missing_is_asked_for() {
    let ground = Ground::with(AuthServer::start(), None, &["--scope-call", "etl:run"]);
    let caller = ground.server.caller().with_token(&ground.auth.issue("ann", ground.url(), "mcp:tools"));
    let call = caller.request("tools/call", json!({"name": "countdown", "arguments": {"seconds": 1}}));
    let refused = call.send().await.unwrap();
    assert_eq!(refused.status(), 403);
    let challenge = refused.headers()["www-authenticate"].to_str().unwrap().to_owned();
    assert!(challenge.contains("error=\"insufficient_scope\"") && challenge.contains("etl:run"), "{challenge}");
    // The user has to be asked at most once more.
    let assert_stepped_up = |seen: &Value| {
        let login = &seen["login"];
        assert!(login["scope"].as_str().unwrap().contains("etl:run"), "{seen}");
        assert!(login["logins"].as_u64().unwrap() <= 2 && login["registrations"] == 1, "{seen}");
    };
    let clients = tokio::task::spawn_blocking(move || {
        assert_stepped_up(&TYPESCRIPT.run(ground.url(), "task", &["--login", "ann"]));
        assert_stepped_up(&PYTHON.run(ground.url(), "task", &["--login", "ann"]));
        assert_stepped_up(&ground.legacy(PYTHON_OF_2025_11_25, "ann", "task"));
    });
    clients.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_gets_its_token_by_its_own_credentials() {
    let ground = Ground::new(AuthServer::start());
    let token = reqwest::Client::new().post(format!("{}/token", ground.auth.issuer()));
    let form = format!("grant_type=client_credentials&scope=mcp:tools&resource={}", ground.url());
    let token = token.basic_auth("machine", Some("machine-secret")).body(form);
    let token = token.header("content-type", "application/x-www-form-urlencoded").send().await.unwrap();
    let token: Value = serde_json::from_str(&token.text().await.unwrap()).unwrap();
    let caller = ground.server.caller().with_token(token["access_token"].as_str().unwrap());
    let id = caller.call_task("countdown", json!({"seconds": 0.5, "steps": 5})).await;
    assert_eq!(structured(&caller.until(&id, "completed").await["result"])["attempts"], 1);
}
