//! The contracts of the ports, tested on DynamoDB and SQS.

use std::time::Duration;

use async_trait::async_trait;
use harness::emulator;
use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, QuotaMode, SqsQueue};
use longhaul_core::ports::{TaskStore, WorkQueue};
use longhaul_testkit::{QueueHarness, StoreHarness};

use crate::fresh;

/// A new table for each test.
struct Dynamo(DynamoStore);

impl StoreHarness for Dynamo {
    fn store(&self) -> &dyn TaskStore {
        &self.0
    }
}

async fn counted() -> Dynamo {
    let (clients, table) = fresh().await;
    Dynamo(DynamoStore::new(clients.dynamo, table).with_quota(QuotaMode::Counted))
}

async fn uncounted() -> Dynamo {
    let (clients, table) = fresh().await;
    Dynamo(DynamoStore::new(clients.dynamo, table))
}

/// New queues for each test.
struct Sqs(SqsQueue);

#[async_trait]
impl QueueHarness for Sqs {
    fn queue(&self) -> &dyn WorkQueue {
        &self.0
    }

    #[expect(clippy::disallowed_methods, reason = "the emulator's clock is the real one")]
    async fn pass_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn receives_max(&self) -> u32 {
        emulator::RECEIVES_MAX
    }
}

async fn queue() -> Sqs {
    let clients = Clients::new(&emulator::config());
    let (queue, dead) = emulator::queues(&clients).await;
    Sqs(SqsQueue::new(clients.sqs, queue, dead))
}

mod store_that_counts {
    longhaul_testkit::store_contract!(super::counted);
    longhaul_testkit::store_model_property!(super::counted);
}

mod store_that_does_not_count {
    longhaul_testkit::store_model_property!(super::uncounted);
}

mod sqs_queue {
    longhaul_testkit::queue_contract!(super::queue);
}
