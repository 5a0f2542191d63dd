//! The trace of a call on its way through the gateway to the server behind it.

use harness::collector::Collector;
use serde_json::{Value, json};

use super::process::Setup;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[tokio::test]
async fn the_server_behind_it_is_below_the_span_of_its_call() {
    let collector = Collector::new(None);
    let setup = Setup::config(|setup| json!({"mcpServers": {"v": setup.server("verbatim", &[])}}));
    let setup = setup.seeing("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url()).seeing("OTEL_BSP_SCHEDULE_DELAY", "100");
    let gateway = setup.start();
    let meta = json!({"traceparent": format!("00-{TRACE}-b7ad6b7169203331-01"), "tracestate": "z=1", "baggage": "a=b"});
    let call = json!({"name": "verbatim", "arguments": {"zeta": 77_777}, "_meta": meta});
    let created = gateway.caller().result("tools/call", call).await;
    gateway.caller().until(created["taskId"].as_str().unwrap(), "completed").await;
    let spans = collector.until("the attempt", |spans| spans.iter().any(|span| span.name == "attempt")).await;
    let named =
        |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"));
    let (accept, attempt, call) = (named("accept"), named("attempt"), named("gateway call"));
    assert_eq!((&attempt.parent, &call.parent), (&accept.id, &attempt.id), "{spans:#?}");
    assert_eq!(
        (call.attributes["longhaul.server"].as_str(), call.attributes["longhaul.tool"].as_str()),
        ("v", "verbatim")
    );
    let received: Value = serde_json::from_str(&setup.lines("received").pop().unwrap()).unwrap();
    let meta = &received["params"]["_meta"];
    assert_eq!(meta["traceparent"], format!("00-{TRACE}-{}-01", call.id), "{received}");
    assert_eq!((&meta["tracestate"], &meta["baggage"]), (&json!("z=1"), &json!("a=b")));
    assert!(spans.iter().all(|span| span.trace == TRACE && !span.request.contains("77777")), "{spans:#?}");
}
