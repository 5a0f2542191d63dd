//! Labels of a tool come with the writes that an attempt makes anyway.

use std::convert::Infallible;

use longhaul_core::{LabelLimit, limits};
use longhaul_engine::{AttemptEnd, WorkerSignals};
use longhaul_testkit::given;

use super::world::{World, completed, tool};

#[tokio::test]
async fn the_end_brings_the_labels_without_a_write_of_their_own() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let labels = tool(|attempt| async move {
        attempt.set_label("stage", "one").unwrap();
        attempt.set_label("customer", "acme").unwrap();
        attempt.set_label("stage", "two").unwrap();
        completed("{}")
    });
    world.took();
    world.engine.run_delivery(&delivery, &labels, &WorkerSignals::default()).await;
    assert_eq!(world.took().iter().filter(|call| *call != "get").collect::<Vec<_>>(), ["claim", "finish"]);
    assert_eq!(world.on_record(&key).await.labels, given::labels(&[("stage", "two"), ("customer", "acme")]));
}

#[tokio::test]
async fn a_suspension_brings_the_labels_and_a_replay_that_sets_them_again_writes_nothing() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let sleeps = tool(|attempt| async move {
        attempt.set_label("stage", "one").unwrap();
        let text = attempt.step("a", || async { Ok::<_, Infallible>("1".to_owned()) }).await.unwrap();
        attempt.set_label("n", &text).unwrap();
        attempt.sleep_ms(60_000).await;
        std::future::pending().await
    });
    world.engine.run_delivery(&delivery, &sleeps, &WorkerSignals::default()).await;
    let suspended = world.on_record(&key).await;
    assert_eq!(suspended.labels, given::labels(&[("stage", "one"), ("n", "1")]));
    world.clock.advance_ms(60_000);
    let delivery = world.receive().await.unwrap();
    world.took();
    let mut attempt = world.begun(&delivery, &sleeps);
    world.clock.advance_ms(10_000);
    assert!(futures::FutureExt::now_or_never(attempt.as_mut()).is_none());
    assert_eq!(world.on_record(&key).await.labels, suspended.labels);
    assert_eq!(world.took().iter().filter(|call| *call == "heartbeat").count(), 1, "only the one that is due");
}

#[tokio::test]
async fn a_tool_that_panics_leaves_its_labels() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let panics = tool(|attempt| async move {
        attempt.set_label("stage", "one").unwrap();
        AttemptEnd::Crashed { reason: "no".to_owned() }
    });
    world.engine.run_delivery(&delivery, &panics, &WorkerSignals::default()).await;
    let retried = world.on_record(&key).await;
    assert_eq!((retried.failures, &retried.labels), (1, &given::labels(&[("stage", "one")])));
}

#[tokio::test]
async fn a_label_that_was_stored_counts_for_the_limit_of_the_next_attempt() {
    let (world, key, delivery) = World::with_key_and_delivery().await;
    let fills = tool(|attempt| async move {
        for number in 0..limits::LABELS_MAX {
            attempt.set_label(&number.to_string(), "x").unwrap();
        }
        assert_eq!(attempt.set_label("more", "x"), Err(LabelLimit::TooMany("more".to_owned())));
        attempt.set_label("0", "").unwrap();
        attempt.set_label("more", "x").unwrap();
        completed("{}")
    });
    world.engine.run_delivery(&delivery, &fills, &WorkerSignals::default()).await;
    let labels = world.on_record(&key).await.labels.clone();
    assert_eq!(labels.iter().count(), limits::LABELS_MAX);
    assert!(labels.include(&given::labels(&[("more", "x"), ("7", "x")])));
}
