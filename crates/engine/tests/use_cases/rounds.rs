//! Questions that a tool asks by returning them.

use longhaul_core::{EntryKind, State, Status};
use longhaul_engine::{AttemptEnd, Round};
use longhaul_testkit::given;

use super::world::{World, answers, completed, tool};

#[tokio::test]
async fn a_key_that_an_earlier_round_used_is_asked_under_another_name() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        let (carry, got) = attempt.last_round().await.unwrap_or_default();
        if carry.len() == 2 {
            return completed(&got["color"]);
        }
        attempt.ask_round(Round { asks: vec![given::ask("color")], carry: format!("{carry}x") }).await
    });
    for (client_key, answer) in [("color", "\"red\""), ("color~2", "\"blue\"")] {
        world.work(&tool).await;
        let State::InputRequired { asks, until } = world.on_record(&key).await.state.clone() else { panic!() };
        assert_eq!((asks, until), (vec![given::ask(client_key)], None));
        world.engine.answer(&key, &answers(client_key, answer)).await.unwrap();
    }
    world.work(&tool).await;
    let ended = world.on_record(&key).await;
    assert!(matches!(&ended.state, State::Completed { result, .. } if *result == given::inline("\"blue\"")));
}

#[tokio::test]
async fn a_round_without_questions_is_called_again_after_a_moment() {
    let (world, key) = World::with_key().await;
    let tool = tool(|attempt| async move {
        match attempt.last_round().await {
            None => attempt.ask_round(Round { asks: Vec::new(), carry: "again".to_owned() }).await,
            Some((carry, answers)) => {
                assert_eq!((carry.as_str(), answers.len()), ("again", 0));
                completed("1")
            }
        }
    });
    world.work(&tool).await;
    let until = world.now().plus_ms(world.engine.settings().retry_ms);
    assert_eq!(world.on_record(&key).await.state, State::Sleeping { until });
    world.clock.advance_to(until);
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_round_that_cannot_be_read_ends_the_task_and_says_why() {
    let (world, key) = World::with_key().await;
    let entry = longhaul_core::Entry {
        kind: EntryKind::Round,
        name: "0".to_owned(),
        value: given::inline("no JSON"),
        recording: None,
    };
    longhaul_core::ports::TaskStore::record(&*world.store, &key, &entry).await.unwrap();
    world.work(&tool(|_attempt| async { AttemptEnd::Crashed { reason: "it panicked".to_owned() } })).await;
    world.clock.advance_ms(1_000);
    world
        .work(&tool(|attempt| async move {
            drop(attempt.last_round().await);
            completed("1")
        }))
        .await;
    let State::Failed { failure } = world.on_record(&key).await.state.clone() else { panic!() };
    assert_eq!(failure.kind, longhaul_core::FailureKind::Corrupt);
    assert!(failure.message.starts_with("round 0 cannot be read: "), "{}", failure.message);
}
