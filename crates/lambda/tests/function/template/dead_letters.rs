//! The dead-letter function does nothing that its role does not allow. A refusal would count as a table that does not
//! answer, and ring an alarm.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, Purpose, StoreError, TaskStore};
use longhaul_core::{Clock, Entry, EntryKind, Lease, LeaseToken, Parent, State, Status, TaskKey, limits};
use longhaul_engine::{Disposition, Engine, Ports, Settings};
use longhaul_testkit::{Layered, SeededIds, StoreCall, StoreLayer, given};
use serde_json::{Value, json};

use super::TEMPLATE;
use super::resolve::Stack;
use crate::world::World;

/// A store that refuses what a role does not allow, and says what that was.
struct Role {
    allowed: BTreeSet<(String, String)>,
    store: Arc<dyn TaskStore>,
    denied: Arc<Mutex<Vec<(&'static str, &'static str)>>>,
}

#[derive(Debug, thiserror::Error)]
#[error("AccessDeniedException")]
struct AccessDenied;

/// The permissions that a call needs on DynamoDB: actions, and their partitions.
fn needed(call: StoreCall<'_>) -> &'static [(&'static str, &'static str)] {
    match call {
        StoreCall::Create(_) => &[("PutItem", "o#*")],
        StoreCall::Get(_) => &[("GetItem", "o#*")],
        StoreCall::Apply(..) => &[("UpdateItem", "o#*"), ("UpdateItem", "q#*")],
        StoreCall::List(_) => &[("Query", "o#*")],
        StoreCall::Record(..) => &[("GetItem", "o#*"), ("PutItem", "t#*")],
        StoreCall::Journal(_) => &[("Query", "t#*")],
        StoreCall::PutParts(..) => &[("BatchWriteItem", "t#*")],
        StoreCall::Parts(..) => &[("BatchGetItem", "t#*")],
        StoreCall::Leave(..) => &[("PutItem", "m#*")],
        StoreCall::Collect(..) => &[("GetItem", "m#*")],
    }
}

#[async_trait]
impl StoreLayer for Role {
    fn inner(&self) -> &dyn TaskStore {
        &*self.store
    }

    async fn around<T: Send, E: From<StoreError> + Send>(
        &self,
        call: StoreCall<'_>,
        real: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, E> {
        let is_denied = |(action, keys): &&(&str, &str)| {
            !self.allowed.contains(&(format!("dynamodb:{action}"), (*keys).to_owned()))
        };
        let denied: Vec<_> = needed(call).iter().filter(is_denied).copied().collect();
        if denied.is_empty() {
            return real.await;
        }
        self.denied.lock().unwrap().extend(denied);
        Err(StoreError::Unavailable(AccessDenied.into()).into())
    }
}

/// The permissions of a role on the table, by their partitions.
fn on_the_table(role: &str) -> BTreeSet<(String, String)> {
    let role = Stack::new(&TEMPLATE, &[]).resource(role).unwrap();
    let words = |value: &Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let policies = role["Policies"].as_array().unwrap();
    let statements = policies.iter().flat_map(|policy| policy["PolicyDocument"]["Statement"].as_array().unwrap());
    let on_table = statements.filter(|statement| statement["Resource"]["Fn::GetAtt"] == "Tasks.Arn");
    let pairs = on_table.flat_map(|statement| {
        let keys = words(&statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]);
        let actions = words(&statement["Action"]);
        actions.into_iter().flat_map(move |action| keys.clone().into_iter().map(move |key| (action.clone(), key)))
    });
    pairs.collect()
}

fn key(number: u64) -> TaskKey {
    let id = longhaul_core::IdSource::task_id(&SeededIds::new(number), given::NOW);
    TaskKey::new(given::owner("alice"), id)
}

/// The last attempt of a task died: its message is a dead letter.
async fn died(world: &World, key: TaskKey, parent: Option<TaskKey>) {
    let until = world.clock.now();
    world
        .accepted_with(key, |record| {
            record.state = State::Running { lease: Lease { until, token: LeaseToken::from_random([7; 16]) } };
            record.attempt = 1;
            record.failures = record.terms.consecutive_failures_max - 1;
            record.attempts.since = Some(until);
            record.parent = parent.map(|parent| Parent { id: parent.id, depth: 1 });
        })
        .await;
}

#[tokio::test]
async fn it_may_tell_the_parent_and_the_children_of_a_task_that_it_ends() {
    let world = World::new();
    let (parent, child, grandchild) = (key(1), key(2), key(3));
    world
        .accepted_with(parent, |record| {
            record.state = State::Sleeping { until: given::NOW.plus_ms(limits::CHILD_POLL_MS_MAX) };
            record.attempt = 1;
        })
        .await;
    died(&world, child, Some(parent)).await;
    world.accepted_with(grandchild, |record| record.parent = Some(Parent { id: child.id, depth: 2 })).await;
    let call = json!({"child": grandchild.id.to_string(), "at": given::NOW.as_ms()}).to_string();
    let called = Entry { kind: EntryKind::Step, name: "call".to_owned(), value: given::inline(&call), recording: None };
    world.store.record(&child, &called).await.unwrap();

    let denied = Arc::default();
    let role = Role {
        allowed: on_the_table("DeadLetterWorkerRole"),
        store: Arc::clone(&world.store),
        denied: Arc::clone(&denied),
    };
    let ports = Ports {
        store: Arc::new(Layered(role)),
        queue: Arc::clone(&world.queue) as _,
        clock: Arc::clone(&world.clock) as _,
        ids: Arc::new(SeededIds::new(9)),
    };
    let engine = Engine::new(ports, Settings::default());
    let message = Message { task: child, trace: None, attempt: Some(0) };
    let letter = Delivery { message, receipt: "r".to_owned(), receives: 6, purpose: Purpose::Work };
    assert_eq!(engine.run_dead_letter(&letter).await, Disposition::Acknowledge);

    assert_eq!(*denied.lock().unwrap(), []);
    assert_eq!(world.task(&child).await.status(), Status::Failed);
    let heard = world.store.journal(&parent).await.unwrap();
    assert!(heard.iter().any(|entry| entry.name == child.id.to_string()), "{heard:?}");
    assert_eq!(world.task(&grandchild).await.status(), Status::Cancelled);
}
