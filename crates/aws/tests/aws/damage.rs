//! Items that cannot be read: the contract for them.

use std::collections::HashMap;

use async_trait::async_trait;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::ports::TaskStore;
use longhaul_core::{EntryKind, TaskKey};
use longhaul_testkit::{Damage, DamageHarness, StoreHarness};

use crate::fresh;

type Item = HashMap<String, AttributeValue>;

/// A table, and a hand that damages what is in it.
struct Damaged {
    store: DynamoStore,
    clients: Clients,
    table: String,
}

async fn damaged() -> Damaged {
    let (clients, table) = fresh().await;
    let store = DynamoStore::new(clients.dynamo.clone(), &table).with_quota(QuotaMode::Counted);
    Damaged { store, clients, table }
}

impl Damaged {
    /// All items whose sort key satisfies this.
    async fn items(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<Item> {
        let scanned = self.clients.dynamo.scan().table_name(&self.table).send().await.unwrap();
        let items = scanned.items().iter().filter(|item| is_wanted(item["sk"].as_s().unwrap()));
        items.cloned().collect()
    }

    async fn task_item(&self, key: &TaskKey) -> Item {
        let [item] = self.items(|sk| sk == key.id.to_string()).await.try_into().unwrap();
        item
    }

    async fn put(&self, item: Item) {
        self.clients.dynamo.put_item().table_name(&self.table).set_item(Some(item)).send().await.unwrap();
    }
}

impl StoreHarness for Damaged {
    fn store(&self) -> &dyn TaskStore {
        &self.store
    }
}

#[async_trait]
impl DamageHarness for Damaged {
    async fn damage(&self, key: &TaskKey, damage: Damage) {
        let mut item = self.task_item(key).await;
        let (name, value) = match damage {
            Damage::CutShort => ("request", None),
            Damage::UnknownState => ("state", Some(AttributeValue::S("paused".to_owned()))),
            Damage::WrongType => ("attempt", Some(AttributeValue::S("many".to_owned()))),
            Damage::NotText => ("tool", Some(AttributeValue::B(Blob::new([0xff])))),
            Damage::NewerVersion => ("format", Some(AttributeValue::N("2".to_owned()))),
        };
        item.remove(name);
        item.extend(value.map(|value| (name.to_owned(), value)));
        self.put(item).await;
    }

    async fn damage_entry(&self, key: &TaskKey, kind: EntryKind, name: &str) {
        let kind = kind.as_str();
        let items = self.items(|sk| sk.contains(kind) && sk.ends_with(name)).await;
        let is_of = |item: &Item| item["pk"].as_s().unwrap().contains(&key.id.to_string());
        let [mut item] = items.into_iter().filter(is_of).collect::<Vec<_>>().try_into().unwrap();
        item.insert("value".to_owned(), AttributeValue::Bool(true));
        self.put(item).await;
    }

    async fn stored(&self, key: &TaskKey) -> String {
        let item = self.task_item(key).await;
        format!("{:?}", item.iter().collect::<std::collections::BTreeMap<_, _>>())
    }
}

mod unreadable_items {
    longhaul_testkit::damage_contract!(super::damaged);
}
