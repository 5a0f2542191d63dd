//! Expiry in the deployment: at once for clients, and some time later in the table.

use aws_sdk_dynamodb::types::{AttributeValue, TimeToLiveStatus};
use serde_json::json;

use super::inside::{item_key, until};
use super::process::Setup;

#[tokio::test]
async fn a_task_past_its_time_is_not_found_and_then_deleted() {
    let setup = Setup::new();
    let (caller, clients) = (setup.start().caller(), Setup::clients());
    let table = setup.output("Table");
    let description = clients.dynamo.describe_time_to_live().table_name(table).send().await.unwrap();
    let description = description.time_to_live_description.unwrap();
    assert_eq!(description.time_to_live_status, Some(TimeToLiveStatus::Enabled));
    let id = caller.call_task("countdown", json!({"seconds": 0, "steps": 1})).await;
    caller.until(&id, "completed").await;
    // As if it had expired: the shortest time to live is minutes.
    let item =
        clients.dynamo.get_item().table_name(table).set_key(Some(item_key(&id))).send().await.unwrap().item.unwrap();
    let moment = |name: &str| item[name].as_n().unwrap().parse::<u64>().unwrap();
    let ttl = description.attribute_name.unwrap();
    assert!(moment(&ttl) * 1_000 >= moment("expires_at"), "nothing is deleted before it has expired");
    let an_hour_before_ms = moment("created_at") - 3_600_000;
    let number = |value: u64| AttributeValue::N(value.to_string());
    let age = clients.dynamo.update_item().table_name(table).set_key(Some(item_key(&id)));
    let age =
        age.update_expression("SET expires_at = :expired, #ttl = :deletable").expression_attribute_names("#ttl", ttl);
    let age = age.expression_attribute_values(":expired", number(an_hour_before_ms));
    let age = age.expression_attribute_values(":deletable", number(an_hour_before_ms / 1_000));
    age.send().await.unwrap();
    assert_eq!(caller.error("tasks/get", json!({"taskId": id})).await["code"], -32602);
    assert_eq!(caller.error("tasks/cancel", json!({"taskId": id})).await["code"], -32602);
    until("the table has deleted it", async || {
        let found = clients.dynamo.get_item().table_name(table).set_key(Some(item_key(&id))).send().await.unwrap();
        found.item.is_none()
    })
    .await;
}
