//! The resources that exist if ends of tasks are published: the stream, the publisher function, its trigger, and its
//! permissions.

use std::collections::BTreeSet;

use longhaul_core::WEBHOOK_DELIVERY_TOOL;
use serde_json::{Value, json};

use super::resolve::Stack;
use super::{PUBLISHER, TEMPLATE, hold, worker};

const ON: (&str, &str) = ("Push", "on");
pub(super) const WEBHOOKS: [(&str, &str); 3] =
    [ON, ("Webhooks", "{}"), ("SecretArns", "arn:aws:ssm:eu-west-1:111122223333:parameter/hook")];

#[test]
fn nothing_of_it_exists_unless_it_is_asked_for() {
    let exist = |parameters: &[_]| {
        let stack = Stack::new(&TEMPLATE, parameters);
        let names = TEMPLATE["Resources"].as_object().unwrap().keys();
        names.filter(|name| stack.resource(name).is_some()).cloned().collect::<BTreeSet<_>>()
    };
    let more: Vec<String> = exist(&[ON]).difference(&exist(&[])).cloned().collect();
    let wanted =
        ["ChangesToPublish", "NotPublished", "NotPublishedNeedsTls", "Publisher", "PublisherLogs", "PublisherRole"];
    assert_eq!(more, wanted);
    for output in ["PublisherFunction", "NotPublishedQueueUrl"] {
        assert_eq!(TEMPLATE["Outputs"][output]["Condition"], "Pushes");
    }
}

#[test]
fn the_publisher_has_the_workers_program_and_is_told_what_to_publish_to() {
    let program = Stack::new(&TEMPLATE, &[ON]).resource("Worker").unwrap()["CodeUri"].clone();
    let function = json!({"CodeUri": program, "Role": {"Fn::GetAtt": "PublisherRole.Arn"}});
    let mapping = json!({
        "FunctionResponseTypes": ["ReportBatchItemFailures"], "BisectBatchOnFunctionError": true,
        "DestinationConfig": {"OnFailure": {"Destination": {"Fn::GetAtt": "NotPublished.Arn"}}},
    });
    hold(&[
        ("the program", &[ON], PUBLISHER, function),
        ("what fails is put aside", &[ON], "ChangesToPublish", mapping),
        ("at once", &[ON], "ChangesToPublish/MaximumBatchingWindowInSeconds", json!(0)),
        ("while the mapping is made", &[ON], "ChangesToPublish/StartingPosition", json!("TRIM_HORIZON")),
        ("a hundred times", &[ON], "ChangesToPublish/MaximumRetryAttempts", json!(100)),
        // The stream of a running stack has the changes of a day, which Lambda would put aside because of their age.
        ("of any age", &[ON], "ChangesToPublish/MaximumRecordAgeInSeconds", json!(-1)),
        (
            "since the queue was made",
            &[ON],
            "Publisher/Environment/Variables/LONGHAUL_NOT_PUBLISHED_QUEUE_URL",
            json!("https://sqs.us-east-1.amazonaws.com/111122223333/NotPublished"),
        ),
    ]);
    // A queue that outlived the stack, or the switch, would name an earlier time.
    for policy in ["DeletionPolicy", "UpdateReplacePolicy"] {
        assert_eq!(TEMPLATE["Resources"]["NotPublished"][policy], json!(null), "{policy}");
    }
    let config = worker(PUBLISHER, &[("Push", "tasks")]);
    assert_eq!((config.event_bus.as_deref(), config.webhooks), (Some("tasks"), None));
    assert_eq!(worker(PUBLISHER, &[ON]).event_bus.as_deref(), Some("default"));
    for other in super::WORKERS {
        assert_eq!(worker(other, &WEBHOOKS).event_bus, None, "{other} publishes nothing");
    }
    assert!(worker(PUBLISHER, &WEBHOOKS).webhooks.is_some(), "it decides who is told");
    assert!(worker("Worker", &WEBHOOKS).webhooks.is_some(), "it tells them");
    assert!(worker("Worker", &[ON]).webhooks.is_none());
}

#[test]
fn with_webhooks_a_worker_reads_their_secrets() {
    let role = Stack::new(&TEMPLATE, &WEBHOOKS).resource("WorkerRole").unwrap().to_string();
    assert!(role.contains("\"Secrets\"") && role.contains("parameter/hook"), "{role}");
}

/// Whether a pattern of a filter matches, as Lambda says it does.
fn matches(pattern: &Value, value: &Value) -> bool {
    match pattern {
        Value::Object(fields) => fields.iter().all(|(name, pattern)| matches(pattern, &value[name])),
        Value::Array(allowed) => {
            allowed.iter().any(|allowed| match (allowed.get("anything-but"), allowed.get("prefix")) {
                (Some(others), _) => !value.is_null() && !others.as_array().unwrap().contains(value),
                (None, Some(prefix)) => value.as_str().is_some_and(|text| text.starts_with(prefix.as_str().unwrap())),
                (None, None) => allowed == value,
            })
        }
        _ => panic!("{pattern} is no pattern"),
    }
}

/// The patterns of a mapping's filter.
fn patterns(mapping: &str) -> Vec<Value> {
    let mapping = Stack::new(&TEMPLATE, &[ON]).resource(mapping).unwrap();
    let filters = mapping["FilterCriteria"]["Filters"].as_array().unwrap().clone();
    filters.iter().map(|filter| serde_json::from_str(filter["Pattern"].as_str().unwrap()).unwrap()).collect()
}

/// Lambda takes five filters for a mapping.
#[test]
fn the_dead_letter_function_sees_each_task_that_waits_for_a_worker_and_no_other() {
    let patterns = patterns("UnclaimedTasks");
    assert!(patterns.len() <= 5, "{patterns:?}");
    let sees = |event: &str, state: &str, cleanup: &str| {
        let image = json!({"state": {"S": state}, "cleaning": {"S": cleanup}});
        let record = json!({"eventName": event, "dynamodb": {"NewImage": image}});
        patterns.iter().any(|pattern| matches(pattern, &record))
    };
    for (event, state, cleanup, seen) in [
        ("INSERT", "queued", "", true),
        ("MODIFY", "queued", "", true),
        ("INSERT", "sleeping", "", true),
        ("MODIFY", "sleeping", "", false),
        ("MODIFY", "running", "", false),
        ("MODIFY", "input_required", "", false),
        ("MODIFY", "completed", "", false),
        ("MODIFY", "cancelled", "", false),
        ("MODIFY", "cancelled", "{\"tries\":0}", true),
        ("MODIFY", "failed", "{\"tries\":0}", true),
        ("MODIFY", "completed", "{\"tries\":0}", false),
    ] {
        assert_eq!(sees(event, state, cleanup), seen, "{event} {state} {cleanup}");
    }
    let entry = json!({"eventName": "INSERT", "dynamodb": {"NewImage": {"kind": {"S": "step"}}}});
    assert!(!patterns.iter().any(|pattern| matches(pattern, &entry)), "a journal");
}

#[test]
fn only_what_is_published_invokes_the_publisher() {
    let patterns = patterns("ChangesToPublish");
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
    let cleanup = |before: &str, after: &str| {
        let image = |cleanup: &str| json!({"state": {"S": "failed"}, "tool": {"S": "t"}, "cleaning": {"S": cleanup}});
        let record = json!({"eventName": "MODIFY", "dynamodb": {"OldImage": image(before), "NewImage": image(after)}});
        patterns.iter().any(|pattern| matches(pattern, &record))
    };
    let (armed, given_up) = (r#"{"armed":{}}"#, r#""given_up""#);
    assert!(cleanup(armed, given_up), "cleanup that is given up is published");
    assert!(!cleanup(armed, r#""done""#) && !cleanup(armed, armed) && !cleanup(given_up, given_up));
    let journal_entry =
        json!({"eventName": "MODIFY", "dynamodb": {"OldImage": {}, "NewImage": {"kind": {"S": "step"}}}});
    assert!(!patterns.iter().any(|pattern| matches(pattern, &journal_entry)));
}
