//! An accepted call is never lost; a retry of the same call is the same task; the least that a task costs.

use longhaul_core::{Status, TaskKey};
use longhaul_engine::{AcceptError, Call, PollError, Settings};
use longhaul_testkit::{Fault, StoreCall, given};

use super::world::{World, ann, call, call_with_key, is_new, quick};

#[tokio::test]
async fn a_task_without_progress_costs_three_writes_and_one_message_and_one_read_per_poll() {
    let (world, task) = World::with_task().await;
    world.work(&quick()).await;
    assert_eq!(world.took(), ["create", "send", "claim", "finish"]);
    let polled = world.engine.poll(&task.key()).await.unwrap();
    assert_eq!(polled.status(), Status::Completed);
    assert_eq!(world.took(), ["get"]);
}

#[tokio::test]
async fn an_accepted_call_is_never_lost_when_its_message_was_not_sent() {
    let world = World::new();
    world.sends_fail(1);
    let task = world.accepted().await;
    assert!(world.receive().await.is_none());

    world.clock.advance_ms(world.engine.settings().resend_ms);
    world.engine.poll(&task.key()).await.unwrap();
    let tool = quick();
    world.work(&tool).await;
    assert_eq!(tool.runs(), 1);
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Completed);
}

#[tokio::test]
async fn a_retry_of_the_call_sends_a_lost_message_again() {
    let world = World::new();
    world.sends_fail(1);
    let task = world.accept(call_with_key("k", 1)).await;
    world.clock.advance_ms(world.engine.settings().resend_ms);
    let again = world.accept(call_with_key("k", 1)).await;
    assert_eq!(again.key(), task.key());
    assert!(world.receive().await.is_some());
}

#[tokio::test]
async fn a_message_that_stays_in_the_queue_is_sent_again_less_and_less_often() {
    let (world, task) = World::with_task().await;
    world.took();
    let mut at_s = Vec::new();
    for second in 1..=1_700 {
        world.clock.advance_ms(1_000);
        for _ in 0..2 {
            world.engine.poll(&task.key()).await.unwrap();
        }
        at_s.extend(world.took().iter().filter(|call| *call == "send").map(|_send| second));
    }
    // 30 s, 60 s, 120 s, ... later than the time before.
    assert_eq!(at_s, [30, 90, 210, 450, 930]);
    assert_eq!(world.on_record(&task.key()).await.resends, 5);
    // A worker takes it, and after that the bound is short again.
    world.work(&quick()).await;
    assert_eq!(world.on_record(&task.key()).await.resends, 0);
}

#[tokio::test]
async fn a_large_call_that_is_refused_writes_nothing() {
    let world = World::with(Settings { open_tasks_max: 1, ..Settings::default() });
    let large = |key, request| Call { request: "x".repeat(1_000_000), ..call_with_key(key, request) };
    let first = world.accept(large("k", 1)).await;
    assert_eq!(world.took(), ["create", "send"], "the parts are written with the record");
    for (call, refusal) in [(large("k", 2), "another request"), (large("l", 1), "unfinished tasks")] {
        let refused = world.engine.accept(call).await.unwrap_err().to_string();
        assert!(refused.contains(refusal), "{refused}");
        assert_eq!(world.took(), ["create"]);
    }
    assert_eq!(world.accept(large("k", 1)).await.key(), first.key());
}

#[tokio::test]
async fn a_call_above_the_limit_of_new_tasks_is_told_when_to_call_again_and_its_retry_finds_its_task() {
    let world = World::with(Settings { new_tasks_max: Some(1), ..Settings::default() });
    let first = world.accept(call_with_key("k", 1)).await;
    world.clock.advance_ms(18_500);
    let refused = world.engine.accept(call_with_key("l", 1)).await.unwrap_err();
    assert!(refused.to_string().contains("call again in 42 s"), "{refused}");
    let AcceptError::TooManyNew { new_max: 1, retry_ms } = refused else { panic!("{refused:?}") };
    assert_eq!(retry_ms, 41_500);
    assert_eq!(world.accept(call_with_key("k", 1)).await.key(), first.key());
    world.clock.advance_ms(retry_ms);
    assert_ne!(world.accept(call_with_key("l", 1)).await.key(), first.key());
}

#[tokio::test]
async fn nothing_is_done_after_the_answer() {
    let (world, task) = World::with_task().await;
    world.took();
    world.clock.advance_ms(10 * world.engine.settings().resend_ms);
    assert_eq!(world.took(), Vec::<String>::new());
    assert_eq!(world.clock.sleepers(), 0, "something still waits to continue with {}", task.id);
}

#[tokio::test]
async fn a_call_whose_write_was_applied_and_not_answered_is_one_task() {
    let world = World::new();
    let mut creations = 0;
    world.store.follow(move |call| match call {
        StoreCall::Create(_) => {
            creations += 1;
            if creations == 1 { Fault::After } else { Fault::None }
        }
        _ => Fault::None,
    });
    let accepted = world.while_time_passes(50, world.engine.accept(call())).await.unwrap();
    assert!(is_new(&accepted));
    let page = world.engine.list(&ann(), None, 10).await.unwrap();
    assert_eq!(page.tasks.len(), 1);
}

#[tokio::test]
async fn the_same_key_and_request_is_the_same_task_also_after_its_end() {
    let world = World::new();
    let first = world.engine.accept(call_with_key("k", 1)).await.unwrap();
    assert!(is_new(&first));
    let key = first.into_task().key();
    for _ in 0..2 {
        let again = world.engine.accept(call_with_key("k", 1)).await.unwrap();
        assert!(!is_new(&again));
        assert_eq!(again.into_task().key(), key);
        world.work(&quick()).await;
    }
}

#[tokio::test]
async fn another_owner_finds_nothing() {
    let (world, task) = World::with_task().await;
    let foreign = TaskKey::new(given::owner("bob"), task.id);
    for _ in 0..2 {
        assert!(matches!(world.engine.poll(&foreign).await, Err(PollError::NotFound)));
        assert!(matches!(world.engine.cancel(&foreign).await, Err(PollError::NotFound)));
    }
    assert!(world.engine.list(&foreign.owner, None, 10).await.unwrap().tasks.is_empty());
    assert_eq!(world.on_record(&task.key()).await, task);
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_and_one_at_the_limit_comes_back_whole() {
    let world = World::new();
    let most = longhaul_core::limits::REQUEST_BYTES_MAX;
    let mut large = call();
    large.request = "ä".repeat(most / 2);
    world.accept(large.clone()).await;
    let tool = super::world::tool(move |attempt| async move {
        assert_eq!(attempt.request().len(), most);
        super::world::completed("1")
    });
    world.work(&tool).await;
    assert_eq!(tool.runs(), 1);
    large.request.push('x');
    assert!(matches!(world.engine.accept(large).await, Err(AcceptError::TooLarge { .. })));
}
