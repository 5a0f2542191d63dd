//! Sign-ins at an authorization server whose tokens the server does not accept.

use serde_json::{Value, json};

use crate::browser::{Login, get};
use crate::command::{Said, Setup};
use crate::servers::{json_of, serving};

/// A server that is its own authorization server: it answers a request with a token as `refusal` says.
fn refusing(refusal: &'static str, registers: bool) -> String {
    let (url, _seen) = serving(move |server, head| {
        let ok = |body: &Value| json_of("200 OK", "", body);
        let challenge = format!("resource_metadata=\"{server}/.well-known/oauth-protected-resource/mcp\"");
        match head.split(' ').nth(1).unwrap() {
            "/mcp" if head.contains("authorization: Bearer opaque") => {
                let status = if refusal.contains("insufficient_scope") { "403 Forbidden" } else { "401 Unauthorized" };
                let header = format!("www-authenticate: Bearer {refusal}, {challenge}\r\n");
                json_of(status, &header, &Value::Null)
            }
            "/mcp" => json_of("401 Unauthorized", &format!("www-authenticate: Bearer {challenge}\r\n"), &Value::Null),
            "/.well-known/oauth-protected-resource/mcp" => {
                ok(&json!({"resource": format!("{server}/mcp"), "authorization_servers": [server]}))
            }
            "/.well-known/oauth-authorization-server" => {
                let mut about = json!({
                    "issuer": server, "authorization_endpoint": format!("{server}/a"),
                    "token_endpoint": format!("{server}/t"), "code_challenge_methods_supported": ["S256"],
                    "response_types_supported": ["code"], "scopes_supported": ["mcp:tools"]
                });
                if registers {
                    about["registration_endpoint"] = format!("{server}/r").into();
                }
                ok(&about)
            }
            "/r" => json_of("201 Created", "", &json!({"client_id": "c", "redirect_uris": []})),
            "/t" => ok(&json!({"access_token": "opaque", "token_type": "Bearer", "expires_in": 3600})),
            _ => json_of("404 Not Found", "", &Value::Null),
        }
    });
    url
}

fn log_in(setup: &Setup, flags: &[&str]) -> Said {
    let mut login = Login::begin(setup, flags);
    let (state, code) = (login.param("state"), "code");
    login.come_back(&[("code", code), ("state", &state)]);
    login.end()
}

#[test]
fn a_token_that_the_server_does_not_accept_is_told_at_the_log_in_in_its_words() {
    let mut setup = Setup::new();
    setup.url = refusing("error=\"invalid_token\", error_description=\"the token is not a signed JWT\"", true);
    let said = log_in(&setup, &[]);
    assert!(said.code == 3 && said.err.contains("the token is not a signed JWT"), "{said:?}");
    assert!(!said.err.contains("Logged in"), "{said:?}");
    // And with every command, until an operator repairs that.
    let said = setup.run(&["tools"]);
    assert!(said.code == 3 && said.err.contains("the token is not a signed JWT"), "{said:?}");
}

#[test]
fn a_scope_that_a_new_token_lacks_is_named_and_asked_for_next_time() {
    let mut setup = Setup::new();
    setup.url = refusing("error=\"insufficient_scope\", scope=\"etl:run\"", true);
    let said = log_in(&setup, &["--scope", "mcp:tools"]);
    assert!(said.code == 3 && said.err.contains("more scopes for this: `etl:run`"), "{said:?}");
    let login = Login::begin(&setup, &[]);
    assert!(login.param("scope").contains("etl:run"), "{}", login.page);
}

#[test]
fn a_refused_log_in_without_scopes_and_a_refused_registration_say_what_to_do() {
    let mut setup = Setup::new();
    setup.url = refusing("", true);
    let mut login = Login::begin(&setup, &["--client-id", "c", "--scope", ""]);
    let state = login.param("state");
    get(&login.page.join("/nothing").unwrap());
    login.come_back(&[("error", "access_denied"), ("state", &state)]);
    let said = login.end();
    assert!(said.code == 3 && said.err.contains("--scope 'mcp:tools'"), "{said:?}");
    setup.url = refusing("", false);
    let said = setup.run(&["login", "--no-browser"]);
    assert!(
        said.code == 3 && said.err.contains("longhaul login --server") && said.err.contains("--client-id ID"),
        "{said:?}"
    );
}
