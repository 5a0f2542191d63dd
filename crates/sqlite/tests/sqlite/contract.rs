//! The contracts of the ports, tested on SQLite: in a file and in memory.

use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::Clock;
use longhaul_core::ports::{TaskStore, UnfinishedTasks, WorkQueue};
use longhaul_sqlite::{Database, Settings, SqliteQueue, SqliteStore};
use longhaul_testkit::{ManualClock, QueueHarness, StoreHarness, UnfinishedHarness};
use tempfile::TempDir;

/// A new database for each test.
struct Sqlite {
    database: Database,
    store: SqliteStore,
    queue: SqliteQueue,
    clock: Arc<ManualClock>,
    /// Deleted with the harness; `None` for a database in memory.
    _directory: Option<TempDir>,
}

impl Sqlite {
    fn new(database: &Database, clock: Arc<ManualClock>, directory: Option<TempDir>) -> Self {
        let (store, queue) = (database.store(), database.queue());
        Self { database: database.clone(), store, queue, clock, _directory: directory }
    }

    /// The same with the store that sends.
    fn sending(self) -> Self {
        Self { store: self.database.store_with_queue(), ..self }
    }
}

const SETTINGS: Settings = Settings {
    durability: longhaul_sqlite::Durability::PowerLoss,
    receives_max: 3,
    owner_in_flight_max: usize::MAX,
    notifications: longhaul_sqlite::Notifications::None,
    busy_ms_max: 5_000,
};

async fn in_a_file() -> Sqlite {
    let (clock, directory) = (Arc::new(ManualClock::default()), tempfile::tempdir().unwrap());
    let database =
        Database::open(&directory.path().join("longhaul.db"), Arc::clone(&clock) as Arc<dyn Clock>, SETTINGS).unwrap();
    Sqlite::new(&database, clock, Some(directory))
}

async fn in_memory() -> Sqlite {
    let clock = Arc::new(ManualClock::default());
    let database = Database::in_memory(Arc::clone(&clock) as Arc<dyn Clock>, SETTINGS).unwrap();
    Sqlite::new(&database, clock, None)
}

impl StoreHarness for Sqlite {
    fn store(&self) -> &dyn TaskStore {
        &self.store
    }
}

#[async_trait]
impl QueueHarness for Sqlite {
    fn queue(&self) -> &dyn WorkQueue {
        &self.queue
    }

    async fn pass_ms(&self, ms: u64) {
        self.clock.advance_ms(ms);
    }

    fn receives_max(&self) -> u32 {
        SETTINGS.receives_max
    }
}

impl UnfinishedHarness for Sqlite {
    fn unfinished(&self) -> &dyn UnfinishedTasks {
        &self.store
    }
}

async fn that_sends_in_a_file() -> Sqlite {
    in_a_file().await.sending()
}

async fn that_sends_in_memory() -> Sqlite {
    in_memory().await.sending()
}

mod store_in_a_file {
    longhaul_testkit::store_contract!(super::in_a_file);
}

mod store_in_memory {
    longhaul_testkit::store_contract!(super::in_memory);
    longhaul_testkit::store_model_property!(super::in_memory);
}

mod queue_in_a_file {
    longhaul_testkit::queue_contract!(super::in_a_file);
}

mod queue_in_memory {
    longhaul_testkit::queue_contract!(super::in_memory);
}

#[test]
fn all_owners_have_one_list() {
    longhaul_testkit::block_on(async {
        for store in [in_a_file().await, in_memory().await] {
            longhaul_testkit::all_owners_contract::a_list_of_all_owners_has_what_its_filter_takes(store.store()).await;
        }
    });
}

mod unfinished_in_a_file {
    longhaul_testkit::unfinished_contract!(super::in_a_file);
}

mod unfinished_in_memory {
    longhaul_testkit::unfinished_contract!(super::that_sends_in_memory);
}

mod one_database_in_a_file {
    longhaul_testkit::one_database_contract!(super::that_sends_in_a_file);
    longhaul_testkit::store_contract!(super::that_sends_in_a_file);
}

mod one_database_in_memory {
    longhaul_testkit::one_database_contract!(super::that_sends_in_memory);
}
