//! A queue that is known by its URL alone, as containers know it: its dead letters are found, and none is lost.

use harness::emulator::{config, queues};
use longhaul_aws::clients::Clients;
use longhaul_aws::{SqsQueue, body_of};
use longhaul_core::TaskKey;
use longhaul_core::ports::{Message, WorkQueue};
use longhaul_testkit::{SeededIds, given};

fn key() -> TaskKey {
    given::task(&SeededIds::new(1), given::owner("alice"), given::NOW).key()
}

fn body() -> String {
    body_of(&Message { task: key(), trace: None, attempt: None })
}

#[tokio::test]
async fn the_dead_letters_of_a_queue_are_found_by_its_redrive_policy() {
    let clients = Clients::new(&config());
    let (url, dead) = queues(&clients).await;
    let queue = SqsQueue::with_its_dead_letters(clients.sqs.clone(), &url).await.unwrap();
    assert!(queue.has_dead_letters());
    queue.check().await.unwrap();
    clients.sqs.send_message().queue_url(&dead).message_body(body()).send().await.unwrap();
    let letters = queue.receive_dead(10, 30_000).await.unwrap();
    let [letter] = letters.as_slice() else { panic!("{letters:?}") };
    assert_eq!(letter.message.task, key());
    queue.delete(&letter.receipt).await.unwrap();
    assert!(queue.receive_dead(10, 0).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_queue_may_have_no_dead_letters() {
    let clients = Clients::new(&config());
    // A queue of dead letters has no further one.
    let (_, url) = queues(&clients).await;
    let queue = SqsQueue::with_its_dead_letters(clients.sqs.clone(), &url).await.unwrap();
    assert!(!queue.has_dead_letters());
    assert!(queue.receive_dead(10, 30_000).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_queue_that_is_not_there_is_an_error() {
    let clients = Clients::new(&config());
    let (url, _) = queues(&clients).await;
    let url = format!("{url}-missing");
    assert!(SqsQueue::with_its_dead_letters(clients.sqs.clone(), &url).await.is_err());
    assert!(SqsQueue::new(clients.sqs, url, "").check().await.is_err());
}

#[tokio::test]
async fn a_dead_letter_that_cannot_be_read_is_put_aside_and_kept() {
    let clients = Clients::new(&config());
    let (url, dead) = queues(&clients).await;
    let queue = SqsQueue::with_its_dead_letters(clients.sqs.clone(), &url).await.unwrap();
    for body in ["not a task", &body()] {
        clients.sqs.send_message().queue_url(&dead).message_body(body).send().await.unwrap();
    }
    // Visible again at once, if it were not put aside.
    let mut read = 0;
    for _ in 0..4 {
        read += queue.receive_dead(10, 0).await.unwrap().len();
    }
    assert!(read >= 1, "the other one is delivered");
    let names = [aws_sdk_sqs::types::QueueAttributeName::ApproximateNumberOfMessagesNotVisible];
    let asked = clients.sqs.get_queue_attributes().queue_url(&dead).set_attribute_names(Some(names.to_vec()));
    let attributes = asked.send().await.unwrap().attributes.unwrap();
    assert_eq!(attributes[&names[0]], "1");
}
