//! A store in memory, a queue that records its calls, and a clock that is set by hand.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, QueueError, TaskStore, WorkQueue};
use longhaul_core::{Clock, Task, TaskId, TaskKey, TaskRecord};
use longhaul_engine::{Engine, Ports, Settings};
use longhaul_sqlite::Database;
use longhaul_testkit::{ManualClock, SeededIds, given};
use serde_json::Value;

/// A file at the root of the repository.
pub(crate) fn path(of: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(of)
}

/// The text of a file at the root of the repository.
pub(crate) fn file(of: &str) -> String {
    std::fs::read_to_string(path(of)).unwrap_or_else(|error| panic!("{of}: {error}"))
}

/// One of the sample events.
pub(crate) fn event(name: &str) -> Value {
    serde_json::from_str(&file(&format!("infra/events/{name}.json"))).unwrap()
}

/// The requests that a queue got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Send { task: TaskId, trace: Option<String> },
    Extend { receipt: String, visibility_ms: u64 },
    Delete { receipt: String },
}

/// A queue that does nothing and records every call.
#[derive(Default)]
pub(crate) struct Spy(Mutex<Vec<Asked>>);

impl Spy {
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn extensions_of(&self, receipt: &str) -> Vec<u64> {
        let of = |asked| match asked {
            Asked::Extend { receipt: other, visibility_ms } if other == receipt => Some(visibility_ms),
            Asked::Extend { .. } | Asked::Send { .. } | Asked::Delete { .. } => None,
        };
        self.asked().into_iter().filter_map(of).collect()
    }

    fn record(&self, asked: Asked) {
        self.0.lock().unwrap().push(asked);
    }
}

#[async_trait]
impl WorkQueue for Spy {
    async fn send(&self, message: &Message, _delay_ms: u64) -> Result<(), QueueError> {
        self.record(Asked::Send { task: message.task.id, trace: message.trace.map(|trace| trace.to_string()) });
        Ok(())
    }

    async fn receive(&self, _max: usize, _visibility_ms: u64, _wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        panic!("a function never receives: Lambda delivers its events")
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        self.record(Asked::Extend { receipt: receipt.to_owned(), visibility_ms });
        Ok(())
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        self.record(Asked::Delete { receipt: receipt.to_owned() });
        Ok(())
    }

    async fn receive_dead(&self, _max: usize, _visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        panic!("a function never receives: Lambda delivers its events")
    }
}

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) queue: Arc<Spy>,
    pub(crate) dead_letters: Arc<Spy>,
    pub(crate) store: Arc<dyn TaskStore>,
    pub(crate) engine: Engine,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::default());
        let settings = longhaul_sqlite::Settings::default();
        let database = Database::in_memory(Arc::<ManualClock>::clone(&clock), settings).unwrap();
        let (queue, dead_letters) = (Arc::new(Spy::default()), Arc::new(Spy::default()));
        let store: Arc<dyn TaskStore> = Arc::new(database.store());
        let ports = Ports {
            store: Arc::clone(&store),
            queue: Arc::<Spy>::clone(&queue),
            clock: Arc::<ManualClock>::clone(&clock),
            ids: Arc::new(SeededIds::new(1)),
        };
        let engine = Engine::new(ports, Settings::default());
        Self { clock, queue, dead_letters, store, engine }
    }

    /// Creates a queued task with the key that a sample event names, whose tool is called `tool`.
    pub(crate) async fn accepted(&self, key: TaskKey, tool: &str) {
        self.accepted_with(key, |record| record.tool = tool.to_owned()).await;
    }

    /// The same with an adjusted record.
    pub(crate) async fn accepted_with(&self, key: TaskKey, adjust: impl FnOnce(&mut TaskRecord)) {
        let task = given::task_with(&SeededIds::new(2), key.owner, self.clock.now(), |record| {
            record.id = key.id;
            adjust(record);
        });
        self.store.create(given::new(task), self.clock.now()).await.unwrap();
    }

    pub(crate) async fn task(&self, key: &TaskKey) -> Task {
        self.store.get(key, self.clock.now()).await.unwrap().expect("the task exists")
    }
}
