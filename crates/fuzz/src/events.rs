//! Events of the API function, in all forms: function URLs, HTTP APIs, REST APIs, with every way to identify callers.
//!
//! The first line of an input says which way (`anonymous`, `iam`, `account`, `session`, `behalf`, `gateway`), and the
//! rest is the event. Access tokens are a target of their own: a function would fetch their issuer's keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use lambda_http::{Adapter, Context, LambdaEvent, Service, service_fn};
use longhaul_http::WebOrigin;
use longhaul_lambda::{Api, ApiConfig, Auth, HttpEvent};
use serde_json::Value;

use crate::driver::drive;
use crate::world::World;

/// Content of requests that no answer may have.
const SECRETS: [&str; 3] = ["sample-session-token", "Credential=AKIA", "eyJhbGciOi"];

/// Answers one event.
pub(crate) fn run(input: &[u8]) {
    let Some(at) = input.iter().position(|byte| *byte == b'\n') else { return };
    let Some(auth) = std::str::from_utf8(&input[..at]).ok().and_then(auth) else { return };
    let Ok(event) = serde_json::from_slice::<Value>(&input[at + 1..]) else { return };
    if event["isBase64Encoded"] == true
        && event["body"].as_str().is_some_and(|body| BASE64_STANDARD.decode(body).is_err())
    {
        // AWS wrote the event, and encoded the body itself: nobody who calls can reach the panic of `lambda_http`.
        return;
    }
    let Ok(request) = serde_json::from_value::<HttpEvent>(event.clone()) else { return };
    let request = request.into_inner();
    let world = World::new();
    let clock = Arc::clone(&world.clock);
    let (answer, tasks) = drive(&clock, async {
        let api = Api::new(
            world.mcp.clone(),
            auth.clone(),
            WebOrigin::of("https://app.example.com").into_iter().collect(),
            Arc::clone(&clock) as _,
        );
        let handler = service_fn(|request| {
            let api = api.clone();
            async move { Ok::<_, std::convert::Infallible>(api.answer_whole(request).await) }
        });
        let answer = Adapter::from(handler).call(LambdaEvent::new(request, Context::default())).await.unwrap();
        let answer = serde_json::to_value(answer).unwrap();
        (answer, world.tasks().await)
    });
    let status = answer["statusCode"].as_u64().unwrap();
    assert!(matches!(status, 200 | 202 | 204 | 400..=415 | 429 | 503), "{answer}");
    if answer["headers"]["content-type"] == "application/json" {
        let body = answer["body"].as_str().unwrap();
        serde_json::from_str::<Value>(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    }
    assert!(status < 400 || tasks.is_empty(), "a refused event left a task: {answer}");
    let text = answer.to_string();
    for secret in SECRETS {
        assert!(!text.contains(secret) || event["body"].to_string().contains(secret), "{text}");
    }
    identified(&auth, &event, &answer);
}

/// The way of this name, as the function reads it from its environment.
fn auth(name: &str) -> Option<Auth> {
    let mut env: BTreeMap<&str, &str> =
        [("LONGHAUL_TABLE", "table"), ("LONGHAUL_QUEUE_URL", "https://sqs.us-east-1.amazonaws.com/111122223333/tasks")]
            .into();
    env.extend(match name {
        "anonymous" => vec![("LONGHAUL_AUTH", "anonymous")],
        "iam" => vec![("LONGHAUL_AUTH", "iam")],
        "account" => vec![("LONGHAUL_AUTH", "iam"), ("LONGHAUL_IAM_OWNER", "account")],
        "session" => vec![("LONGHAUL_AUTH", "iam"), ("LONGHAUL_IAM_OWNER", "session")],
        "behalf" => vec![
            ("LONGHAUL_AUTH", "iam"),
            ("LONGHAUL_IAM_ON_BEHALF_ROLE", "AROACKCEVSQ6C2EXAMPLE"),
            ("LONGHAUL_IAM_ON_BEHALF_HEADER", "x-user"),
        ],
        "gateway" => vec![("LONGHAUL_AUTH", "gateway")],
        _unknown => return None,
    });
    Some(ApiConfig::read(&env).unwrap().auth)
}

/// Only callers that AWS named are let in.
fn identified(auth: &Auth, event: &Value, answer: &Value) {
    let calls = answer["body"].as_str().is_some_and(|body| body.contains("\"result\""));
    if !calls {
        return;
    }
    let context = &event["requestContext"];
    let stated = |place: &Value, names: &[&str]| {
        names.iter().all(|name| place[name].as_str().is_some_and(|text| !text.is_empty()))
    };
    let is_stated = match auth {
        Auth::Anonymous => true,
        Auth::Oauth(_) | Auth::Bearer(_) => unreachable!("not among the ways"),
        Auth::Iam(_) | Auth::IamOnBehalf(..) => {
            stated(&context["authorizer"]["iam"], &["accountId", "userArn", "userId"])
                || stated(&context["identity"], &["accountId", "userArn", "user"])
        }
        Auth::Gateway(..) => {
            stated(&context["authorizer"]["jwt"]["claims"], &["iss", "sub"])
                || stated(&context["authorizer"]["claims"], &["iss", "sub"])
        }
    };
    assert!(is_stated, "{event}");
}
