//! What everyone may read about a server's state.

use harness::process::Server;
use rusqlite::Connection;
use serde_json::{Value, json};

use super::process::Setup;

async fn readiness(server: &Server) -> (u16, String) {
    let answer = reqwest::get(format!("{}/readyz", server.base())).await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test]
async fn a_damaged_record_is_counted_and_its_task_is_not_named() {
    let (setup, server) = Setup::started();
    let id = server.caller().call_task("countdown", json!({"seconds": 0.1, "steps": 1})).await;
    server.caller().until(&id, "completed").await;
    let counts = |unreadable: usize| json!({"status": "ready", "degradedParts": 0, "unreadableTasks": unreadable});
    let (status, body) = readiness(&server).await;
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()), (200, counts(0)));
    assert!(server.terminate().success());
    let damaged = Connection::open(setup.db()).unwrap().execute("UPDATE tasks SET record = '{'", []).unwrap();
    assert_eq!(damaged, 1);

    let server = setup.start();
    server.caller().until(&id, "failed").await;
    let (status, body) = readiness(&server).await;
    assert_eq!((status, serde_json::from_str::<Value>(&body).unwrap()), (200, counts(1)));
    assert!(!body.contains(&id), "{body}");
}
