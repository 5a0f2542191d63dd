//! Users who log in: at a real authorization server, and at servers that mean no good.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Child;

use harness::auth_server::AuthServer;
use serde_json::{Value, json};

use crate::bridge::Bridge;
use crate::browser::{Login, browse, get};
use crate::command::{Said, Setup};
use crate::servers::{Server, answering, serving};

/// How much the clocks of an issuer and of the server may differ, in seconds. If an issuer's clock is behind by that
/// much, its token is refused as soon as it expires.
const LEEWAY_S: &str = "30";

/// The command, a server that wants tokens, and the authorization server that issues them.
struct Ground {
    setup: Setup,
    auth: AuthServer,
    _server: Server,
}

impl Ground {
    fn new() -> Self {
        Self::with(&[], &[])
    }

    /// With these flags of the authorization server, and of the server.
    fn with(of_auth: &[&str], of_server: &[&str]) -> Self {
        let (setup, auth) = (Setup::new(), AuthServer::with(of_auth));
        let flags = ["--auth", "oauth", "--oauth-issuer", auth.issuer(), "--oauth-audience", &setup.url];
        let server = Server::local_with(setup.folder(), setup.port, &[&flags, of_server].concat());
        Self { setup, auth, _server: server }
    }

    /// Logs in as this user.
    fn log_in(&self, user: &str, flags: &[&str]) -> Said {
        let mut login = Login::begin(&self.setup, flags);
        let back = browse(&login.page, user);
        get(&back);
        login.end()
    }

    fn assert_logged_in(&self) {
        let said = self.setup.run(&["tools"]);
        assert!(said.code == 0 && said.out.contains("countdown"), "{said:?}");
    }

    fn assert_not_logged_in(&self, why: &str) {
        let said = self.setup.run(&["tools"]);
        assert!(said.code == 3 && said.err.contains(why) && said.err.contains("longhaul login"), "{said:?}");
    }

    fn file(&self) -> PathBuf {
        file(&self.setup)
    }
}

/// The one file with a sign-in.
fn file(setup: &Setup) -> PathBuf {
    let folder = std::fs::read_dir(setup.folder().join("state/longhaul/logins")).unwrap();
    let mut files = folder.map(|file| file.unwrap().path()).filter(|file| file.extension().unwrap() == "json");
    files.next().unwrap()
}

#[test]
fn a_user_logs_in_once_and_out_again() {
    let ground = Ground::new();
    ground.assert_not_logged_in("not logged in");
    let said = ground.log_in("ann", &[]);
    assert!(said.code == 0 && said.err.contains("Logged in to http://127.0.0.1"), "{said:?}");
    ground.assert_logged_in();
    let call = ground.setup.run(&["call", "countdown", "seconds=0.3"]);
    assert_eq!(call.code, 0, "{call:?}");
    assert_eq!(ground.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // The token is its server's alone: another one of the same name at another port gets nothing.
    let (elsewhere, seen) = serving(|_server, _head| answer_of("200 OK", "{}"));
    ground.setup.run(&["tools", "--server", &elsewhere]);
    assert!(!seen.lock().unwrap().iter().any(|head| head.to_lowercase().contains("authorization")), "{seen:?}");
    assert!(ground.setup.run(&["logout"]).err.contains("Logged out of"));
    ground.assert_not_logged_in("not logged in");
    assert!(ground.setup.run(&["logout"]).err.contains("You were not signed in"));
}

#[test]
fn what_is_asked_for_is_as_mcp_has_it() {
    let ground = Ground::new();
    let login = Login::begin(&ground.setup, &[]);
    for (name, value) in
        [("resource", ground.setup.url.as_str()), ("code_challenge_method", "S256"), ("response_type", "code")]
    {
        assert!(login.param(name).contains(value), "{}", login.page);
    }
    assert!(login.param("state").len() >= 16 && login.param("redirect_uri").starts_with("http://127.0.0.1:"));
    drop(login);
    // A client that is known already is not registered.
    let before = ground.auth.requests_of("/reg");
    let said = ground.log_in("bob", &["--client-id", "trial", "--scope", "mcp:tools etl:run"]);
    assert!(said.code == 0 && ground.auth.requests_of("/reg") == before, "{said:?}");
    ground.assert_logged_in();
    assert!(std::fs::read_to_string(ground.file()).unwrap().contains("etl:run"));
}

#[test]
fn a_token_that_is_over_is_renewed_once_however_many_want_it() {
    let ground = Ground::new();
    assert_eq!(ground.log_in("ann", &[]).code, 0);
    let file = ground.file();
    // As if it had been got long ago: all of them find it to be over.
    let mut login: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    login["tokens"]["token_received_at"] = json!(1);
    std::fs::write(&file, login.to_string()).unwrap();
    let before = ground.auth.requests_of("/token");
    let all: Vec<Child> = (0..6).map(|_| ground.setup.command(&["tools"]).spawn().unwrap()).collect();
    for child in all {
        let said = Setup::end(child);
        assert_eq!(said.code, 0, "{said:?}");
    }
    assert_eq!(ground.auth.requests_of("/token") - before, 1);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_token_that_the_server_refuses_is_renewed_in_the_middle_of_a_task() {
    let ground = Ground::with(&["--access-token-s", "3", "--clock-behind-s", LEEWAY_S], &[]);
    assert_eq!(ground.log_in("ann", &[]).code, 0);
    let before = ground.auth.requests_of("/token");
    let said = ground.setup.run(&["call", "countdown", "seconds=6"]);
    assert!(said.code == 0 && said.out.contains("\"attempts\":1"), "{said:?}");
    assert!(ground.auth.requests_of("/token") > before);
}

#[test]
fn a_log_in_that_is_over_says_so() {
    let ground = Ground::with(&["--access-token-s", "3", "--clock-behind-s", LEEWAY_S], &[]);
    assert_eq!(ground.log_in("ann", &[]).code, 0);
    let denied = json!({"status": 400, "headers": {"content-type": "application/json"}, "body":
        "{\"error\":\"invalid_grant\"}"});
    ground.auth.fail("/token", json!({"status": 500, "body": "later"}));
    let said = ground.setup.run(&["tools"]);
    assert!(said.code == 4 && said.err.contains("did not renew the token"), "{said:?}");
    ground.auth.fail("/token", denied);
    ground.assert_not_logged_in("the log-in is over");
    ground.auth.repair();
    // Nothing is tried with it any more.
    let before = ground.auth.requests_of("/token");
    ground.assert_not_logged_in("not logged in");
    assert_eq!(ground.auth.requests_of("/token"), before);
}

#[test]
fn an_authorization_server_that_never_answers_is_given_up() {
    let ground = Ground::new();
    assert_eq!(ground.log_in("ann", &[]).code, 0);
    let mut login: Value = serde_json::from_str(&std::fs::read_to_string(ground.file()).unwrap()).unwrap();
    login["tokens"]["token_received_at"] = json!(1);
    std::fs::write(ground.file(), login.to_string()).unwrap();
    ground.auth.fail("/token", json!({"hang": true}));
    let said = ground.setup.run(&["tools"]);
    assert!(said.code == 4 && said.err.contains("did not renew the token"), "{said:?}");
    // Nothing of the sign-in is lost.
    ground.auth.repair();
    ground.assert_logged_in();
}

#[test]
fn a_file_that_others_may_read_is_not_used() {
    let ground = Ground::new();
    assert_eq!(ground.log_in("ann", &[]).code, 0);
    std::fs::set_permissions(ground.file(), std::fs::Permissions::from_mode(0o644)).unwrap();
    ground.assert_not_logged_in("its mode is 0644");
    assert_eq!(ground.log_in("ann", &[]).code, 0);
    ground.assert_logged_in();
}

#[test]
fn scopes_that_are_missing_are_asked_for_at_the_next_log_in() {
    let ground = Ground::with(&[], &["--scope-call", "etl:run"]);
    let flags = ["--scope", "mcp:tools"];
    assert_eq!(ground.log_in("ann", &flags).code, 0);
    // The server does not list the tool to a caller who may not call it, so that it is called by hand.
    let mut bridge = Bridge::to(&ground.setup, &ground.setup.url);
    bridge.ask(1, "tools/call", json!({"name": "echo", "arguments": {"text": "a"}}));
    let refused = bridge.answer(1)["error"]["message"].as_str().unwrap().to_owned();
    assert!(refused.contains("more scopes for this: `etl:run`") && refused.contains("longhaul login"), "{refused}");
    let login = Login::begin(&ground.setup, &[]);
    assert!(login.param("scope").contains("mcp:tools") && login.param("scope").contains("etl:run"), "{}", login.page);
    drop(login);
    assert_eq!(ground.log_in("ann", &[]).code, 0);
    assert_eq!(ground.setup.run(&["call", "echo", "text=a"]).out(), "a");
}

#[test]
fn who_does_not_know_the_state_cannot_end_a_log_in() {
    let ground = Ground::new();
    let mut login = Login::begin(&ground.setup, &[]);
    for params in [&[("code", "stolen"), ("state", "guessed")][..], &[("error", "access_denied")], &[]] {
        assert!(login.come_back(params).contains("404"), "{params:?}");
    }
    // The true answer still counts.
    get(&browse(&login.page, "ann"));
    let said = login.end();
    assert_eq!(said.code, 0, "{said:?}");
}

#[test]
fn an_answer_of_another_issuer_or_a_refusal_ends_a_log_in() {
    let ground = Ground::new();
    let mut login = Login::begin(&ground.setup, &[]);
    let state = login.param("state");
    login.come_back(&[("error", "secret words"), ("state", &state), ("iss", "https://evil.example")]);
    let said = login.end();
    assert!(said.code == 3 && said.err.contains("another authorization server"), "{said:?}");
    assert!(!said.err.contains("secret words"), "{said:?}");
    let mut login = Login::begin(&ground.setup, &[]);
    let (state, issuer) = (login.param("state"), ground.auth.issuer());
    login.come_back(&[
        ("error", "access_denied"),
        ("error_description", "no\u{1b}[2J"),
        ("state", &state),
        ("iss", issuer),
    ]);
    let said = login.end();
    assert!(said.code == 3 && said.err.contains("refuses the sign-in: access_denied: no\\u{1b}[2J"), "{said:?}");
    ground.assert_not_logged_in("not logged in");
}

/// A server's refusal that says where to learn more.
const CHALLENGE: &str = "401 Unauthorized\r\nwww-authenticate: Bearer \
                         resource_metadata=\"SERVER/.well-known/oauth-protected-resource/mcp\"";

/// An answer by HTTP with JSON.
fn answer_of(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[test]
fn metadata_that_cannot_be_believed_is_not() {
    let setup = Setup::new();
    for (metadata, why) in [
        (r#""resource": "https://other.example/mcp""#, "resource mismatch"),
        (r#""scopes_supported": []"#, "missing required resource"),
        (r#""resource": "SERVER/mcp", "issuer": "https://other.example""#, "other.example"),
        (r#""resource": "SERVER/mcp", "issuer": "SERVER""#, "PKCE"),
        (r#""resource": "SERVER/mcp", "issuer": "SERVER", "code_challenge_methods_supported": ["plain"]"#, "PKCE"),
        (
            r#""resource": "SERVER/mcp", "issuer": "SERVER", "code_challenge_methods_supported": ["S256"],
               "registration_endpoint": "http://evil.example/""#,
            "which others may read",
        ),
    ] {
        let more = r#""authorization_servers": ["SERVER"], "authorization_endpoint": "SERVER/a", "token_endpoint": "SERVER/t""#;
        let document = format!("{{{more}, {metadata}}}");
        let (url, _seen) = serving(move |server, head| {
            match head.split(' ').nth(1).unwrap() {
                "/mcp" => answer_of(&CHALLENGE.replace("SERVER", server), "{}"),
                // The document of the resource is that of its authorization server too.
                "/.well-known/oauth-protected-resource/mcp" => answer_of("200 OK", &document.replace("SERVER", server)),
                "/.well-known/oauth-authorization-server" if document.contains("issuer") => {
                    answer_of("200 OK", &document.replace("SERVER", server))
                }
                _ => answer_of("404 Not Found", "{}"),
            }
        });
        let said = setup.run(&["login", "--no-browser", "--server", &url]);
        assert!(said.code == 3 && said.err.contains(why), "{metadata}: {said:?}");
    }
    // One that wants no sign-in.
    let url = answering("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
    let said = setup.run(&["login", "--no-browser", "--server", &url]);
    assert!(said.code == 3 && said.err.contains("does not say where to log in"), "{said:?}");
    let said = setup.run(&["login", "--no-browser", "--server", "http://mcp.example.com/mcp"]);
    assert!(said.code == 2 && said.err.contains("over plain http"), "{said:?}");
    let said = setup.run(&["login", "--no-browser", "-H", "Authorization: Bearer x"]);
    assert!(said.code == 2 && said.err.contains("leave them out"), "{said:?}");
}

#[test]
fn a_client_of_the_bridge_is_logged_in() {
    let ground = Ground::new();
    assert_eq!(ground.log_in("ann", &[]).code, 0);
    let mut bridge = Bridge::to(&ground.setup, &ground.setup.url);
    bridge.ask(1, "tools/list", json!({}));
    assert!(bridge.answer(1)["result"]["tools"].is_array());
    ground.setup.run(&["logout"]);
    bridge.ask(2, "tools/list", json!({}));
    let refused = bridge.answer(2);
    assert!(refused["error"]["message"].as_str().unwrap().contains("longhaul login"), "{refused}");
}
