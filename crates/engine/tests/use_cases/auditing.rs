//! What the audit log says: one entry for each accept, answer and cancel, with what came of it; and what is known about
//! requests in all other logs.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use longhaul_core::logs::{AuditLog, Audited, LineFormat, audited};
use longhaul_core::{IdSource, TaskKey, TraceParent, limits};
use longhaul_engine::{Call, Settings};
use longhaul_testkit::{Lines, SeededIds, StoreCall, capture, given};
use serde_json::Value;
use tracing::field::{Empty, Field, Visit};
use tracing::span::{Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Instrument, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry;

use crate::world::{World, ann, answers, call, call_with_key, completed, quick, tool};

/// What the engine writes into the audit log until the guard is dropped.
fn captured(world: &World) -> (Lines, DefaultGuard) {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = AuditLog::to(move || writer.clone(), LineFormat::Json, Arc::clone(&world.clock) as _);
    (lines, capture(registry().with(log.with_filter(audited(Audited::Only)))))
}

/// The entries since this was last asked: event, outcome, reason and tool of each. All of them are about this task and
/// its owner, or about no task, and about Ann.
fn entries(lines: &Lines, task: Option<&TaskKey>) -> Vec<String> {
    let said = |line: Value| {
        let field = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        assert_eq!(field("owner"), task.map_or_else(ann, |task| task.owner).to_string(), "{line}");
        assert_eq!(field("task_id"), task.map_or_else(|| "-".to_owned(), |task| task.id.to_string()), "{line}");
        [field("event"), field("outcome"), field("reason"), field("tool")].join(" ")
    };
    lines.take().into_iter().map(said).collect()
}

#[tokio::test]
async fn an_accepted_call_is_done_once_and_repeated_after_that() {
    let world = World::new();
    let (lines, _guard) = captured(&world);
    let by_key = world.accept(call_with_key("k", 1)).await.key();
    assert_eq!(entries(&lines, Some(&by_key)), ["accept done - tool"]);
    world.accept(call_with_key("k", 1)).await;
    assert_eq!(entries(&lines, Some(&by_key)), ["accept repeated - tool"]);

    let chosen = SeededIds::new(8).task_id(world.now());
    let by_id = TaskKey::new(ann(), chosen);
    for outcome in ["done", "repeated"] {
        world.engine.accept_as(chosen, call()).await.unwrap();
        assert_eq!(entries(&lines, Some(&by_id)), [format!("accept {outcome} - tool")]);
        world.clock.advance_ms(1);
    }
}

#[tokio::test]
async fn a_call_that_is_refused_says_why() {
    let refused = async |settings: Settings, calls: Vec<Call>| {
        let world = World::with(settings);
        world.accept(call_with_key("k", 1)).await;
        let (lines, _guard) = captured(&world);
        for call in calls {
            world.engine.accept(call).await.unwrap_err();
        }
        entries(&lines, None)
    };
    let bytes = limits::REQUEST_BYTES_MAX + 1;
    let calls = vec![Call { request: "x".repeat(bytes), ..call() }, call_with_key("", 1), call_with_key("k", 2)];
    let usual = Settings::default;
    let reasons = refused(usual(), calls).await;
    assert_eq!(reasons, ["too_large", "invalid_key", "key_reused"].map(|why| format!("accept refused {why} tool")));
    let reasons = refused(Settings { open_tasks_max: 1, ..usual() }, vec![call()]).await;
    assert_eq!(reasons, ["accept refused too_many_open tool"]);
    let reasons = refused(Settings { new_tasks_max: Some(1), ..usual() }, vec![call()]).await;
    assert_eq!(reasons, ["accept refused too_many_new tool"]);
    let reasons = refused(Settings { stored_bytes_max: 3, ..usual() }, vec![call()]).await;
    assert_eq!(reasons, ["accept refused too_much_stored tool"]);
}

#[tokio::test]
async fn an_answer_is_done_or_finds_no_question_or_no_task() {
    let (world, key) = World::with_key().await;
    let asking = tool(|attempt| async move {
        attempt.ask("name", "{}".to_owned()).await;
        completed("1")
    });
    world.work(&asking).await;
    let (lines, _guard) = captured(&world);
    let large = "x".repeat(limits::ENTRY_BYTES_MAX + 1);
    world.engine.answer(&key, &answers("name", &large)).await.unwrap_err();
    assert_eq!(entries(&lines, Some(&key)), ["answer refused too_large -"]);
    for (name, outcome) in [("another", "unchanged"), ("name", "done"), ("name", "unchanged")] {
        world.engine.answer(&key, &answers(name, "1")).await.unwrap();
        assert_eq!(entries(&lines, Some(&key)), [format!("answer {outcome} - tool")]);
    }
    let foreign = TaskKey::new(given::owner("bob"), key.id);
    world.engine.answer(&foreign, &answers("name", "1")).await.unwrap_err();
    assert_eq!(entries(&lines, Some(&foreign)), ["answer not_found - -"]);
}

#[tokio::test]
async fn a_cancelled_task_is_cancelled_once_and_unchanged_after_that_or_if_it_was_completed() {
    let world = World::new();
    let (cancelled, completed) = (world.accepted().await.key(), world.accepted().await.key());
    let other = world.accepted().await.key();
    let (lines, _guard) = captured(&world);
    let cancel = async |key: &TaskKey, outcome: &str| {
        world.engine.cancel(key).await.unwrap();
        assert_eq!(entries(&lines, Some(key)), [format!("cancel {outcome} - tool")]);
    };
    cancel(&cancelled, "done").await;
    world.clock.advance_ms(1);
    cancel(&cancelled, "unchanged").await;
    world.engine.cancel_unfinished(&other).await.unwrap();
    assert_eq!(entries(&lines, Some(&other)), ["cancel done - tool"]);
    world.work(&quick()).await;
    // At the same moment.
    cancel(&completed, "unchanged").await;
    world.engine.cancel_unfinished(&completed).await.unwrap();
    assert_eq!(entries(&lines, Some(&completed)), ["cancel unchanged - tool"]);
    let foreign = TaskKey::new(given::owner("bob"), completed.id);
    world.engine.cancel(&foreign).await.unwrap_err();
    assert_eq!(entries(&lines, Some(&foreign)), ["cancel not_found - -"]);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_named_as_the_reason() {
    let (world, key) = World::with_key().await;
    world.store_fails(|call| matches!(call, StoreCall::Create(_) | StoreCall::Get(_) | StoreCall::Apply(..)));
    let (lines, _guard) = captured(&world);
    world.while_time_passes(50, world.engine.accept(call())).await.unwrap_err();
    assert_eq!(entries(&lines, None), ["accept unavailable - tool"]);
    world.while_time_passes(50, world.engine.answer(&key, &answers("name", "1"))).await.unwrap_err();
    assert_eq!(entries(&lines, Some(&key)), ["answer unavailable - -"]);
    world.while_time_passes(50, world.engine.cancel(&key)).await.unwrap_err();
    assert_eq!(entries(&lines, Some(&key)), ["cancel unavailable - -"]);
}

/// What is noted on spans after they have begun.
#[derive(Clone, Default)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl<S: Subscriber> Layer<S> for Noted {
    fn on_record(&self, _span: &Id, values: &Record<'_>, _context: Context<'_, S>) {
        values.record(&mut self.clone());
    }
}

impl Visit for Noted {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.lock().unwrap().push(format!("{field}={value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

#[tokio::test]
async fn the_span_of_a_request_says_which_task_it_was_about() {
    let world = World::new();
    let noted = Noted::default();
    let _guard = capture(registry().with(noted.clone()));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = Call { trace: TraceParent::parse(trace), ..call() };
    let span = || tracing::info_span!("request", task_id = Empty, attempt = Empty, trace = Empty);
    let key = world.accept(call).instrument(span()).await.key();
    world.engine.poll(&key).instrument(span()).await.unwrap();
    world.engine.cancel(&key).instrument(span()).await.unwrap();
    let expected = [format!("task_id={}", key.id), "attempt=0".to_owned(), format!("trace={trace}")];
    assert_eq!(*noted.0.lock().unwrap(), [&expected[..], &expected, &expected].concat());
}
