//! Reads directly what is in the table and in the queues.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use longhaul_aws::clients::Clients;

use super::process::key_of;

/// How long a test waits for something that has to happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// The names of a task's recorded steps, in order, each as often as it is in the table.
pub(crate) async fn steps_of(clients: &Clients, table: &str, task_id: &str) -> Vec<String> {
    let key = key_of(task_id);
    let query =
        clients.dynamo.query().table_name(table).key_condition_expression("pk = :pk AND begins_with(sk, :steps)");
    let query = query
        .expression_attribute_values(":pk", AttributeValue::S(format!("t#{}#{}", key.owner, key.id)))
        .expression_attribute_values(":steps", AttributeValue::S("step#step#".to_owned()));
    let found = query.consistent_read(true).send().await.unwrap();
    let names = found.items().iter().map(|item| item["name"].as_s().unwrap().clone());
    names.collect()
}

/// How many messages are in a queue: visible, hidden and delayed ones.
pub(crate) async fn messages_in(clients: &Clients, queue_url: &str) -> u32 {
    let names = [
        QueueAttributeName::ApproximateNumberOfMessages,
        QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
        QueueAttributeName::ApproximateNumberOfMessagesDelayed,
    ];
    let ask = clients.sqs.get_queue_attributes().queue_url(queue_url).set_attribute_names(Some(names.to_vec()));
    let attributes = ask.send().await.unwrap().attributes.unwrap_or_default();
    names.iter().map(|name| attributes.get(name).map_or(0, |number| number.parse().unwrap())).sum()
}

/// The state of a task in the table.
pub(crate) async fn state_of(clients: &Clients, table: &str, task_id: &str) -> Option<String> {
    let found = clients.dynamo.get_item().table_name(table).set_key(Some(item_key(task_id))).consistent_read(true);
    let item = found.send().await.unwrap().item?;
    Some(item["state"].as_s().unwrap().clone())
}

/// How far the cleanup of a task in the table is, as JSON text.
pub(crate) async fn cleanup_of(clients: &Clients, table: &str, task_id: &str) -> Option<String> {
    let found = clients.dynamo.get_item().table_name(table).set_key(Some(item_key(task_id))).consistent_read(true);
    let item = found.send().await.unwrap().item?;
    Some(item.get("cleaning")?.as_s().unwrap().clone())
}

/// The key of a task's item in the table.
pub(crate) fn item_key(task_id: &str) -> HashMap<String, AttributeValue> {
    let key = key_of(task_id);
    let pk = format!("o#{}#{:x}", key.owner, key.id.shard(16));
    [("pk", pk), ("sk", key.id.to_string())].map(|(name, value)| (name.to_owned(), AttributeValue::S(value))).into()
}

/// Waits until something holds that has to happen on its own.
pub(crate) async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < PATIENCE, "waited until {what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
