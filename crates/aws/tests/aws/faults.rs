//! Throttling, internal errors of the service and lost answers, injected between the SDK and the emulator.

use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::config::{HttpClient as _, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use harness::emulator;
use longhaul_aws::clients::{Clients, https};
use longhaul_aws::{DynamoStore, QuotaMode};
use longhaul_core::ports::{ApplyError, Created, Recorded, StoreError, TaskStore};
use longhaul_core::{Entry, EntryKind, PartsName, Suspension, TaskEvent, TaskKey};
use longhaul_testkit::SeededIds;
use longhaul_testkit::given::{self, NOW, owner};

use crate::lifetimes::{DAY_MS, expiries};

/// What happens to a try.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// Nothing.
    None,
    /// The answer does not arrive, but the call was executed.
    AnswerLost,
    /// The call does not arrive.
    CallLost,
    /// The call does not arrive before the test says so: by then the client has stopped waiting for it.
    CallLate,
    /// DynamoDB reports throttling.
    Throttled,
    /// DynamoDB reports an internal error.
    Internal,
}

/// Faults for the next tries, the number of tries so far, and the tries that are late.
#[derive(Clone, Debug, Default)]
struct FaultProfile(Arc<Mutex<(Vec<Fault>, usize)>>, Arc<Mutex<Vec<(SharedHttpConnector, HttpRequest)>>>);

impl FaultProfile {
    fn next(&self, faults: &[Fault]) {
        *self.0.lock().unwrap() = (faults.iter().rev().copied().collect(), 0);
    }

    fn tries(&self) -> usize {
        self.0.lock().unwrap().1
    }

    fn fault(&self) -> Option<Fault> {
        let mut faults = self.0.lock().unwrap();
        faults.1 += 1;
        faults.0.pop()
    }

    /// Lets the late tries arrive.
    async fn deliver_late(&self) {
        let late = std::mem::take(&mut *self.1.lock().unwrap());
        assert!(!late.is_empty(), "nothing was late");
        for (connector, request) in late {
            connector.call(request).await.unwrap();
        }
    }

    fn client(&self) -> SharedHttpClient {
        let (faults, inner) = (self.clone(), https());
        http_client_fn(move |settings, components| {
            let inner = inner.http_connector(settings, components);
            SharedHttpConnector::new(Faulty { faults: faults.clone(), inner })
        })
    }
}

#[derive(Debug)]
struct Faulty {
    faults: FaultProfile,
    inner: SharedHttpConnector,
}

impl HttpConnector for Faulty {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let lost = || ConnectorError::io("the connection was cut".into());
        let refusal = |status: u16, kind: &str| {
            let body = format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{kind}","message":"no"}}"#);
            HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body))
        };
        match self.faults.fault() {
            None | Some(Fault::None) => self.inner.call(request),
            Some(Fault::AnswerLost) => {
                let answer = self.inner.call(request);
                HttpConnectorFuture::new(async move {
                    answer.await?;
                    Err(lost())
                })
            }
            Some(Fault::CallLost) => HttpConnectorFuture::ready(Err(lost())),
            Some(Fault::CallLate) => {
                self.faults.1.lock().unwrap().push((self.inner.clone(), request));
                HttpConnectorFuture::ready(Err(lost()))
            }
            Some(Fault::Throttled) => {
                HttpConnectorFuture::ready(Ok(refusal(400, "ProvisionedThroughputExceededException")))
            }
            Some(Fault::Internal) => HttpConnectorFuture::ready(Ok(refusal(500, "InternalServerError"))),
        }
    }
}

async fn faulty(quota: QuotaMode) -> (DynamoStore, FaultProfile) {
    let (store, faults, _table) = faulty_over_table(quota).await;
    (store, faults)
}

async fn faulty_over_table(quota: QuotaMode) -> (DynamoStore, FaultProfile, String) {
    let faults = FaultProfile::default();
    let config = emulator::config().into_builder().http_client(faults.client()).build();
    let clients = Clients::new(&config);
    let table = emulator::table(&clients).await;
    faults.next(&[]);
    (DynamoStore::new(clients.dynamo, &table).with_quota(quota), faults, table)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_retries_transient_faults() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let key = given::queued(&store, &SeededIds::new(1), owner("alice")).await.key();
    for fault in [Fault::CallLost, Fault::Throttled, Fault::Internal] {
        faults.next(&[fault]);
        assert!(store.get(&key, NOW).await.unwrap().is_some(), "{fault:?}");
        assert_eq!(faults.tries(), 2, "{fault:?}");
    }
    faults.next(&[Fault::Throttled, Fault::Internal]);
    store.apply(&key, &given::claim(1, NOW), NOW).await.unwrap();
    assert_eq!(faults.tries(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_faults_are_unavailable_after_a_few_tries() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let task = given::queued(&store, &SeededIds::new(1), owner("alice")).await;
    for fault in [Fault::CallLost, Fault::Throttled, Fault::Internal] {
        faults.next(&[fault; 20]);
        let got = store.get(&task.key(), NOW).await;
        assert!(matches!(got, Err(StoreError::Unavailable(_))), "{fault:?}: {got:?}");
        assert!((2..=4).contains(&faults.tries()), "{fault:?}: {} tries", faults.tries());
        faults.next(&[fault; 20]);
        let applied = store.apply(&task.key(), &TaskEvent::Cancel, NOW).await;
        assert!(matches!(applied, Err(ApplyError::Store(StoreError::Unavailable(_)))), "{fault:?}: {applied:?}");
        faults.next(&[]);
    }
    assert_eq!(store.get(&task.key(), NOW).await.unwrap(), Some(task));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_whose_answer_was_lost_finds_its_own_task() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let task = given::task(&SeededIds::new(1), owner("alice"), NOW);
    faults.next(&[Fault::AnswerLost]);
    let created = store.create(given::new(task.clone()), NOW).await.unwrap();
    // By the id, the caller knows that it is its own task.
    assert_eq!(created, Created::Existing(task));
}

/// A count that was raised or lowered twice is wrong by one until it is corrected: see `quota`.
#[tokio::test(flavor = "multi_thread")]
async fn creations_and_ends_whose_answers_were_lost_leave_a_count_that_is_corrected() {
    let (store, faults) = faulty(QuotaMode::Counted).await;
    let (ids, later) = (SeededIds::new(1), NOW.plus_ms(60_000));
    let task = given::task(&ids, owner("alice"), NOW);
    let mut new = given::new_with_key(task.clone(), 1, 1);
    new.open_max = 2;
    for lost in 0..4 {
        // The count, the transaction; the end, the count.
        let mut script = [Fault::None; 4];
        script[lost] = Fault::AnswerLost;
        faults.next(&script);
        let created = store.create(new.clone(), NOW).await.unwrap();
        assert!(matches!(created, Created::New(_) | Created::Existing(_)), "{created:?}");
        let _ended_or_already = store.apply(&task.key(), &TaskEvent::Cancel, NOW).await;
        faults.next(&[]);
    }
    let another = async |now| {
        let task = given::task(&ids, owner("alice"), now);
        store.create(longhaul_core::ports::NewTask { open_max: 2, ..given::new(task) }, now).await
    };
    assert!(matches!(another(later).await, Ok(Created::New(_))));
    assert!(matches!(another(later).await, Ok(Created::New(_))), "a slot stays taken by nothing");
    let much_later = later.plus_ms(60_000);
    let _refused_or_one_too_many = another(much_later).await;
    assert!(another(much_later.plus_ms(60_000)).await.is_err(), "the count stays too low");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_refused_by_a_record_that_shows_it() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let key = given::queued(&store, &SeededIds::new(1), owner("alice")).await.key();
    for event in [given::claim(1, NOW), given::finish(1, "{}")] {
        faults.next(&[Fault::AnswerLost]);
        match store.apply(&key, &event, NOW).await {
            Err(ApplyError::Refused { current, .. }) => {
                assert!(current.already_applied(&event), "{event:?}: {current:?}")
            }
            other => panic!("{event:?}: {other:?}"),
        }
    }
    faults.next(&[]);
    assert_eq!(store.get(&key, NOW).await.unwrap().unwrap().attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_whose_answer_was_lost_is_written_again() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let task = given::running(&store, &SeededIds::new(1), owner("alice")).await;
    faults.next(&[Fault::AnswerLost]);
    let event = given::progress(1, NOW.plus_ms(5), 0.5);
    let expected = task.apply(&event, NOW.plus_ms(5)).unwrap();
    assert_eq!(store.apply(&task.key(), &event, NOW.plus_ms(5)).await.unwrap(), expected);
}

/// The second try of `event` is applied, then `later`, and then the first try of `event` arrives: nothing changes.
async fn check_late_arrival(
    store: &DynamoStore,
    faults: &FaultProfile,
    key: &TaskKey,
    event: &TaskEvent,
    later: &[TaskEvent],
) {
    let mut now = NOW.plus_ms(10);
    faults.next(&[Fault::CallLate]);
    store.apply(key, event, now).await.unwrap();
    for event in later {
        now = now.plus_ms(10);
        store.apply(key, event, now).await.unwrap();
    }
    let before = store.get(key, now).await.unwrap();
    faults.deliver_late().await;
    assert_eq!(store.get(key, now).await.unwrap(), before, "{event:?} after {later:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn variables_that_arrive_late_do_not_overwrite_newer_ones() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let key = given::running(&store, &SeededIds::new(1), owner("alice")).await.key();
    let variables = |text: &str| TaskEvent::SetVariables { attempt: 1, variables: given::inline(text) };
    check_late_arrival(&store, &faults, &key, &variables(r#"{"a":1}"#), &[variables(r#"{"a":2}"#)]).await;
    // A clock that was set back costs one more write, and nothing else.
    let applied = store.apply(&key, &variables(r#"{"a":3}"#), NOW).await.unwrap();
    assert_eq!(applied.variables.as_ref(), Some(&given::inline(r#"{"a":3}"#)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heartbeat_that_arrives_late_overwrites_neither_lease_nor_progress() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let key = given::running(&store, &SeededIds::new(1), owner("alice")).await.key();
    let beat = |at, done| given::progress(1, NOW.plus_ms(at), done);
    check_late_arrival(&store, &faults, &key, &beat(10, 0.1), &[beat(20, 0.2)]).await;
    let applied = store.apply(&key, &beat(5, 0.3), NOW.plus_ms(5)).await.unwrap();
    assert_eq!(applied, store.get(&key, NOW).await.unwrap().unwrap());
    assert!(applied.progress.as_ref().is_some_and(|progress| progress.done > 0.25));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_arrives_late_does_not_end_a_later_attempt() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let key = given::queued(&store, &SeededIds::new(1), owner("alice")).await.key();
    let claim = given::claim(1, NOW.plus_ms(10));
    let left = given::suspend(1, Suspension::Yield);
    check_late_arrival(&store, &faults, &key, &claim, &[left]).await;
    // Another worker's clock may be behind.
    assert_eq!(store.apply(&key, &given::claim(2, NOW), NOW).await.unwrap().attempt, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_that_arrives_late_shortens_nothing() {
    let (store, faults, table) = faulty_over_table(QuotaMode::Off).await;
    let key = given::running(&store, &SeededIds::new(1), owner("alice")).await.key();
    store.put_parts(&key, &PartsName::Outcome { attempt: 1 }, &["a"]).await.unwrap();
    let at_first = expiries(&table).await;
    // A read of the task, a query of its parts, and then the write of the part.
    faults.next(&[Fault::None, Fault::None, Fault::CallLate]);
    store.apply(&key, &TaskEvent::ExtendRetention { retention_ms: 2 * DAY_MS }, NOW).await.unwrap();
    store.apply(&key, &TaskEvent::ExtendRetention { retention_ms: 4 * DAY_MS }, NOW).await.unwrap();
    let before = expiries(&table).await;
    assert!(at_first.iter().all(|(item, expiry)| before[item] > *expiry), "{at_first:?}, then {before:?}");
    faults.deliver_late().await;
    assert_eq!(expiries(&table).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_answer_was_lost_is_recorded_with_its_own_value() {
    let (store, faults) = faulty(QuotaMode::Off).await;
    let key = given::running(&store, &SeededIds::new(1), owner("alice")).await.key();
    let entry = Entry { kind: EntryKind::Step, name: "a".to_owned(), value: given::inline("1"), recording: None };
    faults.next(&[Fault::AnswerLost]);
    assert_eq!(store.record(&key, &entry).await.unwrap(), Recorded::Earlier(entry.clone()));
    faults.next(&[Fault::AnswerLost]);
    store.put_parts(&key, &PartsName::Outcome { attempt: 1 }, &["a", "b"]).await.unwrap();
    let joined = store.parts(&key, &PartsName::Outcome { attempt: 1 }, 2).await.unwrap();
    assert_eq!(joined.as_deref(), Some("ab"));
}
