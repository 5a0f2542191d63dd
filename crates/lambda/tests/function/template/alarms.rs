//! The alarms of the template, compared with the page that says what to do about them.

use std::collections::BTreeSet;

use longhaul_core::Policy;
use serde_json::{Value, json};

use super::TEMPLATE;
use super::resolve::{Stack, text};
use crate::world::file;

const TOPIC: &str = "arn:aws:sns:us-east-1:111122223333:alarms";

/// Every alarm with its properties, at the defaults of the template but for the topic.
fn alarms() -> Vec<(String, Value)> {
    let all = TEMPLATE["Resources"].as_object().unwrap().iter();
    let names = all.filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm").map(|(name, _)| name.clone());
    // Some exist with one endpoint only, with a class of tools, or if somebody is told how tasks end.
    let stacks = ["function-url", "http-api", "rest-api"]
        .map(|endpoint| [("Endpoint", endpoint), ("WorkerClass", "heavy"), ("Push", "on"), ("AlarmTopicArn", TOPIC)]);
    let found = |name: &str| stacks.iter().find_map(|parameters| Stack::new(&TEMPLATE, parameters).resource(name));
    names.map(|name| (name.clone(), found(&name).unwrap_or_else(|| panic!("{name} never exists")))).collect()
}

/// The row of an alarm in the docs: its name, what it watches, when it rings.
fn row(name: &str, alarm: &Value) -> String {
    let namespace = alarm["Namespace"].as_str().unwrap_or("Longhaul/STACK");
    let operation = alarm["Dimensions"].as_array().into_iter().flatten().find(|each| each["Name"] == "Operation");
    let operation = operation.map(|each| format!(" of `{}`", text(&each["Value"]))).unwrap_or_default();
    let statistic = alarm["Statistic"].as_str().or(alarm["ExtendedStatistic"].as_str()).unwrap();
    assert_eq!(alarm["ComparisonOperator"], "GreaterThanThreshold", "{name}");
    let periods = alarm["EvaluationPeriods"].as_u64().unwrap();
    format!(
        "| `{name}` | `{namespace}` `{}`{operation} | {statistic} > {} | {periods} × {} s |",
        text(&alarm["MetricName"]),
        text(&alarm["Threshold"]),
        text(&alarm["Period"]),
    )
}

#[test]
fn the_docs_have_the_alarms_of_the_template() {
    let page = file("docs/operations.md");
    let documented: BTreeSet<_> =
        page.lines().filter(|line| line.starts_with("| `") && line.contains("Alarm` |")).collect();
    let rows: Vec<_> = alarms().iter().map(|(name, alarm)| row(name, alarm)).collect();
    assert_eq!(documented, rows.iter().map(String::as_str).collect(), "{}", rows.join("\n"));
}

#[test]
fn the_docs_say_what_to_do_about_every_alarm() {
    let page = file("docs/operations.md");
    for (alarm, _) in alarms() {
        assert!(page.contains(&format!("**{alarm}**")), "docs/operations.md does not explain {alarm}");
    }
}

#[test]
fn the_costs_have_the_right_number_of_alarms() {
    let stack = Stack::new(&TEMPLATE, &[]);
    let count = alarms().iter().filter(|(name, _)| stack.resource(name).is_some()).count();
    let text = format!("{count} alarms");
    assert!(file("docs/costs.md").contains(&text), "docs/costs.md does not say `{text}`");
}

#[test]
fn what_waits_too_long_is_reported_well_before_it_times_out() {
    let all = alarms();
    let alarm = |wanted: &str| all.iter().find(|(name, _)| name == wanted).unwrap().1.clone();
    let number = |value: &Value| text(value).parse::<u64>().unwrap();
    let age = alarm("OldMessagesAlarm");
    let rings_after_s = number(&age["Threshold"]) + number(&age["Period"]) * number(&age["EvaluationPeriods"]);
    let longest_run_s = Policy::default().run_ms_max / 1_000;
    assert!(rings_after_s * 3 <= longest_run_s * 2, "{rings_after_s} s of {longest_run_s} s");
    let longest_attempt_s = number(&TEMPLATE["Parameters"]["WorkerTimeoutSeconds"]["MaxValue"]);
    assert!(number(&age["Threshold"]) > longest_attempt_s, "an attempt that runs is not a message that waits");
    assert!(number(&alarm("LongQueueWaitAlarm")["Threshold"]) * 3 <= Policy::default().run_ms_max);
}

#[test]
fn waits_on_purpose_are_not_slow_answers() {
    let slow_ms = text(&TEMPLATE["Parameters"]["SlowAnswersMs"]["Default"]).parse::<u64>().unwrap();
    for parameters in [&[][..], &[("Endpoint", "http-api")], &[("Endpoint", "rest-api")]] {
        let settings = super::api(parameters).mcp([7; 32]);
        assert!(settings.inline_wait_ms < slow_ms, "{parameters:?}");
    }
}

#[test]
fn the_alarms_watch_what_fails_without_a_crash() {
    let watched: BTreeSet<_> =
        alarms().iter().map(|(_, alarm)| (text(&alarm["Namespace"]), text(&alarm["MetricName"]))).collect();
    for (name, alarm) in alarms() {
        assert_eq!(alarm["AlarmActions"], json!([TOPIC]), "{name}");
    }
    let own = json!({"Fn::Sub": "Longhaul/${AWS::StackName}"}).to_string();
    let [sqs, lambda, dynamo, gateway] = ["AWS/SQS", "AWS/Lambda", "AWS/DynamoDB", "AWS/ApiGateway"].map(str::to_owned);
    for (namespace, metric) in [
        (&own, longhaul_lambda::metrics::STORE_ERRORS),
        (&own, longhaul_lambda::metrics::REQUEST_ERRORS),
        (&own, longhaul_lambda::metrics::DENIED_LOG_INS),
        (&own, longhaul_lambda::metrics::TASKS_FAILED),
        (&own, longhaul_lambda::metrics::QUEUE_WAIT),
        (&own, longhaul_lambda::metrics::ANSWER_TIME),
        (&sqs, "ApproximateAgeOfOldestMessage"),
        (&sqs, "ApproximateNumberOfMessagesVisible"),
        (&lambda, "Errors"),
        (&lambda, "Throttles"),
        (&lambda, "Url5xxCount"),
        (&dynamo, "ReadThrottleEvents"),
        (&dynamo, "WriteThrottleEvents"),
        (&dynamo, "SystemErrors"),
        (&gateway, "5xx"),
        (&gateway, "5XXError"),
    ] {
        assert!(watched.contains(&(namespace.clone(), metric.to_owned())), "{namespace} {metric}: {watched:?}");
    }
}
