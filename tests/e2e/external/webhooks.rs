//! Webhooks that libraries of other languages verify, and one whose message is lost.

use std::process::Command;

use harness::receiver::{Receiver, Reply, verified};
use serde_json::json;

use crate::e2e::webhooks::{NEW_SECRET, SECRET, endpoint, setup};

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
