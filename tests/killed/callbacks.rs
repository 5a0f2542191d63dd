//! A task that waits for a callback, while its server is killed before, while and after the value is sent. No confirmed
//! value is lost, the first one counts, and the tool continues.

use harness::approval::{ENDED, LATE, post, token_of};
use harness::caller::structured;
use serde_json::json;

use super::process::Setup;

#[tokio::test]
async fn a_callback_survives_kills_before_it_is_sent_and_right_after_it_was_confirmed() {
    let (setup, server) = Setup::started();
    let id = setup.caller().call_task("approval", json!({})).await;
    let url = setup.callback(&token_of(&setup.caller(), &id).await);
    server.kill();
    let server = setup.start();
    assert_eq!(post(&url, &json!("yes")).await, Some(202));
    server.kill();
    let _again = setup.start();
    assert!(matches!(post(&url, &json!("no")).await, Some(LATE | ENDED)));
    let result = structured(&setup.caller().until(&id, "completed").await["result"]);
    assert_eq!(result, json!({"decision": "yes", "noted": 1}), "the tool went on");
    assert_eq!(post(&url, &json!("no")).await, Some(ENDED));
}
