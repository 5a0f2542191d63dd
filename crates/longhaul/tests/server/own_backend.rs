//! A store and a queue that use nothing but the public API: they keep the published contract, and a server runs on
//! them.

mod queue;
mod serving;
mod store;

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{NewTask, TaskStore, WorkQueue};
use longhaul_core::{
    Attempts, Cleanup, Clock, IdSource, Identity, OwnerId, Payload, Policy, RequestedTerms, State, Task, TaskFilter,
    TaskRecord, Terms, Timestamp,
};
use longhaul_testkit::{ManualClock, QueueHarness};

use queue::{MemoryQueue, RECEIVES_MAX};
use store::MemoryStore;

async fn empty_store() -> Arc<MemoryStore> {
    Arc::default()
}

/// The queue, and the clock that it reads.
struct Queue {
    queue: MemoryQueue,
    clock: Arc<ManualClock>,
}

async fn empty_queue() -> Queue {
    let clock = Arc::new(ManualClock::default());
    Queue { queue: MemoryQueue::new(Arc::clone(&clock) as Arc<dyn Clock>), clock }
}

#[async_trait]
impl QueueHarness for Queue {
    fn queue(&self) -> &dyn WorkQueue {
        &self.queue
    }

    async fn pass_ms(&self, ms: u64) {
        self.clock.advance_ms(ms);
    }

    fn receives_max(&self) -> u32 {
        RECEIVES_MAX
    }
}

mod store_contract {
    longhaul_testkit::store_contract!(super::empty_store);
    longhaul_testkit::store_model_property!(super::empty_store);
}

mod queue_contract {
    longhaul_testkit::queue_contract!(super::empty_queue);
}

/// Ids that differ by their moments only.
struct Plain;

impl IdSource for Plain {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn task(owner: OwnerId, tool: &str, at: Timestamp) -> Task {
    let terms = Terms::negotiate(&Policy::default(), RequestedTerms::default());
    Task::restore(TaskRecord {
        owner,
        id: Plain.task_id(at),
        tool: tool.to_owned(),
        state: State::Queued,
        attempt: 0,
        failures: 0,
        last_failure: None,
        terms,
        created_at: at,
        not_before: None,
        flow: None,
        labels: Default::default(),
        updated_at: at,
        sent_at: at,
        resends: 0,
        started_at: None,
        ended_at: None,
        expires_at: at.plus_ms(terms.ttl_ms),
        progress: None,
        request: Payload::Inline("{}".to_owned()),
        trace: None,
        variables: None,
        cleanup: Cleanup::None,
        held_until: None,
        asked: Vec::new(),
        answered: Vec::new(),
        parent: None,
        resumes: None,
        attempts: Attempts::default(),
    })
}

/// A store has filtered lists without a line of its own, and each page of them ends.
#[tokio::test]
async fn a_filtered_list_stops_after_many_tasks_and_says_where_to_go_on() {
    let (store, owner, now) = (empty_store().await, OwnerId::of(Identity::Anonymous), Timestamp::from_ms(1_000_000));
    for number in 0..1_200 {
        let task = task(owner, if number == 0 { "rare" } else { "common" }, now.plus_ms(number));
        let new = NewTask {
            task,
            request_parts: Arc::default(),
            journal: Arc::default(),
            idempotency: None,
            open_max: u32::MAX,
            stored_max: u64::MAX,
            new_max: None,
            send_in_ms: None,
        };
        store.create(new, now).await.unwrap();
    }
    let filter = TaskFilter { tool: Some("rare".to_owned()), ..TaskFilter::default() };
    let first = store.list_filtered(&owner, &filter, None, 10, now).await.unwrap();
    assert!(first.tasks.is_empty() && first.next.is_some(), "1,100 tasks were read, and none of them is taken");
    let second = store.list_filtered(&owner, &filter, first.next, 10, now).await.unwrap();
    assert_eq!((second.tasks.len(), second.next), (1, None));
}
