//! Transaction conflicts and throttling, as a real account has them and the emulator does not: some answers are
//! replaced, by a seed, between the SDK and the emulator.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use aws_sdk_dynamodb::config::{HttpClient as _, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use futures::future::join_all;
use harness::emulator;
use longhaul_aws::clients::{Clients, https};
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::ports::{Created, Delivery, Message, NewTask, Purpose, TaskStore};
use longhaul_core::{Clock, IdSource, RequestedTerms, ResultKind, State, TaskKey, Terms, Timestamp};
use longhaul_engine::{
    Accepted, Attempt, AttemptEnd, Call, Disposition, Engine, Idempotency, Ports, Settings, ToolRunner, WorkerSignals,
};
use longhaul_testkit::given::{self, owner};
use longhaul_testkit::{FakeQueue, SeededIds, block_on};
use tokio::sync::Semaphore;

/// What replaces an answer.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// Whether the owners' counts can be written.
    count: Count,
    /// Conflicts with another transaction, in a thousand writes.
    conflicts: u64,
    /// Throttling, in a thousand calls.
    throttles: u64,
}

/// Whether the owners' counts can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    Writable,
    Unwritable,
}

/// Replaces answers while it is switched on, and counts them.
#[derive(Clone, Debug)]
struct Account {
    trouble: Arc<Mutex<Option<Trouble>>>,
    dice: Arc<SeededIds>,
    replaced: Arc<AtomicUsize>,
}

impl Account {
    fn new(seed: u64) -> Self {
        Self { trouble: Arc::default(), dice: Arc::new(SeededIds::new(seed)), replaced: Arc::default() }
    }

    fn has(&self, trouble: Trouble) {
        *self.trouble.lock().unwrap() = Some(trouble);
    }

    fn client(&self) -> SharedHttpClient {
        let (account, inner, at_a_time) = (self.clone(), https(), Arc::new(Semaphore::new(24)));
        http_client_fn(move |settings, components| {
            let inner = inner.http_connector(settings, components);
            SharedHttpConnector::new(Connector { account: account.clone(), inner, at_a_time: Arc::clone(&at_a_time) })
        })
    }

    /// The error that replaces the answer to `operation`.
    fn refusal(&self, operation: &str, body: &[u8]) -> Option<HttpResponse> {
        let trouble = (*self.trouble.lock().unwrap())?;
        let is_count = operation == "UpdateItem" && body.windows(3).any(|bytes| bytes == b"\"q#");
        let conflicts = if is_count && trouble.count == Count::Unwritable { 1_000 } else { trouble.conflicts };
        let rolled = self.dice.up_to(999);
        let error = |kind: &str, more: &str| {
            let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{kind}","message":"no"{more}}}"#);
            self.replaced.fetch_add(1, Ordering::Relaxed);
            Some(HttpResponse::new(400.try_into().unwrap(), SdkBody::from(body)))
        };
        if rolled < trouble.throttles {
            return error("ThrottlingException", "");
        }
        if rolled >= trouble.throttles + conflicts {
            return None;
        }
        match operation {
            "TransactWriteItems" => {
                let reasons = r#","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]"#;
                error("TransactionCanceledException", reasons)
            }
            "PutItem" | "UpdateItem" => error("TransactionConflictException", ""),
            _reads => None,
        }
    }
}

#[derive(Debug)]
struct Connector {
    account: Account,
    inner: SharedHttpConnector,
    /// The emulator is one process; more requests at a time only wait in it.
    at_a_time: Arc<Semaphore>,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        match self.account.refusal(&operation, request.body().bytes().unwrap_or_default()) {
            Some(refusal) => HttpConnectorFuture::ready(Ok(refusal)),
            None => {
                let (inner, at_a_time) = (self.inner.clone(), Arc::clone(&self.at_a_time));
                HttpConnectorFuture::new(async move {
                    let _permit = at_a_time.acquire().await.unwrap();
                    inner.call(request).await
                })
            }
        }
    }
}

/// The real clock: the emulator answers in real time.
struct RealClock(Instant);

#[async_trait]
impl Clock for RealClock {
    #[expect(clippy::disallowed_methods, reason = "the emulator answers in real time")]
    fn now(&self) -> Timestamp {
        given::NOW.plus_ms(u64::try_from(Instant::now().duration_since(self.0).as_millis()).unwrap())
    }

    #[expect(clippy::disallowed_methods, reason = "the emulator answers in real time")]
    async fn sleep_ms(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

/// Counts how often it was run.
#[derive(Default)]
struct Counting(AtomicUsize);

#[async_trait]
impl ToolRunner for Counting {
    async fn run(&self, _attempt: Attempt) -> AttemptEnd {
        self.0.fetch_add(1, Ordering::Relaxed);
        AttemptEnd::Completed { result: "{}".to_owned(), kind: ResultKind::Success }
    }
}

struct Deployment {
    account: Account,
    store: Arc<DynamoStore>,
    engine: Engine,
}

impl Deployment {
    #[expect(clippy::disallowed_methods, reason = "the emulator answers in real time")]
    async fn new(seed: u64, open_tasks_max: u32) -> Self {
        let account = Account::new(seed);
        let config = emulator::config().into_builder().http_client(account.client()).build();
        let clients = Clients::new(&config);
        let table = emulator::table(&clients).await;
        let clock: Arc<dyn Clock> = Arc::new(RealClock(Instant::now()));
        let ids: Arc<dyn IdSource> = Arc::new(SeededIds::new(seed + 1));
        let store = DynamoStore::new(clients.dynamo, &table)
            .with_quota(QuotaMode::Counted)
            .with_pauses(Arc::clone(&clock), Arc::clone(&ids));
        let store = Arc::new(store);
        let queue = Arc::new(FakeQueue::new(Arc::clone(&clock), 10));
        let ports = Ports { store: Arc::clone(&store) as Arc<dyn TaskStore>, queue, clock, ids };
        // Nothing here takes as long as such a lease: what is run again is run again because of a lost end.
        let settings = Settings { open_tasks_max, lease_ms: 600_000, ..Settings::default() };
        Self { account, store, engine: Engine::new(ports, settings) }
    }

    async fn accept(&self, key: Option<String>) -> TaskKey {
        let call = Call {
            owner: owner("alice"),
            tool: "tool".to_owned(),
            request: "{}".to_owned(),
            terms: Terms::negotiate(&given::policy(), RequestedTerms::default()),
            idempotency: key.map(|key| Idempotency { key, fingerprint: [1; 32] }),
            trace: None,
            cleanup: longhaul_core::Cleanup::None,
            not_before: None,
            flow: None,
            labels: longhaul_core::Labels::default(),
        };
        match self.engine.accept(call).await.unwrap() {
            Accepted::New(task) | Accepted::Existing(task) => task.key(),
        }
    }

    async fn deliver(&self, key: TaskKey, tool: &Counting) -> Disposition {
        let delivery = Delivery {
            message: Message { task: key, trace: None, attempt: None },
            receipt: String::new(),
            receives: 1,
            purpose: Purpose::Work,
        };
        self.engine.run_delivery(&delivery, tool, &WorkerSignals::default()).await
    }

    /// What the owner's count says.
    async fn has_room_for(&self, open_max: u32, seed: u64) -> bool {
        let task = given::task(&SeededIds::new(seed), owner("alice"), given::NOW);
        let new = NewTask { open_max, ..given::new(task) };
        matches!(self.store.create(new, given::NOW).await, Ok(Created::New(_)))
    }
}

/// Accepts this many calls of one owner and runs them, all at the same time.
async fn lives_at_once(open_tasks_max: u32, with_keys: bool) {
    const LIVES: usize = 200;
    let deployment = Deployment::new(7, open_tasks_max).await;
    deployment.account.has(Trouble { count: Count::Writable, conflicts: 300, throttles: 30 });
    let accepting = (0..LIVES).map(|number| deployment.accept(with_keys.then(|| format!("key {number}"))));
    let keys = join_all(accepting).await;
    let tool = Counting::default();
    let dispositions = join_all(keys.iter().map(|key| deployment.deliver(*key, &tool))).await;
    println!("{} answers were replaced", deployment.account.replaced.load(Ordering::Relaxed));
    assert!(dispositions.iter().all(|done| *done == Disposition::Acknowledge), "{dispositions:?}");
    assert_eq!(tool.0.load(Ordering::Relaxed), LIVES, "work was done again");
    *deployment.account.trouble.lock().unwrap() = None;
    for key in &keys {
        let task = deployment.store.get(key, given::NOW).await.unwrap().unwrap();
        assert!(matches!(task.state, State::Completed { .. }) && task.attempt == 1, "{task:?}");
    }
    assert!(deployment.has_room_for(1, 99).await, "the count is too high after all tasks have ended");
    assert!(!deployment.has_room_for(1, 98).await, "the count is too low");
}

#[test]
fn two_hundred_lives_of_one_owner_at_once_end_once_each_under_conflicts_and_throttling() {
    block_on(lives_at_once(1_000, false));
}

#[test]
fn two_hundred_lives_with_idempotency_keys_end_once_each_under_conflicts_and_throttling() {
    block_on(lives_at_once(1_000, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_written_once_even_if_the_count_cannot_be() {
    let deployment = Deployment::new(3, 1).await;
    let key = deployment.accept(None).await;
    deployment.account.has(Trouble { count: Count::Unwritable, conflicts: 0, throttles: 0 });
    let tool = Counting::default();
    assert_eq!(deployment.deliver(key, &tool).await, Disposition::Acknowledge);
    assert!(deployment.account.replaced.load(Ordering::Relaxed) > 0, "nothing was written to the count");
    *deployment.account.trouble.lock().unwrap() = None;
    assert!(deployment.store.get(&key, given::NOW).await.unwrap().unwrap().has_ended());
    assert_eq!(deployment.deliver(key, &tool).await, Disposition::Acknowledge);
    assert_eq!(tool.0.load(Ordering::Relaxed), 1);
    // The count is too high, until it is corrected.
    let later = given::NOW.plus_ms(120_000);
    let new = NewTask { open_max: 1, ..given::new(given::task(&SeededIds::new(97), owner("alice"), later)) };
    assert!(matches!(deployment.store.create(new, later).await, Ok(Created::New(_))));
}
