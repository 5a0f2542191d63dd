//! The emulator: one for all test processes, and separate tables and queues for each test.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_dynamodb::config::{Credentials, SharedCredentialsProvider};
use aws_sdk_dynamodb::types::{AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType};
use aws_sdk_sqs::types::QueueAttributeName;
use longhaul_aws::clients::Clients;

/// How often a queue delivers a message before it becomes a dead letter.
pub(crate) const RECEIVES_MAX: u32 = 3;

/// The endpoint of the emulator, which runs at least as long as this process.
fn endpoint() -> &'static str {
    static EMULATOR: OnceLock<(File, String)> = OnceLock::new();
    let (_used, endpoint) = EMULATOR.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let state = root.join(".cache/emulator");
        std::fs::create_dir_all(&state).unwrap();
        let used = File::options().create(true).append(true).open(state.join("users.lock")).unwrap();
        used.lock_shared().unwrap();
        let output = Command::new(root.join("scripts/emulator.sh")).arg("shared").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "no emulator: {errors} (run scripts/setup-tools.sh aws)");
        (used, String::from_utf8(output.stdout).unwrap().trim().to_owned())
    });
    endpoint
}

/// The SDK configuration for the emulator.
pub(crate) fn config() -> SdkConfig {
    let credentials = Credentials::new("test", "test", None, None, "tests");
    SdkConfig::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint())
        .credentials_provider(SharedCredentialsProvider::new(credentials))
        .build()
}

/// A name that no other test uses.
fn fresh_name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mut random = [0_u8; 6];
    std::io::Read::read_exact(&mut File::open("/dev/urandom").unwrap(), &mut random).unwrap();
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("test-{random}-{number}")
}

/// An empty table.
pub(crate) async fn table(clients: &Clients) -> String {
    let name = fresh_name();
    create_table(clients, &name).await;
    name
}

/// An empty table of this name.
pub(crate) async fn create_table(clients: &Clients, name: &str) {
    let key = |name: &str, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build().unwrap();
    let text = |name: &str| {
        AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S).build().unwrap()
    };
    clients
        .dynamo
        .create_table()
        .table_name(name)
        .billing_mode(BillingMode::PayPerRequest)
        .key_schema(key("pk", KeyType::Hash))
        .key_schema(key("sk", KeyType::Range))
        .attribute_definitions(text("pk"))
        .attribute_definitions(text("sk"))
        .send()
        .await
        .unwrap();
}

/// The URLs of an empty queue and its empty dead-letter queue.
pub(crate) async fn queues(clients: &Clients) -> (String, String) {
    let name = fresh_name();
    let dead = clients.sqs.create_queue().queue_name(format!("{name}-dead")).send().await.unwrap().queue_url.unwrap();
    let arn = format!("arn:aws:sqs:us-east-1:000000000000:{name}-dead");
    let redrive = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"{RECEIVES_MAX}"}}"#);
    let created = clients
        .sqs
        .create_queue()
        .queue_name(&name)
        .attributes(QueueAttributeName::RedrivePolicy, redrive)
        .send()
        .await
        .unwrap();
    (created.queue_url.unwrap(), dead)
}
