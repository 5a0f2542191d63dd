//! Variables are written when they change, and read back in later attempts.

use longhaul_core::{FailureKind, PartsName, Payload, State};
use longhaul_engine::VariableLimit;
use longhaul_testkit::given;
use serde_json::json;

use super::world::{World, answers, completed, tool};

#[tokio::test]
async fn a_variable_is_written_only_when_it_changes_and_null_removes_it() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        for (name, value) in [("n", json!(1)), ("n", json!(1)), ("m", json!("x")), ("n", json!(null))] {
            attempt.set_variable(name, value).await.unwrap();
        }
        assert_eq!(attempt.variable("n").await, None);
        assert_eq!(attempt.variable("m").await, Some(json!("x")));
        completed("1")
    });
    world.work(&tool).await;
    let written = world.took().into_iter().filter(|call| call == "set variables").count();
    assert_eq!((written, tool.runs()), (3, 1));
    assert_eq!(world.on_record(&key).await.variables, Some(given::inline(r#"{"m":"x"}"#)));
}

#[tokio::test]
async fn a_later_attempt_reads_what_an_earlier_one_set() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let seen = attempt.variable("n").await;
        if seen.is_none() {
            attempt.set_variable("n", json!([1, 2])).await.unwrap();
        }
        attempt.ask("go", "{}".to_owned()).await;
        completed(&seen.unwrap().to_string())
    });
    world.work(&tool).await;
    world.engine.answer(&key, &answers("go", "1")).await.unwrap();
    world.work(&tool).await;
    let ended = world.on_record(&key).await;
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("[1,2]")));
}

#[tokio::test]
async fn large_variables_are_written_in_parts_with_a_name_for_each_change() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        for letter in ["a", "b"] {
            attempt.set_variable("v", json!(letter.repeat(4_000))).await.unwrap();
        }
        completed("1")
    });
    world.work(&tool).await;
    let variables = world.on_record(&key).await.variables.clone().unwrap();
    let name = PartsName::Variables { attempt: 1, version: 2 };
    assert_eq!(variables, Payload::Parts { name, count: 1, bytes: 4_008 });
    let text = world.engine.load(&key, &variables).await.unwrap();
    assert_eq!(text, json!({"v": "b".repeat(4_000)}).to_string());
}

#[tokio::test]
async fn a_variable_over_a_limit_is_refused_and_changes_nothing() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        attempt.set_variable("n", json!(1)).await.unwrap();
        let refused = attempt.set_variable("", json!(2)).await;
        assert!(matches!(refused, Err(VariableLimit::InvalidName { .. })));
        completed("1")
    });
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.variables, Some(given::inline(r#"{"n":1}"#)));
}

#[tokio::test]
async fn variables_that_cannot_be_read_end_the_task_and_say_why() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    world.killed_in_the_tool(&delivery).await;
    let event = longhaul_core::TaskEvent::SetVariables { attempt: 1, variables: given::inline("no JSON") };
    longhaul_core::ports::TaskStore::apply(&*world.store, &key, &event, world.now()).await.unwrap();
    world.clock.advance_ms(world.engine.settings().lease_ms);
    world
        .work(&tool(|attempt| async move {
            drop(attempt.variable("n").await);
            completed("1")
        }))
        .await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!() };
    assert_eq!(failure.kind, FailureKind::Corrupt);
    assert!(failure.message.starts_with("the variables cannot be read: "), "{}", failure.message);
}
