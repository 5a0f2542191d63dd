//! Everything that a client does with a task, in raw requests.

use harness::caller::structured;
use serde_json::json;

use super::process::Setup;

const UNKNOWN: &str = "01890000-0000-7000-8000-000000000000";

#[tokio::test]
async fn a_long_tool_becomes_a_task_and_its_result_waits() {
    let setup = Setup::new();
    let server = setup.start();
    let id = server.caller().call_task("countdown", json!({"seconds": 0.5, "steps": 5})).await;
    let task = server.caller().until(&id, "completed").await;
    assert_eq!(structured(&task["result"]), json!({"seconds": 0.5, "steps": 5, "attempts": 1}));
    // Another client, later: the same answer.
    assert_eq!(server.caller().get(&id).await["result"], task["result"]);
}

#[tokio::test]
async fn a_plain_call_is_answered_at_once() {
    let setup = Setup::new();
    let server = setup.start();
    let result = server.caller().call("echo", json!({"text": "hello"})).await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(structured(&result)["text"].as_str().unwrap_or("hello"), "hello", "{result}");
}

#[tokio::test]
async fn a_cancelled_task_stops_within_a_heartbeat() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let id = caller.call_task("countdown", json!({"seconds": 600, "steps": 600})).await;
    caller.until_it(&id, "progress", |task| task.get("statusMessage").is_some()).await;
    caller.result("tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(caller.get(&id).await["status"], "cancelled");
    // A second cancel is not an error, and does not change the task.
    let before = caller.get(&id).await;
    caller.result("tasks/cancel", json!({"taskId": id})).await;
    tokio::time::sleep(std::time::Duration::from_millis(700)).await;
    let mut after = caller.get(&id).await;
    after["pollIntervalMs"] = before["pollIntervalMs"].clone();
    assert_eq!(after, before);
}

#[tokio::test]
async fn questions_are_asked_one_after_the_other_and_answered_once() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let id = caller.call_task("ask", json!({"questions": ["first?", "second?"]})).await;
    let mut seen = Vec::new();
    for answer in ["one", "two"] {
        let waiting = caller
            .until_it(&id, "a new question", |task| {
                task["inputRequests"].as_object().is_some_and(|asks| asks.keys().any(|key| !seen.contains(key)))
            })
            .await;
        let asks = waiting["inputRequests"].as_object().unwrap();
        let key = asks.keys().find(|key| !seen.contains(*key)).unwrap().clone();
        assert_eq!(asks[&key]["method"], "elicitation/create");
        caller.accept(&id, &key, json!({"answer": answer})).await;
        // The first answer counts.
        caller.accept(&id, &key, json!({"answer": "too late"})).await;
        seen.push(key);
    }
    let done = caller.until(&id, "completed").await;
    let text = done["result"].to_string();
    assert!(text.contains("one") && text.contains("two") && !text.contains("too late"), "{text}");
}

#[tokio::test]
async fn tools_that_fail_end_as_the_specification_says() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let tool_error = caller.call_task("fail", json!({"how": "tool_error", "after_s": 0})).await;
    assert_eq!(caller.until(&tool_error, "completed").await["result"]["isError"], true);
    for how in ["protocol_error", "panic", "too_large"] {
        let id = caller.call_task("fail", json!({"how": how, "after_s": 0})).await;
        let failed = caller.until(&id, "failed").await;
        assert!(failed["error"]["code"].is_i64(), "{how}: {failed}");
        assert!(failed["statusMessage"].as_str().is_some_and(|message| !message.is_empty()), "{how}: {failed}");
        assert!(failed.to_string().len() < 4096, "{how}: an error is small");
        assert!(failed.get("result").is_none(), "{how}: {failed}");
    }
}

#[tokio::test]
async fn a_large_result_comes_back_whole() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let bytes = 3_500_000;
    let id = caller.call_task("large_result", json!({"bytes": bytes})).await;
    let done = caller.until(&id, "completed").await;
    assert!(done["result"].to_string().len() >= bytes);
}

#[tokio::test]
async fn a_stream_reports_every_change_and_ends_gracefully() {
    let setup = Setup::new();
    let server = setup.start();
    let caller = server.caller();
    let id = caller.call_task("countdown", json!({"seconds": 1, "steps": 4})).await;
    let params = json!({"notifications": {"taskIds": [id, UNKNOWN]}});
    let text = caller.request("subscriptions/listen", params).send().await.unwrap().text().await.unwrap();
    let frames: Vec<serde_json::Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .filter(|data| !data.trim().is_empty())
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let subscription = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(frames[0]["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(frames[0]["params"]["notifications"]["taskIds"], json!([id]));
    let (last, changes) = frames[1..].split_last().unwrap();
    assert_eq!(last["id"], 1);
    assert_eq!(last["result"]["_meta"][subscription], 1);
    assert!(
        changes.iter().all(|frame| frame["method"] == "notifications/tasks" && frame["params"]["taskId"] == json!(id))
    );
    assert!(frames[..frames.len() - 1].iter().all(|frame| frame["params"]["_meta"][subscription] == 1), "{frames:?}");
    let last_change = &changes.last().unwrap()["params"];
    assert_eq!(last_change["status"], "completed");
    assert_eq!(last_change["result"], caller.get(&id).await["result"]);
}
