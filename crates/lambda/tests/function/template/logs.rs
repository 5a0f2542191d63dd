//! The dashboard and the logs of a stack.

use std::collections::BTreeSet;

use harness::template::resolve::{Stack, text};
use longhaul_core::settings::table;
use longhaul_lambda::metrics;
use serde_json::{Value, json};

use super::{FUNCTIONS, TEMPLATE};

#[test]
fn the_dashboard_shows_the_metrics_that_the_code_emits() {
    let body = &TEMPLATE["Resources"]["Dashboard"]["Properties"]["DashboardBody"]["Fn::Sub"];
    let widgets: Value = serde_json::from_str(body[0].as_str().unwrap()).unwrap();
    let mut shown = BTreeSet::new();
    for widget in widgets["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"].as_array().unwrap() {
            if metric[0] == "${Namespace}" {
                shown.insert(metric[1].as_str().unwrap().to_owned());
                assert!(metric[2] == metrics::STATUS || metric[2].is_object(), "{metric}");
            }
        }
    }
    let emitted = [
        metrics::TASKS_ACCEPTED,
        metrics::TASKS_ENDED,
        metrics::QUEUE_WAIT,
        metrics::ATTEMPT_TIME,
        metrics::TASK_TIME,
        metrics::ATTEMPTS,
        metrics::RECOVERIES,
        metrics::TASKS_FAILED,
        metrics::CLEANUPS_GIVEN_UP,
        metrics::STORE_ERRORS,
        metrics::REQUEST_ERRORS,
        metrics::DENIED_LOG_INS,
        metrics::ANSWER_TIME,
    ];
    assert_eq!(shown, emitted.map(str::to_owned).into());
    // The dashboard and the functions use the same namespace.
    let namespace = &TEMPLATE["Globals"]["Function"]["Environment"]["Variables"][table::METRICS.variable()];
    assert_eq!(&body[1]["Namespace"], namespace);
}

#[test]
fn logs_expire() {
    let stack = Stack::new(&TEMPLATE, &[]);
    for function in FUNCTIONS {
        let group = text(&stack.resource(function).unwrap()["LoggingConfig"]["LogGroup"]);
        assert!(stack.resource(&group).unwrap()["RetentionInDays"].as_u64().unwrap() > 0, "{function}");
    }
    let stack = Stack::new(&TEMPLATE, &[("Endpoint", "http-api")]);
    let access = stack.resource("HttpApiStage").unwrap()["AccessLogSettings"].clone();
    assert_eq!(access["DestinationArn"], json!({"Fn::GetAtt": "HttpApiLogs.Arn"}));
    assert!(serde_json::from_str::<Value>(access["Format"].as_str().unwrap()).unwrap()["caller"].is_string());
    assert!(stack.resource("HttpApiLogs").unwrap()["RetentionInDays"].as_u64().unwrap() > 0);
}
