//! Real clients log in to the functions: on the Runtime API host, which streams and freezes them, and to the deployed
//! template in the emulator.

use harness::auth_server::AuthServer;
use harness::caller::Caller;
use harness::proxy::Proxy;
use harness::runtime_host::Idle;
use harness::runtime_host::front_door::{HttpFrontend, Mode};
use hyper::header::WWW_AUTHENTICATE;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::clients::{PYTHON, TYPESCRIPT};
use super::ground::Resources;
use super::legacy_clients::{OF_2025_06_18, drive};
use super::process::Setup;
use super::programs::api;

/// Registered once, logged in once, and used what it got.
fn assert_logged_in_once(seen: &Value) {
    let login = &seen["login"];
    assert_eq!((&login["registrations"], &login["logins"]), (&json!(1), &json!(1)), "{seen}");
}

/// Users of several clients log in, and see their own tasks only.
fn users_log_in(url: &str) {
    let started = TYPESCRIPT.run(url, "start", &["--login", "ann", "--seconds", "1"]);
    assert_logged_in_once(&started);
    let id = started["taskId"].as_str().unwrap_or_else(|| panic!("{started}"));
    assert_logged_in_once(&PYTHON.run(url, "unknown", &["--login", "bob", "--task-id", id]));
    let resumed = PYTHON.run(url, "resume", &["--login", "ann", "--task-id", id]);
    assert_logged_in_once(&resumed);
    assert_eq!(resumed["status"], "completed", "{resumed}");
    let older = drive("node", &["ts-legacy/core_tasks.mjs", "--login", "cid"], url, "list");
    assert_eq!(older["tasks"], 1, "a user of the older revision lists one task: the own one. {older}");
    let (program, driver) = OF_2025_06_18;
    assert_logged_in_once(&drive(program, &[&driver[..], &["--login", "ann"]].concat(), url, "plain"));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_to_functions() {
    let auth = AuthServer::start();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let resources = Resources::new().await;
    let mut env = resources.env(None);
    let settings =
        [("LONGHAUL_AUTH", "oauth"), ("LONGHAUL_OAUTH_ISSUERS", auth.issuer()), ("LONGHAUL_OAUTH_AUDIENCES", &url)];
    env.extend(settings.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let frontend = HttpFrontend::open_at(listener, api(), &env, Idle::Frozen, Mode::Streamed, 2).await;
    let _worker = resources.worker(None);
    let caller = Caller::new(frontend.url());
    let elsewhere = caller.with_token(&auth.issue("ann", "https://other.example.com/mcp", "mcp:tools"));
    let refused = elsewhere.request("tools/list", json!({})).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    tokio::task::spawn_blocking(move || users_log_in(&url)).await.unwrap();
}

/// As behind API Gateway, clients do not see the header that says where to log in.
#[test]
fn users_log_in_to_the_deployed_template() {
    let auth = AuthServer::start();
    let proxy = Proxy::hiding(Some(WWW_AUTHENTICATE));
    let issuers = format!("OAuthIssuers={}", auth.issuer());
    let audiences = format!("OAuthAudiences={}", proxy.url());
    let setup = Setup::with(&["AuthMode=oauth", &issuers, &audiences]);
    proxy.lead_to(setup.start().url());
    users_log_in(proxy.url());
}
