//! The promises of every work queue. Each function is one promise; [`queue_contract!`](crate::queue_contract!) makes
//! each of them a test of an adapter.
//!
//! Times are whole seconds and compared with a second to spare, so that the promises can be checked against a queue
//! over the network, too.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join;
use longhaul_core::ports::{Delivery, Message, WorkQueue};

use crate::given::{self, NOW, owner};
use crate::{SeededIds, at_once};

/// The harness of an adapter: an empty queue for each promise, and a way to let time pass.
#[async_trait]
pub trait QueueHarness: Send + Sync {
    /// The queue.
    fn queue(&self) -> &dyn WorkQueue;

    /// Lets `ms` milliseconds pass for the queue: advances its clock, or waits.
    async fn pass_ms(&self, ms: u64);

    /// How often the queue delivers a message before it goes to the dead letters; at least 2.
    fn receives_max(&self) -> u32;
}

/// How long deliveries hide their message in these tests.
const HIDDEN_MS: u64 = 4_000;

/// Real time within which a visible message has to arrive.
const PATIENCE: Duration = Duration::from_secs(20);

fn message(ids: &SeededIds) -> Message {
    let trace = longhaul_core::TraceParent::parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    Message { task: given::task(ids, owner("alice"), NOW).key(), trace, attempt: Some(7) }
}

async fn sent(harness: &dyn QueueHarness) -> Message {
    let message = message(&SeededIds::new(1));
    harness.queue().send(&message, 0).await.unwrap();
    message
}

/// The one message that is visible.
async fn expect_one(harness: &dyn QueueHarness) -> Delivery {
    let receive = harness.queue().receive(1, HIDDEN_MS, 2_000);
    let deliveries = tokio::time::timeout(PATIENCE, receive).await.expect("no message came").unwrap();
    let [delivery] = deliveries.try_into().expect("no message came");
    delivery
}

async fn expect_none(harness: &dyn QueueHarness) {
    assert_eq!(harness.queue().receive(10, HIDDEN_MS, 0).await.unwrap(), [], "a message came that should not");
}

/// Receives the message until it is a dead letter.
async fn wear_out(harness: &dyn QueueHarness) {
    for _ in 0..harness.receives_max() {
        let delivery = expect_one(harness).await;
        harness.queue().extend(&delivery.receipt, 0).await.unwrap();
    }
    expect_none(harness).await;
}

async fn dead(harness: &dyn QueueHarness) -> Vec<Delivery> {
    harness.queue().receive_dead(10, HIDDEN_MS).await.unwrap()
}

/// Promise: a message arrives as it was sent.
pub async fn a_message_arrives_with_its_task_and_trace(harness: &dyn QueueHarness) {
    let ids = SeededIds::new(1);
    for trace in [message(&ids).trace, None] {
        let message = Message { trace, ..message(&ids) };
        harness.queue().send(&message, 0).await.unwrap();
        let delivery = expect_one(harness).await;
        assert_eq!((delivery.message, delivery.receives), (message, 1));
    }
}

/// Promise: a message goes to one worker at a time.
pub async fn a_message_is_hidden_while_somebody_works_on_it(harness: &dyn QueueHarness) {
    sent(harness).await;
    expect_one(harness).await;
    expect_none(harness).await;
    harness.pass_ms(HIDDEN_MS - 2_000).await;
    expect_none(harness).await;
}

/// Promise: a message whose worker died is delivered again, and again.
pub async fn a_message_that_is_not_deleted_comes_again(harness: &dyn QueueHarness) {
    let message = sent(harness).await;
    for receives in 1..=2 {
        let delivery = expect_one(harness).await;
        assert_eq!((&delivery.message, delivery.receives), (&message, receives));
        harness.pass_ms(HIDDEN_MS + 1_000).await;
    }
}

/// Promise: a delay holds, and ends.
pub async fn a_delayed_message_comes_after_its_delay(harness: &dyn QueueHarness) {
    let message = message(&SeededIds::new(1));
    harness.queue().send(&message, 4_000).await.unwrap();
    expect_none(harness).await;
    harness.pass_ms(2_000).await;
    expect_none(harness).await;
    harness.pass_ms(3_000).await;
    let delivery = expect_one(harness).await;
    assert_eq!((delivery.message, delivery.receives), (message, 1));
}

/// Promise: a deletion is final.
pub async fn a_deleted_message_never_comes_back(harness: &dyn QueueHarness) {
    sent(harness).await;
    let delivery = expect_one(harness).await;
    harness.queue().delete(&delivery.receipt).await.unwrap();
    harness.queue().delete(&delivery.receipt).await.unwrap();
    harness.queue().extend(&delivery.receipt, 0).await.unwrap();
    expect_none(harness).await;
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    expect_none(harness).await;
    assert_eq!(dead(harness).await, []);
}

/// Promise: a worker that needs longer keeps its message.
pub async fn an_extension_hides_the_message_for_longer(harness: &dyn QueueHarness) {
    sent(harness).await;
    let delivery = expect_one(harness).await;
    harness.queue().extend(&delivery.receipt, 2 * HIDDEN_MS).await.unwrap();
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    expect_none(harness).await;
    harness.pass_ms(HIDDEN_MS).await;
    assert_eq!(expect_one(harness).await.receives, 2);
}

/// Promise: an extension counts from the time of the call, and may shorten.
pub async fn an_extension_may_show_the_message_sooner(harness: &dyn QueueHarness) {
    sent(harness).await;
    let delivery = expect_one(harness).await;
    harness.queue().extend(&delivery.receipt, 60_000).await.unwrap();
    harness.queue().extend(&delivery.receipt, 1_000).await.unwrap();
    harness.pass_ms(2_000).await;
    assert_eq!(expect_one(harness).await.receives, 2);
}

/// Promise: an extension by 0 shows the message at once.
pub async fn an_extension_by_zero_shows_the_message_at_once(harness: &dyn QueueHarness) {
    let message = sent(harness).await;
    let delivery = expect_one(harness).await;
    harness.queue().extend(&delivery.receipt, 0).await.unwrap();
    let again = expect_one(harness).await;
    assert_eq!((again.message, again.receives), (message, 2));
}

/// Promise: a worker that was too slow does not delete a message that another one works on.
pub async fn a_stale_receipt_cannot_delete(harness: &dyn QueueHarness) {
    sent(harness).await;
    let stale = expect_one(harness).await;
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    let latest = expect_one(harness).await;
    assert_ne!(stale.receipt, latest.receipt);
    harness.queue().delete(&stale.receipt).await.unwrap();
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    expect_one(harness).await;
}

/// Promise: a worker that was too slow does not show or hide a message that another one works on.
pub async fn a_stale_receipt_cannot_extend(harness: &dyn QueueHarness) {
    sent(harness).await;
    let stale = expect_one(harness).await;
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    expect_one(harness).await;
    harness.queue().extend(&stale.receipt, 0).await.unwrap();
    expect_none(harness).await;
    harness.queue().extend(&stale.receipt, 60_000).await.unwrap();
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    expect_one(harness).await;
}

/// Promise: the latest receipt is valid until another worker gets the message.
pub async fn a_late_delete_counts_if_nobody_else_has_the_message(harness: &dyn QueueHarness) {
    sent(harness).await;
    let delivery = expect_one(harness).await;
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    harness.queue().delete(&delivery.receipt).await.unwrap();
    expect_none(harness).await;
}

/// Promise: a call delivers at most as many messages as asked for, and all arrive in the end, each once.
pub async fn every_message_comes_once_and_no_more_than_asked_for_at_a_time(harness: &dyn QueueHarness) {
    let ids = SeededIds::new(1);
    let messages: Vec<Message> = (0..7).map(|_| message(&ids)).collect();
    for message in &messages {
        harness.queue().send(message, 0).await.unwrap();
    }
    let mut came = BTreeSet::new();
    for _ in 0..messages.len() {
        let deliveries = harness.queue().receive(3, 60_000, 0).await.unwrap();
        assert!(deliveries.len() <= 3);
        for delivery in deliveries {
            assert!(came.insert(delivery.message.task), "a message came twice");
        }
    }
    assert_eq!(came, messages.iter().map(|message| message.task).collect());
}

/// Promise: two messages for one task are two messages.
pub async fn two_messages_for_one_task_are_both_delivered(harness: &dyn QueueHarness) {
    let message = sent(harness).await;
    harness.queue().send(&message, 0).await.unwrap();
    let (first, second) = (expect_one(harness).await, expect_one(harness).await);
    assert_ne!(first.receipt, second.receipt);
    harness.queue().delete(&first.receipt).await.unwrap();
    harness.queue().extend(&second.receipt, 0).await.unwrap();
    assert_eq!(expect_one(harness).await.receives, 2);
    expect_none(harness).await;
}

/// Promise: a waiting receiver gets a message when it is sent, not when the wait has ended.
pub async fn a_waiting_receive_wakes_when_a_message_is_sent(harness: &dyn QueueHarness) {
    let message = message(&SeededIds::new(1));
    let (received, sent) = join(harness.queue().receive(1, HIDDEN_MS, 20_000), harness.queue().send(&message, 0)).await;
    sent.unwrap();
    assert_eq!(received.unwrap().first().map(|delivery| &delivery.message), Some(&message));
}

/// Promise: a waiting receiver gets a message when it becomes visible.
pub async fn a_waiting_receive_wakes_when_a_message_becomes_visible(harness: &dyn QueueHarness) {
    let message = message(&SeededIds::new(1));
    harness.queue().send(&message, 2_000).await.unwrap();
    let (received, ()) = join(harness.queue().receive(1, HIDDEN_MS, 20_000), harness.pass_ms(4_000)).await;
    assert_eq!(received.unwrap().first().map(|delivery| &delivery.message), Some(&message));
}

/// Promise: a wait ends.
pub async fn a_waiting_receive_comes_back_empty_after_its_wait(harness: &dyn QueueHarness) {
    let (received, ()) = join(harness.queue().receive(1, HIDDEN_MS, 2_000), harness.pass_ms(2_000)).await;
    assert_eq!(received.unwrap(), []);
}

/// Promise: a poison message is moved to the dead letters unchanged.
pub async fn a_message_delivered_too_often_becomes_a_dead_letter(harness: &dyn QueueHarness) {
    let message = sent(harness).await;
    assert_eq!(dead(harness).await, []);
    wear_out(harness).await;
    let letters = dead(harness).await;
    assert_eq!(letters.iter().map(|letter| &letter.message).collect::<Vec<_>>(), [&message]);
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    expect_none(harness).await;
}

/// Promise: a poison message does not block other messages.
pub async fn a_dead_letter_does_not_block_other_messages(harness: &dyn QueueHarness) {
    sent(harness).await;
    wear_out(harness).await;
    let healthy = message(&SeededIds::new(2));
    harness.queue().send(&healthy, 0).await.unwrap();
    assert_eq!(expect_one(harness).await.message, healthy);
}

/// Promise: dead letters are delivered like other messages.
pub async fn a_dead_letter_is_hidden_while_somebody_reads_it_and_comes_again(harness: &dyn QueueHarness) {
    sent(harness).await;
    wear_out(harness).await;
    assert_eq!(dead(harness).await.len(), 1);
    assert_eq!(dead(harness).await, []);
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    assert_eq!(dead(harness).await.len(), 1);
}

/// Promise: a dead letter that was handled is gone.
pub async fn a_dead_letter_can_be_deleted(harness: &dyn QueueHarness) {
    sent(harness).await;
    wear_out(harness).await;
    for letter in dead(harness).await {
        harness.queue().delete(&letter.receipt).await.unwrap();
    }
    harness.pass_ms(HIDDEN_MS + 1_000).await;
    assert_eq!(dead(harness).await, []);
    expect_none(harness).await;
}

/// Promise: concurrent receivers share the messages.
pub async fn each_message_goes_to_one_of_many_concurrent_receivers(harness: &dyn QueueHarness) {
    let ids = SeededIds::new(1);
    let messages: Vec<Message> = (0..24).map(|_| message(&ids)).collect();
    for message in &messages {
        harness.queue().send(message, 0).await.unwrap();
    }
    let came = at_once(12, |_caller| async move {
        let mut came = Vec::new();
        // Together they ask for twice as many as there are.
        for _ in 0..2 {
            came.extend(harness.queue().receive(2, 60_000, 0).await.unwrap());
        }
        came
    });
    let came: Vec<_> = came.into_iter().flatten().map(|delivery| delivery.message.task).collect();
    assert_eq!(came.len(), messages.len());
    assert_eq!(came.into_iter().collect::<BTreeSet<_>>(), messages.iter().map(|message| message.task).collect());
}

/// Passes the names of all promises to the macro `[$then]`, after `$argument`.
#[macro_export]
macro_rules! queue_promises {
    ([$($then:tt)+], $argument:path) => {
        $($then)+! {
            $argument;
            a_message_arrives_with_its_task_and_trace,
            a_message_is_hidden_while_somebody_works_on_it,
            a_message_that_is_not_deleted_comes_again,
            a_delayed_message_comes_after_its_delay,
            a_deleted_message_never_comes_back,
            an_extension_hides_the_message_for_longer,
            an_extension_may_show_the_message_sooner,
            an_extension_by_zero_shows_the_message_at_once,
            a_stale_receipt_cannot_delete,
            a_stale_receipt_cannot_extend,
            a_late_delete_counts_if_nobody_else_has_the_message,
            every_message_comes_once_and_no_more_than_asked_for_at_a_time,
            two_messages_for_one_task_are_both_delivered,
            a_waiting_receive_wakes_when_a_message_is_sent,
            a_waiting_receive_wakes_when_a_message_becomes_visible,
            a_waiting_receive_comes_back_empty_after_its_wait,
            a_message_delivered_too_often_becomes_a_dead_letter,
            a_dead_letter_does_not_block_other_messages,
            a_dead_letter_is_hidden_while_somebody_reads_it_and_comes_again,
            a_dead_letter_can_be_deleted,
            each_message_goes_to_one_of_many_concurrent_receivers,
        }
    };
}

/// One test per promise of a work queue. `$make` is a function without arguments whose future returns a
/// [`QueueHarness`] with an empty queue.
#[macro_export]
macro_rules! queue_contract {
    ($make:path) => {
        $crate::queue_promises!([$crate::queue_contract_tests], $make);
    };
}

/// The tests of [`queue_contract!`].
#[doc(hidden)]
#[macro_export]
macro_rules! queue_contract_tests {
    ($make:path; $($promise:ident,)*) => {
        $(
            #[test]
            fn $promise() {
                $crate::block_on(async {
                    let harness = $make().await;
                    $crate::queue_contract::$promise(&harness).await;
                });
            }
        )*
    };
}
