//! Events that are none, a table that is not there, messages among which one cannot be read: each fails alone.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::caller::{Caller, structured};
use crate::ground::Ground;
use crate::inside::{messages_in, state_of, until};
use crate::process::root;
use crate::programs::{api, worker};
use crate::runtime_host::front_door::Mode;
use crate::runtime_host::{Idle, NoAnswer, Sandbox};

const PATIENCE: Duration = Duration::from_secs(20);

/// A sample event.
fn event(name: &str) -> Value {
    let text = std::fs::read_to_string(root().join("infra/events").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What no front door sends.
fn no_events() -> Vec<Value> {
    let mut no_method = event("api-function-url.json");
    no_method["requestContext"]["http"] = json!({});
    let mut no_base64 = event("api-function-url.json");
    (no_base64["body"], no_base64["isBase64Encoded"]) = ("~no base64~".into(), true.into());
    let mut no_headers = event("api-function-url.json");
    no_headers["headers"] = json!(["accept"]);
    let first_version = json!({"version": "1.0", "resource": "/mcp", "path": "/mcp", "httpMethod": "POST",
        "headers": {}, "multiValueHeaders": {}, "requestContext": {"httpMethod": "POST", "path": "/mcp"}, "body": "{}"});
    let balancer = json!({"requestContext": {"elb": {"targetGroupArn": "arn:x"}}, "httpMethod": "POST", "path": "/mcp",
        "queryStringParameters": {}, "headers": {}, "body": "", "isBase64Encoded": false});
    let plain = [json!({}), json!([]), json!("x"), json!(7), json!(null), json!({"Records": []})];
    plain.into_iter().chain([no_method, no_base64, no_headers, first_version, balancer]).collect()
}

#[tokio::test]
async fn an_event_that_is_no_request_fails_alone() {
    let ground = Ground::new().await;
    for responses in ["buffered", "streamed"] {
        let mut env = ground.env(None);
        env.push(("LONGHAUL_RESPONSES".to_owned(), responses.to_owned()));
        let sandbox = Sandbox::start(api(), &env, Idle::Frozen).await;
        for event in no_events() {
            let answered = sandbox.invoke(&event, PATIENCE).await.whole().await;
            assert!(!matches!(answered, Err(NoAnswer::Died)), "{responses}: {event}");
        }
        let answered = sandbox.invoke(&event("api-function-url.json"), PATIENCE).await.whole().await.unwrap();
        let answered = String::from_utf8(answered).unwrap();
        assert!(answered.contains("countdown"), "{responses}: the same sandbox goes on: {answered}");
    }
}

/// What a function says on its way out, when it is started with this environment.
async fn last_words(program: &std::path::Path, env: &[(String, String)]) -> String {
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
async fn a_function_that_is_told_nonsense_says_all_of_it_and_does_not_start() {
    let ground = Ground::new().await;
    let nonsense = [("LONGHAUL_TABLE", ""), ("LONGHAUL_LEASE_MS", "soon"), ("LONGHAUL_DIAGNOSTICS", "perhaps")];
    let mut env = ground.env(None);
    env.extend(nonsense.map(|(name, value)| (name.to_owned(), value.to_owned())));
    for program in [api(), worker()] {
        let said = last_words(program, &env).await;
        for (name, _) in nonsense {
            assert!(said.contains(name), "{name} in {said}");
        }
        assert_eq!(said.trim().lines().count(), 1, "{said}");
    }
}

#[tokio::test]
async fn a_function_without_its_table_says_so_and_does_not_start() {
    let ground = Ground::new().await;
    let mut env = ground.env(None);
    env.push(("LONGHAUL_TABLE".to_owned(), "nothing-here".to_owned()));
    for program in [api(), worker()] {
        let said = last_words(program, &env).await;
        assert!(said.contains("nothing-here") && said.contains("LONGHAUL_TABLE"), "{said}");
        assert!(said.contains("ResourceNotFoundException"), "{said}");
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_read_stays_behind_while_the_rest_of_its_batch_is_worked_on() {
    let ground = Ground::new().await;
    let door = ground.front_door(Mode::Buffered).await;
    let caller = Caller::new(door.url());
    let send = |body: &'static str| ground.clients.sqs.send_message().queue_url(&ground.queue_url).message_body(body);
    let mut ids = Vec::new();
    for body in ["no task at all", "{}"] {
        ids.push(caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await);
        send(body).send().await.unwrap();
    }
    ids.push(caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await);
    let mut mapping = ground.mapping(None);
    mapping.batch = 10;
    mapping.env.push(("LONGHAUL_CONCURRENCY".to_owned(), "10".to_owned()));
    let messages = mapping.receive().await;
    assert_eq!(messages.len(), 5);
    let sandbox = Sandbox::start(worker(), &mapping.env, Idle::Frozen).await;
    let answered = mapping.run_batch(&sandbox, &messages).await.unwrap();
    assert_eq!(answered["batchItemFailures"].as_array().unwrap().len(), 2, "{answered}");
    for id in &ids {
        assert_eq!(structured(&caller.get(id).await["result"])["attempts"], 1);
        assert_eq!(state_of(&ground.clients, &ground.table, id).await.as_deref(), Some("completed"));
    }
    until("only those are left", async || messages_in(&ground.clients, &ground.queue_url).await == 2).await;
}
