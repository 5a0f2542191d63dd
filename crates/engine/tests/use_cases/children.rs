//! Tools that call other tools: each call is a task of its own, one for its name, and nothing waits for it in a
//! process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{join_all, select};
use longhaul_core::ports::TaskStore;
use longhaul_core::{IdSource, State, Status, TaskEvent, TaskId, TaskKey, limits};
use longhaul_engine::{Attempt, AttemptEnd, CallError, ChildEnd, Settings};
use longhaul_testkit::{SeededIds, StoreCall};

use super::orphaned_children::statuses;
use super::world::{Tool, World, call, completed, hangs, tool};

pub(super) const MINUTE_MS: u64 = 60_000;
pub(super) const HOUR_MS: u64 = 60 * MINUTE_MS;

/// The id of the child of this name: the same in every attempt.
fn child_of(attempt: &Attempt, number: usize) -> TaskId {
    SeededIds::new(1_000 + number as u64 + 100 * u64::from(attempt.task().depth())).task_id(attempt.task().created_at)
}

/// Calls the tool `tool` as the child of this number, which may take two hours.
pub(super) async fn calls(attempt: &Attempt, number: usize, tool: &str) -> Result<ChildEnd, CallError> {
    let prepare = || async {
        let mut call = call();
        call.owner = attempt.task().owner;
        call.tool = tool.to_owned();
        call.terms.run_ms = 2 * HOUR_MS;
        call.terms.ttl_ms = 16 * HOUR_MS;
        Ok(call)
    };
    attempt.call(&format!("call {number}"), child_of(attempt, number), prepare).await
}

/// `parent` calls `children` times `child`, which does what `child` does.
pub(super) fn family<F, Fut>(children: usize, child: F) -> Tool
where
    F: Fn(Attempt) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = AttemptEnd> + Send + 'static,
{
    let child = Arc::new(child);
    tool(move |attempt| {
        let child = Arc::clone(&child);
        async move {
            if attempt.task().tool == "child" {
                return child(attempt).await;
            }
            let calls = (0..children).map(|number| calls(&attempt, number, "child"));
            completed(&format!("{:?}", join_all(calls).await))
        }
    })
}

async fn parent(world: &World) -> TaskKey {
    let mut call = call();
    call.tool = "parent".to_owned();
    call.terms.run_ms = 8 * HOUR_MS;
    call.terms.ttl_ms = 16 * HOUR_MS;
    world.accept(call).await.key()
}

pub(super) async fn with_parent() -> (World, TaskKey) {
    let world = World::new();
    let key = parent(&world).await;
    (world, key)
}

pub(super) async fn children(world: &World, parent: &TaskKey) -> Vec<longhaul_core::Task> {
    let tasks = world.store.list(&parent.owner, None, 2_000, world.now()).await.unwrap().tasks;
    tasks.into_iter().filter(|task| task.parent.is_some_and(|of| of.id == parent.id)).collect()
}

async fn sleeps(attempt: Attempt) -> AttemptEnd {
    attempt.sleep_ms(HOUR_MS).await;
    completed("17")
}

/// A parent whose child sleeps for an hour, and the tool of both.
pub(super) async fn with_a_sleeping_child(world: &World) -> (TaskKey, TaskKey, Tool) {
    let key = parent(world).await;
    let tool = family(1, sleeps);
    world.work(&tool).await;
    let child = children(world, &key).await.first().unwrap().key();
    (key, child, tool)
}

async fn result(world: &World, key: &TaskKey) -> String {
    let State::Completed { result, .. } = world.on_record(key).await.state.clone() else {
        panic!("the task has no result")
    };
    world.engine.load(key, &result).await.unwrap()
}

#[tokio::test]
async fn a_call_returns_what_its_task_ended_with() {
    let (world, key) = with_parent().await;
    let tool = family(1, |_attempt| async { completed("17") });
    world.work(&tool).await;
    assert_eq!(result(&world, &key).await, r#"[Ok(Completed("17"))]"#);
    let [child] = &children(&world, &key).await[..] else { panic!("one child") };
    assert_eq!((child.status(), child.depth()), (Status::Completed, 1));
    assert!(child.deadline() <= world.on_record(&key).await.deadline());
    assert_eq!(tool.runs(), 3, "two attempts of the parent, one of the child");
}

#[tokio::test]
async fn a_call_costs_two_entries_and_its_own_task() {
    let world = World::new();
    parent(&world).await;
    world.took();
    world.work(&family(1, |_attempt| async { completed("17") })).await;
    let of_parent = ["claim", "create", "send", "record", "suspend", "journal", "send"];
    let of_child = ["claim", "get", "finish", "get", "record", "wake", "send"];
    let at_last = ["claim", "journal", "finish"];
    assert_eq!(world.took(), [&of_parent[..], &of_child, &at_last].concat());
}

#[tokio::test]
async fn a_thousand_calls_are_a_thousand_tasks_whatever_is_replayed() {
    let (world, key) = with_parent().await;
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let tool = family(1_000, move |_attempt| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { completed("17") }
    });
    while !world.on_record(&key).await.has_ended() {
        world.work(&tool).await;
        world.clock.advance_ms(limits::WAKE_DELAY_MS_MAX);
    }
    assert_eq!(result(&world, &key).await.matches("17").count(), 1_000);
    assert_eq!((children(&world, &key).await.len(), ran.load(Ordering::Relaxed)), (1_000, 1_000));
    let attempts = world.on_record(&key).await.attempt;
    assert!(attempts < 100, "{attempts} attempts");
}

/// A world whose owners may have this many unfinished tasks.
fn with_room_for(open_tasks_max: u32) -> World {
    World::with(Settings { open_tasks_max, ..Settings::default() })
}

#[tokio::test]
async fn calls_beyond_the_owners_limit_are_made_when_others_have_ended() {
    let world = with_room_for(4);
    let key = parent(&world).await;
    let tool = family(10, |_attempt| async { completed("17") });
    while !world.on_record(&key).await.has_ended() {
        world.work(&tool).await;
        world.clock.advance_ms(limits::WAKE_DELAY_MS_MAX);
    }
    let result = result(&world, &key).await;
    assert_eq!(result.matches("Ok(Completed(\"17\"))").count(), 10, "{result}");
    assert_eq!(children(&world, &key).await.len(), 10);
}

/// The tool sees no refusal while a call of it runs, although nothing waits for that one.
#[tokio::test]
async fn a_call_beyond_the_owners_limit_waits_for_one_that_nothing_waits_for() {
    let world = with_room_for(2);
    let key = parent(&world).await;
    let tool = tool(move |attempt| async move {
        if attempt.task().depth() > 0 {
            return sleeps(attempt).await;
        }
        let first = calls(&attempt, 1, "child");
        let made = attempt.sleep_ms(1_000);
        select(Box::pin(first), Box::pin(made)).await;
        completed(&format!("{:?}", calls(&attempt, 2, "child").await))
    });
    for _ in 0..150 {
        world.work(&tool).await;
        world.clock.advance_ms(MINUTE_MS);
    }
    assert_eq!(result(&world, &key).await, r#"Ok(Completed("17"))"#);
    assert_eq!(children(&world, &key).await.len(), 2);
}

#[tokio::test]
async fn a_call_for_which_there_is_never_room_is_refused() {
    let world = with_room_for(1);
    let key = parent(&world).await;
    world.work(&family(2, sleeps)).await;
    let result = result(&world, &key).await;
    assert_eq!(result.matches("TooManyOpen").count(), 2, "{result}");
}

/// What a parent is told whose child ends like this, and crashes from then on.
async fn told(end: AttemptEnd) -> String {
    let (world, key) = with_parent().await;
    let end = std::sync::Mutex::new(Some(end));
    let tool = family(1, move |_attempt| {
        let end = end.lock().unwrap().take();
        std::future::ready(end.unwrap_or(AttemptEnd::Crashed { reason: "bang".to_owned() }))
    });
    for _ in 0..5 {
        world.work(&tool).await;
        world.clock.advance_ms(4_000);
    }
    result(&world, &key).await
}

#[tokio::test]
async fn every_way_to_end_is_told() {
    let failed = AttemptEnd::Failed { message: "no".to_owned(), detail: "{\"code\":1}".to_owned() };
    let large = AttemptEnd::Completed { result: "x".repeat(4_300_000), kind: longhaul_core::ResultKind::Success };
    let crashed = AttemptEnd::Crashed { reason: "bang".to_owned() };
    for (end, said) in [(failed, "Failed { message: \"no\""), (crashed, "no retries are left"), (large, "TooLarge")] {
        let told = told(end).await;
        assert!(told.contains(said), "{told}");
    }
}

#[tokio::test]
async fn a_child_that_somebody_cancels_or_that_times_out_is_told_too() {
    for cancels in [true, false] {
        let world = World::new();
        let key = parent(&world).await;
        let tool = family(1, |attempt| async move {
            attempt.sleep_ms(3 * HOUR_MS).await;
            completed("17")
        });
        world.work(&tool).await;
        let child = children(&world, &key).await[0].key();
        if cancels {
            world.engine.cancel(&child).await.unwrap();
        } else {
            world.clock.advance_ms(2 * HOUR_MS);
        }
        world.work(&tool).await;
        let told = result(&world, &key).await;
        assert!(told.contains(if cancels { "Cancelled" } else { "did not end within" }), "{told}");
    }
}

/// As if whoever ended the child had died before it told the parent.
#[tokio::test]
async fn a_parent_that_nobody_told_polls_itself() {
    for (events, told) in [(vec![TaskEvent::Cancel], "Cancelled"), (vec![TaskEvent::Cancel, TaskEvent::Forget], "Gone")]
    {
        let world = World::new();
        let (key, child, tool) = with_a_sleeping_child(&world).await;
        for event in events {
            world.store.apply(&child, &event, world.now()).await.unwrap();
        }
        world.work(&tool).await;
        assert_eq!(world.on_record(&key).await.status(), Status::Working);
        world.clock.advance_ms(limits::SIGNAL_POLL_MS_FIRST);
        world.work(&tool).await;
        assert!(result(&world, &key).await.contains(told));
    }
}

#[tokio::test]
async fn a_child_sleeps_for_as_long_as_it_says_although_it_polls_at_its_parent() {
    let (world, key) = with_parent().await;
    let began = world.now();
    let tool = family(1, sleeps);
    while !world.on_record(&key).await.has_ended() {
        world.work(&tool).await;
        world.clock.advance_ms(MINUTE_MS);
    }
    let slept_ms = children(&world, &key).await[0].ended_at.unwrap().since_ms(began);
    assert!((HOUR_MS..HOUR_MS + 2 * MINUTE_MS).contains(&slept_ms), "{slept_ms}");
}

#[tokio::test]
async fn tools_call_each_other_eight_deep() {
    let (world, key) = with_parent().await;
    let tool = tool(|attempt| async move {
        let end = calls(&attempt, 1, "child").await;
        completed(&format!("{}{end:?}", attempt.task().depth()))
    });
    for _ in 0..40 {
        world.work(&tool).await;
    }
    let told = result(&world, &key).await;
    assert!(told.contains("TooDeep { depth_max: 8 }"), "{told}");
    assert_eq!(world.store.list(&key.owner, None, 100, world.now()).await.unwrap().tasks.len(), 9);
}

/// As if whoever cancelled the parent had died right after that.
#[tokio::test]
async fn a_running_child_polls_its_parent_once_a_minute() {
    let (world, key) = with_parent().await;
    let delivery = world.receive().await.unwrap();
    let parent_tool = family(1, |_attempt| std::future::pending());
    world.deliver(&delivery, &parent_tool).await;
    let delivery = world.receive().await.unwrap();
    let tool = hangs();
    let mut attempt = world.begun(&delivery, &tool);
    world.took();
    let began = world.now();
    while world.now().since_ms(began) < 10 * MINUTE_MS {
        world.clock.advance_ms(1_000);
        assert!(futures::FutureExt::now_or_never(attempt.as_mut()).is_none());
    }
    let took = world.took();
    let polls = took.iter().filter(|call| *call == "get").count();
    assert!((9..=10).contains(&polls), "{took:?}");
    world.store.apply(&key, &TaskEvent::Cancel, world.now()).await.unwrap();
    let cancelled_at = world.now();
    world.while_time_passes(1_000, attempt).await;
    assert_eq!(statuses(&world, &key).await, [Status::Cancelled]);
    assert!(world.now().since_ms(cancelled_at) <= limits::PARENT_POLL_MS + world.engine.settings().heartbeat_ms);
}

/// An attempt made the child, and could not record that; the child has ended and is forgotten since.
#[tokio::test]
async fn a_child_that_is_gone_before_its_call_is_recorded_is_not_made_again() {
    let (world, key) = with_parent().await;
    let tool = family(1, |_attempt| async { completed("17") });
    let delivery = world.receive().await.unwrap();
    world.store_fails(|call| matches!(call, StoreCall::Record(_, entry) if entry.name.starts_with("call")));
    world.while_time_passes(10, world.deliver(&delivery, &tool)).await;
    world.store_fails(|_call| false);
    let delivery = world.receive().await.unwrap();
    let child = delivery.message.task;
    assert_ne!(child, key);
    world.deliver(&delivery, &tool).await;
    world.store.apply(&child, &TaskEvent::Forget, world.now()).await.unwrap();
    world.clock.advance_ms(1_000);
    world.work(&tool).await;
    assert_eq!(result(&world, &key).await, r#"[Ok(Completed("17"))]"#);
    assert_eq!(children(&world, &key).await.len(), 0, "no second child");
}
