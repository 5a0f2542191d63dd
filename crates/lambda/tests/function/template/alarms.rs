//! The alarms of the template, compared with the page that says what to do about them.

use std::collections::BTreeSet;

use longhaul_core::Policy;
use serde_json::{Value, json};

use super::TEMPLATE;
use super::resolve::{Stack, text};
use super::yaml;
use crate::world::file;

const MAIL: (&str, &str) = ("AlarmEmail", "operations@example.com");
const ACTING: [&str; 2] = ["CallersAreAffectedAlarm", "WorkIsLateAlarm"];

/// Stacks that together have all alarms. Some alarms exist with one endpoint only, with a class of tools, with
/// schedules, or if ends of tasks are published.
fn stacks() -> [Stack<'static>; 3] {
    ["function-url", "http-api", "rest-api"].map(|endpoint| {
        let more = [("Endpoint", endpoint), ("WorkerClass", "heavy"), ("Push", "on"), ("Schedules", "on"), MAIL];
        Stack::new(&TEMPLATE, &more)
    })
}

/// Every alarm on a metric with its properties.
fn alarms() -> Vec<(String, Value)> {
    let all = TEMPLATE["Resources"].as_object().unwrap().iter();
    let names = all.filter(|(_, resource)| resource["Type"] == "AWS::CloudWatch::Alarm").map(|(name, _)| name.clone());
    let found = |name: &str| stacks().iter().find_map(|stack| stack.resource(name));
    names.map(|name| (name.clone(), found(&name).unwrap_or_else(|| panic!("{name} never exists")))).collect()
}

/// The alarms that decide an alarm with a notification.
fn looked_at(stack: &Stack<'_>, acting: &str) -> BTreeSet<String> {
    let rule = stack.resource(acting).unwrap()["AlarmRule"]["Fn::Join"].clone();
    assert_eq!(rule[0], " OR ", "{acting}");
    let name = |part: &Value| {
        let part = text(&part["Fn::Sub"]);
        part.strip_prefix("ALARM(\"${")
            .and_then(|part| part.strip_suffix("}\")"))
            .unwrap_or_else(|| panic!("{part}"))
            .to_owned()
    };
    rule[1].as_array().unwrap().iter().map(name).collect()
}

/// The row of an alarm in the docs: its name, what it watches, when it rings.
fn row(name: &str, alarm: &Value) -> String {
    let namespace = alarm["Namespace"].as_str().unwrap_or("Longhaul/STACK");
    let operation = alarm["Dimensions"].as_array().into_iter().flatten().find(|each| each["Name"] == "Operation");
    let operation = operation.map(|each| format!(" of `{}`", text(&each["Value"]))).unwrap_or_default();
    let statistic = alarm["Statistic"].as_str().or(alarm["ExtendedStatistic"].as_str()).unwrap();
    assert_eq!(alarm["ComparisonOperator"], "GreaterThanThreshold", "{name}");
    let of = alarm["EvaluationPeriods"].as_u64().unwrap();
    let periods = match alarm["DatapointsToAlarm"].as_u64() {
        Some(some) => format!("{some} of {of}"),
        None => of.to_string(),
    };
    format!(
        "| `{name}` | `{namespace}` `{}`{operation} | {statistic} > {} | {periods} × {} s |",
        text(&alarm["MetricName"]),
        text(&alarm["Threshold"]),
        text(&alarm["Period"]),
    )
}

#[test]
fn the_docs_have_the_alarms_of_the_template() {
    let page = file("docs/runbook.md");
    let documented: BTreeSet<_> =
        page.lines().filter(|line| line.starts_with("| `") && line.contains("Alarm` |")).collect();
    let rows: Vec<_> = alarms().iter().map(|(name, alarm)| row(name, alarm)).collect();
    assert_eq!(documented, rows.iter().map(String::as_str).collect(), "{}", rows.join("\n"));
}

#[test]
fn the_docs_say_what_to_do_about_every_alarm() {
    let page = file("docs/runbook.md");
    for (alarm, _) in alarms() {
        assert!(page.contains(&format!("\n### {alarm}\n\n")), "docs/runbook.md has no section {alarm}");
    }
}

#[test]
fn the_costs_have_the_right_number_of_alarms() {
    let stack = Stack::new(&TEMPLATE, &[MAIL]);
    let count = alarms().iter().filter(|(name, _)| stack.resource(name).is_some()).count();
    let text = format!("{count} alarms");
    assert!(file("docs/costs.md").contains(&text), "docs/costs.md does not say `{text}`");
}

/// One incident makes many metrics bad. The operator gets at most two notifications: that callers are affected, and
/// that work is late.
#[test]
fn two_alarms_tell_somebody_and_each_other_one_is_why() {
    let all = alarms();
    for stack in stacks() {
        let [callers, work] = ACTING.map(|acting| looked_at(&stack, acting));
        let there = all.iter().filter(|(name, _)| stack.resource(name).is_some()).map(|(name, _)| name.clone());
        assert_eq!(callers.union(&work).cloned().collect::<BTreeSet<_>>(), there.collect());
        assert!(callers.is_disjoint(&work), "an incident rings each once");
        for acting in ACTING {
            let alarm = stack.resource(acting).unwrap();
            assert_eq!(alarm["AlarmActions"], json!(["AlarmTopic"]), "{acting}");
            assert_eq!(alarm["OKActions"], alarm["AlarmActions"], "{acting}");
        }
        assert_eq!(stack.resource("AlarmTopic").unwrap()["Subscription"][0]["Endpoint"], MAIL.1);
    }
    for (name, alarm) in all {
        assert!(alarm["AlarmActions"].is_null() && alarm["OKActions"].is_null(), "{name} tells nobody by itself");
    }
}

#[test]
fn no_alarm_rings_for_one_throttle_one_dead_worker_or_a_few_samples() {
    for (name, alarm) in alarms() {
        let number = |field: &str| alarm[field].as_f64().unwrap_or_default();
        let periods = alarm["DatapointsToAlarm"].as_u64().or(alarm["EvaluationPeriods"].as_u64()).unwrap();
        if ["Errors", "Throttles"].contains(&alarm["MetricName"].as_str().unwrap()) {
            assert!(number("Threshold") >= 4.0 && periods >= 2, "{name}");
        }
        // CloudWatch calls fewer than 10 / (1 - percentile) samples few.
        match alarm["ExtendedStatistic"].as_str() {
            Some("p50") | None => {}
            Some(percentile) => {
                assert_eq!(alarm["EvaluateLowSampleCountPercentile"], "ignore", "{name}");
                assert!(percentile <= "p90", "{name}: {percentile} needs a thousand samples in each period");
            }
        }
    }
}

/// A message of a task that sleeps is delayed for up to 15 minutes, and then there until its attempt ends.
#[test]
fn what_waits_too_long_is_reported() {
    let all = alarms();
    let alarm = |wanted: &str| all.iter().find(|(name, _)| name == wanted).unwrap().1.clone();
    let number = |value: &Value| text(value).parse::<u64>().unwrap();
    let longest_attempt_s = number(&TEMPLATE["Parameters"]["WorkerTimeoutSeconds"]["MaxValue"]);
    let age = alarm("OldMessagesAlarm");
    assert!(number(&age["Threshold"]) > longest_attempt_s + 15 * 60);
    assert_eq!(age["Threshold"], alarm("OldClassMessagesAlarm")["Threshold"]);
    // This one rings long before tasks time out by default.
    let wait = alarm("LongQueueWaitAlarm");
    let rings_after_ms =
        number(&wait["Threshold"]) + number(&wait["Period"]) * 1_000 * number(&wait["EvaluationPeriods"]);
    assert!(rings_after_ms * 3 <= Policy::default().run_ms_max * 2, "{rings_after_ms}");
}

#[test]
fn waits_on_purpose_are_not_slow_answers() {
    let (_, slow) = alarms().into_iter().find(|(name, _)| name == "SlowAnswersAlarm").unwrap();
    for parameters in [&[][..], &[("Endpoint", "http-api")], &[("Endpoint", "rest-api")]] {
        let settings = super::api(parameters).mcp([7; 32]);
        assert!(settings.inline_wait_ms < slow["Threshold"].as_u64().unwrap(), "{parameters:?}");
    }
}

/// Mails that a month costs too much.
#[test]
fn a_budget_tells_of_what_the_stack_spends() {
    let template = yaml::template_at("infra/budget.yaml");
    let stack = Stack::new(&template, &[("Stack", "longhaul"), ("Email", MAIL.1), ("Dollars", "20")]);
    let budget = stack.resource("Budget").unwrap();
    assert_eq!(text(&budget["Budget"]["BudgetLimit"]["Amount"]), "20");
    for told in budget["NotificationsWithSubscribers"].as_array().unwrap() {
        assert_eq!(told["Subscribers"], json!([{"SubscriptionType": "EMAIL", "Address": MAIL.1}]));
    }
    assert_eq!(budget["Budget"]["CostFilters"]["TagKeyValue"], json!(["aws:cloudformation:stack-name$longhaul"]));
}

#[test]
fn the_alarms_watch_what_fails_without_a_crash() {
    let watched: BTreeSet<_> =
        alarms().iter().map(|(_, alarm)| (text(&alarm["Namespace"]), text(&alarm["MetricName"]))).collect();
    let own = json!({"Fn::Sub": "Longhaul/${AWS::StackName}"}).to_string();
    let [sqs, lambda, events, scheduler, gateway] =
        ["AWS/SQS", "AWS/Lambda", "AWS/Events", "AWS/Scheduler", "AWS/ApiGateway"].map(str::to_owned);
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
        (&lambda, "IteratorAge"),
        (&lambda, "RecursiveInvocationsDropped"),
        (&events, "FailedInvocations"),
        (&scheduler, "InvocationDroppedCount"),
        (&gateway, "5xx"),
        (&gateway, "5XXError"),
    ] {
        assert!(watched.contains(&(namespace.clone(), metric.to_owned())), "{namespace} {metric}: {watched:?}");
    }
}
