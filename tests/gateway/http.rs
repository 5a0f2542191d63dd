//! Servers over Streamable HTTP.

use serde_json::{Value, json};

use crate::process::{Setup, Somewhere, ended, until, why, words};

/// A gateway in front of the server in this mode.
fn in_front_of(mode: &str) -> (Setup, Somewhere) {
    let mut somewhere = None;
    let setup = Setup::config(|setup| {
        let (server, url) = Somewhere::python("http_fixture.py", &[&setup.path(""), mode]);
        somewhere = Some(server);
        let headers = json!({"Authorization": "Bearer of-the-configuration"});
        let tools = json!({"tools": {"count": {"runAtMost": "3s"}}});
        json!({
            "mcpServers": {"h": {"type": "http", "url": url, "headers": headers}},
            "longhaul": {"servers": {"h": tools}}
        })
    });
    (setup, somewhere.unwrap())
}

#[tokio::test]
async fn a_server_gets_the_headers_of_the_configuration_and_nothing_of_the_caller() {
    let (setup, _server) = in_front_of("plain");
    let gateway = setup.start();
    let caller = gateway.caller().with_token("of-the-caller");
    let id = caller.call_task("count", json!({})).await;
    assert_eq!(words(&ended(&caller, &id).await), "done");
    let headers = std::fs::read_to_string(setup.path("headers")).unwrap();
    assert!(!headers.contains("of-the-caller"), "{headers}");
    for line in headers.lines() {
        let headers: Value = serde_json::from_str(line).unwrap();
        let authorization =
            headers.as_object().unwrap().iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        assert_eq!(authorization.unwrap().1, "Bearer of-the-configuration");
    }
}

#[tokio::test]
async fn a_call_that_was_refused_with_its_session_is_made_in_a_new_one() {
    let (setup, _server) = in_front_of("expired");
    assert_eq!(words(&setup.start().ended("count", json!({})).await), "done");
    assert_eq!(setup.calls(), ["count"]);
}

#[tokio::test]
async fn a_call_whose_connection_is_lost_is_made_again_only_if_it_may_be() {
    for mode in ["reset", "cut"] {
        let (setup, _server) = in_front_of(mode);
        let gateway = setup.start();
        let why_not = why(&gateway.ended("count", json!({})).await);
        assert!(why_not.starts_with("the call may have been carried out; it was not repeated"), "{why_not}");
        assert_eq!(setup.calls(), ["count"]);
        assert!(why(&gateway.ended("count_read_only", json!({})).await).contains("was called 3 times"));
        assert_eq!(setup.calls().len(), 4);
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let (setup, _server) = in_front_of("redirect");
    let said = setup.refusal();
    assert!(said.contains("the server `h` cannot be reached"), "{said}");
    assert!(setup.calls().is_empty());
}

#[tokio::test]
async fn a_secret_in_a_url_is_in_no_error() {
    let setup = Setup::config(|_| json!({"mcpServers": {"h": {"url": "http://127.0.0.1:1/mcp?key=hunter2"}}}));
    let said = setup.refusal();
    assert!(said.contains("the server `h` cannot be reached") && !said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn a_page_is_no_answer() {
    let (setup, _server) = in_front_of("html");
    let said = setup.refusal();
    assert!(said.contains("the server `h` cannot be reached"), "{said}");
}

#[tokio::test]
async fn a_server_that_hangs_is_left_when_the_time_of_the_call_is_over() {
    let (setup, _server) = in_front_of("hang");
    let gateway = setup.start();
    assert!(why(&gateway.ended("count", json!({})).await).contains("did not end within"));
    until("the call", || setup.calls() == ["count"]).await;
}

#[tokio::test]
async fn a_gateway_may_stand_in_front_of_another_one() {
    let behind = Setup::fixture(&[]);
    let inner = behind.start();
    let setup = Setup::config(|_| json!({"mcpServers": {"inner": {"url": inner.url()}}}));
    let gateway = setup.start();
    let caller = gateway.caller();
    assert_eq!(words(&gateway.ended("count", json!({})).await), "done: 1");
    let id = caller.call_task("ask_read_only", json!({})).await;
    let asked = caller.until(&id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    caller.accept(&id, key, json!({"name": "Ann"})).await;
    assert_eq!(words(&ended(&caller, &id).await), r#"{"name": "Ann"}"#);
}
