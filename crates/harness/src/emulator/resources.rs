//! Clients, tables and queues of an emulator.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use aws_sdk_sqs::types::QueueAttributeName;
use longhaul_aws::clients::{Clients, https};

use super::{endpoint, fresh_name};

/// How often a queue of [`queues`] delivers a message before it becomes a dead letter.
pub const RECEIVES_MAX: u32 = 3;

/// The SDK configuration for the emulator without functions.
pub fn config() -> SdkConfig {
    config_of(endpoint())
}

/// The SDK configuration for an emulator.
pub fn config_of(endpoint: &str) -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .http_client(https())
        .build()
}

/// An empty table.
pub async fn table(clients: &Clients) -> String {
    let name = fresh_name();
    create_table(clients, &name).await;
    name
}

/// An empty table of this name.
pub async fn create_table(clients: &Clients, name: &str) {
    let key = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let text = |name: &str| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build().unwrap()
    };
    let create = clients.dynamo.create_table().table_name(name).billing_mode(BillingMode::PayPerRequest);
    let create = create.key_schema(key("pk", KeyType::Hash)).key_schema(key("sk", KeyType::Range));
    create.attribute_definitions(text("pk")).attribute_definitions(text("sk")).send().await.unwrap();
}

/// The URLs of an empty queue and its empty dead-letter queue.
pub async fn queues(clients: &Clients) -> (String, String) {
    create_queues(clients, &fresh_name(), RECEIVES_MAX).await
}

/// The same for a queue of this name, which delivers a message so often before it becomes a dead letter.
pub async fn create_queues(clients: &Clients, name: &str, receives_max: u32) -> (String, String) {
    let dead = clients.sqs.create_queue().queue_name(format!("{name}-dead")).send().await.unwrap().queue_url.unwrap();
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{name}-dead");
    let redrive = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"{receives_max}"}}"#);
    let create = clients.sqs.create_queue().queue_name(name).attributes(QueueAttributeName::RedrivePolicy, redrive);
    (create.send().await.unwrap().queue_url.unwrap(), dead)
}
