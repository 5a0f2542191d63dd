//! Invalid events, a missing table, a batch with a message that cannot be read: each fails alone.

use std::process::Stdio;
use std::time::Duration;

use harness::root;
use harness::runtime_host::{Idle, NoAnswer, Sandbox};
use serde_json::{Value, json};

use super::ground::Resources;
use super::programs::{api, worker};

const PATIENCE: Duration = Duration::from_secs(20);

/// A sample event.
fn event(name: &str) -> Value {
    let text = std::fs::read_to_string(root().join("infra/events").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Events that no endpoint sends.
fn invalid_events() -> Vec<Value> {
    let mut no_method = event("api-function-url.json");
    no_method["requestContext"]["http"] = json!({});
    let mut no_base64 = event("api-function-url.json");
    (no_base64["body"], no_base64["isBase64Encoded"]) = ("~not base64~".into(), true.into());
    let mut no_headers = event("api-function-url.json");
    no_headers["headers"] = json!(["accept"]);
    let first_version = json!({"version": "1.0", "resource": "/mcp", "path": "/mcp", "httpMethod": "POST",
        "headers": {}, "multiValueHeaders": {}, "requestContext": {"httpMethod": "POST", "path": "/mcp"}, "body":
            "{}"});
    let balancer = json!({"requestContext": {"elb": {"targetGroupArn": "arn:x"}}, "httpMethod": "POST", "path": "/mcp",
        "queryStringParameters": {}, "headers": {}, "body": "", "isBase64Encoded": false});
    let plain = [json!({}), json!([]), json!("x"), json!(7), json!(null), json!({"Records": []})];
    plain.into_iter().chain([no_method, no_base64, no_headers, first_version, balancer]).collect()
}

#[tokio::test]
async fn an_event_that_is_not_a_request_fails_alone() {
    let resources = Resources::new().await;
    for responses in ["buffered", "streamed"] {
        let mut env = resources.env(None);
        env.push(("LONGHAUL_RESPONSES".to_owned(), responses.to_owned()));
        let sandbox = Sandbox::start(api(), &env, Idle::Frozen).await;
        for event in invalid_events() {
            let answered = sandbox.invoke(&event, PATIENCE).await.whole().await;
            assert!(!matches!(answered, Err(NoAnswer::Died)), "{responses}: {event}");
        }
        let answered = sandbox.invoke(&event("api-function-url.json"), PATIENCE).await.whole().await.unwrap();
        let answered = String::from_utf8(answered).unwrap();
        assert!(answered.contains("countdown"), "{responses}: the same sandbox continues: {answered}");
    }
}

/// The standard error of a function that cannot start with this environment.
async fn startup_error(program: &std::path::Path, env: &[(String, String)]) -> String {
    let ended = tokio::process::Command::new(program)
        .env_clear()
        .envs(env.iter().map(|(name, value)| (name, value)))
        .env("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9")
        .stdin(Stdio::null())
        .output();
    let ended = tokio::time::timeout(PATIENCE, ended).await.expect("it ends by itself").unwrap();
    assert!(!ended.status.success(), "{}", program.display());
    String::from_utf8(ended.stderr).unwrap()
}

#[tokio::test]
async fn a_function_with_wrong_settings_names_all_of_them_and_does_not_start() {
    let resources = Resources::new().await;
    let wrong = [("LONGHAUL_TABLE", ""), ("LONGHAUL_LEASE_MS", "soon"), ("LONGHAUL_DIAGNOSTICS", "perhaps")];
    let mut env = resources.env(None);
    env.extend(wrong.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for program in [api(), worker()] {
        let error = startup_error(program, &env).await;
        for (name, _) in wrong {
            assert!(error.contains(name), "{name} in {error}");
        }
        assert_eq!(error.trim().lines().count(), 1, "{error}");
    }
}

#[tokio::test]
async fn a_function_without_its_table_reports_that_and_does_not_start() {
    let resources = Resources::new().await;
    let mut env = resources.env(None);
    env.push(("LONGHAUL_TABLE".to_owned(), "nothing-here".to_owned()));
    for program in [api(), worker()] {
        let error = startup_error(program, &env).await;
        assert!(error.contains("nothing-here") && error.contains("LONGHAUL_TABLE"), "{error}");
        assert!(error.contains("ResourceNotFoundException"), "{error}");
    }
}
