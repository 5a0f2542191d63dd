//! A store and a queue in memory that are one database, into which one fault can be planted.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{CreateError, Created, Message, NewTask, TaskStore, WorkQueue};
use longhaul_core::{Clock, Task, Timestamp};
use longhaul_testkit::{FakeQueue, FakeStore, Layered, ManualClock, QueueHarness, StoreHarness, StoreLayer};

/// How often a message is delivered.
const RECEIVES_MAX: u32 = 3;

/// A mistake in a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    SaysThatItSent,
    SendsBeforeItDecides,
    SendsForARetry,
    SendsUnasked,
    ForgetsTheDelay,
    ForgetsTheTrace,
    SendsTwice,
}

/// See the module.
pub(crate) struct PlantedDatabase(Layered<Planted>);

struct Planted {
    fault: Fault,
    store: FakeStore,
    queue: Arc<FakeQueue>,
    clock: Arc<ManualClock>,
}

impl PlantedDatabase {
    pub(crate) fn new(fault: Fault) -> Self {
        let clock = Arc::new(ManualClock::default());
        let queue = Arc::new(FakeQueue::new(Arc::clone(&clock) as Arc<dyn Clock>, RECEIVES_MAX));
        let store = match fault {
            Fault::None | Fault::SendsTwice | Fault::SendsBeforeItDecides | Fault::SendsForARetry => {
                FakeStore::one_with(Arc::clone(&queue))
            }
            Fault::SaysThatItSent | Fault::SendsUnasked | Fault::ForgetsTheDelay | Fault::ForgetsTheTrace => {
                FakeStore::default()
            }
        };
        Self(Layered(Planted { fault, store, queue, clock }))
    }
}

impl Planted {
    async fn send(&self, task: &Task, delay_ms: u64) {
        let trace = task.trace.filter(|_| self.fault != Fault::ForgetsTheTrace);
        self.queue.send(&Message { trace, ..Message::about(task) }, delay_ms).await.unwrap();
    }
}

impl StoreHarness for PlantedDatabase {
    fn store(&self) -> &dyn TaskStore {
        &self.0
    }
}

#[async_trait]
impl QueueHarness for PlantedDatabase {
    fn queue(&self) -> &dyn WorkQueue {
        &*self.0.queue
    }

    async fn pass_ms(&self, ms: u64) {
        self.0.clock.advance_ms(ms);
    }

    fn receives_max(&self) -> u32 {
        RECEIVES_MAX
    }
}

#[async_trait]
impl StoreLayer for Planted {
    fn inner(&self) -> &dyn TaskStore {
        &self.store
    }

    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        let (task, send_in_ms) = (new.task.clone(), new.send_in_ms);
        if self.fault == Fault::SendsBeforeItDecides {
            self.send(&task, 0).await;
            let created = self.store.create(NewTask { send_in_ms: None, ..new }, now).await?;
            return Ok(match created {
                Created::New(task) if send_in_ms.is_some() => Created::NewAndSent(task),
                other => other,
            });
        }
        let created = self.store.create(new, now).await?;
        match (self.fault, created, send_in_ms) {
            (Fault::SaysThatItSent, Created::New(task), Some(_)) => Ok(Created::NewAndSent(task)),
            (Fault::SendsForARetry, Created::Existing(task), _) => {
                self.send(&task, 0).await;
                Ok(Created::Existing(task))
            }
            (Fault::SendsTwice, Created::NewAndSent(task), _) => {
                self.send(&task, 0).await;
                Ok(Created::NewAndSent(task))
            }
            (Fault::SendsUnasked, Created::New(task), _) => {
                self.send(&task, send_in_ms.unwrap_or(0)).await;
                Ok(Created::NewAndSent(task))
            }
            (Fault::ForgetsTheDelay | Fault::ForgetsTheTrace, Created::New(task), Some(send_in_ms)) => {
                self.send(&task, if self.fault == Fault::ForgetsTheDelay { 0 } else { send_in_ms }).await;
                Ok(Created::NewAndSent(task))
            }
            (_, created, _) => Ok(created),
        }
    }
}
