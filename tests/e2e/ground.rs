//! The database file under a server: it is lost, copied, restored, and on a full disk.

use std::fs::{copy, rename};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::process::Server;
use serde_json::json;

use super::process::Setup;

/// How long a test waits for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `/readyz` answers with this status, and returns what it says.
async fn until_ready_is(server: &Server, status: u16) -> String {
    let begun = Instant::now();
    loop {
        let answer = reqwest::get(format!("{}/readyz", server.base())).await.unwrap();
        if answer.status().as_u16() == status {
            return answer.text().await.unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "it is still {}", answer.status());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_server_whose_database_is_moved_away_refuses_calls_and_says_so_until_it_is_back() {
    let (setup, server) = Setup::started();
    let caller = server.caller();
    let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    caller.until(&id, "completed").await;
    let away = setup.folder().join("away.db");
    rename(setup.db(), &away).unwrap();
    let said = until_ready_is(&server, 503).await;
    assert!(said.contains("removed, moved or replaced"), "{said}");
    let error = caller.error("tools/call", json!({"name": "countdown", "arguments": {"seconds": 0.2}})).await;
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("lost its database") && !message.contains("try again"), "{error}");
    assert!(server.log().contains("start it again"), "{}", server.log());
    rename(&away, setup.db()).unwrap();
    until_ready_is(&server, 200).await;
    let id = caller.call_task("countdown", json!({"seconds": 0.2, "steps": 2})).await;
    caller.until(&id, "completed").await;
    assert!(server.terminate().success());
    setup.start().caller().until(&id, "completed").await;
}

#[tokio::test]
async fn a_backup_of_a_running_server_is_served_and_its_tasks_end() {
    let (setup, server) = Setup::started();
    let id = server.caller().call_task("countdown", json!({"seconds": 3, "steps": 20})).await;
    server.caller().until_it(&id, "progress", |task| task.get("statusMessage").is_some()).await;
    let restored = Setup::new();
    let backup = || {
        let mut backup = Command::new(harness::program("longhaul"));
        backup.arg("backup").arg(restored.db()).arg("--db").arg(setup.db()).output().unwrap()
    };
    let made = backup();
    assert!(made.status.success(), "{made:?}");
    assert!(String::from_utf8_lossy(&made.stdout).contains("holds 1 task"), "{made:?}");
    let again = backup();
    assert!(again.status.code() == Some(2) && String::from_utf8_lossy(&again.stderr).contains("exists"), "{again:?}");
    server.kill();
    restored.start().caller().until(&id, "completed").await;
}

#[tokio::test]
async fn a_copy_of_the_file_of_a_running_server_is_refused() {
    let (setup, server) = Setup::started();
    server.caller().call_task("countdown", json!({"seconds": 0.2})).await;
    let copied = Setup::new();
    copy(setup.db(), copied.db()).unwrap();
    let out = copied.command().output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && error.contains("longhaul backup"), "{error}");
}

/// The largest file that the server may write is smaller than the file next to the log. SQLite makes that file as large
/// at once, so this gives the same error as a full disk.
#[test]
fn a_start_on_a_full_disk_says_that_it_is_full() {
    let setup = Setup::new();
    setup.start().terminate();
    let server = setup.command();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ && ulimit -f 16 && exec \"$0\" \"$@\""]).arg(server.get_program());
    let out = shell.args(server.get_args()).stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(!out.status.success() && error.contains("disk is full"), "{error}");
}
