//! The audit log of the API function.

use lambda_http::{Adapter, Context, LambdaEvent, Service, service_fn};
use longhaul_lambda::{Api, Audit, Auth, IamOwner};
use serde_json::Value;

use crate::answering::{api, message, poll, request};
use crate::logs::logs;
use crate::world::{World, event};
use longhaul_testkit::Lines;

/// Every client can send such a header.
const FORGED: &str = "\"x-forwarded-for\":\"198.51.100.66\"";
const FORGED_TOO: &str = "\"X-Forwarded-For\":[\"198.51.100.66\"]";

const SIGNED: Auth = Auth::Iam(IamOwner::Principal);

/// The answer of the invocation with the id `r-7`, and the lines that it logged.
async fn logged(world: &World, api: &Api, filter: &str, audit: Audit, event: &Value) -> (Value, Vec<Value>) {
    let lines = Lines::default();
    let _capturing = tracing::subscriber::set_default(logs(filter, audit, &world.clock, lines.clone()));
    (invoke(api, event).await, lines.take())
}

async fn invoke(api: &Api, event: &Value) -> Value {
    let handler = service_fn(|request| {
        let api = api.clone();
        async move { Ok::<_, std::convert::Infallible>(api.answer_whole(request).await) }
    });
    let mut context = Context::default();
    "r-7".clone_into(&mut context.request_id);
    let request = LambdaEvent::new(request(event), context);
    serde_json::to_value(Adapter::from(handler).call(request).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_line_says_who_called_from_where_whatever_the_filter_says() {
    let world = World::new();
    let api = api(&world, SIGNED, &[]);
    for name in ["api-function-url-iam", "api-http-api-iam", "api-rest-api-iam"] {
        let text = event(name).to_string().replace("\"x-forwarded-for\":\"203.0.113.7\"", FORGED);
        let call: Value =
            serde_json::from_str(&text.replace("\"X-Forwarded-For\":[\"203.0.113.7\"]", FORGED_TOO)).unwrap();
        assert!(call.to_string().contains("198.51.100.66"), "{call}");
        for filter in ["warn", "error", "off"] {
            let (answer, lines) = logged(&world, &api, filter, Audit::On, &call).await;
            assert_eq!(lines.len(), 1, "{filter}: {lines:?}");
            let line = &lines[0];
            assert_eq!(line["task_id"], message(&answer)["result"]["taskId"], "{line}");
            let expected = [
                ("target", "audit"),
                ("event", "accept"),
                ("outcome", "done"),
                ("tool", "countdown"),
                ("address", "203.0.113.7"),
                ("http_method", "POST"),
                ("request_id", "r-7"),
                ("user_agent", "sample/1"),
            ];
            assert_eq!(expected.map(|(name, _)| (name, line[name].as_str().unwrap())), expected, "{filter}: {line}");
            assert_eq!((line["owner"].as_str().unwrap().len(), &line["issuer"]), (64, &"aws-iam".into()), "{line}");
            assert!(line["subject"].is_string(), "{line}");
            assert!(!line.to_string().contains("AKIA") && !line.to_string().contains("seconds"), "{line}");
        }
    }
}

#[tokio::test]
async fn a_flood_of_denied_requests_is_a_few_lines_whose_counts_add_up() {
    let world = World::new();
    let api = api(&world, SIGNED, &[]);
    let mut unsigned = event("api-function-url-call");
    let lines = Lines::default();
    let _capturing = tracing::subscriber::set_default(logs("warn", Audit::On, &world.clock, lines.clone()));
    for number in 0..1_000 {
        unsigned["headers"]["user-agent"] = format!("flood/{number}").into();
        assert_eq!(invoke(&api, &unsigned).await["statusCode"], 403);
    }
    let ann = event("api-function-url-iam");
    world.clock.advance_ms(60_000);
    // A poll by another caller, which has no line of its own.
    invoke(&api, &poll(&ann, "0199aaaa-0000-7000-8000-00000000000a")).await;
    let lines = lines.take();
    let counts: Vec<u64> = lines.iter().map(|line| line["count"].as_u64().unwrap()).collect();
    assert_eq!((lines.len(), counts.iter().sum::<u64>()), (11, 1_000));
    for line in &lines {
        let said = (line["event"].as_str(), line["outcome"].as_str(), line["address"].as_str());
        assert_eq!(said, (Some("login"), Some("denied"), Some("203.0.113.7")), "{line}");
        assert!(line["reason"].as_str().unwrap().contains("sign the request"), "{line}");
        assert_eq!(line.get("owner"), None, "{line}");
    }
}
