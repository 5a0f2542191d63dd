//! Requests to resume a task that are refused or repeated, and what a new task may take over.
#![expect(clippy::excessive_nesting, reason = "a tool is a future in a closure in a test")]

use longhaul_core::{Cleanup, ResultKind, State, Status};
use longhaul_engine::{AcceptError, Accepted, Call, Idempotency, ResumeError, Resumption, Retry, Tried};

use super::resuming::{Work, after_failing, ended, failed, flat, from, refusal, resumed};
use super::world::{World, call, completed, tool};

#[tokio::test]
async fn only_a_failed_task_with_a_journal_is_resumed() {
    let (world, key) = World::with_key().await;
    let working = "the task is `working`; only a task that is `failed` can be resumed";
    assert_eq!(refusal(&world, &key, Resumption::default()).await, working);
    world.work(&tool(|_attempt| async { failed("{}".to_owned()) })).await;
    let nothing = "the task has recorded nothing that could be taken over; call its tool again";
    assert_eq!(refusal(&world, &key, Resumption::default()).await, nothing);
    let completed = world.accepted().await.key();
    world.work(&Work::default().tool(&["a"])).await;
    let has_completed = "the task is `completed`; only a task that is `failed` can be resumed";
    assert_eq!(refusal(&world, &completed, Resumption::default()).await, has_completed);
}

#[tokio::test]
async fn a_task_with_cleanup_is_not_resumed() {
    let work = Work::failing(&["b"]);
    let tool = work.tool(&["a", "b"]);
    let world = World::new();
    let key = world.accept(Call { cleanup: Cleanup::ARMED, ..call() }).await.key();
    world.work(&tool).await;
    let undone =
        "the cleanup of the task undoes what its steps have done, so they are not taken over; call its tool again";
    assert_eq!(refusal(&world, &key, Resumption::default()).await, undone);
}

#[tokio::test]
async fn a_step_that_runs_at_most_once_runs_again_only_by_its_name() {
    let work = Work::failing(&["pay"]);
    let played = work.clone();
    let tool = tool(move |attempt| {
        let work = played.clone();
        async move {
            let paid = async {
                work.step(&attempt, "search").await?;
                work.once(&attempt, "pay").await
            };
            flat(paid.await.map(|_paid| completed("1")))
        }
    });
    let (world, key) = after_failing(&tool).await;
    work.fail(&[]);
    assert_eq!(work.ran(), ["search", "pay"]);
    let may_have_run =
        "the step `pay` runs at most once, and has begun; if its work may be done again, resume from this step";
    assert_eq!(refusal(&world, &key, Resumption::default()).await, may_have_run);
    assert_eq!(refusal(&world, &key, from("search")).await, may_have_run);
    let task = resumed(&world, &key, from("pay")).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["pay"]);
}

fn with_key(key: &str, fingerprint: u8) -> Resumption {
    let idempotency = Some(Idempotency { key: key.to_owned(), fingerprint: [fingerprint; 32] });
    Resumption { idempotency, ..Resumption::default() }
}

#[tokio::test]
async fn the_same_key_makes_one_task() {
    let work = Work::failing(&["b"]);
    let (world, key) = after_failing(&work.tool(&["a", "b"])).await;
    let first = resumed(&world, &key, with_key("k", 1)).await.unwrap();
    let failed = world.on_record(&key).await;
    let second = world.engine.resume(&failed, with_key("k", 1)).await.unwrap();
    assert!(matches!(second, Accepted::Existing(task) if task.id == first.id));
    let other = world.engine.resume(&failed, with_key("k", 2)).await.unwrap_err();
    assert!(matches!(other, ResumeError::NotAccepted(AcceptError::KeyReused)), "{other}");
    assert_eq!(world.engine.list(&key.owner, None, 10).await.unwrap().tasks.len(), 2);
}

#[tokio::test]
async fn a_store_that_fails_leaves_a_whole_task_or_none() {
    let work = Work::failing(&["b"]);
    let (world, key) = after_failing(&work.tool(&["a", "b"])).await;
    world.store_fails(|call| matches!(call, longhaul_testkit::StoreCall::Create(_)));
    let error = world.while_time_passes(1_000, resumed(&world, &key, Resumption::default())).await.unwrap_err();
    assert!(matches!(error, ResumeError::NotAccepted(AcceptError::Unavailable(_))), "{error}");
    assert_eq!(world.engine.list(&key.owner, None, 10).await.unwrap().tasks.len(), 1);
}

#[tokio::test]
async fn large_values_are_taken_over_whole() {
    let large = format!("\"{}\"", "ä".repeat(longhaul_core::limits::PART_BYTES));
    let (value, work) = (large.clone(), Work::failing(&["b"]));
    let played = work.clone();
    let tool = tool(move |attempt| {
        let (work, value) = (played.clone(), value.clone());
        async move {
            let a = attempt.step_with_tries("a", Retry::never(), async |_try| Tried::Value(value.clone())).await;
            flat(work.step(&attempt, "b").await.map(|_b| completed(&a.unwrap_or_default())))
        }
    });
    let (world, key) = after_failing(&tool).await;
    work.fail(&[]);
    let task = resumed(&world, &key, Resumption::default()).await.unwrap();
    // The failed task's own parts are not needed any more.
    world.engine.forget(&key).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    let ended = world.on_record(&task.key()).await;
    let State::Completed { result, kind: ResultKind::Success } = &ended.state else { panic!("{:?}", ended.state) };
    assert!(world.engine.load(&task.key(), result).await.unwrap() == large, "the value differs");
}

#[tokio::test]
async fn a_journal_that_is_too_large_is_refused() {
    let work = Work::failing(&["z"]);
    let played = work.clone();
    let tool = tool(move |attempt| {
        let work = played.clone();
        async move {
            for number in 0..9 {
                let name = format!("step {number}");
                let value = format!("\"{}\"", "x".repeat(4_000_000));
                let _value =
                    attempt.step_with_tries(&name, Retry::never(), async |_| Tried::Value(value.clone())).await;
            }
            flat(work.step(&attempt, "z").await.map(|_z| completed("1")))
        }
    });
    let (world, key) = after_failing(&tool).await;
    let too_large = "the steps before that have more than 32 MiB; resume from an earlier step";
    assert_eq!(refusal(&world, &key, Resumption::default()).await, too_large);
    assert!(resumed(&world, &key, from("step 8")).await.is_ok());
}
