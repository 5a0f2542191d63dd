//! Children whose parent ends before they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{Either, join_all, select};
use longhaul_core::ports::TaskStore;
use longhaul_core::{Status, TaskEvent, TaskKey, limits};
use longhaul_engine::{Attempt, AttemptEnd, Engine};
use longhaul_testkit::{Fault, StoreCall};

use super::children::{HOUR_MS, MINUTE_MS, calls, children, family, with_a_sleeping_child, with_parent};
use super::world::{Tool, World, call, completed, tool};

/// Grandchildren are cancelled too, and no tool runs on.
#[tokio::test]
async fn a_cancel_reaches_all_children() {
    let (world, key) = with_parent().await;
    let tool = tool(move |attempt| async move {
        match attempt.task().depth() {
            0 => drop(join_all((0..20).map(|number| calls(&attempt, number, "child"))).await),
            1 => drop(calls(&attempt, 77 + usize::from(attempt.task().id.as_bytes()[15]), "child").await),
            _ => attempt.sleep_ms(HOUR_MS).await,
        }
        completed("1")
    });
    world.work(&tool).await;
    world.engine.cancel(&key).await.unwrap();
    let all = world.store.list(&key.owner, None, 100, world.now()).await.unwrap().tasks;
    assert!(all.len() > 21, "{}", all.len());
    assert!(all.iter().all(|task| task.status() == Status::Cancelled), "{all:#?}");
}

/// As if whoever cancelled the parent had died right after that.
#[tokio::test]
async fn a_child_ends_whose_parent_was_cancelled_by_somebody_who_died() {
    let (world, key) = with_parent().await;
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let tool = family(2, move |attempt| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            attempt.sleep_ms(2 * HOUR_MS).await;
            completed("17")
        }
    });
    world.work(&tool).await;
    assert_eq!(ran.load(Ordering::Relaxed), 2);
    world.store.apply(&key, &TaskEvent::Cancel, world.now()).await.unwrap();
    world.clock.advance_ms(limits::CHILD_POLL_MS_MAX);
    world.work(&tool).await;
    assert!(children(&world, &key).await.iter().all(|child| child.status() == Status::Cancelled));
    assert_eq!(ran.load(Ordering::Relaxed), 2, "the tool does not run again");
}

#[tokio::test]
async fn a_parent_that_ends_with_a_result_leaves_its_children() {
    let (world, key) = with_parent().await;
    let tool = tool(|attempt| async move {
        if attempt.task().depth() > 0 {
            attempt.sleep_ms(HOUR_MS).await;
            return completed("17");
        }
        let call = Box::pin(calls(&attempt, 1, "child"));
        let nap = Box::pin(attempt.sleep_ms(MINUTE_MS));
        select(call, nap).await;
        completed("first")
    });
    for _ in 0..70 {
        world.work(&tool).await;
        world.clock.advance_ms(MINUTE_MS);
    }
    assert_eq!(world.on_record(&key).await.status(), Status::Completed);
    assert_eq!(children(&world, &key).await[0].status(), Status::Completed);
}

/// A parent that calls three tools, and gives up if its step ends; and the tool of its children.
fn gives_up<F, Fut>(step: F) -> Tool
where
    F: Fn() -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<String, ()>> + Send + 'static,
{
    tool(move |attempt| {
        let step = step.clone();
        async move {
            if attempt.task().depth() > 0 {
                return std::future::pending().await;
            }
            let calls = Box::pin(join_all((0..3).map(|number| calls(&attempt, number, "child"))));
            match select(calls, Box::pin(attempt.step("gives up", step))).await {
                Either::Right((Err(()), _)) => AttemptEnd::Failed { message: "no".to_owned(), detail: "{}".to_owned() },
                _ => completed("all"),
            }
        }
    })
}

pub(super) async fn statuses(world: &World, parent: &TaskKey) -> Vec<Status> {
    children(world, parent).await.iter().map(longhaul_core::Task::status).collect()
}

#[tokio::test]
async fn children_of_a_parent_that_fails_in_its_first_attempt_are_cancelled() {
    let (world, key) = with_parent().await;
    let delivery = world.receive().await.unwrap();
    world.deliver(&delivery, &gives_up(|| std::future::ready(Err(())))).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Failed);
    assert_eq!(statuses(&world, &key).await, [Status::Cancelled; 3]);
}

#[tokio::test]
async fn children_of_a_parent_that_ends_while_its_first_attempt_runs_are_cancelled() {
    for cancels in [true, false] {
        let (world, key) = with_parent().await;
        let delivery = world.receive().await.unwrap();
        let tool = gives_up(std::future::pending);
        let attempt = world.begun(&delivery, &tool);
        if cancels {
            world.engine.cancel(&key).await.unwrap();
        }
        world.while_time_passes(10_000, attempt).await;
        assert!(world.on_record(&key).await.has_ended());
        assert_eq!(statuses(&world, &key).await, [Status::Cancelled; 3]);
    }
}

/// Calls three children that never end; while it waits for them, its own task is cancelled and forgotten.
async fn cancelled_and_forgotten(attempt: Attempt, engine: Engine, key: TaskKey, fails: bool) -> AttemptEnd {
    if attempt.task().depth() > 0 {
        return std::future::pending().await;
    }
    let mut calls = Box::pin(join_all((0..3).map(|number| calls(&attempt, number, "child"))));
    assert!(futures::poll!(&mut calls).is_pending());
    engine.cancel(&key).await.unwrap();
    engine.forget(&key).await.unwrap();
    if fails {
        return AttemptEnd::Failed { message: "no".to_owned(), detail: "{}".to_owned() };
    }
    drop(calls.await);
    completed("all")
}

/// Whether the attempt was about to wait or to fail, it finds no record any more.
#[tokio::test]
async fn children_of_a_parent_that_is_cancelled_and_forgotten_while_its_first_attempt_runs_are_cancelled() {
    for fails in [true, false] {
        let (world, key) = with_parent().await;
        let delivery = world.receive().await.unwrap();
        let engine = world.engine.clone();
        let tool = tool(move |attempt| cancelled_and_forgotten(attempt, engine.clone(), key, fails));
        world.deliver(&delivery, &tool).await;
        assert_eq!(statuses(&world, &key).await, [Status::Cancelled; 3], "fails: {fails}");
    }
}

/// The attempt that knows the children is dead, and the journal has them.
#[tokio::test]
async fn children_of_a_parent_whose_only_attempt_dies_are_cancelled() {
    for polls in [true, false] {
        let world = World::new();
        let mut call = call();
        call.terms.consecutive_failures_max = 1;
        let key = world.accept(call).await.key();
        let delivery = world.receive().await.unwrap();
        // Recorded when its step is left to it: a step that runs keeps the attempt.
        drop(world.begun(&delivery, &gives_up(std::future::pending)));
        assert_eq!(statuses(&world, &key).await, [Status::Working; 3]);
        world.clock.advance_ms(world.engine.settings().lease_ms);
        if polls {
            world.engine.poll(&key).await.unwrap();
        } else {
            world.work(&hangs_if_claimed(key)).await;
        }
        assert_eq!(world.on_record(&key).await.status(), Status::Failed);
        assert_eq!(statuses(&world, &key).await, [Status::Cancelled; 3]);
    }
}

/// A tool that must not run for this task, and ends at once for others.
fn hangs_if_claimed(key: TaskKey) -> Tool {
    tool(move |attempt| async move {
        assert_ne!(attempt.task().key(), key, "it has no attempt left");
        attempt.sleep_ms(HOUR_MS).await;
        completed("1")
    })
}

/// The store writes an end, and does not answer once.
#[tokio::test]
async fn children_are_cancelled_although_the_answer_to_the_end_of_their_parent_was_lost() {
    for polls in [true, false] {
        let world = World::new();
        let (key, child, _tool) = with_a_sleeping_child(&world).await;
        if polls {
            world.clock.advance_to(world.on_record(&key).await.deadline());
        }
        let mut is_lost = false;
        world.store.follow(move |call| match call {
            StoreCall::Apply(_, TaskEvent::Cancel | TaskEvent::TimeOut) if !is_lost => {
                is_lost = true;
                Fault::After
            }
            _ => Fault::None,
        });
        if polls {
            world.while_time_passes(10, world.engine.poll(&key)).await.unwrap();
        } else {
            world.while_time_passes(10, world.engine.cancel(&key)).await.unwrap();
        }
        assert!(world.on_record(&key).await.has_ended());
        assert!(world.on_record(&child).await.has_ended());
    }
}
