//! Servers over Streamable HTTP.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::process::{Setup, Somewhere, ended, until, why, words};

/// A gateway in front of the server in this mode.
fn in_front_of(mode: &str) -> (Setup, Somewhere) {
    on_terms(mode, &json!({}))
}

/// The same, with more terms.
fn on_terms(mode: &str, more: &Value) -> (Setup, Somewhere) {
    let mut somewhere = None;
    let setup = Setup::config(|setup| {
        let (server, url) = Somewhere::fixture("http", &[&setup.path(""), mode]);
        somewhere = Some(server);
        let headers = json!({"Authorization": "Bearer of-the-configuration"});
        let mut terms = json!({"startAtMost": "3s", "tools": {"count": {"runAtMost": "3s"}}});
        terms.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({
            "mcpServers": {"h": {"type": "http", "url": url, "headers": headers}},
            "longhaul": {"servers": {"h": terms}}
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
async fn an_answer_that_is_not_json_ends_its_call() {
    let (setup, _server) = in_front_of("not-json");
    let task = setup.start().ended("count_read_only", json!({})).await;
    assert!(task["error"]["message"].as_str().unwrap().contains("cannot be read"), "{task}");
    assert_eq!(setup.calls(), ["count_read_only"]);
}

#[tokio::test]
async fn redirects_to_another_host_are_not_followed() {
    let (setup, _server) = in_front_of("redirect");
    let said = setup.refusal();
    assert!(said.contains("the server `h` cannot be reached") && said.contains("redirects"), "{said}");
    assert!(setup.calls().is_empty());
}

#[tokio::test]
async fn a_secret_in_a_url_is_in_no_error() {
    let setup = Setup::config(|_| json!({"mcpServers": {"h": {"url": "http://127.0.0.1:1/mcp?key=hunter2"}}}));
    let said = setup.refusal();
    assert!(said.contains("the server `h` cannot be reached") && !said.contains("hunter2"), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
}

#[tokio::test]
async fn why_a_server_cannot_be_reached_is_said_without_secrets() {
    let (_gateway, server) = in_front_of("plain");
    let no_tls = server.url().replace("http://", "https://") + "?key=hunter2";
    for (url, why) in [(no_tls.as_str(), "corrupt message"), ("http://nowhere.invalid/mcp?key=hunter2", "resolving")] {
        let said = Setup::config(|_| json!({"mcpServers": {"h": {"url": url}}})).refusal();
        assert!(said.contains("the server `h` cannot be reached") && !said.contains("hunter2"), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_never_answers_is_left_at_the_start() {
    let (setup, _server) = on_terms("deaf", &json!({"startAtMost": "1s"}));
    let said = setup.refusal();
    assert!(said.contains("the server `h` cannot be reached: it did not answer in time"), "{said}");
}

#[tokio::test]
async fn a_server_that_is_slow_by_the_byte_is_waited_for() {
    let (setup, _server) = in_front_of("slow");
    assert_eq!(words(&setup.start().ended("count", json!({})).await), "done");
}

#[tokio::test]
async fn an_answer_that_is_too_large_ends_its_call() {
    let (setup, _server) = in_front_of("huge");
    let why_not = why(&setup.start().ended("count", json!({})).await);
    assert!(why_not.contains("exceeded the maximum size"), "{why_not}");
    assert_eq!(setup.calls(), ["count"]);
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
    let (_setup, gateway, caller) = Setup::config(|_| json!({"mcpServers": {"inner": {"url": inner.url()}}})).begun();
    assert_eq!(words(&gateway.ended("count", json!({})).await), "done: 1");
    let id = caller.call_task("ask_read_only", json!({})).await;
    let asked = caller.until(&id, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    caller.accept(&id, key, json!({"name": "Ann"})).await;
    assert_eq!(words(&ended(&caller, &id).await), r#"{"name": "Ann"}"#);
}

#[tokio::test]
async fn connections_are_used_again() {
    let (setup, _server) = in_front_of("plain");
    let gateway = setup.start();
    for _ in 0..3 {
        assert_eq!(words(&gateway.ended("count", json!({})).await), "done");
    }
    let ports = setup.lines("ports");
    let (requests, connections) = (ports.len(), ports.into_iter().collect::<BTreeSet<_>>().len());
    assert!(connections <= requests / 2, "{requests} requests on {connections} connections");
}

/// A request on a connection that the server closes at that time is not sent again, if it may have been read.
#[tokio::test]
async fn a_connection_that_is_closed_while_idle_makes_no_call_twice() {
    let (setup, _server) = in_front_of("closes");
    let gateway = setup.start();
    let mut completed = 0;
    for _ in 0..20 {
        let task = gateway.ended("count", json!({})).await;
        match task["status"].as_str().unwrap() {
            "completed" => completed += 1,
            _ => assert!(why(&task).contains("it was not repeated"), "{task}"),
        }
    }
    let calls = setup.calls().len();
    assert!((completed..=20).contains(&calls), "{completed} completed, {calls} calls");
}

#[tokio::test]
async fn sessions_are_kept_like_processes() {
    let (setup, server) = on_terms("plain", &json!({"process": "pool"}));
    let gateway = setup.start();
    for _ in 0..3 {
        assert_eq!(words(&gateway.ended("count", json!({})).await), "done");
    }
    assert_eq!(
        setup.lines("sessions").len(),
        3,
        "that of the lists, that of what they say about tasks, and that of the calls"
    );
    drop(server);
    until("the end of its connections", || std::net::TcpStream::connect(url_of(&setup)).is_err()).await;
    let caller = gateway.caller();
    let id = caller.call_task("count", json!({})).await;
    let says = |task: &Value| task["statusMessage"].as_str().is_some_and(|words| words.contains("cannot be reached"));
    caller.until_it(&id, "why nothing was sent", says).await;
    assert_eq!(setup.calls().len(), 3);
}

#[tokio::test]
async fn a_kept_session_that_has_expired_is_replaced() {
    let (setup, _server) = on_terms("expired", &json!({"process": "pool"}));
    assert_eq!(words(&setup.start().ended("count", json!({})).await), "done");
    assert_eq!(setup.calls(), ["count"]);
}

/// The address of the only server in the configuration.
fn url_of(setup: &Setup) -> String {
    let config: Value = serde_json::from_str(&std::fs::read_to_string(setup.path("mcp.json")).unwrap()).unwrap();
    let url = config["mcpServers"]["h"]["url"].as_str().unwrap();
    url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned()
}
