//! The environment of the functions: a table, a queue, a dead-letter queue, settings.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use aws_sdk_dynamodb::types::AttributeValue;
use harness::emulator::{RECEIVES_MAX, config_of, create_queues, create_table};
use longhaul_aws::clients::Clients;
use longhaul_core::{Identity, OwnerId, TaskKey};

/// The variable that names the emulator's endpoint, as for every AWS client.
const ENDPOINT: &str = "AWS_ENDPOINT_URL";

static EMULATOR: OnceLock<String> = OnceLock::new();

/// Finds the emulator with which the functions are measured.
pub(crate) fn find_emulator() -> anyhow::Result<()> {
    let url = std::env::var(ENDPOINT);
    let url = url.with_context(|| {
        format!("{ENDPOINT} is not set; run this with `make bench` or scripts/emulator.sh run-with")
    })?;
    EMULATOR.get_or_init(|| url);
    Ok(())
}

/// The emulator's endpoint.
pub(crate) fn endpoint() -> &'static str {
    EMULATOR.get().expect("the emulator is found before anything is measured with it")
}

/// The key of an item in the table.
pub(crate) type Key = HashMap<String, AttributeValue>;

/// The table and queues of this run, in the emulator.
pub(crate) struct Ground {
    /// The same clients as the functions have.
    pub(crate) clients: Clients,
    /// The table.
    pub(crate) table: String,
    /// The work queue.
    pub(crate) queue_url: String,
    dead_letter_queue_url: String,
}

impl Ground {
    /// Creates them, empty.
    pub(crate) async fn new() -> anyhow::Result<Self> {
        let clients = Clients::new(&config_of(endpoint()));
        let table = format!("bench-{}", SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos());
        create_table(&clients, &table).await;
        let (queue_url, dead_letter_queue_url) = create_queues(&clients, &table, RECEIVES_MAX).await;
        Ok(Self { clients, table, queue_url, dead_letter_queue_url })
    }

    /// The key of an anonymous caller's task in the table.
    pub(crate) fn key_of(task_id: &str) -> anyhow::Result<Key> {
        let key = TaskKey::new(OwnerId::of(Identity::Anonymous), task_id.parse()?);
        let pk = format!("o#{}#{:x}", key.owner, key.id.shard(16));
        Ok([("pk", pk), ("sk", key.id.to_string())]
            .map(|(name, value)| (name.to_owned(), AttributeValue::S(value)))
            .into())
    }

    /// An item, read as the functions read one.
    pub(crate) async fn item(&self, key: &Key) -> anyhow::Result<Option<HashMap<String, AttributeValue>>> {
        let get = self.clients.dynamo.get_item().table_name(&self.table).consistent_read(true);
        Ok(get.set_key(Some(key.clone())).send().await?.item)
    }

    /// A function's environment, with the template's defaults, and with AWS at `endpoint`. Only warnings and errors are
    /// logged, since logs are mixed with the output of this program.
    pub(crate) fn env(&self, endpoint: &str, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let settings = [
            (ENDPOINT, endpoint),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("LONGHAUL_TABLE", &self.table),
            ("LONGHAUL_QUEUE_URL", &self.queue_url),
            ("LONGHAUL_DEAD_LETTER_QUEUE_URL", &self.dead_letter_queue_url),
            ("LONGHAUL_AUTH", "anonymous"),
            ("LONGHAUL_DIAGNOSTICS", "true"),
            ("LONGHAUL_LOG", "warn"),
        ];
        settings.iter().chain(more).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }
}
