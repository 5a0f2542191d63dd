//! Credentials of servers behind URLs that are renewed while the gateway runs.

use serde_json::{Value, json};

use super::process::{Setup, Somewhere, ended};

/// A gateway in front of a server that takes one token, with these credentials for its URL.
fn with(credentials: impl FnOnce(&Setup, &str) -> Value) -> (Setup, Somewhere) {
    let mut somewhere = None;
    let setup = Setup::config(|setup| {
        let (server, url) = Somewhere::fixture("http", &[&setup.path(""), "token"]);
        somewhere = Some(server);
        give(setup, "first");
        let mut entry = json!({"type": "http", "url": url});
        entry.as_object_mut().unwrap().extend(credentials(setup, &url).as_object().unwrap().clone());
        json!({"mcpServers": {"h": entry}})
    });
    (setup, somewhere.unwrap())
}

/// The token that the server takes from now on.
fn give(setup: &Setup, token: &str) {
    std::fs::write(setup.path("token"), token).unwrap();
}

/// Calls work before and after the token has changed.
async fn are_renewed(credentials: impl FnOnce(&Setup, &str) -> Value) -> Setup {
    let (setup, _server) = with(credentials);
    let gateway = setup.start();
    assert_eq!(gateway.ended("count", json!({})).await["status"], "completed");
    give(&setup, "second");
    assert_eq!(gateway.ended("count", json!({})).await["status"], "completed");
    assert_eq!(setup.calls().len(), 2);
    setup
}

#[tokio::test]
async fn a_file_with_a_token_is_read_again() {
    are_renewed(|setup, _url| json!({"credentials": {"file": setup.path("token")}})).await;
}

#[tokio::test]
async fn a_command_is_run_again_when_the_server_refuses_what_it_printed() {
    let setup = are_renewed(|setup, _url| {
        let script = format!(
            "echo run >> {0}runs; printf '{{\"Authorization\": \"Bearer %s\"}}' $(cat {0}token)",
            setup.path("")
        );
        json!({"credentials": {"command": ["sh", "-c", script]}})
    })
    .await;
    assert_eq!(setup.lines("runs").len(), 2);
    are_renewed(|setup, _url| json!({"headersHelper": format!("cat {}", setup.path("token"))})).await;
}

#[tokio::test]
async fn an_authorization_server_is_asked_again_when_its_token_is_refused() {
    let setup = are_renewed(|_setup, url| {
        let token_url = url.replace("/mcp", "/token");
        json!({"credentials": {"clientId": "gateway", "clientSecret": "hidden", "tokenUrl": token_url, "scope": "a b"}})
    })
    .await;
    let asked = setup.lines("tokens");
    assert!(asked.iter().all(|form| form.contains("grant_type=client_credentials") && form.contains("scope=a+b")));
}

#[tokio::test]
async fn a_call_waits_for_credentials_that_cannot_be_had_and_says_so() {
    let (setup, _server) = with(|setup, _url| json!({"credentials": {"file": setup.path("own")}}));
    std::fs::write(setup.path("own"), "first").unwrap();
    let (gateway, caller) = setup.started();
    std::fs::remove_file(setup.path("own")).unwrap();
    let id = caller.call_task("count", json!({})).await;
    caller
        .until_it(&id, "the reason", |task| {
            task["statusMessage"].as_str().is_some_and(|words| words.contains("the credentials in"))
        })
        .await;
    std::fs::write(setup.path("own"), "first").unwrap();
    assert_eq!(ended(&caller, &id).await["status"], "completed");
    assert_eq!(setup.calls(), ["count"]);
    drop(gateway);
}

#[tokio::test]
async fn credentials_that_are_written_wrong_are_refused() {
    for (more, words) in [
        (json!({"credentials": {}}), "names one way to get credentials"),
        (json!({"credentials": {"file": "a", "login": true}}), "names one way to get credentials"),
        (json!({"credentials": {"command": []}}), "is empty: name the program"),
        (json!({"credentials": {"clientId": "a"}}), "it has no `clientSecret`"),
        (json!({"credentials": {"login": false}}), "must be `true`, or left out"),
        (json!({"credentials": {"file": "a", "every": "5m"}}), "/mcpServers/h/credentials/every: is not known"),
        (json!({"credentials": {"file": "a"}, "headersHelper": "b"}), "leave out one of them"),
        (json!({"credentials": {"file": "/no/such/file"}}), "the credentials in /no/such/file cannot be used"),
        (json!({"credentials": {"login": true}}), "to log in: longhaul login http://"),
    ] {
        let (setup, _server) = with(|_setup, _url| more.clone());
        let said = setup.refusal();
        assert!(said.contains(words), "{words} is not in:\n{said}");
    }
}
