//! What exists if somebody is told how tasks end: the stream, the function that publishes, what invokes it, and its
//! rights.

use std::collections::BTreeSet;

use longhaul_core::{Identity, OwnerId, WEBHOOK_DELIVERY_TOOL};
use serde_json::{Value, json};

use super::permissions::{LOG, allowed, leading_keys, list};
use super::resolve::Stack;
use super::{PUBLISHER, template, worker};

const ON: (&str, &str) = ("Push", "on");
const WEBHOOKS: [(&str, &str); 3] =
    [ON, ("Webhooks", "{}"), ("WebhookSecretArns", "arn:aws:ssm:eu-west-1:111122223333:parameter/hook")];

#[test]
fn nothing_of_it_exists_unless_it_is_asked_for() {
    let template = template();
    let exist = |parameters: &[_]| {
        let stack = Stack::new(&template, parameters);
        let names = template["Resources"].as_object().unwrap().keys();
        names.filter(|name| stack.resource(name).is_some()).cloned().collect::<BTreeSet<_>>()
    };
    let more: Vec<String> = exist(&[ON]).difference(&exist(&[])).cloned().collect();
    let wanted = [
        "Publisher",
        "PublisherLogs",
        "PublisherRole",
        "ChangesToPublish",
        "LateNotificationsAlarm",
        "NotPublished",
        "NotPublishedAlarm",
        "NotPublishedNeedsTls",
    ];
    assert_eq!(more, wanted);
    let stream =
        |parameters: &[_]| Stack::new(&template, parameters).resource("Tasks").unwrap()["StreamSpecification"].clone();
    let unclaimed_off = ("ResendUnclaimed", "off");
    assert_eq!(stream(&[unclaimed_off]), json!(null));
    assert_eq!(stream(&[ON, unclaimed_off]), json!({"StreamViewType": "NEW_AND_OLD_IMAGES"}));
    for output in ["PublisherFunction", "NotPublishedQueueUrl"] {
        assert_eq!(template["Outputs"][output]["Condition"], "Pushes");
    }
}

#[test]
fn the_publisher_has_the_workers_program_and_is_told_what_to_publish_to() {
    let template = template();
    let stack = Stack::new(&template, &[ON, ("EventBus", "tasks")]);
    let function = stack.resource(PUBLISHER).unwrap();
    assert_eq!(function["CodeUri"], stack.resource("Worker").unwrap()["CodeUri"]);
    assert_eq!(function["Role"], json!({"Fn::GetAtt": "PublisherRole.Arn"}));
    let config = worker(&template, PUBLISHER, &[ON, ("EventBus", "tasks")]);
    assert_eq!((config.event_bus.as_deref(), config.webhooks), (Some("tasks"), None));
    for other in super::WORKERS {
        assert_eq!(worker(&template, other, &WEBHOOKS).event_bus, None, "{other} publishes nothing");
    }
    assert!(worker(&template, PUBLISHER, &WEBHOOKS).webhooks.is_some(), "it decides who is told");
    assert!(worker(&template, "Worker", &WEBHOOKS).webhooks.is_some(), "it tells them");
    assert!(worker(&template, "Worker", &[ON]).webhooks.is_none());
}

#[test]
fn the_publisher_reads_the_stream_creates_webhook_deliveries_and_puts_events_and_nothing_else() {
    let template = template();
    let stack = Stack::new(&template, &[ON]);
    let bus = "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:event-bus/${EventBus}";
    let stream =
        ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"].map(|name| format!("dynamodb:{name}"));
    let expected = [
        list(&stream.each_ref().map(String::as_str), "Tasks.StreamArn"),
        list(&["events:PutEvents"], bus),
        list(&["dynamodb:GetItem", "dynamodb:PutItem"], "Tasks.Arn"),
        list(&["sqs:SendMessage"], "Work.Arn"),
        list(&["sqs:SendMessage"], "NotPublished.Arn"),
        list(&LOG, "PublisherLogs.Arn"),
    ];
    assert_eq!(allowed(&stack, "PublisherRole"), expected.into_iter().flatten().collect());
    assert_eq!(leading_keys(&stack, "PublisherRole").unwrap(), ["o#*"]);
}

/// Who tells endpoints notes which of them want no more in the mailboxes of one owner, whom no caller can be.
#[test]
fn with_webhooks_a_worker_reads_their_secrets_and_notes_who_wants_no_more() {
    let template = template();
    let notes = OwnerId::of(Identity::Verified { issuer: "longhaul", subject: "webhooks", tenant: "" });
    let keys = |parameters: &[_]| leading_keys(&Stack::new(&template, parameters), "WorkerRole").unwrap();
    assert_eq!(keys(&[ON]), ["o#*", "t#*", "q#*"]);
    assert_eq!(keys(&WEBHOOKS), ["o#*".to_owned(), "t#*".to_owned(), "q#*".to_owned(), format!("m#{notes}#*")]);
    let role = Stack::new(&template, &WEBHOOKS).resource("WorkerRole").unwrap().to_string();
    assert!(role.contains("SecretsOfWebhooks") && role.contains("parameter/hook"), "{role}");
}

#[test]
fn what_fails_comes_again_for_hours_and_is_then_put_aside() {
    let template = template();
    let mapping = Stack::new(&template, &[ON]).resource("ChangesToPublish").unwrap();
    assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
    assert_eq!(mapping["BisectBatchOnFunctionError"], true);
    assert_eq!(mapping["MaximumBatchingWindowInSeconds"], 0, "ends are told at once");
    assert_eq!(mapping["StartingPosition"], "TRIM_HORIZON", "nothing is missed while the mapping is made");
    assert_eq!(mapping["DestinationConfig"]["OnFailure"]["Destination"], json!({"Fn::GetAtt": "NotPublished.Arn"}));
    let age_s = mapping["MaximumRecordAgeInSeconds"].as_u64().unwrap();
    assert!((3_600..=43_200).contains(&age_s), "the stream has them for a day, and somebody has to publish them again");
}

/// Whether a pattern of a filter matches, as Lambda says it does.
fn matches(pattern: &Value, value: &Value) -> bool {
    match pattern {
        Value::Object(fields) => fields.iter().all(|(name, pattern)| matches(pattern, &value[name])),
        Value::Array(allowed) => allowed.iter().any(|allowed| match allowed.get("anything-but") {
            Some(others) => !value.is_null() && !others.as_array().unwrap().contains(value),
            None => allowed == value,
        }),
        _ => panic!("{pattern} is no pattern"),
    }
}

#[test]
fn only_what_is_published_invokes_the_publisher() {
    let template = template();
    let mapping = Stack::new(&template, &[ON]).resource("ChangesToPublish").unwrap();
    let filters = mapping["FilterCriteria"]["Filters"].as_array().unwrap().clone();
    let patterns: Vec<Value> =
        filters.iter().map(|filter| serde_json::from_str(filter["Pattern"].as_str().unwrap()).unwrap()).collect();
    let invokes = |event: &str, tool: &str, before: Option<&str>, after: Option<&str>| {
        let image = |state: &str| json!({"state": {"S": state}, "tool": {"S": tool}});
        let record =
            json!({"eventName": event, "dynamodb": {"OldImage": before.map(image), "NewImage": after.map(image)}});
        patterns.iter().any(|pattern| matches(pattern, &record))
    };
    let states = ["queued", "running", "sleeping", "input_required", "completed", "failed", "cancelled"];
    let status = |state: &str| {
        if ["queued", "running", "sleeping"].contains(&state) { "working".to_owned() } else { state.to_owned() }
    };
    for before in states {
        for after in states {
            let has_ended = ["completed", "failed", "cancelled"].contains(&before);
            let is_published = !has_ended && status(after) != "working" && status(before) != status(after);
            assert_eq!(invokes("MODIFY", "report", Some(before), Some(after)), is_published, "{before} {after}");
            assert!(!invokes("MODIFY", WEBHOOK_DELIVERY_TOOL, Some(before), Some(after)), "{before} {after}");
        }
        assert!(!invokes("INSERT", "report", None, Some(before)));
        assert!(!invokes("REMOVE", "report", Some(before), None));
    }
    let journal_entry =
        json!({"eventName": "MODIFY", "dynamodb": {"OldImage": {}, "NewImage": {"kind": {"S": "step"}}}});
    assert!(!patterns.iter().any(|pattern| matches(pattern, &journal_entry)));
}
