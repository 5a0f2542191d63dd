//! A store in memory keeps the contract for records that cannot be read.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::TaskStore;
use longhaul_core::{EntryKind, TaskKey};
use longhaul_testkit::{Damage, DamageHarness, FakeStore, StoreHarness};

struct InMemory(Arc<FakeStore>);

impl StoreHarness for InMemory {
    fn store(&self) -> &dyn TaskStore {
        &*self.0
    }
}

#[async_trait]
impl DamageHarness for InMemory {
    async fn damage(&self, key: &TaskKey, damage: Damage) {
        self.0.damage(key, damage);
    }

    async fn damage_entry(&self, key: &TaskKey, kind: EntryKind, name: &str) {
        self.0.damage_entry(key, kind, name);
    }

    async fn stored(&self, key: &TaskKey) -> String {
        format!("{:?}", self.0.record_of(key))
    }
}

async fn in_memory() -> InMemory {
    InMemory(Arc::default())
}

longhaul_testkit::damage_contract!(in_memory);
