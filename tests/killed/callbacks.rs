//! A task that waits for a callback, while its server is killed before, while and after the value is sent: no value
//! that was confirmed is lost, the first one counts, and the tool goes on.

use std::time::Duration;

use harness::approval::{ENDED, LATE, counted, post, send_first, token_of};
use harness::caller::{Caller, structured};
use serde_json::{Value, json};

use super::process::Setup;

async fn decision_of(caller: &Caller, id: &str) -> Value {
    let result = structured(&caller.until(id, "completed").await["result"]);
    assert_eq!(result["noted"], 1, "the tool went on");
    result["decision"].clone()
}

#[tokio::test]
async fn a_callback_is_taken_by_the_server_that_was_started_again() {
    let setup = Setup::new();
    let server = setup.start();
    let id = setup.caller().call_task("approval", json!({})).await;
    let url = setup.callback(&token_of(&setup.caller(), &id).await);
    server.kill();
    let _again = setup.start();
    assert_eq!(post(&url, &json!("yes")).await, Some(202));
    assert!(matches!(post(&url, &json!("no")).await, Some(LATE | ENDED)));
    assert_eq!(decision_of(&setup.caller(), &id).await, "yes");
    assert_eq!(post(&url, &json!("no")).await, Some(ENDED));
}

#[tokio::test]
async fn a_callback_that_was_confirmed_survives_a_kill_right_after() {
    let setup = Setup::new();
    for round in 0..4 {
        let server = setup.start();
        let id = setup.caller().call_task("approval", json!({})).await;
        let url = setup.callback(&token_of(&setup.caller(), &id).await);
        assert_eq!(post(&url, &json!({"round": round})).await, Some(202));
        server.kill();
        let _again = setup.start();
        assert!(matches!(post(&url, &json!("late")).await, Some(LATE | ENDED)));
        assert_eq!(decision_of(&setup.caller(), &id).await, json!({"round": round}));
    }
}

/// The answer to the first value may be lost with the server. Whoever sends another one then learns which of the two
/// counts.
#[tokio::test]
async fn of_callbacks_that_are_sent_while_the_server_is_killed_one_counts_and_its_sender_knows() {
    let setup = Setup::new();
    for round in 0..8_u64 {
        let server = setup.start();
        let mut waiting = Vec::new();
        for _ in 0..4 {
            let id = setup.caller().call_task("approval", json!({})).await;
            let url = setup.callback(&token_of(&setup.caller(), &id).await);
            waiting.push((id, url));
        }
        let sending: Vec<_> = waiting.iter().map(|(_, url)| send_first(url)).collect();
        tokio::time::sleep(Duration::from_millis(round)).await;
        server.kill();
        let _again = setup.start();
        for (sent, (id, url)) in sending.into_iter().zip(waiting) {
            let first = sent.await.unwrap();
            let second = post(&url, &json!("second")).await;
            assert_eq!(decision_of(&setup.caller(), &id).await, counted(first, second), "round {round}");
        }
    }
}
