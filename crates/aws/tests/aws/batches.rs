//! What a table leaves unprocessed of a batch is sent again: with pauses, in smaller batches, within a bound. The
//! emulator processes everything, so some answers are replaced between the SDK and the emulator.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use aws_sdk_dynamodb::config::{HttpClient as _, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use harness::emulator;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::{Clients, https};
use longhaul_core::ports::{StoreError, TaskStore};
use longhaul_core::{Clock, PartsName, TaskKey, Timestamp};
use longhaul_testkit::SeededIds;
use longhaul_testkit::given::{self, NOW, owner};
use serde_json::{Value, json};

/// A table that processes nothing of the next batches, and notes how many items each has.
#[derive(Clone, Debug, Default)]
struct BusyTable(Arc<Mutex<(usize, Vec<usize>)>>);

impl BusyTable {
    fn refuses(&self, batches: usize) {
        *self.0.lock().unwrap() = (batches, Vec::new());
    }

    /// The number of items of each batch.
    fn batches(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }

    fn client(&self) -> SharedHttpClient {
        let (table, inner) = (self.clone(), https());
        http_client_fn(move |settings, components| {
            let inner = inner.http_connector(settings, components);
            SharedHttpConnector::new(Connector { table: table.clone(), inner })
        })
    }

    fn answer(&self, operation: &str, body: &[u8]) -> Option<HttpResponse> {
        let request: Value = serde_json::from_slice(body).unwrap();
        let items = &request["RequestItems"];
        let answer = match operation {
            "BatchWriteItem" => json!({ "UnprocessedItems": items }),
            "BatchGetItem" => json!({ "Responses": {}, "UnprocessedKeys": items }),
            _another => return None,
        };
        let count = |items: &Value| items.as_array().or_else(|| items["Keys"].as_array()).unwrap().len();
        let mut state = self.0.lock().unwrap();
        state.1.push(items.as_object().unwrap().values().map(count).sum());
        state.0 = state.0.checked_sub(1)?;
        Some(HttpResponse::new(200.try_into().unwrap(), SdkBody::from(answer.to_string())))
    }
}

#[derive(Debug)]
struct Connector {
    table: BusyTable,
    inner: SharedHttpConnector,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let operation = request.headers().get("x-amz-target").and_then(|target| target.rsplit('.').next());
        match self.table.answer(operation.unwrap_or_default(), request.body().bytes().unwrap_or_default()) {
            Some(answer) => HttpConnectorFuture::ready(Ok(answer)),
            None => self.inner.call(request),
        }
    }
}

/// A clock on which every sleep is over at once, and noted.
#[derive(Debug, Default)]
struct Sleeps(Mutex<Vec<u64>>);

#[async_trait]
impl Clock for Sleeps {
    fn now(&self) -> Timestamp {
        NOW
    }

    async fn sleep_ms(&self, ms: u64) {
        self.0.lock().unwrap().push(ms);
    }
}

impl Sleeps {
    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

async fn busy(seed: u64) -> (DynamoStore, BusyTable, Arc<Sleeps>, TaskKey) {
    let (table, sleeps) = (BusyTable::default(), Arc::<Sleeps>::default());
    let config = emulator::config().into_builder().http_client(table.client()).build();
    let clients = Clients::new(&config);
    let name = emulator::table(&clients).await;
    let store = DynamoStore::new(clients.dynamo, name);
    let store = store.with_pauses(Arc::clone(&sleeps) as _, Arc::new(SeededIds::new(seed)));
    let key = given::running(&store, &SeededIds::new(1), owner("alice")).await.key();
    (store, table, sleeps, key)
}

const NAME: PartsName = PartsName::Outcome { attempt: 1 };

/// Found by the fuzz target `dynamo`: the keys of all parts were made first, which took 192 GB.
#[tokio::test(flavor = "multi_thread")]
async fn a_count_of_parts_that_cannot_be_right_takes_no_memory() {
    let (store, _table, _sleeps, key) = busy(1).await;
    assert_eq!(store.parts(&key, &NAME, u32::MAX).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_are_written_at_once_and_what_is_left_at_the_pace_of_one_partition() {
    let (store, table, sleeps, key) = busy(1).await;
    let part = "x".repeat(350 * 1024);
    let parts = vec![part.as_str(); 13];
    table.refuses(3);
    store.put_parts(&key, &NAME, &parts).await.unwrap();
    let batches = table.batches();
    assert_eq!(batches.first(), Some(&13), "a table that is not busy takes all at once");
    assert!(batches[1..].iter().all(|items| *items <= 2), "{batches:?}");
    // After the first batch 4.5 MiB are left, and the last one is not waited for: at 1,000 units a second, in
    // halves of the pauses at least.
    let slept_ms: u64 = sleeps.take().iter().sum();
    assert!((2_000..30_000).contains(&slept_ms), "{slept_ms} ms");
    assert!(store.parts(&key, &NAME, 13).await.unwrap() == Some(part.repeat(13)), "the parts differ");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_were_left_are_read_again_after_pauses_that_grow_and_differ() {
    let mut pauses = Vec::new();
    for seed in [1, 2] {
        let (store, table, sleeps, key) = busy(seed).await;
        store.put_parts(&key, &NAME, &["a", "b"]).await.unwrap();
        assert_eq!(sleeps.take(), [0; 0], "nothing was refused");
        table.refuses(5);
        assert_eq!(store.parts(&key, &NAME, 2).await.unwrap().as_deref(), Some("ab"));
        assert_eq!(table.batches(), [2; 6]);
        pauses.push(sleeps.take());
    }
    assert!(pauses[0].len() == 5 && pauses[0].first() < pauses[0].last(), "{pauses:?}");
    assert_ne!(pauses[0], pauses[1], "two readers come back at the same times");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_takes_nothing_is_given_up() {
    let (store, table, sleeps, key) = busy(1).await;
    table.refuses(1_000);
    let refused = store.put_parts(&key, &NAME, &["a"]).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    let refused = store.parts(&key, &NAME, 1).await;
    assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    assert!(table.batches().len() <= 64 && sleeps.take().iter().sum::<u64>() <= 60_000);
}
