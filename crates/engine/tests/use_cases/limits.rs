//! A value at a limit is accepted; one above it is refused with an error that says so.

use std::convert::Infallible;

use longhaul_core::{
    Ask, Attempts, Cleanup, FailureKind, PartsName, Payload, State, Status, Task, TaskFilter, TaskRecord, TraceParent,
    limits,
};
use longhaul_engine::{AcceptError, AttemptEnd, LoadError};
use longhaul_testkit::given;

use super::world::{Tool, World, ann, answers, call, call_with_key, completed, tool};

/// The task after one attempt of `tool`.
async fn after(tool: &Tool) -> Task {
    let (world, key) = World::with_key().await;
    world.work(tool).await;
    world.on_record(&key).await
}

#[track_caller]
fn failure(task: &Task) -> (FailureKind, String) {
    let State::Failed { failure } = &task.state else { panic!("{:?}", task.status()) };
    (failure.kind, failure.message.clone())
}

/// A tool with one step of this name and value.
fn one_step(name: String, value: String) -> Tool {
    tool(move |attempt| {
        let (name, value) = (name.clone(), value.clone());
        async move {
            let Ok(_text) = attempt.step(&name, async || Ok::<_, Infallible>(value)).await;
            completed("1")
        }
    })
}

fn asks(asks: Vec<Ask>) -> Tool {
    tool(move |attempt| {
        let asks = asks.clone();
        async move {
            futures::future::join_all(asks.iter().map(|ask| attempt.ask(&ask.key, ask.request.clone()))).await;
            completed("1")
        }
    })
}

#[tokio::test]
async fn a_new_task_records_what_was_called() {
    let world = World::new();
    let trace = TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let call = longhaul_engine::Call { trace, ..call() };
    let task = world.accept(call.clone()).await;
    let now = world.now();
    let expected = TaskRecord {
        owner: ann(),
        id: task.id,
        tool: "tool".to_owned(),
        state: State::Queued,
        attempt: 0,
        failures: 0,
        last_failure: None,
        terms: call.terms,
        created_at: now,
        not_before: None,
        flow: None,
        labels: longhaul_core::Labels::default(),
        updated_at: now,
        sent_at: now,
        resends: 0,
        started_at: None,
        ended_at: None,
        expires_at: now.plus_ms(call.terms.ttl_ms),
        progress: None,
        request: given::inline("{}"),
        trace,
        variables: None,
        cleanup: Cleanup::None,
        held_until: None,
        asked: Vec::new(),
        answered: Vec::new(),
        parent: None,
        resumes: None,
        attempts: Attempts::default(),
    };
    assert_eq!(task.record(), &expected);
    assert_eq!(world.receive().await.unwrap().message.trace, trace);
}

#[tokio::test]
async fn an_idempotency_key_has_1_to_256_bytes() {
    let world = World::new();
    world.accept(call_with_key(&"k".repeat(256), 1)).await;
    for key in [String::new(), "k".repeat(257)] {
        let refused = world.engine.accept(call_with_key(&key, 1)).await;
        assert!(matches!(refused, Err(AcceptError::InvalidKey)));
    }
}

#[tokio::test]
async fn a_page_has_1_to_100_tasks() {
    let world = World::new();
    for _ in 0..101 {
        world.accepted().await;
    }
    for (limit, count) in [(0, 1), (1, 1), (100, 100), (1_000, 100)] {
        assert_eq!(world.engine.list(&ann(), None, limit).await.unwrap().tasks.len(), count);
    }
}

#[tokio::test]
async fn a_page_of_a_filtered_list_has_1_to_100_tasks_that_its_filter_takes() {
    let world = World::new();
    let cancelled = world.accepted().await;
    world.engine.cancel(&cancelled.key()).await.unwrap();
    for _ in 0..101 {
        world.accepted().await;
    }
    let of = |status| TaskFilter { statuses: [status].into(), ..TaskFilter::default() };
    for (limit, count) in [(0, 1), (1, 1), (100, 100), (1_000, 100)] {
        let page = world.engine.list_filtered(&ann(), &of(Status::Working), None, limit).await.unwrap();
        assert_eq!((page.tasks.len(), page.next.is_some()), (count, true));
    }
    let page = world.engine.list_filtered(&ann(), &of(Status::Cancelled), None, 10).await.unwrap();
    assert_eq!(page.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [cancelled.id]);
    let of_another_tool = TaskFilter { tool: Some("another".to_owned()), ..TaskFilter::default() };
    let page = world.engine.list_filtered(&ann(), &of_another_tool, None, 10).await.unwrap();
    assert_eq!((page.tasks.len(), page.next), (0, None));
}

#[tokio::test]
async fn a_name_has_1_to_256_bytes() {
    assert_eq!(after(&one_step("n".repeat(256), "1".to_owned())).await.status(), Status::Completed);
    for name in [String::new(), "n".repeat(257)] {
        let (kind, message) = failure(&after(&one_step(name.clone(), "1".to_owned())).await);
        assert_eq!(kind, FailureKind::Misuse);
        assert_eq!(message, "step names must have 1 to 256 bytes");
        let asked = after(&asks(vec![given::ask(&name)])).await;
        assert_eq!(failure(&asked).1, "answer names must have 1 to 256 bytes");
    }
}

#[tokio::test]
async fn a_question_is_asked_once_in_an_attempt() {
    let (kind, message) = failure(&after(&asks(vec![given::ask("a"), given::ask("a")])).await);
    assert_eq!(kind, FailureKind::Misuse);
    assert!(message.contains("`a`"), "{message}");
}

#[tokio::test]
async fn a_step_over_the_limit_is_not_recorded() {
    let bytes_max = limits::ENTRY_BYTES_MAX;
    assert_eq!(after(&one_step("s".to_owned(), "x".repeat(bytes_max))).await.status(), Status::Completed);
    let (kind, message) = failure(&after(&one_step("s".to_owned(), "x".repeat(bytes_max + 1))).await);
    assert_eq!(kind, FailureKind::TooLarge);
    assert!(message.contains("`s`"), "{message}");
}

/// A tool with so many steps.
fn steps(count: usize) -> Tool {
    tool(move |attempt| async move {
        for number in 0..count {
            let Ok(_text) = attempt.step(&number.to_string(), async || Ok::<_, Infallible>("1".to_owned())).await;
        }
        completed("1")
    })
}

#[tokio::test]
async fn a_journal_has_a_limit() {
    assert_eq!(after(&steps(limits::ENTRIES_MAX)).await.status(), Status::Completed);
    assert_eq!(failure(&after(&steps(limits::ENTRIES_MAX + 1)).await).0, FailureKind::TooLarge);
}

#[tokio::test]
async fn questions_have_a_limit_of_number_and_of_size() {
    let many = |count: usize| asks((0..count).map(|number| given::ask(&number.to_string())).collect());
    assert_eq!(after(&many(limits::ASKS_MAX)).await.status(), Status::InputRequired);
    assert_eq!(failure(&after(&many(limits::ASKS_MAX + 1)).await).0, FailureKind::TooLarge);

    // Keys count too.
    let long = |bytes: usize| {
        let ask = |key: &str, bytes: usize| Ask { key: key.to_owned(), request: "x".repeat(bytes) };
        asks(vec![ask("aaaa", bytes - 7 - 1_000), ask("bbb", 1_000)])
    };
    assert_eq!(after(&long(limits::ASKS_BYTES_MAX)).await.status(), Status::InputRequired);
    assert_eq!(failure(&after(&long(limits::ASKS_BYTES_MAX + 1)).await).0, FailureKind::TooLarge);
}

#[tokio::test]
async fn an_error_over_the_limit_ends_the_task_with_a_small_one() {
    let fails = |bytes: usize| {
        tool(move |_attempt| async move { AttemptEnd::Failed { message: "no".to_owned(), detail: "x".repeat(bytes) } })
    };
    let whole = after(&fails(limits::RESULT_BYTES_MAX)).await;
    assert_eq!(failure(&whole), (FailureKind::Tool, "no".to_owned()));
    let State::Failed { failure: kept } = &whole.state else { panic!() };
    assert_eq!(kept.detail.as_ref().map(Payload::bytes), Some(limits::RESULT_BYTES_MAX as u64));
    let (kind, message) = failure(&after(&fails(limits::RESULT_BYTES_MAX + 1)).await);
    assert_eq!(kind, FailureKind::TooLarge);
    assert!(message.starts_with("the tool's error has 4718593 bytes"), "{message}");
}

#[tokio::test]
async fn a_small_result_is_inline_and_a_larger_one_in_parts() {
    let result = |task: &Task| {
        let State::Completed { result, .. } = &task.state else { panic!("{:?}", task.state) };
        result.clone()
    };
    let gives = |bytes: usize| tool(move |_attempt| async move { completed(&"x".repeat(bytes)) });
    assert_eq!(result(&after(&gives(3_072)).await), Payload::Inline("x".repeat(3_072)));
    let parts = |count, bytes| Payload::Parts { name: PartsName::Outcome { attempt: 1 }, count, bytes };
    assert_eq!(result(&after(&gives(3_073)).await), parts(1, 3_073));
    assert_eq!(result(&after(&gives(358_401)).await), parts(2, 358_401));
}

#[tokio::test]
async fn a_text_whose_parts_are_not_all_there_is_missing() {
    let (world, key) = World::with_key().await;
    let name = PartsName::Entry { attempt: 1, entry: "step#s".to_owned() };
    longhaul_core::ports::TaskStore::put_parts(&*world.store, &key, &name, &["ab", "c"]).await.unwrap();
    let parts = |count, bytes| Payload::Parts { name: name.clone(), count, bytes };
    assert_eq!(world.engine.load(&key, &parts(2, 3)).await.unwrap(), "abc");
    for incomplete in [parts(2, 4), parts(1, 3), parts(3, 3)] {
        assert!(matches!(world.engine.load(&key, &incomplete).await, Err(LoadError::Missing)), "{incomplete:?}");
    }
}

#[tokio::test]
async fn answers_that_nobody_asked_for_are_ignored() {
    let (world, key) = World::with_key().await;
    world.work(&asks(vec![given::ask("a")])).await;
    let before = world.on_record(&key).await;
    world.took();
    world.engine.answer(&key, &answers("b", "1")).await.unwrap();
    assert_eq!(world.took(), ["get"]);
    assert_eq!(world.on_record(&key).await, before);
    let too_long = "x".repeat(limits::ENTRY_BYTES_MAX + 1);
    assert!(world.engine.answer(&key, &answers("a", &too_long)).await.is_err());
    world.engine.answer(&key, &answers("a", &"x".repeat(limits::ENTRY_BYTES_MAX))).await.unwrap();
}

#[tokio::test]
async fn retention_that_is_long_enough_is_not_written_again() {
    let (world, task) = World::with_task().await;
    let retention_ms = task.terms.retention_ms;
    world.took();
    assert_eq!(world.engine.extend_retention(&task.key(), retention_ms).await.unwrap(), task);
    assert_eq!(world.took(), ["get"]);
    assert_eq!(
        world.engine.extend_retention(&task.key(), retention_ms + 1).await.unwrap().terms.retention_ms,
        retention_ms + 1
    );
    assert_eq!(world.took(), ["get", "extend retention"]);
    world.engine.forget(&task.key()).await.unwrap();
    assert!(!world.on_record(&task.key()).await.has_ended(), "an unfinished task is not forgotten");
}
