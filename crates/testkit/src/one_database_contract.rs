//! Promises of a store that is one database with a queue, and writes a new task's message with its record. Each
//! function is one promise; [`one_database_contract!`](crate::one_database_contract!) makes each of them a test of an
//! adapter, next to those of [`store_contract!`](macro@crate::store_contract) and
//! [`queue_contract!`](crate::queue_contract!).

use longhaul_core::Task;
use longhaul_core::ports::{Created, Delivery, Message, NewTask};

use crate::given::{self, NOW, owner};
use crate::{QueueHarness, SeededIds, StoreHarness};

/// The harness of an adapter: a store and a queue, both empty, for each promise.
pub trait OneDatabase: StoreHarness + QueueHarness {}

impl<H: StoreHarness + QueueHarness> OneDatabase for H {}

/// How long deliveries hide their message in these tests.
const HIDDEN_MS: u64 = 4_000;

fn task() -> Task {
    given::task_with(&SeededIds::new(1), owner("alice"), NOW, |record| {
        record.trace = longhaul_core::TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    })
}

fn sent_in(task: Task, send_in_ms: u64) -> NewTask {
    NewTask { send_in_ms: Some(send_in_ms), ..given::new(task) }
}

async fn visible(harness: &dyn OneDatabase) -> Vec<Delivery> {
    harness.queue().receive(10, HIDDEN_MS, 0).await.unwrap()
}

/// Promise: once a creation returns, its message is there, as the engine would have sent it.
pub async fn a_new_task_comes_with_its_message(harness: &dyn OneDatabase) {
    let created = harness.store().create(sent_in(task(), 0), NOW).await.unwrap();
    assert_eq!(created, Created::NewAndSent(task()));
    assert_eq!(given::on_record(harness.store(), &task().key()).await, Some(task()));
    let deliveries = visible(harness).await;
    let arrived: Vec<_> = deliveries.iter().map(|delivery| (&delivery.message, delivery.receives)).collect();
    assert_eq!(arrived, [(&Message::about(&task()), 1)]);
}

/// Promise: it is hidden, deleted and delivered again like any other message.
pub async fn the_message_of_a_new_task_is_a_message_like_others(harness: &dyn OneDatabase) {
    harness.store().create(sent_in(task(), 0), NOW).await.unwrap();
    assert_eq!(visible(harness).await.len(), 1);
    assert_eq!(visible(harness).await, []);
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    let [again] = visible(harness).await.try_into().unwrap();
    assert_eq!(again.receives, 2);
    harness.queue().delete(&again.receipt).await.unwrap();
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    assert_eq!(visible(harness).await, []);
}

/// Promise: a message that is wanted later comes later.
pub async fn the_message_of_a_later_start_comes_when_it_is_wanted(harness: &dyn OneDatabase) {
    harness.store().create(sent_in(task(), 4_000), NOW).await.unwrap();
    assert_eq!(visible(harness).await, []);
    harness.pass_ms(2_000).await;
    assert_eq!(visible(harness).await, []);
    harness.pass_ms(3_000).await;
    assert_eq!(visible(harness).await.len(), 1);
}

/// Promise: a retry sends no second message.
pub async fn an_existing_task_gets_no_second_message(harness: &dyn OneDatabase) {
    let with_key = || NewTask { send_in_ms: Some(0), ..given::new_with_key(task(), 1, 1) };
    harness.store().create(with_key(), NOW).await.unwrap();
    let same_id = harness.store().create(sent_in(task(), 0), NOW).await.unwrap();
    let same_key = harness.store().create(with_key(), NOW).await.unwrap();
    assert_eq!((same_id, same_key), (Created::Existing(task()), Created::Existing(task())));
    assert_eq!(visible(harness).await.len(), 1);
}

/// Promise: what is refused leaves no message.
pub async fn a_refused_creation_sends_nothing(harness: &dyn OneDatabase) {
    for refused in [NewTask { open_max: 0, ..sent_in(task(), 0) }, NewTask { stored_max: 0, ..sent_in(task(), 0) }] {
        assert!(harness.store().create(refused, NOW).await.is_err());
    }
    assert_eq!(visible(harness).await, []);
}

/// Promise: who asks for no message sends it.
pub async fn a_creation_that_asks_for_no_message_sends_none(harness: &dyn OneDatabase) {
    let created = harness.store().create(given::new(task()), NOW).await.unwrap();
    assert_eq!(created, Created::New(task()));
    assert_eq!(visible(harness).await, []);
}

/// Passes the names of all promises to the macro `[$then]`, after `$argument`.
#[macro_export]
macro_rules! one_database_promises {
    ([$($then:tt)+], $argument:path) => {
        $($then)+! {
            $argument;
            a_new_task_comes_with_its_message,
            the_message_of_a_new_task_is_a_message_like_others,
            the_message_of_a_later_start_comes_when_it_is_wanted,
            an_existing_task_gets_no_second_message,
            a_refused_creation_sends_nothing,
            a_creation_that_asks_for_no_message_sends_none,
        }
    };
}

/// One test per promise of a store that is one database with a queue. `$make` is a function without arguments whose
/// future returns a [`StoreHarness`](crate::StoreHarness) that is a [`QueueHarness`](crate::QueueHarness), both empty.
#[macro_export]
macro_rules! one_database_contract {
    ($make:path) => {
        $crate::one_database_promises!([$crate::one_database_contract_tests], $make);
    };
}

/// The tests of [`one_database_contract!`].
#[doc(hidden)]
#[macro_export]
macro_rules! one_database_contract_tests {
    ($make:path; $($promise:ident,)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::block_on(async {
                    let harness = $make().await;
                    $crate::one_database_contract::$promise(&harness).await;
                });
            }
        )*
    };
}
