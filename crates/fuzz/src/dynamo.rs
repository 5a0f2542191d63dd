//! Items of the table, as DynamoDB answers them: a task, entries of its journal, parts, values in mailboxes, places of
//! running attempts.
//!
//! An input is a list of answers in DynamoDB's JSON, one after the other on lines of their own. Every call of the store
//! gets the next one, and after the last one this one again. A task that a store has read can be written, and is
//! then read as the same task.

use std::sync::{Arc, Mutex, PoisonError};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_types::body::SdkBody;
use longhaul_aws::DynamoStore;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::{AttemptPermit, AttemptPermits, TaskStore};
use longhaul_core::{LeaseToken, MailboxId, PartsName, PermitGroup, Task, TaskEvent, TaskKey};
use longhaul_testkit::{ManualClock, SeededIds, given};
use serde_json::{Value, json};

use crate::driver::drive;

/// Answers of one input.
const ANSWERS_MAX: usize = 16;

/// Calls of one input. A store that continues asking has to stop on its own.
const CALLS_MAX: usize = 10_000;

/// A table that gives the answers of the input, and keeps the last request.
#[derive(Clone, Debug, Default)]
struct Table(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    answers: Vec<String>,
    calls: usize,
    put: Option<Value>,
}

#[derive(Debug)]
struct Connector(Table);

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let mut script = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = request.headers().get("x-amz-target").and_then(|target| target.rsplit('.').next());
        if operation == Some("PutItem") {
            script.put = serde_json::from_slice(request.body().bytes().unwrap_or_default()).ok();
        }
        let answer = match script.answers.len() {
            0 => "{}".to_owned(),
            count => script.answers[script.calls.min(count - 1)].clone(),
        };
        script.calls += 1;
        assert!(script.calls < CALLS_MAX, "the store never stops asking");
        // An answer that is an error in DynamoDB's words is one.
        let status: u16 = if answer.contains("__type") { 400 } else { 200 };
        let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(answer));
        response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
        HttpConnectorFuture::ready(Ok(response))
    }
}

impl Table {
    fn client(&self) -> SharedHttpClient {
        let table = self.clone();
        http_client_fn(move |_settings, _components| SharedHttpConnector::new(Connector(table.clone())))
    }

    fn says(&self, answers: Vec<String>) {
        let mut script = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *script = Script { answers, ..Script::default() };
    }

    fn put(&self) -> Option<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).put.take()
    }
}

/// Reads the answers in every way in which the store reads.
pub(crate) fn run(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let answers: Vec<String> =
        text.lines().filter(|line| !line.is_empty()).take(ANSWERS_MAX).map(str::to_owned).collect();
    let table = Table::default();
    let config = SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("us-east-1"))
        .credentials_provider(SharedCredentialsProvider::new(Credentials::for_tests()))
        .http_client(table.client())
        .build();
    let clients = Clients::new(&config);
    // No call is sent again: an error comes back at once.
    let config = clients.dynamo.config().to_builder().retry_config(aws_config::retry::RetryConfig::disabled()).build();
    let clock = Arc::new(ManualClock::default());
    let store = DynamoStore::new(aws_sdk_dynamodb::Client::from_conf(config), "table")
        .with_pauses(Arc::clone(&clock) as _, Arc::new(SeededIds::new(1)));
    drive(&clock, async {
        let key = key();
        let says = || table.says(answers.clone());
        says();
        if let Ok(Some(task)) = store.get(&key, given::NOW).await {
            written_and_read(&store, &table, task).await;
        }
        says();
        let _page = store.list(&key.owner, None, 3, given::NOW).await;
        says();
        let _journal = store.journal(&key).await;
        says();
        let _parts = store.parts(&key, &PartsName::Request, 3).await;
        says();
        let _text = store.collect(&key.owner, &MailboxId::of(&[b"mailbox"]), given::NOW).await;
        says();
        let until = given::NOW.plus_ms(60_000);
        let group = PermitGroup::Owner(key.owner);
        let lease = LeaseToken::from_random([1; 16]);
        let place = AttemptPermit { group, task: key, lease, since: given::NOW, until, turn: None };
        let _taken = store.take(&place, 2, given::NOW).await;
        says();
        let _changed = store.apply(&key, &TaskEvent::Cancel, given::NOW).await;
    });
}

fn key() -> TaskKey {
    given::task(&SeededIds::new(1), given::owner("alice"), given::NOW).key()
}

/// The task that was read, written by this store and read again.
async fn written_and_read(store: &DynamoStore, table: &Table, task: Task) {
    table.says(vec!["{}".to_owned()]);
    // A task that is not new is refused, or written as it is.
    if store.create(given::new(task.clone()), given::NOW).await.is_err() {
        return;
    }
    let Some(put) = table.put() else { return };
    table.says(vec![json!({"Item": put["Item"]}).to_string()]);
    let again = store.get(&task.key(), given::NOW).await.unwrap();
    assert_eq!(again, Some(task));
}
