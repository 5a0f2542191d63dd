//! Spans of functions: they are exported before the sandbox is frozen.

use harness::collector::Collector;
use serde_json::json;

use super::process::Setup;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

/// Nothing is exported in the background, as in a frozen sandbox.
const FROZEN: &str = "tool-env=OTEL_BSP_SCHEDULE_DELAY=600000";

#[tokio::test]
async fn functions_export_before_their_answer_and_after_their_batch() {
    let collector = Collector::new(None);
    let setup = Setup::with(&[&format!("Settings=otlp-endpoint={} {FROZEN}", collector.url())]);
    let caller = setup.start().caller();
    let meta = json!({"traceparent": format!("00-{TRACE}-b7ad6b7169203331-01")});
    let call = json!({"name": "countdown", "arguments": {"seconds": 0.2, "steps": 1}, "_meta": meta});
    let created = caller.result("tools/call", call).await;
    assert!(collector.spans().iter().any(|span| span.name == "accept"), "{:#?}", collector.spans());
    caller.until(created["taskId"].as_str().unwrap(), "completed").await;
    let spans = collector.until("the attempt", |spans| spans.iter().any(|span| span.name == "attempt")).await;
    let parent = |name: &str| spans.iter().find(|span| span.name == name).map(|span| (&span.trace, &span.parent));
    let accept = spans.iter().find(|span| span.name == "accept").unwrap();
    assert_eq!((accept.trace.as_str(), accept.parent.as_str()), (TRACE, "b7ad6b7169203331"));
    assert_eq!((parent("attempt"), parent("queue")), (Some((&accept.trace, &accept.id)), parent("attempt")));
}
