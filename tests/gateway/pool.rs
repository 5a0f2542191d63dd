//! Processes that are kept from one call to the next.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::process::{Gateway, Setup, ended, is_alive, until, why, words};

/// A gateway in front of the fixture that keeps its processes, with more terms.
pub(super) fn pool_of(processes: usize, terms: &Value) -> Setup {
    Setup::config(|setup| {
        let mut server = json!({"process": "pool", "concurrency": processes});
        server.as_object_mut().unwrap().extend(terms.as_object().unwrap().clone());
        json!({"mcpServers": {"only": setup.server("pool", &[])}, "longhaul": {"servers": {"only": server}}})
    })
}

/// The id of the process that had a call, and the number of the call in it.
async fn who(gateway: &Gateway, tool: &str) -> (String, usize) {
    who_of(&words(&gateway.ended(tool, json!({})).await))
}

fn who_of(words: &str) -> (String, usize) {
    let (process, number) = words.split_once(' ').unwrap();
    (process.to_owned(), number.parse().unwrap())
}

#[tokio::test]
async fn a_process_has_one_call_after_the_other() {
    let (_setup, gateway) = pool_of(1, &json!({})).running();
    let (process, first) = who(&gateway, "who").await;
    assert_eq!(first, 1);
    assert_eq!(who(&gateway, "who_read_only").await, (process.clone(), 2));
    assert_eq!(who(&gateway, "fail").await, (process.clone(), 3));
    let refused = gateway.ended("refuse", json!({})).await;
    assert_eq!(who_of(refused["error"]["message"].as_str().unwrap()), (process.clone(), 4));
    assert_eq!(who(&gateway, "who").await, (process, 5));
}

#[tokio::test]
async fn by_default_each_call_has_a_process_of_its_own() {
    let (setup, gateway) = pool_of(4, &json!({"process": "per-call"})).running();
    let (first, second) = (who(&gateway, "who").await, who(&gateway, "who").await);
    assert_ne!(first.0, second.0);
    assert_eq!((first.1, second.1), (1, 1));
    setup.until_all_have_ended().await;
}

#[tokio::test]
async fn calls_at_the_same_time_have_processes_of_their_own_up_to_their_limit() {
    let (_setup, _gateway, caller) = pool_of(2, &json!({})).begun();
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(caller.call_task("slow", json!({})).await);
    }
    let mut had = BTreeMap::<String, BTreeSet<usize>>::new();
    for id in &ids {
        let (process, number) = who_of(&words(&ended(&caller, id).await));
        assert!(had.entry(process).or_default().insert(number), "{had:?}");
    }
    assert_eq!(had.len(), 2, "{had:?}");
    // How many calls each of them gets depends on how soon it is there.
    assert!(had.values().all(|numbers| numbers.iter().copied().eq(1..=numbers.len())), "{had:?}");
}

#[tokio::test]
async fn a_process_is_not_used_again_after_anything_but_an_answer() {
    let (setup, gateway) = pool_of(1, &json!({"tools": {"never": {"runAtMost": "1s"}}})).running();
    for tool in ["leave_question", "noise", "twice"] {
        let (process, _) = who(&gateway, tool).await;
        assert_ne!(who(&gateway, "who").await.0, process, "after {tool}");
    }
    let caller = gateway.caller();
    let (before, _) = who(&gateway, "who").await;
    let calls = setup.calls().len();
    let id = caller.call_task("never", json!({})).await;
    setup.until_called(calls + 1).await;
    caller.result("tasks/cancel", json!({"taskId": id})).await;
    let (after_cancel, number) = who(&gateway, "who").await;
    assert!(after_cancel != before && number == 1, "after a cancel");
    assert!(why(&gateway.ended("never", json!({})).await).contains("did not end within"));
    let (after_timeout, number) = who(&gateway, "who").await;
    assert!(after_timeout != after_cancel && number == 1, "after its time was over");
    assert!(why(&gateway.ended("die", json!({})).await).contains("it was not repeated"));
    assert_eq!(who(&gateway, "who").await.1, 1, "after its death");
    assert_eq!(setup.calls().iter().filter(|call| *call == "die").count(), 1);
}

#[tokio::test]
async fn what_a_process_does_after_its_answer_ends_its_use() {
    let (_setup, gateway) = pool_of(1, &json!({})).running();
    for tool in ["die_later", "hush_later", "ask_later", "late_progress"] {
        let (process, _) = who(&gateway, tool).await;
        // The call may not be repeated, and does not have to be: the process is gone before it is sent.
        until("its end", || !is_alive(&process)).await;
        let (next, number) = who(&gateway, "who").await;
        assert!(next != process && number == 1, "after {tool}");
    }
}

#[tokio::test]
async fn progress_of_an_earlier_call_reaches_no_later_one() {
    let (_setup, gateway, caller) = pool_of(1, &json!({})).begun();
    let (process, _) = who(&gateway, "late_progress").await;
    let id = caller.call_task("slow", json!({})).await;
    let slow = caller.until_it(&id, "the end", |task| {
        assert!(!task.to_string().contains("of an earlier call"), "{task}");
        task["status"] == "completed"
    });
    assert_eq!(who_of(&words(&slow.await)), (process.clone(), 2));
    assert_ne!(who(&gateway, "who").await.0, process, "it is still busy with something else");
}

#[tokio::test]
async fn a_process_has_so_many_calls_at_most() {
    let (_setup, gateway) = pool_of(1, &json!({"callsAtMost": 2})).running();
    let mut numbers = Vec::new();
    for _ in 0..5 {
        numbers.push(who(&gateway, "who").await.1);
    }
    assert_eq!(numbers, [1, 2, 1, 2, 1]);
}

#[tokio::test]
async fn an_idle_process_ends_after_a_time() {
    let (setup, gateway) = pool_of(2, &json!({"idleAtMost": "1s"})).running();
    who(&gateway, "who").await;
    setup.until_all_have_ended().await;
    assert_eq!(who(&gateway, "who").await.1, 1);
}

#[tokio::test]
async fn callers_that_can_be_asked_and_others_share_no_process() {
    let (_setup, gateway) = pool_of(2, &json!({})).running();
    let (process, _) = who(&gateway, "who").await;
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let other = gateway.caller().declaring(tasks);
    let id = other.call_task("who", json!({})).await;
    assert_ne!(who_of(&words(&ended(&other, &id).await)).0, process);
    assert_eq!(who(&gateway, "who").await, (process, 2));
}

#[tokio::test]
async fn prompts_use_the_processes_of_calls() {
    let (_setup, gateway) = pool_of(1, &json!({})).running();
    let (process, _) = who(&gateway, "who").await;
    let prompt = gateway.caller().result("prompts/get", json!({"name": "who"})).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], json!(process));
    assert_eq!(who(&gateway, "who").await, (process, 2));
}

#[tokio::test]
async fn idle_processes_end_with_the_gateway() {
    for stop in [Gateway::terminate, Gateway::kill] {
        let (setup, gateway) = pool_of(2, &json!({})).running();
        who(&gateway, "who").await;
        stop(gateway);
        setup.until_all_have_ended().await;
    }
}

#[tokio::test]
async fn a_tool_can_be_served_without_being_a_task() {
    let setup =
        pool_of(1, &json!({"task": "never", "tools": {"never": {"runAtMost": "1s"}, "slow": {"task": "always"}}}));
    let (gateway, caller) = setup.started();
    let first = caller.call("who", json!({})).await;
    assert_eq!(first["resultType"], "complete", "{first}");
    let (process, number) = who_of(first["content"][0]["text"].as_str().unwrap());
    let second = caller.call("who", json!({})).await;
    assert_eq!(who_of(second["content"][0]["text"].as_str().unwrap()), (process, number + 1));
    assert_eq!(caller.error("tools/call", json!({"name": "refuse", "arguments": {}})).await["code"], -32050);
    let died = caller.error("tools/call", json!({"name": "die", "arguments": {}})).await;
    assert!(died["message"].as_str().unwrap().contains("it was not repeated"), "{died}");
    let late = caller.error("tools/call", json!({"name": "never", "arguments": {}})).await;
    assert!(late["message"].as_str().unwrap().contains("did not end within 1 s"), "{late}");
    assert!(words(&gateway.ended("slow", json!({})).await).ends_with(" 1"), "others are tasks");
}
