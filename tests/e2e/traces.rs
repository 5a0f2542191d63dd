//! Spans and metrics at a collector: each call is part of its caller's trace, over restarts, and without what was said
//! in it.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::Command;

use harness::caller::json_of;
use harness::collector::{Collector, Exported};
use harness::process::Server;
use serde_json::{Value, json};

use super::process::Setup;

/// The trace of the client, and the span in which it calls.
pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLERS_SPAN: &str = "b7ad6b7169203331";

/// A text that no span may have.
const SECRET: &str = "the-argument-of-a-call";

pub(crate) fn traceparent() -> String {
    format!("00-{TRACE}-{CALLERS_SPAN}-01")
}

/// The command of a server that exports to `collector` at once.
fn exporting(setup: &Setup, collector: &str) -> Command {
    let mut command = setup.command();
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector).env("OTEL_BSP_SCHEDULE_DELAY", "100");
    command.env("OTEL_SERVICE_NAME", "reports");
    command
}

fn start(setup: &Setup, collector: &Collector) -> Server {
    Server::start(&mut exporting(setup, &collector.url()), Some(&setup.folder().join("log")))
}

async fn called(server: &Server, tool: &str, arguments: Value) -> String {
    let call = json!({"name": tool, "arguments": arguments, "_meta": {"traceparent": traceparent()}});
    let created = server.caller().result("tools/call", call).await;
    created["taskId"].as_str().unwrap_or_else(|| panic!("{created}")).to_owned()
}

/// The spans of this name that a task has.
fn of<'s>(spans: &'s [Exported], task: &str, name: &str) -> Vec<&'s Exported> {
    let is_of = |span: &&Exported| span.attributes.get("longhaul.task_id").is_some_and(|id| id == task);
    spans.iter().filter(|span| span.name == name).filter(is_of).collect()
}

fn the_accepted_child(spans: &[Exported]) -> Option<&Exported> {
    spans.iter().find(|span| span.name == "accept" && span.attributes["longhaul.tool"] == "countdown")
}

#[tokio::test]
async fn steps_waits_and_children_are_spans_below_the_span_of_the_caller() {
    let (setup, collector) = (Setup::new(), Collector::new(None));
    let server = start(&setup, &collector);
    let id = called(&server, "gather", json!({"calls": 1, "seconds": 0.2})).await;
    server.caller().until(&id, "completed").await;
    let enough = |spans: &[Exported]| of(spans, &id, "attempt").len() >= 2;
    let spans = collector.until("the last attempt", enough).await;
    assert!(spans.iter().all(|span| span.trace == TRACE), "{spans:#?}");
    assert!(spans.iter().all(|span| span.attributes["service.name"] == "reports" && !span.has_failed), "{spans:#?}");
    let accept = of(&spans, &id, "accept")[0];
    assert_eq!(accept.parent, CALLERS_SPAN);
    for name in ["queue", "wait", "attempt"] {
        let found = of(&spans, &id, name);
        assert!(!found.is_empty() && found.iter().all(|span| span.parent == accept.id), "{name}: {spans:#?}");
    }
    let attempt = of(&spans, &id, "attempt")[0];
    let child = the_accepted_child(&spans).unwrap_or_else(|| panic!("{spans:#?}"));
    let calling = spans.iter().find(|span| span.id == child.parent).unwrap();
    assert_eq!((calling.name.as_str(), &calling.parent), ("step", &attempt.id), "{spans:#?}");
    let attempt = of(&spans, &child.attributes["longhaul.task_id"], "attempt")[0];
    assert_eq!((&attempt.parent, attempt.attributes["longhaul.attempt"].as_str()), (&child.id, "1"));
    let steps: Vec<_> = spans.iter().filter(|span| span.parent == attempt.id).collect();
    assert_eq!(steps.len(), 1, "{spans:#?}");
    assert_eq!((steps[0].name.as_str(), steps[0].attributes["longhaul.step"].as_str()), ("step", "step 1"));
}

#[tokio::test]
async fn a_killed_server_continues_the_trace_and_exports_no_arguments() {
    let (setup, collector) = (Setup::new(), Collector::new(None));
    let server = start(&setup, &collector);
    let id = called(&server, "ask", json!({"questions": [SECRET]})).await;
    server.caller().until(&id, "input_required").await;
    collector.until("the first attempt", |spans| of(spans, &id, "attempt").len() == 1).await;
    server.kill();
    let server = start(&setup, &collector);
    server.caller().accept(&id, "question-1", json!({"answer": SECRET})).await;
    server.caller().until(&id, "completed").await;
    let spans = collector.until("the second attempt", |spans| of(spans, &id, "attempt").len() == 2).await;
    let accept = of(&spans, &id, "accept")[0];
    assert_eq!((accept.trace.as_str(), accept.parent.as_str()), (TRACE, CALLERS_SPAN));
    let waits = of(&spans, &id, "wait");
    assert_eq!(waits.len(), 1, "{spans:#?}");
    for span in of(&spans, &id, "attempt").into_iter().chain(waits) {
        assert_eq!((span.trace.as_str(), &span.parent), (TRACE, &accept.id), "{spans:#?}");
    }
    assert!(spans.iter().all(|span| !span.request.contains(SECRET)), "{spans:#?}");
}

#[tokio::test]
async fn a_server_that_stops_exports_what_has_ended_and_a_failure_says_so() {
    let (setup, collector) = (Setup::new(), Collector::new(Some("Bearer of-the-collector")));
    let mut command = exporting(&setup, &format!("{}/", collector.url()));
    command.env("OTEL_BSP_SCHEDULE_DELAY", "600000");
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer of-the-collector");
    let server = Server::start(&mut command, Some(&setup.folder().join("log")));
    let call = json!({"name": "fail", "arguments": {"how": "protocol_error"}});
    let request = server.caller().request("tools/call", call).header("traceparent", traceparent());
    let answer = request.send().await.unwrap().text().await.unwrap();
    let created = json_of(&answer);
    let id = created["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    server.caller().until(&id, "failed").await;
    assert!(collector.spans().is_empty());
    assert!(server.terminate().success());
    let spans = collector.spans();
    let accept = of(&spans, &id, "accept")[0];
    assert_eq!((accept.trace.as_str(), accept.parent.as_str()), (TRACE, CALLERS_SPAN), "the header names the trace");
    assert!(of(&spans, &id, "attempt")[0].has_failed && !accept.has_failed, "{spans:#?}");
}

#[tokio::test]
async fn a_collector_that_is_away_is_named_once_a_minute_and_delays_nothing() {
    is_named_once(harness::free_port(), "refused").await;
}

#[tokio::test]
async fn so_is_one_that_does_not_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    is_named_once(silent.local_addr().unwrap().port(), "timed out").await;
}

/// The metrics at a collector are those that Prometheus reads.
#[tokio::test]
async fn a_collector_gets_each_metric_with_its_labels_and_its_value() {
    let port = harness::free_port();
    let (setup, collector) = (Setup::with(&["--metrics-listen", &format!("127.0.0.1:{port}")]), Collector::new(None));
    let mut command = exporting(&setup, &collector.url());
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "100");
    let server = Server::start(&mut command, Some(&setup.folder().join("log")));
    let id = called(&server, "countdown", json!({"seconds": 0.1, "steps": 1})).await;
    server.caller().until(&id, "completed").await;
    let ended = "longhaul_tasks_ended_total{tool=\"countdown\",status=\"completed\"}";
    harness::process::until("the end", || collector.metrics().get(ended) == Some(&1.0)).await;
    let scraped = reqwest::get(format!("http://127.0.0.1:{port}/metrics")).await.unwrap().text().await.unwrap();
    let is_shown = |line: &&str| !line.starts_with('#') && !line.contains("_bucket{") && !line.contains("_sum ");
    let series = scraped.lines().filter(is_shown).map(|line| line.rsplit_once(' ').unwrap());
    let scraped: BTreeMap<String, f64> =
        series.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect();
    assert_eq!(collector.metrics(), scraped);
    assert!(
        scraped.contains_key("longhaul_queue_messages") && scraped["longhaul_attempt_duration_seconds_count"] > 0.0
    );
}

#[tokio::test]
async fn a_server_that_stops_exports_its_last_metrics_unless_they_are_off() {
    for (exporter, accepted) in [("otlp", Some(1.0)), ("none", None)] {
        let (setup, collector) = (Setup::new(), Collector::new(Some("Bearer of-the-collector")));
        let mut command = exporting(&setup, &collector.url());
        command.env("OTEL_METRICS_EXPORTER", exporter);
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20of-the-collector");
        let server = Server::start(&mut command, Some(&setup.folder().join("log")));
        called(&server, "countdown", json!({"seconds": 0.1, "steps": 1})).await;
        assert!(server.terminate().success());
        let metrics = collector.metrics();
        assert_eq!(metrics.get("longhaul_tasks_accepted_total{tool=\"countdown\"}").copied(), accepted, "{metrics:?}");
    }
}

async fn is_named_once(port: u16, why: &str) {
    let setup = Setup::with(&["--diagnostics", "--log-format", "json"]);
    let mut command = exporting(&setup, &format!("http://127.0.0.1:{port}"));
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "100");
    let server = Server::start(&mut command, Some(&setup.folder().join("log")));
    for _ in 0..3 {
        let id = called(&server, "countdown", json!({"seconds": 0.3, "steps": 3})).await;
        server.caller().until(&id, "completed").await;
    }
    for lost in ["does not take spans", "does not take metrics"] {
        harness::process::until("the warning", || server.log().contains(lost)).await;
        let log = server.log();
        let warnings: Vec<&str> = log.lines().filter(|line| line.contains(lost)).collect();
        assert_eq!(warnings.len(), 1, "{log}");
        assert!(warnings[0].contains(why), "{}", warnings[0]);
    }
    assert!(server.terminate().success());
}

#[test]
fn a_collector_that_is_not_a_url_is_refused() {
    let output = exporting(&Setup::new(), "collector:4318").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{said}");
}
