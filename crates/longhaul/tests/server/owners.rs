//! Owners share a server: long tasks of one do not keep the tasks of another waiting.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
use longhaul::serve::{self, Options, Running};
use longhaul::{OsIds, Server, SystemClock, TaskPolicy};
use longhaul_core::ports::{Message, NewTask, TaskStore, WorkQueue};
use longhaul_core::settings::table;
use longhaul_core::{Clock, IdSource, Identity, OwnerId, State, Task, TaskRecord};
use longhaul_sqlite::{Database, Settings};
use tokio::sync::{Semaphore, watch};

use crate::call_of;

/// How long a test waits for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the tools did, in order; and what the long ones wait for.
struct Seen {
    events: watch::Sender<Vec<&'static str>>,
    may_end: Semaphore,
}

impl Seen {
    fn note(&self, event: &'static str) {
        self.events.send_modify(|events| events.push(event));
    }

    fn count(&self, event: &str) -> usize {
        self.events.borrow().iter().filter(|seen| **seen == event).count()
    }

    /// Waits until `event` was seen `count` times.
    async fn until(&self, event: &str, count: usize) {
        let mut events = self.events.subscribe();
        let seen = events.wait_for(|events| events.iter().filter(|seen| **seen == event).count() >= count);
        let waited = tokio::time::timeout(PATIENCE, seen).await.map(drop);
        assert!(waited.is_ok(), "waited for {count} x {event}: {:?}", self.events.borrow());
    }
}

#[derive(Clone)]
struct Tools(Arc<Seen>);

#[tool_router]
impl Tools {
    #[tool]
    async fn long(&self) -> String {
        self.0.note("long begins");
        self.0.may_end.acquire().await.unwrap().forget();
        self.0.note("long ends");
        String::new()
    }

    #[tool]
    async fn short(&self) -> String {
        self.0.note("short");
        String::new()
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

fn options(db: &Path) -> Options {
    Options::default().with(&table::LISTEN, SocketAddr::from(([127, 0, 0, 1], 0))).with(&table::DB, db)
}

async fn start(seen: &Arc<Seen>, options: &Options) -> Running {
    let seen = Arc::clone(seen);
    let server = Server::new(move || Tools(Arc::clone(&seen)));
    let server = server.task("long", TaskPolicy::optional()).task("short", TaskPolicy::optional());
    serve::start(&server, options).await.unwrap()
}

/// Calls of owners that a local server does not tell apart: written into its file while it does not run.
struct Calls {
    database: Database,
    pattern: Task,
}

impl Calls {
    async fn open(db: &Path) -> Self {
        let database = Database::open(db, Arc::new(SystemClock), Settings::default()).unwrap();
        let everyone = OwnerId::of(Identity::Anonymous);
        let page = database.store().list(&everyone, None, 1, SystemClock.now()).await.unwrap();
        let [pattern] = page.tasks.try_into().unwrap();
        Self { database, pattern }
    }

    /// A call of `tool` by `subject` that is noticed after `delay_ms`.
    async fn add(&self, subject: &str, tool: &str, delay_ms: u64) {
        let now = SystemClock.now();
        let task = Task::restore(TaskRecord {
            owner: OwnerId::of(Identity::Verified { issuer: "test", subject, tenant: "" }),
            id: OsIds.task_id(now),
            tool: tool.to_owned(),
            state: State::Queued,
            attempt: 0,
            created_at: now,
            not_before: None,
            flow: None,
            labels: Default::default(),
            sent_at: now,
            started_at: None,
            ended_at: None,
            ..self.pattern.record().clone()
        });
        let message = Message { task: task.key(), trace: None, attempt: None };
        let new = NewTask {
            task,
            request_parts: Arc::default(),
            journal: Arc::default(),
            idempotency: None,
            open_max: 100,
            stored_max: u64::MAX,
            new_max: None,
            send_in_ms: None,
        };
        self.database.store().create(new, now).await.unwrap();
        self.database.queue().send(&message, delay_ms).await.unwrap();
    }
}

#[tokio::test]
async fn an_operator_can_say_how_many_attempts_one_owner_gets() {
    let directory = tempfile::tempdir().unwrap();
    let db = directory.path().join("tasks.db");
    let seen = Arc::new(Seen { events: watch::Sender::default(), may_end: Semaphore::new(0) });
    let options = options(&db).with(&table::OWNER_CONCURRENCY, 1_u64);

    let running = start(&seen, &options).await;
    // Leaves a task that has ended.
    assert!(call_of("short", &running).send().await.unwrap().status().is_success());
    running.stop().await;
    let calls = Calls::open(&db).await;
    for subject in ["alice", "alice", "alice", "bob", "bob"] {
        calls.add(subject, "long", 0).await;
    }
    calls.add("carol", "short", 500).await;
    calls.database.close().await;

    let running = start(&seen, &options).await;
    seen.until("long begins", 2).await;
    seen.until("short", 2).await;
    assert_eq!((seen.count("long begins"), seen.count("long ends")), (2, 0), "one of Alice, one of Bob");
    seen.may_end.add_permits(5);
    seen.until("long ends", 5).await;
    running.stop().await;
}
