//! Dead letters, schedules, and messages of others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use longhaul_core::{Admission, Clock, FailureKind, Identity, OwnerId, State, TaskEvent};
use longhaul_mcp::{McpServer, McpSettings, Overlap, Schedule, TaskPolicy};
use rmcp::ServerHandler;
use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use super::working::{LONG_MS, answer, failed, keys, message_id, receipt, worker};
use crate::world::{World, event};

#[tokio::test]
async fn a_dead_letter_ends_its_task_if_no_retries_are_left() {
    let (world, runner, event) = (World::new(), Arc::default(), event("dead-letter"));
    let key = keys(&event)[0].unwrap();
    world.accepted(key, "hangs").await;
    // Three attempts died: the last one's lease has expired.
    for _ in 0..3 {
        let claim = TaskEvent::Claim {
            token: given_token(),
            lease_until: world.clock.now().plus_ms(1_000),
            admission: Admission::Free,
        };
        world.store.apply(&key, &claim, world.clock.now()).await.unwrap();
        world.clock.advance_ms(1_001);
    }
    assert_eq!(answer(&worker(&world, &runner, 3), &event, LONG_MS, &world).await, failed(&[message_id(&event, 1)]));
    let ended = world.task(&key).await;
    assert!(matches!(&ended.state, State::Failed { failure } if failure.kind == FailureKind::RetriesExhausted));
    assert_eq!(runner.running_max.load(Ordering::SeqCst), 0, "dead letters run no tools");
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_read_stays_in_its_queue() {
    let (world, runner, event) = (World::new(), Arc::default(), event("dead-letter"));
    answer(&worker(&world, &runner, 3), &event, LONG_MS, &world).await;
    assert_eq!(world.dead_letters.extensions_of(&receipt(&event, 1)), [6 * 3_600_000]);
    assert_eq!(world.queue.asked(), []);
}

pub(super) fn given_token() -> longhaul_core::LeaseToken {
    longhaul_core::LeaseToken::from_random([9; 16])
}

/// A handler with the one tool that a schedule calls.
struct Reports;

impl ServerHandler for Reports {
    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == "report").then(|| Tool::new("report", "", JsonObject::new()))
    }
}

fn tick() -> Value {
    let mut event = event("worker-batch");
    let record = &mut event["Records"][0];
    record["body"] = r#"{"lookAtSchedules":"2033-05-18T12:00:00Z"}"#.into();
    json!({"Records": [record]})
}

#[tokio::test]
async fn a_worker_that_is_told_so_makes_the_calls_of_schedules_that_are_due() {
    let (world, runner) = (World::new(), Arc::default());
    let owner = OwnerId::of(Identity::Anonymous);
    let schedule = Schedule::new("often", "* * * * *", "report", json!({})).owner(owner).overlap(Overlap::Allow);
    let policies = BTreeMap::from([("report".to_owned(), TaskPolicy::optional())]);
    let server = McpServer::new(|| Reports, policies, world.engine.clone(), McpSettings::new([1; 32]));
    let worker = worker(&world, &runner, 1).keeps_schedules_of(server.with_schedules(&[schedule]));
    for accepted in [0, 1, 2] {
        // Messages are delivered more than once.
        for _ in 0..2 {
            assert_eq!(answer(&worker, &tick(), LONG_MS, &world).await, failed(&[]));
        }
        let tasks = world.engine.list(&owner, None, 10).await.unwrap().tasks;
        assert_eq!(tasks.len(), accepted);
        assert!(tasks.iter().all(|task| task.tool == "report"));
        world.clock.advance_ms(60_000);
    }
}

#[tokio::test]
async fn a_server_without_schedules_needs_none() {
    let (world, runner) = (World::new(), Arc::default());
    assert_eq!(answer(&worker(&world, &runner, 1), &tick(), LONG_MS, &world).await, failed(&[]));
    assert_eq!(world.queue.asked(), []);
}

/// `serde` reads structures from lists too: the first message was once read as "look at the schedules", and deleted.
#[tokio::test]
async fn messages_of_others_are_neither_believed_nor_deleted() {
    let (world, runner) = (World::new(), Arc::default());
    for body in ["[1]", r#"[{"orderId": 7}]"#, r#"[{"lookAtSchedules": ""}]"#, r#"{"orderId": 7}"#, "1", "", "[[1]]"] {
        let mut event = tick();
        event["Records"][0]["body"] = body.into();
        let unread = failed(&[message_id(&event, 0)]);
        assert_eq!(answer(&worker(&world, &runner, 1), &event, LONG_MS, &world).await, unread, "{body}");
    }
    assert_eq!(world.queue.asked(), []);
}
