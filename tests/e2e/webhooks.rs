//! Who is configured is told by webhook how tasks end, whatever happens to the server and to the receiver.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::Setup;
use crate::receiver::{Hook, Receiver, Reply, verified};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// A server that tells `endpoints`, whose secrets are in files.
fn setup(endpoints: &[Value]) -> Setup {
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

fn endpoint(name: &str, receiver: &Receiver) -> Value {
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
async fn foreign_libraries_verify_webhooks_with_either_secret_while_one_replaces_the_other() {
    let receiver = Receiver::that_takes_all();
    let mut both = endpoint("both", &receiver);
    both["secrets"] = json!(["file:old", "file:new"]);
    let setup = setup(&[both]);
    let server = setup.start();
    server.caller().call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
    let hooks = receiver.until("a webhook", |hooks| !hooks.is_empty()).await;
    for (language, secret) in [("python", SECRET), ("python", NEW_SECRET), ("node", SECRET), ("node", NEW_SECRET)] {
        assert_eq!(verified(language, secret, &hooks), hooks.len());
    }
}

#[tokio::test]
async fn a_kill_between_the_end_and_the_telling_loses_no_webhook() {
    // The first two servers get no answer before they are killed.
    let receiver = Receiver::new(|before, _| match before {
        0 => Reply::Hang,
        1 => Reply::Drip,
        _ => Reply::Status(200, ""),
    });
    let setup = setup(&[endpoint("ops", &receiver)]);
    let server = setup.start();
    let id = server.caller().call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
    receiver.until("the first try", |hooks| !hooks.is_empty()).await;
    server.kill();
    let again = setup.start();
    receiver.until("the second try", |hooks| hooks.len() == 2).await;
    again.kill();
    let _last = setup.start();
    let hooks = receiver.until("the third try", |hooks| hooks.len() == 3).await;
    assert!(hooks.iter().all(|hook| hook.id() == format!("evt_{id}_completed")), "{hooks:?}");
    assert_eq!(verified("python", SECRET, &hooks), hooks.len());
}

#[tokio::test]
async fn each_of_a_thousand_ends_is_told_at_least_once_although_the_server_is_killed_again_and_again() {
    const ROUNDS: u64 = 5;
    const ENDS_EACH: u64 = 200;
    let receiver = Receiver::that_takes_all();
    let setup = setup(&[endpoint("ops", &receiver)]);
    let mut expected = BTreeSet::new();
    for round in 0..ROUNDS {
        let server = setup.start();
        let caller = server.caller();
        for _ in 0..ENDS_EACH {
            let id = caller.call_task("countdown", json!({"seconds": 0.01, "steps": 1})).await;
            expected.insert(format!("evt_{id}_completed"));
        }
        // Some are told, some have ended, some still run.
        tokio::time::sleep(Duration::from_millis(40 * round)).await;
        server.kill();
    }
    let _last = setup.start();
    let told = |hooks: &[Hook]| hooks.iter().map(|hook| hook.id().to_owned()).collect::<BTreeSet<_>>();
    let hooks = receiver.until("each end", |hooks| told(hooks).is_superset(&expected)).await;
    assert_eq!(expected.len() as u64, ROUNDS * ENDS_EACH);
    assert_eq!(told(&hooks), expected, "nothing else is told");
    assert_eq!(verified("node", SECRET, &hooks), hooks.len());
    assert_eq!(verified("python", SECRET, &hooks), hooks.len());
}

#[tokio::test]
async fn what_a_receiver_answers_decides_what_comes_next() {
    let refuses = Receiver::new(|before, _| Reply::Status(if before == 0 { 500 } else { 200 }, ""));
    let gone = Receiver::new(|_, _| Reply::Status(410, ""));
    let setup = setup(&[endpoint("refuses", &refuses), endpoint("gone", &gone)]);
    let server = setup.start();
    let caller = server.caller();
    caller.call_task("countdown", json!({"seconds": 0.01, "steps": 1})).await;
    refuses.until("another try", |hooks| hooks.len() == 2).await;
    server.kill();
    let server = setup.start();
    server.caller().call_task("countdown", json!({"seconds": 0.01, "steps": 1})).await;
    refuses.until("the second end", |hooks| hooks.len() == 3).await;
    assert_eq!(gone.hooks().len(), 1, "switched off, also after a restart");
}

#[tokio::test]
async fn nobody_can_call_a_notice() {
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

#[tokio::test]
async fn a_task_whose_message_is_lost_is_worked_on_although_nobody_polls() {
    let receiver = Receiver::that_takes_all();
    let setup = setup(&[endpoint("ops", &receiver)]);
    let server = setup.start();
    let id = server.caller().call_task("countdown", json!({"seconds": 1, "steps": 4})).await;
    server.kill();
    let lose =
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('DELETE FROM messages'); db.commit()";
    let lost = Command::new("python3").args(["-c", lose]).arg(setup.db()).status().unwrap();
    assert!(lost.success());
    let _again = setup.start();
    let hooks = receiver.until("the end", |hooks| !hooks.is_empty()).await;
    assert_eq!(hooks[0].id(), format!("evt_{id}_completed"));
}
