//! A code change while tasks are under way: versions, and journals that are replayed against the new code.

use longhaul::rmcp::ErrorData;
use longhaul::testing::{self, TestError, always, times};
use longhaul::{Retry, TaskContext};
use serde_json::{Value, json};

async fn pay(task: TaskContext, versions: Option<(u32, u32)>) -> Result<String, ErrorData> {
    let number = task.step("number", async || 17).await;
    let version = match versions {
        Some((first, latest)) => task.version("payment", first..=latest).await,
        None => 1,
    };
    let way = if version == 1 { "pay by invoice" } else { "pay by card" };
    task.step(way, async || ()).await;
    let sent = task.step("send", async || ()).await;
    Ok(format!("{number} {way} {sent:?}"))
}

fn replayed(entries: &[Value]) -> String {
    json!({"tool": "tool", "arguments": {"bytes": 2, "value": {}}, "journal": entries}).to_string()
}

fn step(name: &str, value: Value) -> Value {
    json!({"kind": "step", "name": name, "value": value, "bytes": 1, "attempt": 1})
}

/// The tool of a function, as a server.
fn server(versions: Option<(u32, u32)>) -> testing::TestServer {
    testing::function(move |task| pay(task, versions))
}

#[tokio::test]
async fn a_new_task_runs_the_latest_version_and_keeps_it_after_every_crash() {
    let call = |versions| testing::tool(move |task| pay(task, versions));
    call(Some((1, 2))).to_end().await.unwrap().assert_steps(&["number", "payment", "pay by card", "send"]);
    call(Some((1, 2))).crash_everywhere().await.unwrap();
    let run = call(Some((3, 2))).expect_failure().to_end().await.unwrap();
    run.assert_error("the versions 3 to 2 of `payment` are none");
}

#[tokio::test]
async fn a_task_of_the_old_code_is_replayed_and_the_first_divergence_is_named() {
    let old = replayed(&[step("number", json!(17)), step("pay by invoice", json!(null))]);
    server(None).replay(&old).await.unwrap();
    server(Some((1, 2))).replay(&old).await.unwrap();
    let diverges = server(Some((2, 2))).replay(&old).await.unwrap_err();
    let TestError::Diverges { difference } = &diverges else { panic!("{diverges}") };
    assert_eq!(
        difference,
        "the tool came to step `pay by card`, which is not recorded, before the recorded step `pay by invoice`"
    );
    let unreadable = replayed(&[step("number", json!("seventeen")), step("send", json!(null))]);
    let diverges = server(None).replay(&unreadable).await.unwrap_err().to_string();
    assert!(diverges.contains("the recorded value of step `number` is not what the tool expects"), "{diverges}");
}

/// Of a task that chose the first version, when the tool no longer has it.
#[tokio::test]
async fn a_version_that_the_tool_no_longer_has_is_named_with_those_that_it_has() {
    let first = replayed(&[step("number", json!(17)), step("payment", json!(1)), step("pay by invoice", json!(null))]);
    server(Some((1, 3))).replay(&first).await.unwrap();
    let diverges = server(Some((2, 3))).replay(&first).await.unwrap_err().to_string();
    assert!(
        diverges.contains("the task runs version 1 of `payment`, and the tool has the versions 2 to 3"),
        "{diverges}"
    );
}

#[tokio::test]
async fn what_is_no_journal_or_is_cut_is_refused() {
    for (journal, why) in [
        ("{}".to_owned(), "longhaul show ID --journal --json"),
        (replayed(&[json!({"kind": "step", "name": "number", "bytes": 70_000, "cut": true})]), "step `number` was cut"),
    ] {
        let refused = server(None).replay(&journal).await.unwrap_err();
        assert!(matches!(&refused, TestError::NotAJournal(said) if said.contains(why)), "{refused}");
    }
}

async fn charge(task: TaskContext) -> Result<String, ErrorData> {
    match task.try_step("pay", async || Ok::<_, ErrorData>(17)).retry(Retry::default().tries(3)).await {
        Ok(payment) => Ok(format!("payment {payment}")),
        Err(error) => Ok(task.step("fallback", async || error.message.to_string()).await),
    }
}

#[tokio::test]
async fn steps_fail_as_often_as_a_test_says_and_their_work_is_not_done() {
    let away = ErrorData::internal_error("the bank is away", None);
    for (often, expected, done) in [
        (times(1), "payment 17", 1),
        (times(2), "payment 17", 1),
        (times(3), "the bank is away", 0),
        (always(), "the bank is away", 0),
    ] {
        let call = || testing::tool(charge).fail_step("pay", often, &away);
        let run = call().to_end().await.unwrap();
        run.assert_text(expected);
        assert_eq!((run.times("pay"), run.attempts()), (done, 1), "{}", run.report());
        call().crash_everywhere().await.unwrap();
    }
    let unreached = testing::tool(charge).fail_step("ship", times(1), &away).to_end().await.unwrap_err();
    assert!(unreached.to_string().contains("a failure of step `ship`"), "{unreached}");
}
