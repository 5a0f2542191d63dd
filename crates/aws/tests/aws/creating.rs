//! What creations leave in the table.

use std::sync::Arc;

use aws_sdk_dynamodb::config::{HttpClient as _, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use futures::future::{join, join_all};
use harness::emulator;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::{Clients, https};
use longhaul_core::PartsName;
use longhaul_core::ports::{Created, NewTask, TaskStore};
use longhaul_testkit::SeededIds;
use longhaul_testkit::given::{self, NOW, owner};
use tokio::sync::Semaphore;

/// Holds the transaction that writes a record until it is told to go on.
#[derive(Clone, Debug)]
struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    fn client(&self) -> SharedHttpClient {
        let (gate, inner) = (self.clone(), https());
        http_client_fn(move |settings, components| {
            let inner = inner.http_connector(settings, components);
            SharedHttpConnector::new(Gated { gate: gate.clone(), inner })
        })
    }
}

#[derive(Debug)]
struct Gated {
    gate: Gate,
    inner: SharedHttpConnector,
}

impl HttpConnector for Gated {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if !target.ends_with("TransactWriteItems") {
            return self.inner.call(request);
        }
        let (gate, inner) = (self.gate.clone(), self.inner.clone());
        HttpConnectorFuture::new(async move {
            gate.reached.add_permits(1);
            gate.open.acquire().await.unwrap().forget();
            inner.call(request).await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_call_that_comes_second_takes_its_parts_away() {
    let gate = Gate { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) };
    let config = emulator::config().into_builder().http_client(gate.client()).build();
    let (free, held) = (Clients::new(&emulator::config()), Clients::new(&config));
    let table = emulator::table(&free).await;
    let (free, held) = (DynamoStore::new(free.dynamo, &table), DynamoStore::new(held.dynamo, &table));
    let ids = SeededIds::new(1);
    let [first, second] = [1, 2].map(|_| {
        let new = given::new_with_parts(&ids, owner("alice"), &["a", "b"]);
        NewTask { request_parts: new.request_parts, ..given::new_with_key(new.task, 1, 1) }
    });
    let overtaking = async {
        gate.reached.acquire().await.unwrap().forget();
        let key = second.task.key();
        let parts = free.parts(&key, &PartsName::Request, 2).await.unwrap();
        assert_eq!(parts.as_deref(), Some("ab"), "it has written its parts");
        assert_eq!(free.create(first.clone(), NOW).await.unwrap(), Created::New(first.task.clone()));
        gate.open.add_permits(1);
    };
    let (created, ()) = join(held.create(second.clone(), NOW), overtaking).await;
    assert_eq!(created.unwrap(), Created::Existing(first.task.clone()));
    let parts = async |new: &NewTask| free.parts(&new.task.key(), &PartsName::Request, 1).await.unwrap();
    assert_eq!(parts(&second).await, None);
    assert_eq!(parts(&first).await.as_deref(), Some("a"));
}

/// All of them see that there is no task yet, and write their parts before the first record is there.
#[tokio::test(flavor = "multi_thread")]
async fn of_large_calls_with_one_key_at_once_only_one_leaves_its_parts() {
    let clients = Clients::new(&emulator::config());
    let store = DynamoStore::new(clients.dynamo.clone(), emulator::table(&clients).await);
    let ids = SeededIds::new(1);
    let call = |_| {
        let new = given::new_with_parts(&ids, owner("alice"), &["a", "b"]);
        NewTask { request_parts: new.request_parts, ..given::new_with_key(new.task, 1, 1) }
    };
    let calls: Vec<NewTask> = (0..6).map(call).collect();
    // Each is sent twice, as by a client that did not get its answer in time.
    let created = calls.iter().chain(&calls).map(|new| store.create(new.clone(), NOW));
    let made = join_all(created).await.into_iter().map(|created| match created.unwrap() {
        Created::New(task) | Created::NewAndSent(task) | Created::Existing(task) => task.key(),
    });
    let made: Vec<_> = made.collect();
    let one = made[0];
    assert!(made.iter().all(|key| *key == one), "{made:?}");
    for new in &calls {
        let key = new.task.key();
        let parts = store.parts(&key, &PartsName::Request, 2).await.unwrap();
        assert_eq!(parts.as_deref(), (key == one).then_some("ab"));
    }
}
