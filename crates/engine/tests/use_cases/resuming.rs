//! A failed task is resumed: a new one takes over what was recorded before the failure, and does the rest again.
#![expect(clippy::excessive_nesting, reason = "a tool is a future in a closure in a test")]

use std::sync::{Arc, Mutex};

use longhaul_core::ports::TaskStore;
use longhaul_core::{EntryKind, Status, Task, TaskId, TaskKey};
use longhaul_engine::{
    Accepted, Attempt, AttemptEnd, Call, CallError, ChildEnd, ResumeError, Resumption, Retry, Tried,
};

use super::world::{Tool, World, answers, call, completed, tool};

/// The work of a tool: what ran, and the steps that fail.
#[derive(Clone, Default)]
pub(crate) struct Work {
    ran: Arc<Mutex<Vec<String>>>,
    failing: Arc<Mutex<Vec<&'static str>>>,
}

impl Work {
    pub(crate) fn failing(steps: &[&'static str]) -> Self {
        let work = Self::default();
        work.fail(steps);
        work
    }

    pub(crate) fn fail(&self, steps: &[&'static str]) {
        *self.failing.lock().unwrap() = steps.to_vec();
    }

    /// The steps that ran since this was last asked.
    pub(crate) fn ran(&self) -> Vec<String> {
        std::mem::take(&mut *self.ran.lock().unwrap())
    }

    fn run(&self, step: &str) -> Tried {
        self.ran.lock().unwrap().push(step.to_owned());
        let fails = self.failing.lock().unwrap().contains(&step);
        if fails { Tried::FailedForGood(format!("\"{step} failed\"")) } else { Tried::Value(format!("\"{step}\"")) }
    }

    pub(crate) async fn step(&self, attempt: &Attempt, name: &str) -> Result<String, AttemptEnd> {
        attempt.step_with_tries(name, Retry::never(), async |_try| self.run(name)).await.map_err(failed)
    }

    pub(crate) async fn once(&self, attempt: &Attempt, name: &str) -> Result<String, AttemptEnd> {
        let may_have_run = async { "\"may have run\"".to_owned() };
        attempt.step_at_most_once(name, may_have_run, async || self.run(name)).await.map_err(failed)
    }

    /// A tool that does these steps one after the other.
    pub(crate) fn tool(&self, steps: &'static [&'static str]) -> Tool {
        let work = self.clone();
        tool(move |attempt| {
            let work = work.clone();
            async move {
                for step in steps {
                    if let Err(end) = work.step(&attempt, step).await {
                        return end;
                    }
                }
                completed("\"done\"")
            }
        })
    }
}

pub(crate) fn failed(detail: String) -> AttemptEnd {
    AttemptEnd::Failed { message: "it failed".to_owned(), detail }
}

pub(crate) fn flat(ended: Result<AttemptEnd, AttemptEnd>) -> AttemptEnd {
    ended.unwrap_or_else(|end| end)
}

pub(crate) fn from(step: &str) -> Resumption {
    Resumption { from: Some(step.to_owned()), ..Resumption::default() }
}

pub(crate) async fn resumed(world: &World, failed: &TaskKey, resumption: Resumption) -> Result<Task, ResumeError> {
    let failed = world.on_record(failed).await;
    world.engine.resume(&failed, resumption).await.map(Accepted::into_task)
}

pub(crate) async fn refusal(world: &World, failed: &TaskKey, resumption: Resumption) -> String {
    resumed(world, failed, resumption).await.unwrap_err().to_string()
}

/// A world in which this tool has failed.
pub(crate) async fn after_failing(tool: &Tool) -> (World, TaskKey) {
    let (world, key) = World::with_key().await;
    world.work(tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Failed);
    (world, key)
}

pub(crate) async fn ended(world: &World, task: &Task, tool: &Tool) -> Status {
    world.work_until_ended(&task.key(), tool, 1_000, 100).await.status()
}

#[tokio::test]
async fn a_resumed_task_takes_over_the_steps_before_the_first_that_failed() {
    let work = Work::failing(&["pay"]);
    let tool = work.tool(&["search", "book", "pay", "mail"]);
    let (world, key) = after_failing(&tool).await;
    assert_eq!(work.ran(), ["search", "book", "pay"]);
    let before = world.on_record(&key).await;
    work.fail(&[]);
    let by = Some("ann".to_owned());
    let task = resumed(&world, &key, Resumption { by: by.clone(), ..Resumption::default() }).await.unwrap();
    let resumes = task.resumes.clone().unwrap();
    assert_eq!((resumes.task, resumes.by), (key.id, by));
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["pay", "mail"]);
    assert_eq!(world.on_record(&key).await, before, "the failed task does not change");
}

#[tokio::test]
async fn a_resumed_task_survives_a_crash_and_may_itself_be_resumed() {
    let work = Work::failing(&["b"]);
    let tool = work.tool(&["a", "b", "c"]);
    let (world, key) = after_failing(&tool).await;
    let second = resumed(&world, &key, Resumption::default()).await.unwrap();
    let delivery = world.receive().await.unwrap();
    world.killed_in_the_tool(&delivery).await;
    assert_eq!(ended(&world, &second, &tool).await, Status::Failed);
    work.fail(&[]);
    let third = resumed(&world, &second.key(), Resumption::default()).await.unwrap();
    assert_eq!(third.resumes.as_ref().unwrap().task, second.id);
    assert_eq!(ended(&world, &third, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["a", "b", "b", "b", "c"]);
}

#[tokio::test]
async fn nothing_that_depends_on_the_failure_is_taken_over() {
    let work = Work::failing(&["card", "cash"]);
    let played = work.clone();
    let tool = tool(move |attempt| {
        let work = played.clone();
        async move {
            let paid = async {
                if work.step(&attempt, "card").await.is_ok() {
                    return work.step(&attempt, "receipt").await;
                }
                work.step(&attempt, "apologize").await?;
                attempt.sleep_ms(60_000).await;
                work.step(&attempt, "cash").await
            };
            flat(paid.await.map(|_paid| completed("1")))
        }
    });
    let (world, key) = World::with_key().await;
    assert_eq!(world.work_until_ended(&key, &tool, 10_000, 100).await.status(), Status::Failed);
    assert_eq!(work.ran(), ["card", "apologize", "cash"]);
    work.fail(&[]);
    // From the later failure, what was recorded before stays, with the failure of the card.
    let task = resumed(&world, &key, from("cash")).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["cash"]);
    let task = resumed(&world, &key, Resumption::default()).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["card", "receipt"]);
}

#[tokio::test]
async fn a_step_that_was_under_way_when_another_failed_is_not_run_again() {
    let work = Work::failing(&["b"]);
    let played = work.clone();
    let tool = tool(move |attempt| {
        let work = played.clone();
        async move {
            let slow = attempt.step_with_tries("a", Retry::never(), async |_try| {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                work.run("a")
            });
            let (a, b) = futures::join!(slow, work.step(&attempt, "b"));
            flat(a.map_err(failed).and(b).map(|_both| completed("1")))
        }
    });
    let (world, key) = after_failing(&tool).await;
    assert_eq!(work.ran(), ["b", "a"]);
    work.fail(&[]);
    let task = resumed(&world, &key, Resumption::default()).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["b"]);
}

#[tokio::test]
async fn a_task_is_resumed_from_a_named_step() {
    let work = Work::failing(&["c"]);
    let tool = work.tool(&["a", "b", "c"]);
    let (world, key) = after_failing(&tool).await;
    assert_eq!(work.ran(), ["a", "b", "c"]);
    work.fail(&[]);
    let task = resumed(&world, &key, from("b")).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["b", "c"]);
    let unknown = refusal(&world, &key, from("d")).await;
    assert_eq!(unknown, "the task has recorded no step `d`; its journal has the names of its steps");
}

#[tokio::test]
async fn a_task_that_failed_between_its_steps_keeps_all_of_them() {
    let work = Work::default();
    let played = work.clone();
    let tool = tool(move |attempt| {
        let work = played.clone();
        async move {
            let a = work.step(&attempt, "a").await;
            if attempt.task().resumes.is_none() {
                return failed("{}".to_owned());
            }
            flat(a.map(|_a| completed("1")))
        }
    });
    let (world, key) = after_failing(&tool).await;
    let task = resumed(&world, &key, Resumption::default()).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["a"]);
}

#[tokio::test]
async fn answers_sleeps_and_callbacks_that_have_come_are_taken_over() {
    let work = Work::failing(&["b"]);
    let played = work.clone();
    let tool = tool(move |attempt| {
        let work = played.clone();
        async move {
            let waited = async {
                attempt.ask("sure", "{}".to_owned()).await;
                attempt.sleep_ms(60_000).await;
                attempt.admit_token("hash", "approval", attempt.now().plus_ms(600_000)).await;
                let since = attempt.now();
                attempt.choose("approval", "1".to_owned()).await;
                attempt.signal("approval", since, None).await;
                work.step(&attempt, "b").await
            };
            flat(waited.await.map(|_b| completed("1")))
        }
    });
    let (world, key) = World::with_key().await;
    world.work(&tool).await;
    world.engine.answer(&key, &answers("sure", "true")).await.unwrap();
    world.work(&tool).await;
    world.clock.advance_ms(60_000);
    world.work(&tool).await;
    world.engine.record_signal(&key, "approval", "true").await.unwrap();
    assert_eq!(world.work_until_ended(&key, &tool, 1_000, 100).await.status(), Status::Failed);
    work.fail(&[]);
    let task = resumed(&world, &key, Resumption::default()).await.unwrap();
    world.work(&tool).await;
    assert_eq!(world.on_record(&task.key()).await.status(), Status::Completed);
    // Without its value, the callback has to be handed out again: the token names the failed task.
    let again = resumed(&world, &key, from("approval")).await.unwrap();
    let journal = world.store.journal(&again.key()).await.unwrap();
    let kinds: Vec<EntryKind> = journal.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [EntryKind::Answer, EntryKind::Timer]);
}

#[tokio::test]
async fn the_time_of_a_timeout_counts_anew() {
    let work = Work::failing(&["b"]);
    let played = work.clone();
    let tool = tool(move |attempt| {
        let work = played.clone();
        async move {
            let in_time = attempt.timeout("ten minutes", 600_000, work.step(&attempt, "b")).await;
            match in_time {
                Some(done) => flat(done.map(|_b| completed("1"))),
                None => failed("\"too late\"".to_owned()),
            }
        }
    });
    let (world, key) = World::with_key().await;
    world.work(&tool).await;
    assert_eq!(world.on_record(&key).await.status(), Status::Failed);
    world.clock.advance_ms(700_000);
    work.fail(&[]);
    let task = resumed(&world, &key, Resumption::default()).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["b", "b"]);
}

/// A tool that calls two others, one after the other, and fails if one of them does.
fn caller(work: &Work, children: [TaskId; 2]) -> Tool {
    let work = work.clone();
    tool(move |attempt| {
        let work = work.clone();
        async move {
            if attempt.task().tool != "tool" {
                let name = attempt.task().tool.clone();
                return flat(work.step(&attempt, &name).await.map(|_done| completed("1")));
            }
            let ids = if attempt.task().resumes.is_some() { children.map(next) } else { children };
            for (name, id) in ["first", "second"].into_iter().zip(ids) {
                let prepare = async || Ok::<_, CallError>(Call { tool: name.to_owned(), ..call() });
                match attempt.call(&format!("call {name}"), id, prepare).await {
                    Ok(ChildEnd::Completed(_)) => {}
                    other => return failed(format!("\"{other:?}\"")),
                }
            }
            completed("1")
        }
    })
}

/// As a resumed task gives its children ids of their own.
fn next(id: TaskId) -> TaskId {
    let mut bytes = *id.as_bytes();
    bytes[15] ^= 1;
    TaskId::from_bytes(bytes).unwrap()
}

#[tokio::test]
async fn a_call_that_failed_is_made_again_and_one_that_succeeded_is_not() {
    let work = Work::failing(&["second"]);
    let (world, key) = World::with_key().await;
    let ids = [(); 2].map(|()| world.engine.ports().ids.task_id(world.now()));
    let tool = caller(&work, ids);
    assert_eq!(world.work_until_ended(&key, &tool, 1_000, 100).await.status(), Status::Failed);
    assert_eq!(work.ran(), ["first", "second"]);
    work.fail(&[]);
    let task = resumed(&world, &key, Resumption::default()).await.unwrap();
    assert_eq!(ended(&world, &task, &tool).await, Status::Completed);
    assert_eq!(work.ran(), ["second"]);
}
