//! What is sent to SQS: keys, delays that it accepts, times in whole seconds.

use harness::emulator;
use longhaul_aws::SqsQueue;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::{Message, WorkQueue};
use longhaul_testkit::SeededIds;
use longhaul_testkit::given::{self, NOW, owner};

use crate::meter::Meter;

async fn metered() -> (SqsQueue, Meter) {
    let clients = Clients::new(&emulator::config());
    let (queue, dead) = emulator::queues(&clients).await;
    let meter = Meter::default();
    let config = clients.sqs.config().to_builder().interceptor(meter.clone()).build();
    (SqsQueue::new(aws_sdk_sqs::Client::from_conf(config), queue, dead), meter)
}

fn message() -> Message {
    Message { task: given::task(&SeededIds::new(1), owner("alice"), NOW).key(), trace: None, attempt: None }
}

/// The only call since the last reading.
fn call(meter: &Meter) -> String {
    let [call] = meter.calls().try_into().unwrap();
    call.body
}

/// The emulator accepts longer delays; SQS does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_delay_longer_than_fifteen_minutes_is_shortened() {
    let (queue, meter) = metered().await;
    for (delay_ms, seconds) in [(0, 0), (1, 1), (899_001, 900), (900_001, 900), (u64::MAX, 900)] {
        queue.send(&message(), delay_ms).await.unwrap();
        let sent = call(&meter);
        assert!(sent.contains(&format!(r#""DelaySeconds":{seconds}"#)), "{sent}");
    }
}

/// A group has at most 128 characters: letters, digits and punctuation.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_carries_its_owner_as_its_group() {
    let (queue, meter) = metered().await;
    let message = message();
    queue.send(&message, 0).await.unwrap();
    let group = message.task.owner.to_string();
    assert!(group.len() <= 128 && group.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{group}");
    let sent = call(&meter);
    assert!(sent.contains(&format!(r#""MessageGroupId":"{group}""#)), "{sent}");
}

/// The emulator accepts longer times; SQS does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_hidden_for_at_most_twelve_hours() {
    let (queue, meter) = metered().await;
    queue.send(&message(), 0).await.unwrap();
    let [delivery] = queue.receive(1, u64::MAX, 0).await.unwrap().try_into().unwrap();
    meter.calls();
    for (visibility_ms, seconds) in [(0, 0), (59_001, 60), (43_200_001, 43_200), (u64::MAX, 43_200)] {
        queue.extend(&delivery.receipt, visibility_ms).await.unwrap();
        let sent = call(&meter);
        assert!(sent.contains(&format!(r#""VisibilityTimeout":{seconds}"#)), "{sent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receive_asks_for_no_more_messages_than_the_queue_delivers() {
    let (queue, meter) = metered().await;
    assert_eq!(queue.receive(1_000, 1_000, 0).await.unwrap(), []);
    let sent = call(&meter);
    assert!(sent.contains(r#""MaxNumberOfMessages":10"#), "{sent}");
    assert_eq!(queue.receive(0, 1_000, 0).await.unwrap(), []);
    assert!(meter.calls().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_is_one_call() {
    let (queue, meter) = metered().await;
    queue.send(&message(), 0).await.unwrap();
    let [delivery] = queue.receive(1, 60_000, 0).await.unwrap().try_into().unwrap();
    queue.extend(&delivery.receipt, 60_000).await.unwrap();
    queue.delete(&delivery.receipt).await.unwrap();
    assert_eq!(meter.names(), ["SendMessage", "ReceiveMessage", "ChangeMessageVisibility", "DeleteMessage"]);
}
