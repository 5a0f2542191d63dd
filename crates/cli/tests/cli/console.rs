//! The console over HTTP: that of `longhaul console`, and that of the local server.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStderr, Stdio};

use reqwest::{Client, Response, StatusCode, redirect};

use crate::command::Setup;
use crate::servers::{PATIENCE, Server};

const HOSTILE: &str = "\"'><script>alert(1)</script>\u{202e}gnp.exe";

/// `longhaul console`. Killed when dropped.
struct Console {
    child: Child,
    err: BufReader<ChildStderr>,
    /// As it was written.
    link: String,
}

impl Console {
    fn of(setup: &Setup, flags: &[&str]) -> Self {
        let mut command = setup.command(&["console", "--listen", "127.0.0.1:0"]);
        let mut child = command.args(flags).stdout(Stdio::null()).spawn().unwrap();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        err.read_line(&mut line).unwrap();
        let link = line.trim().strip_prefix("The console is at ").unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { child, err, link }
    }

    /// The rest of its output, after its end.
    fn said(mut self) -> String {
        self.child.kill().unwrap();
        let mut said = String::new();
        self.err.read_to_string(&mut said).unwrap();
        said
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A browser that follows no redirects, on the console at this address.
struct Browser {
    http: Client,
    base: String,
}

impl Browser {
    fn of(base: &str) -> Self {
        let http = Client::builder().redirect(redirect::Policy::none()).timeout(PATIENCE).build().unwrap();
        Self { http, base: base.to_owned() }
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        let answer = self.http.get(format!("{}{path}", self.base)).send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    async fn token(&self) -> String {
        let page = self.get("").await.1;
        page.split_once(r#"name="token" value=""#).map_or("", |(_, rest)| rest.split('"').next().unwrap()).to_owned()
    }

    async fn post(&self, origin: &str, path: &str, body: String) -> Response {
        let request = self.http.post(format!("{}{path}", self.base)).header("origin", origin);
        request.header("content-type", "application/x-www-form-urlencoded").body(body).send().await.unwrap()
    }

    fn origin(&self) -> &str {
        self.base.strip_suffix("/console").unwrap()
    }
}

#[tokio::test]
async fn the_console_shows_the_tasks_of_a_server_and_cancels_them() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=600"]);
    let console = Console::of(&setup, &[]);
    let browser = Browser::of(&console.link);
    let (code, list) = browser.get("").await;
    assert!(code == StatusCode::OK && list.contains(&id) && list.contains("countdown"), "{list}");
    assert!(list.contains(&setup.url), "{list}");
    let task = browser.get(&format!("/task?id={id}")).await.1;
    assert!(task.contains("&quot;seconds&quot;: 600") && task.contains(r#"class="attempt runs""#), "{task}");
    assert!(browser.get("/health").await.1.contains("1 attempt runs now"));
    let body = format!("token={}&id={id}&act=cancel", browser.token().await);
    let answer = browser.post(browser.origin(), "/act", body).await;
    assert_eq!(answer.headers()["location"], format!("/console/task?id={id}&did=cancelled"));
    setup.until(&id, "cancelled");
    let said = console.said();
    assert!(said.contains(&format!("console: cancel task={id}")), "{said}");
}

#[tokio::test]
async fn a_call_is_made_again_once_however_often_the_form_is_sent() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=0.1"]);
    setup.until(&id, "completed");
    let console = Console::of(&setup, &[]);
    let browser = Browser::of(&console.link);
    let body = format!("token={}&id={id}&act=again&key=0123456789abcdef", browser.token().await);
    let mut places = Vec::new();
    for _ in 0..2 {
        let answer = browser.post(browser.origin(), "/act", body.clone()).await;
        places.push(answer.headers()["location"].to_str().unwrap().to_owned());
    }
    assert!(places[0] == places[1] && !places[0].contains(&id), "{places:?}");
}

#[tokio::test]
async fn the_local_server_has_a_console_that_only_its_own_pages_act_by() {
    let (setup, _server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=600"]);
    let browser = Browser::of(&format!("http://127.0.0.1:{}/console", setup.port));
    assert!(browser.get("").await.1.contains(&id));
    let token = browser.token().await;
    let act = |token: &str| format!("token={token}&id={id}&act=cancel");
    for (origin, body) in [
        ("http://evil.example", act(&token)),
        ("http://localhost:3000", act(&token)),
        ("null", act(&token)),
        (browser.origin(), act("")),
        (browser.origin(), act("0123456789abcdef0123456789abcdef")),
    ] {
        assert_eq!(browser.post(origin, "/act", body).await.status(), StatusCode::FORBIDDEN, "{origin}");
    }
    let (code, _) = browser.get(&format!("/act?token={token}&id={id}&act=cancel")).await;
    assert_eq!(code, StatusCode::NOT_FOUND);
    assert_eq!(setup.run(&["show", &id, "--json"]).json()["status"], "working");
    let by_another_name = browser.http.get(&browser.base).header("host", "evil.example").send().await.unwrap();
    assert_eq!(by_another_name.status(), StatusCode::FORBIDDEN);
    assert_eq!(browser.post(browser.origin(), "/act", act(&token)).await.status(), StatusCode::SEE_OTHER);
    setup.until(&id, "cancelled");
}

#[tokio::test]
async fn the_local_server_can_be_without_a_console_or_with_one_that_only_shows() {
    let setup = Setup::new();
    let server = Server::local_with(setup.folder(), setup.port, &["--console", "off"]);
    let browser = Browser::of(&format!("http://127.0.0.1:{}/console", setup.port));
    assert_eq!(browser.get("").await.0, StatusCode::NOT_FOUND);
    drop(server);
    let _server = Server::local_with(setup.folder(), setup.port, &["--console", "read-only"]);
    let id = setup.detach(&["countdown", "seconds=600"]);
    // On no connection of the one before.
    let browser = Browser::of(&browser.base);
    let page = browser.get(&format!("/task?id={id}")).await.1;
    assert!(page.contains("read-only") && !page.contains(r#"method="post""#), "{page}");
    let answer = browser.post(browser.origin(), "/act", format!("id={id}&act=cancel")).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn what_a_hostile_task_says_is_text() {
    let (setup, _server) = Setup::local();
    let questions = serde_json::json!([HOSTILE]).to_string();
    let id = setup.detach(&["ask", &format!("questions:={questions}")]);
    setup.until(&id, "input_required");
    let browser = Browser::of(&format!("http://127.0.0.1:{}/console", setup.port));
    for path in [String::new(), format!("/task?id={id}"), "/health".to_owned()] {
        let (code, page) = browser.get(&path).await;
        assert_eq!(code, StatusCode::OK, "{path}");
        assert!(!page.contains("<script>alert") && !page.contains('\u{202e}'), "{page}");
    }
    assert!(
        browser.get(&format!("/task?id={id}")).await.1.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}gnp")
    );
}

#[tokio::test]
async fn a_server_that_dies_is_said_and_found_again() {
    let (setup, server) = Setup::local();
    let id = setup.detach(&["countdown", "seconds=600"]);
    let console = Console::of(&setup, &[]);
    let browser = Browser::of(&console.link);
    let live = format!("{}/live?page=%2Fconsole", browser.base);
    let mut open = browser.http.get(live).send().await.unwrap();
    until_told(&mut open, &id).await;
    server.kill();
    until_told(&mut open, "event: down").await;
    let (code, page) = browser.get("").await;
    assert!(code == StatusCode::BAD_GATEWAY && page.contains("The server does not answer: "), "{page}");
    let _server = Server::local(setup.folder(), setup.port);
    until_told(&mut open, "event: up").await;
    assert!(browser.get("").await.1.contains(&id));
}

async fn until_told(open: &mut Response, what: &str) {
    let mut told = String::new();
    while !told.contains(what) {
        let chunk = tokio::time::timeout(PATIENCE, open.chunk()).await.unwrap().unwrap().unwrap();
        told.push_str(&String::from_utf8_lossy(&chunk));
    }
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_token_file() {
    let setup = Setup::new();
    let refused = setup.run(&["console", "--listen", "0.0.0.0:0"]);
    assert!(refused.code == 2 && refused.err.contains("--token-file"), "{refused:?}");
    let file = setup.folder().join("token");
    let path = file.to_str().unwrap();
    for (text, mode, why) in [("x".repeat(64), 0o644, "chmod 600"), ("short".to_owned(), 0o600, "fewer than 32")] {
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let refused = setup.run(&["console", "--listen", "127.0.0.1:0", "--token-file", path]);
        assert!(refused.code == 2 && refused.err.contains(why), "{refused:?}");
    }
    std::fs::write(&file, format!("{}\n", "x".repeat(64))).unwrap();
    let console = Console::of(&setup, &["--token-file", path]);
    let (base, once) = console.link.split_once("/log-in?once=").unwrap();
    let browser = Browser::of(base);
    assert_eq!(browser.get("").await.0, StatusCode::UNAUTHORIZED);
    let body = format!("token={}&once={once}", browser.token().await);
    let answer = browser.post(browser.origin(), "/log-in", body).await;
    let cookie = answer.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let let_in = browser.http.get(&browser.base).header("cookie", cookie).send().await.unwrap();
    assert_eq!(let_in.status(), StatusCode::BAD_GATEWAY, "there is no server behind it");
}
