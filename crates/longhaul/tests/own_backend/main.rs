//! A store and a queue that use nothing but the public API: they keep the published contract, and a server runs on them.

#![expect(clippy::unwrap_used, reason = "what goes wrong in a test shows as a panic")]

mod queue;
mod serving;
mod store;

use std::sync::Arc;

use longhaul::contract::{ManualClock, QueueHarness};
use longhaul::ports::{Clock, WorkQueue, async_trait};

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
    longhaul::contract::store_contract!(super::empty_store);
    longhaul::contract::store_model_property!(super::empty_store);
}

mod queue_contract {
    longhaul::contract::queue_contract!(super::empty_queue);
}
