//! A table outlives its stack: the steps of docs/restore.md, with tasks under way.

use std::process::Command;

use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TimeToLiveStatus,
};
use harness::caller::{Caller, structured};
use harness::emulator::{create_table, fresh_name};
use harness::root;
use longhaul_aws::clients::Clients;
use serde_json::{Value, json};

use super::built::{commands_below, script};
use super::inside::{item_key, state_of, until};
use super::process::{Setup, endpoint};

const PAGE: &str = "docs/restore.md";

/// Runs a command line of the page for this table, and returns what it printed, or what it said against it.
fn type_in(line: &str, table: &str, queue_url: &str) -> Result<String, String> {
    let line = line.replace("RESTORED", table).replace("QUEUE_URL", queue_url);
    let mut words = line.split(' ');
    assert_eq!(words.next(), Some("scripts/existing_table.py"));
    let mut command = Command::new(root().join(".cache/tools/aws/bin/python"));
    command.arg("-B").arg(script("existing_table.py")).args(words);
    command.env("AWS_ENDPOINT_URL", endpoint()).env("AWS_DEFAULT_REGION", "us-east-1");
    let out = command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test").output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap().trim().to_owned();
    if out.status.success() { Ok(said(&out.stdout)) } else { Err(said(&out.stderr)) }
}

fn command(heading: &str) -> String {
    let commands = commands_below(PAGE, heading);
    let [line] = commands.as_slice() else { panic!("{heading} has other commands: {commands:?}") };
    line.clone()
}

fn prepare(table: &str) -> Result<String, String> {
    type_in(&command("### 3. Prepare it"), table, "")
}

/// A task that begins after this time.
async fn later(caller: &Caller, after_ms: i64) -> String {
    let start = jiff::Timestamp::now() + jiff::SignedDuration::from_millis(after_ms);
    let arguments = json!({"seconds": 0, "steps": 1});
    let call =
        json!({"name": "countdown", "arguments": arguments, "_meta": {"dev.longhaul/notBefore": start.to_string()}});
    caller.result("tools/call", call).await["taskId"].as_str().unwrap().to_owned()
}

/// Tasks of the earlier stack: one that has ended, and three that are under way.
struct Tasks {
    ended: String,
    running: String,
    sleeping: String,
    asking: String,
}

impl Tasks {
    async fn begin(setup: &Setup) -> Self {
        let caller = setup.start().caller();
        let ended = caller.call_task("countdown", json!({"seconds": 0, "steps": 1})).await;
        caller.until(&ended, "completed").await;
        let running = caller.call_task("countdown", json!({"seconds": 8, "steps": 40})).await;
        let sleeping = later(&caller, 20_000).await;
        let asking = caller.call_task("ask", json!({"questions": ["Which table?"]})).await;
        caller.until(&asking, "input_required").await;
        let (clients, table) = (Setup::clients(), setup.output("Table"));
        for (id, state) in [(&running, "running"), (&sleeping, "sleeping")] {
            until(state, async || state_of(&clients, table, id).await.as_deref() == Some(state)).await;
        }
        Self { ended, running, sleeping, asking }
    }

    /// Expects that all of them end in a new stack on the table. No client polls those that run and sleep.
    async fn end_on(&self, table: &str) {
        let existing = prepare(table).unwrap();
        assert!(existing.starts_with(&format!("{table}/stream/")), "{existing}");
        assert!(commands_below(PAGE, "### 4. Deploy on it")[0].contains("ExistingTableName=RESTORED/stream/LABEL"));
        let setup = Setup::with(&[&format!("ExistingTableName={existing}"), "--resend-unclaimed"]);
        assert_eq!(setup.output("Table"), table);
        let sent = type_in(&command("### 5. Send the messages again"), table, setup.output("QueueUrl")).unwrap();
        assert!(sent.contains("3 messages"), "{sent}");
        let clients = Setup::clients();
        for id in [&self.running, &self.sleeping] {
            until("it has ended", async || state_of(&clients, table, id).await.as_deref() == Some("completed")).await;
        }
        let caller = setup.start().caller();
        assert_eq!(caller.get(&self.ended).await["status"], "completed");
        let done = structured(&caller.get(&self.running).await["result"]);
        assert_eq!(done["steps"], 40, "{done}");
        let asked = caller.get(&self.asking).await;
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        caller.accept(&self.asking, &key, json!({"answer": "orders"})).await;
        caller.until(&self.asking, "completed").await;
        // New tasks too, and the stack leaves the table as it was.
        let id = caller.call_task("countdown", json!({"seconds": 0, "steps": 1})).await;
        caller.until(&id, "completed").await;
        drop(setup);
        assert_eq!(state_of(&clients, table, &id).await.as_deref(), Some("completed"));
    }
}

#[tokio::test]
async fn a_kept_table_is_that_of_the_next_stack() {
    let setup = Setup::new();
    let tasks = Tasks::begin(&setup).await;
    let table = setup.output("Table").to_owned();
    drop(setup);
    tasks.end_on(&table).await;
}

#[tokio::test]
async fn tasks_under_way_finish_on_a_restored_copy() {
    let (setup, clients) = (Setup::new(), Setup::clients());
    let tasks = Tasks::begin(&setup).await;
    let (table, restored) = (setup.output("Table").to_owned(), fresh_name());
    let restore = clients.dynamo.restore_table_to_point_in_time().source_table_name(&table);
    restore.target_table_name(&restored).use_latest_restorable_time(true).send().await.unwrap();
    drop(setup);
    tasks.end_on(&restored).await;

    let expiry = clients.dynamo.describe_time_to_live().table_name(&restored).send().await.unwrap();
    let expiry = expiry.time_to_live_description.unwrap();
    assert_eq!(
        (expiry.time_to_live_status, expiry.attribute_name.as_deref()),
        (Some(TimeToLiveStatus::Enabled), Some("ttl"))
    );
    let described = clients.dynamo.describe_table().table_name(&restored).send().await.unwrap().table.unwrap();
    assert_eq!(described.deletion_protection_enabled, Some(true));
    let backups = clients.dynamo.describe_continuous_backups().table_name(&restored).send().await.unwrap();
    let recovery = backups.continuous_backups_description.unwrap().point_in_time_recovery_description.unwrap();
    assert_eq!(recovery.point_in_time_recovery_status.unwrap().as_str(), "ENABLED");
}

async fn create_other_table(clients: &Clients, name: &str) {
    let key = KeySchemaElement::builder().attribute_name("id").key_type(KeyType::Hash).build().unwrap();
    let id =
        AttributeDefinition::builder().attribute_name("id").attribute_type(ScalarAttributeType::S).build().unwrap();
    let create = clients.dynamo.create_table().table_name(name).key_schema(key).attribute_definitions(id);
    create.billing_mode(BillingMode::PayPerRequest).send().await.unwrap();
}

#[tokio::test]
async fn a_table_that_the_functions_cannot_use_is_refused() {
    let clients = Setup::clients();
    let [newer, other] = [fresh_name(), fresh_name()];
    create_table(&clients, &newer).await;
    create_other_table(&clients, &other).await;
    let mut item = item_key("01a21946-a2e3-7511-8791-8c11deb3a1ba");
    item.insert("format".to_owned(), AttributeValue::N("2".to_owned()));
    clients.dynamo.put_item().table_name(&newer).set_item(Some(item)).send().await.unwrap();
    for (table, said) in [
        (newer.as_str(), "a newer version of Longhaul wrote the table"),
        (&other, "is not a table of tasks"),
        ("no-such-table", "there is no table no-such-table"),
    ] {
        let refused = prepare(table).unwrap_err();
        assert!(refused.contains(said) && refused.lines().count() == 1, "{refused}");
    }
    let described: Value = {
        let table = clients.dynamo.describe_table().table_name(&newer).send().await.unwrap().table.unwrap();
        json!([table.deletion_protection_enabled.unwrap_or(false), table.latest_stream_label])
    };
    assert_eq!(described, json!([false, null]), "nothing was changed");
}
