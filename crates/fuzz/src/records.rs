//! Events of the worker function: records of the work queue and of the dead letters.
//!
//! An input is an SQS event. Each record is either reported as failed, or names a task by a message that can be written
//! again. No record changes how another one is handled.

use std::sync::Arc;

use aws_lambda_events::sqs::SqsEvent;
use longhaul_aws::{body_of, read_delivered};
use longhaul_core::ports::Purpose;
use longhaul_core::{Clock, TaskKey};
use longhaul_lambda::{DeadLetters, Worker};
use longhaul_testkit::{SeededIds, given};

use crate::driver::drive;
use crate::world::World;

/// Records of one event. SQS delivers at most 10 without a window.
const RECORDS_MAX: usize = 10;

/// The queue of dead letters in the sample events.
const DEAD_LETTERS: &str = "https://sqs.us-east-1.amazonaws.com/111122223333/longhaul-dead-letters";

/// How long the function may run.
const LEFT_MS: u64 = 900_000;

/// Runs one batch.
pub(crate) fn run(input: &[u8]) {
    let Ok(mut event) = serde_json::from_slice::<SqsEvent>(input) else { return };
    event.records.truncate(RECORDS_MAX);
    let world = World::new();
    let clock = Arc::clone(&world.clock);
    let named: Vec<Option<TaskKey>> = event.records.iter().map(|record| named(record.body.as_deref())).collect();
    let ids: Vec<Option<String>> = event.records.iter().map(|record| record.message_id.clone()).collect();
    let failed = drive(&clock, async {
        for key in named.iter().flatten() {
            let task = given::task_with(&SeededIds::new(2), key.owner, clock.now(), |record| {
                record.id = key.id;
                record.tool = "greets".to_owned();
            });
            world.store.create(given::new(task), clock.now()).await.unwrap();
        }
        let letters = DeadLetters::new(Arc::clone(&world.queue), DEAD_LETTERS);
        let worker = Worker::new(world.engine.clone(), world.mcp.runner(), letters, 2);
        let report = worker.run_batch(event, clock.now().plus_ms(LEFT_MS)).await;
        let report = serde_json::to_value(report).unwrap();
        let failures = report["batchItemFailures"].as_array().unwrap().clone();
        failures
            .iter()
            .map(|failure| failure["itemIdentifier"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    });
    for (key, id) in named.iter().zip(&ids) {
        let id = id.clone().unwrap_or_default();
        assert!(key.is_some() || failed.contains(&id), "a record that names no task was acknowledged");
    }
    assert!(failed.len() <= ids.len());
}

/// The task that a body names. Its message can be written, and is then read as the same.
fn named(body: Option<&str>) -> Option<TaskKey> {
    let (message, purpose) = read_delivered(body?, None).ok()?;
    if purpose == Purpose::Work {
        assert_eq!(read_delivered(&body_of(&message), None).unwrap(), (message.clone(), purpose));
    }
    Some(message.task)
}
