//! Answers within what Lambda allows: time, sizes and streams.

use std::sync::Arc;

use futures::StreamExt;
use lambda_http::{Context, Service, StreamAdapter, service_fn};
use longhaul_core::Clock;
use longhaul_engine::{Engine, Ports};
use longhaul_lambda::Auth;
use longhaul_lambda::metrics::EmbeddedMetrics;
use longhaul_testkit::Lines;
use longhaul_testkit::{Fault, FaultyStore};
use serde_json::json;

use super::answering::{SIGNED, answer, api, lambda_event, message, open, poll, request, with_body};
use crate::world::{World, event};

#[tokio::test]
async fn a_streamed_answer_is_the_same_answer() {
    let (_world, api) = open();
    let whole = answer(&api, &event("api-function-url")).await;
    let handler = service_fn(|request| {
        let api = api.clone();
        async move { Ok::<_, std::convert::Infallible>(api.answer(request).await) }
    });
    let streamed = StreamAdapter::from(handler).call(lambda_event(&event("api-function-url"))).await.unwrap();
    assert_eq!(streamed.metadata_prelude.status_code, 200);
    assert_eq!(streamed.metadata_prelude.headers["content-type"], "application/json");
    let chunks: Vec<_> = streamed.stream.map(Result::unwrap).collect().await;
    assert_eq!(String::from_utf8(chunks.concat()).unwrap(), whole["body"].as_str().unwrap());
}

#[tokio::test]
async fn no_answer_is_larger_than_lambda_delivers_and_what_is_refused_is_almost_that_large() {
    let (_world, api) = open();
    let call = |number: usize| {
        with_body(&event("api-function-url"), "tools/call", Some("quotes"), |params| {
            params["name"] = "quotes".into();
            params["arguments"] = json!({"number": number});
        })
    };
    let small = answer(&api, &call(10)).await.to_string().len();
    let largest = 10 + (6_291_556 - small) / 4;
    let answered = answer(&api, &call(largest - 200)).await;
    assert!(answered.to_string().len() <= 6_291_556);
    assert_eq!(message(&answered)["result"]["content"][0]["text"].as_str().unwrap().len(), largest - 200);
    let refused = message(&answer(&api, &call(largest + 1)).await);
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&message(&answered)["id"], &json!(-32603)));
    let text = refused["error"]["message"].as_str().unwrap();
    assert!(text.contains("Endpoint=function-url"), "{text}");
}

#[tokio::test]
async fn a_table_that_does_not_answer_is_counted_although_the_status_is_200() {
    let mut world = World::new();
    let lines = Lines::default();
    let clock = Arc::clone(&world.clock) as _;
    let metrics = Arc::new(EmbeddedMetrics::new("Longhaul/test".to_owned(), clock, Box::new(lines.clone())));
    let store = Arc::new(FaultyStore::new(Arc::clone(&world.store), |_| Fault::None));
    let ports = Ports { store: Arc::clone(&store) as _, ..world.engine.ports().clone() };
    world.engine = Engine::new(ports, *world.engine.settings()).observed_by(Arc::clone(&metrics) as _);
    let api = api(&world, Auth::Anonymous, &[]).measured_by(metrics);
    let call = event("api-function-url-call");
    let id = message(&answer(&api, &call).await)["result"]["taskId"].as_str().unwrap().to_owned();
    store.follow(|_| Fault::Before);
    lines.take();
    let answered = answer(&api, &poll(&call, &id)).await;
    assert_eq!(answered["statusCode"], 200);
    assert!(message(&answered)["error"]["message"].as_str().unwrap().contains("not available"));
    let lines = lines.take();
    assert_eq!(lines.iter().filter(|line| line["StoreErrors"] == 1).count(), 1, "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line["RequestErrors"] == 0).count(), 1, "{lines:?}");
}

#[tokio::test]
async fn a_plain_call_that_takes_too_long_gets_an_error_before_the_function_ends() {
    let world = World::new();
    let call = with_body(&event("api-function-url"), "tools/call", Some("hang"), |params| {
        params["name"] = "hang".into();
        params["arguments"] = json!({});
    });
    let api = api(&world, Auth::Anonymous, &[]);
    let mut context = Context::default();
    context.deadline = world.clock.now().plus_ms(60_000).as_ms();
    let request = http::Request::from(request(&call));
    let answered = api.answer(lambda_http::RequestExt::with_lambda_context(request, context));
    let time_passes = async {
        while world.clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        world.clock.advance_ms(59_500);
        std::future::pending::<()>().await;
    };
    let answered = tokio::select! {
        answered = answered => answered,
        () = time_passes => unreachable!("it is pending"),
    };
    assert_eq!(answered.status(), 504);
}

#[tokio::test]
async fn a_stream_that_stays_open_is_closed_before_the_function_ends() {
    use http_body_util::BodyExt;

    let (world, api) = open();
    let accepted = message(&answer(&api, &event("api-function-url-call")).await);
    let id = accepted["result"]["taskId"].clone();
    let listen = with_body(&event("api-function-url-call"), "subscriptions/listen", None, |params| {
        let meta = params["_meta"].clone();
        *params = json!({"notifications": {"taskIds": [id]}, "_meta": meta});
    });
    let mut context = Context::default();
    context.deadline = world.clock.now().plus_ms(60_000).as_ms();
    let request = http::Request::from(request(&listen));
    let answered = api.answer(lambda_http::RequestExt::with_lambda_context(request, context)).await;
    assert_eq!(answered.headers()["content-type"], "text/event-stream");
    // No worker runs the task, and the stream's own limit is minutes away.
    let begun_at = world.clock.now();
    let time_passes = async {
        loop {
            tokio::task::yield_now().await;
            world.clock.next_wake().into_iter().for_each(|moment| world.clock.advance_to(moment));
        }
    };
    let read = tokio::select! {
        read = answered.into_body().collect() => read,
        () = time_passes => unreachable!("time passes for ever"),
    };
    let text = String::from_utf8(read.unwrap().to_bytes().to_vec()).unwrap();
    assert!(text.contains("notifications/subscriptions/acknowledged"), "{text}");
    assert!(begun_at.plus_ms(60_000) > world.clock.now(), "the function had time left");
}

#[tokio::test]
async fn a_preflight_request_needs_no_caller_and_does_nothing() {
    let world = World::new();
    let mut asked = event("api-http-api-iam");
    asked["requestContext"]["http"]["method"] = "OPTIONS".into();
    asked["requestContext"].as_object_mut().unwrap().remove("authorizer");
    asked["headers"]["access-control-request-method"] = "POST".into();
    let answered = answer(&api(&world, SIGNED, &["https://app.example.com"]), &asked).await;
    assert_eq!(answered["statusCode"], 204);
    assert!(answered["body"].as_str().unwrap_or_default().is_empty(), "{answered}");
    assert_eq!(world.queue.asked(), []);
}

#[tokio::test]
async fn health_needs_no_caller() {
    let world = World::new();
    let mut health = event("api-function-url");
    health["rawPath"] = "/healthz".into();
    health["requestContext"]["http"]["method"] = "GET".into();
    assert_eq!(answer(&api(&world, SIGNED, &[]), &health).await["statusCode"], 200);
}
