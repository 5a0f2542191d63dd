//! The count of unfinished tasks: what a refusal costs, and what happens if the count is wrong.

use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::TaskEvent;
use longhaul_core::ports::{CreateError, Created, NewTask, TaskStore};
use longhaul_testkit::given::{self, NOW, owner};
use longhaul_testkit::{SeededIds, block_on};

use crate::emulator;
use crate::meter::Meter;

struct Limited {
    store: DynamoStore,
    /// The same table, without a count.
    unlimited: DynamoStore,
    meter: Meter,
    clients: Clients,
    table: String,
    ids: SeededIds,
}

impl Limited {
    async fn new() -> Self {
        let clients = Clients::new(&emulator::config());
        let table = emulator::table(&clients).await;
        let meter = Meter::default();
        let config = clients.dynamo.config().to_builder().interceptor(meter.clone()).build();
        let store = DynamoStore::new(aws_sdk_dynamodb::Client::from_conf(config), &table);
        let unlimited = DynamoStore::new(clients.dynamo.clone(), &table);
        let store = store.with_quota(QuotaMode::Counted);
        Self { store, unlimited, meter, clients, table, ids: SeededIds::new(1) }
    }

    /// Creates one more task of alice, who may have two.
    async fn create(&self) -> Result<Created, CreateError> {
        let task = given::task(&self.ids, owner("alice"), NOW);
        self.store.create(NewTask { open_max: 2, ..given::new(task) }, NOW).await
    }

    async fn created(&self) -> longhaul_core::Task {
        match self.create().await {
            Ok(Created::New(task)) => task,
            other => panic!("{other:?}"),
        }
    }

    async fn delete_the_count(&self) {
        let pk = AttributeValue::S(format!("q#{}", owner("alice")));
        let sk = AttributeValue::S("-".to_owned());
        let delete = self.clients.dynamo.delete_item().table_name(&self.table).key("pk", pk).key("sk", sk);
        delete.send().await.unwrap();
    }
}

#[test]
fn a_refusal_at_the_limit_costs_one_call_however_many_tasks_there_are() {
    block_on(async {
        let limited = Limited::new().await;
        limited.created().await;
        limited.created().await;
        limited.meter.calls();
        assert!(matches!(limited.create().await, Err(CreateError::TooManyOpen { open_max: 2 })));
        assert_eq!(limited.meter.names(), ["TransactWriteItems"]);
    });
}

#[test]
fn a_task_ends_even_if_the_count_was_lost() {
    block_on(async {
        let limited = Limited::new().await;
        let task = limited.created().await;
        limited.delete_the_count().await;
        assert!(limited.store.apply(&task.key(), &TaskEvent::Cancel, NOW).await.unwrap().has_ended());
        // And it does not release a slot that it does not have.
        limited.created().await;
        limited.created().await;
        assert!(limited.create().await.is_err());
    });
}

#[test]
fn a_task_that_was_never_counted_releases_no_slot() {
    block_on(async {
        let limited = Limited::new().await;
        let uncounted = given::queued(&limited.unlimited, &limited.ids, owner("alice")).await;
        limited.created().await;
        limited.created().await;
        assert!(limited.store.apply(&uncounted.key(), &TaskEvent::Cancel, NOW).await.unwrap().has_ended());
        assert!(limited.create().await.is_err());
    });
}
