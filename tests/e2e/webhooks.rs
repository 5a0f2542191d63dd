//! Configured webhooks receive the ends of tasks, even if the server or the receiver fails in between.

use std::collections::BTreeMap;

use harness::receiver::{Hook, Receiver};
use serde_json::{Value, json};

use super::process::Setup;

pub(super) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(super) const NEW_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A server that tells `endpoints`, whose secrets are in files.
pub(super) fn setup(endpoints: &[Value]) -> Setup {
    let mut setup = Setup::new();
    let [old, new, config] = ["old", "new", "webhooks.json"].map(|name| setup.folder().join(name));
    std::fs::write(&old, SECRET).unwrap();
    std::fs::write(&new, format!("{NEW_SECRET}\n")).unwrap();
    let text = json!({ "endpoints": endpoints }).to_string();
    let text = text.replace("file:old", &format!("file:{}", old.display()));
    std::fs::write(&config, text.replace("file:new", &format!("file:{}", new.display()))).unwrap();
    setup.add(&["--webhooks", config.to_str().unwrap(), "--webhooks-to-this-machine", "--resend-ms", "1000"]);
    setup
}

pub(super) fn endpoint(name: &str, receiver: &Receiver) -> Value {
    let events = ["completed", "failed", "cancelled", "input_required"];
    json!({"name": name, "url": receiver.url(), "secrets": ["file:old"], "events": events})
}

#[tokio::test]
async fn each_end_and_each_question_is_told_once_and_signed() {
    let receiver = Receiver::that_takes_all();
    let setup = setup(&[endpoint("ops", &receiver)]);
    let server = setup.start();
    let caller = server.caller();
    let completed = caller.call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
    let asking = caller.call_task("ask", json!({"questions": ["secret?"]})).await;
    caller.until(&asking, "input_required").await;
    let cancelled = caller.call_task("countdown", json!({"seconds": 60, "steps": 2})).await;
    caller.result("tasks/cancel", json!({"taskId": cancelled})).await;
    let hooks = receiver.until("three webhooks", |hooks| hooks.len() == 3).await;
    let told: BTreeMap<String, Hook> = hooks.into_iter().map(|hook| (hook.id().to_owned(), hook)).collect();
    for (event, task, status) in [
        (format!("evt_{completed}_completed"), &completed, "completed"),
        (format!("evt_{asking}_input_required_1"), &asking, "input_required"),
        (format!("evt_{cancelled}_cancelled"), &cancelled, "cancelled"),
    ] {
        let hook = &told[&event];
        let body = hook.json();
        assert_eq!(body["type"], format!("task.{status}"));
        assert_eq!((&body["data"]["taskId"], &body["data"]["status"]), (&json!(task), &json!(status)));
        assert!(!hook.body.contains("secret"), "thin: {}", hook.body);
        assert_eq!(hook.headers["content-type"], "application/json");
    }
}

#[tokio::test]
async fn nobody_can_call_a_webhook_delivery() {
    let receiver = Receiver::that_takes_all();
    let setup = setup(&[endpoint("ops", &receiver)]);
    let server = setup.start();
    let refused = server.caller().error("tools/call", json!({"name": "longhaul/notice", "arguments": {}})).await;
    assert!(refused["message"].is_string(), "{refused}");
    assert!(receiver.hooks().is_empty());
}

#[test]
fn a_server_with_wrong_webhooks_does_not_start_and_names_each_mistake() {
    let receiver = Receiver::that_takes_all();
    let mut wrong = endpoint("a b", &receiver);
    wrong["url"] = json!("https://10.0.0.1/");
    let output = setup(&[wrong]).command().output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("/endpoints/0/name") && said.contains("/endpoints/0/url"), "{said}");
    assert!(!said.contains("whsec_"), "{said}");
}
