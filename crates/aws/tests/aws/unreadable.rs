//! Messages that cannot be read: they do not stop others, and become dead letters.

use harness::emulator;
use longhaul_aws::SqsQueue;
use longhaul_aws::clients::Clients;
use longhaul_core::ports::{Message, WorkQueue};
use longhaul_testkit::SeededIds;
use longhaul_testkit::given::{self, NOW, owner};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_read_does_not_stop_others_and_becomes_a_dead_letter() {
    let clients = Clients::new(&emulator::config());
    let (url, dead) = emulator::queues(&clients).await;
    let queue = SqsQueue::new(clients.sqs.clone(), &url, &dead);
    for body in ["hello", "{}", r#"{"v":99}"#] {
        clients.sqs.send_message().queue_url(&url).message_body(body).send().await.unwrap();
    }
    let message =
        Message { task: given::task(&SeededIds::new(1), owner("alice"), NOW).key(), trace: None, attempt: None };
    queue.send(&message, 0).await.unwrap();
    let mut received = Vec::new();
    for _ in 0..=emulator::RECEIVES_MAX {
        for delivery in queue.receive(10, 0, 0).await.unwrap() {
            queue.delete(&delivery.receipt).await.unwrap();
            received.push(delivery.message);
        }
    }
    assert_eq!(received, [message]);
    let letters = async || {
        let receive = clients.sqs.receive_message().queue_url(&dead).max_number_of_messages(10);
        receive.visibility_timeout(0).send().await.unwrap().messages().len()
    };
    assert_eq!(letters().await, 3);
    // They are not deleted, but rest until somebody has looked at them.
    assert_eq!(queue.receive_dead(10, 0).await.unwrap(), []);
    assert_eq!(letters().await, 0);
}
