//! Requests that come through a REST API: another form of event, no CORS of its own, and paths below a base path.

use longhaul_core::{Identity, OwnerId, TaskKey};
use longhaul_http::cors;
use longhaul_lambda::{Auth, IamOwner, TokenClaims};
use serde_json::{Value, json};

use crate::answering::{answer, api, message, open};
use crate::world::{World, event};

const SIGNED: Auth = Auth::Iam(IamOwner::Principal);
const PAGE: &str = "https://app.example.com";

/// The event with another value of a header.
fn with_header(event: &Value, name: &str, values: &[&str]) -> Value {
    let mut event = event.clone();
    for headers in ["headers", "multiValueHeaders"] {
        event[headers].as_object_mut().unwrap().retain(|other, _| !other.eq_ignore_ascii_case(name));
    }
    if let Some(last) = values.last() {
        event["headers"][name] = json!(last);
        event["multiValueHeaders"][name] = json!(values);
    }
    event
}

/// The event with another method and path.
fn asked_for(event: &Value, method: &str, path: &str) -> Value {
    let mut event = event.clone();
    event["httpMethod"] = method.into();
    event["requestContext"]["httpMethod"] = method.into();
    for place in ["path", "resource"] {
        event[place] = path.into();
    }
    event["requestContext"]["resourcePath"] = path.into();
    event
}

/// A poll of a task by the caller of `event`.
fn poll(event: &Value, task_id: &str) -> Value {
    let mut polls = with_header(event, "Mcp-Method", &["tasks/get"]);
    polls = with_header(&polls, "Mcp-Name", &[task_id]);
    let mut body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
    let meta = body["params"]["_meta"].clone();
    body["method"] = "tasks/get".into();
    body["params"] = json!({"taskId": task_id, "_meta": meta});
    polls["body"] = body.to_string().into();
    polls
}

/// The only value of a header of an answer.
fn header<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    let values = answer["multiValueHeaders"].get(name).or_else(|| answer["headers"].get(name))?;
    match values.as_array().map(Vec::as_slice) {
        Some([only]) => only.as_str(),
        Some(_) => panic!("{name}: {values}"),
        None => values.as_str(),
    }
}

#[tokio::test]
async fn the_path_is_the_same_below_a_stage_and_a_base_path() {
    let (_world, api) = open();
    let listed = event("api-rest-api");
    assert_eq!(answer(&api, &listed).await["statusCode"], 200);
    for (resource, proxy, path) in
        [("/mcp", None, "/prod/mcp"), ("/mcp", None, "/tools/v1/mcp"), ("/{proxy+}", Some("mcp"), "/tools/mcp")]
    {
        let mut elsewhere = listed.clone();
        (elsewhere["resource"], elsewhere["path"]) = (resource.into(), path.into());
        elsewhere["requestContext"]["resourcePath"] = resource.into();
        elsewhere["pathParameters"] = proxy.map_or(Value::Null, |proxy| json!({"proxy": proxy}));
        assert_eq!(answer(&api, &elsewhere).await["statusCode"], 200, "{resource} {path}");
    }
    assert_eq!(answer(&api, &asked_for(&listed, "GET", "/healthz")).await["statusCode"], 200);
    assert_eq!(answer(&api, &asked_for(&listed, "POST", "/other")).await["statusCode"], 404);

    // An HTTP API with a stage, or below a base path.
    for (route, path) in [("POST /mcp", "/tools/mcp"), ("POST /mcp", "/prod/mcp"), ("$default", "/prod/mcp")] {
        let mut elsewhere = event("api-http-api");
        (elsewhere["routeKey"], elsewhere["rawPath"]) = (route.into(), path.into());
        elsewhere["requestContext"]["stage"] = "prod".into();
        assert_eq!(answer(&api, &elsewhere).await["statusCode"], 200, "{route} {path}");
    }
}

#[tokio::test]
async fn a_signed_caller_is_the_same_owner_as_through_an_http_api() {
    let world = World::new();
    let api = api(&world, SIGNED, &[]);
    let ann = event("api-rest-api-iam");
    let id = message(&answer(&api, &ann).await)["result"]["taskId"].as_str().unwrap().to_owned();
    let owner =
        OwnerId::of(Identity::Verified { issuer: "aws-iam", subject: "AIDACKCEVSQ6C2EXAMPLE", tenant: "111122223333" });
    world.task(&TaskKey::new(owner, id.parse().unwrap())).await;
    assert_eq!(message(&answer(&api, &poll(&ann, &id)).await)["result"]["taskId"], id.as_str());
    let through_http_api = crate::answering::poll(&event("api-http-api-iam"), &id);
    assert_eq!(message(&answer(&api, &through_http_api).await)["result"]["taskId"], id.as_str());

    let mut bob = ann;
    bob["requestContext"]["identity"]["user"] = "AIDAOTHER".into();
    assert_eq!(message(&answer(&api, &poll(&bob, &id)).await)["error"]["code"], -32602);
}

#[tokio::test]
async fn a_token_that_a_user_pool_verified_names_the_owner() {
    let world = World::new();
    let api = api(&world, Auth::Gateway(TokenClaims::default(), None), &[]);
    let ann = event("api-rest-api-jwt");
    let id = message(&answer(&api, &ann).await)["result"]["taskId"].as_str().unwrap().to_owned();
    let through_http_api = crate::answering::poll(&event("api-http-api-jwt"), &id);
    assert_eq!(message(&answer(&api, &through_http_api).await)["result"]["status"], "working");
    let mut elsewhere = ann;
    elsewhere["requestContext"]["authorizer"]["claims"]["iss"] = "https://other.example.com".into();
    assert_eq!(message(&answer(&api, &poll(&elsewhere, &id)).await)["error"]["code"], -32602);
}

#[tokio::test]
async fn an_event_without_a_verified_caller_is_refused() {
    let world = World::new();
    let mut own_authorizer = event("api-rest-api");
    own_authorizer["requestContext"]["authorizer"] =
        json!({"principalId": "ann", "iss": "https://issuer.example.com", "sub": "ann", "claims": "{\"sub\":\"ann\"}"});
    let mut half = event("api-rest-api-iam");
    half["requestContext"]["identity"]["user"] = Value::Null;
    let mut forged = event("api-rest-api");
    forged["identity"] = event("api-rest-api-iam")["requestContext"]["identity"].clone();
    forged["requestContext"]["authorizer"] = event("api-http-api-iam")["requestContext"]["authorizer"].clone();
    for (auth, refused, status) in [
        (SIGNED, event("api-rest-api"), 403),
        (SIGNED, event("api-rest-api-jwt"), 403),
        (SIGNED, half, 403),
        (SIGNED, forged, 403),
        (Auth::Gateway(TokenClaims::default(), None), event("api-rest-api-iam"), 401),
        (Auth::Gateway(TokenClaims::default(), None), own_authorizer, 401),
    ] {
        let answered = answer(&api(&world, auth, &[]), &refused).await;
        assert_eq!(answered["statusCode"], status, "{refused}");
    }
    assert_eq!(world.queue.asked(), []);
}

#[tokio::test]
async fn every_value_of_a_repeated_header_is_read() {
    let (_world, api) = open();
    let asked = event("api-rest-api");
    // The event repeats the last value of each header, which would be half of the types that the client accepts.
    let accepts = with_header(&asked, "Accept", &["text/event-stream", "application/json"]);
    assert_eq!(answer(&api, &accepts).await["statusCode"], 200);
    let types = with_header(&asked, "Content-Type", &["text/plain", "application/json"]);
    assert_eq!(answer(&api, &types).await["statusCode"], 415);
    let mut with_query = asked;
    with_query["queryStringParameters"] = json!({"x": "2"});
    with_query["multiValueQueryStringParameters"] = json!({"x": ["1", "2"]});
    assert_eq!(answer(&api, &with_query).await["statusCode"], 200);
}

#[tokio::test]
async fn bodies_of_any_shape_are_answered() {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    let (_world, api) = open();
    let asked = event("api-rest-api");
    for (bytes, status) in [(asked["body"].as_str().unwrap().as_bytes(), 200), (&[0xff, 0xfe, 0x00][..], 400)] {
        let mut encoded = asked.clone();
        (encoded["body"], encoded["isBase64Encoded"]) = (STANDARD.encode(bytes).into(), true.into());
        assert_eq!(answer(&api, &encoded).await["statusCode"], status);
    }
    let mut empty = asked;
    empty["body"] = Value::Null;
    assert_eq!(answer(&api, &empty).await["statusCode"], 400);
}

#[tokio::test]
async fn pages_are_told_what_they_may_do() {
    let world = World::new();
    let api = api(&world, SIGNED, &[PAGE]);
    let asks = |origin| {
        let asked = asked_for(&event("api-rest-api"), "OPTIONS", "/mcp");
        with_header(&with_header(&asked, "Origin", &[origin]), "Access-Control-Request-Method", &["POST"])
    };
    let permitted = answer(&api, &asks(PAGE)).await;
    assert_eq!(permitted["statusCode"], 204, "no caller is needed");
    for (name, value) in [
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-methods", cors::PAGE_METHODS),
        ("access-control-allow-headers", cors::PAGE_HEADERS),
        ("access-control-max-age", cors::MAX_AGE_S),
        ("vary", "origin"),
    ] {
        assert_eq!(header(&permitted, name), Some(value), "{name}");
    }
    let refused = answer(&api, &asks("https://evil.example.com")).await;
    assert_eq!((&refused["statusCode"], header(&refused, "access-control-allow-origin")), (&json!(403), None));

    // Answers and refusals alike, so that a script learns why.
    for (name, status) in [("api-rest-api-iam", 200), ("api-rest-api", 403)] {
        let answered = answer(&api, &with_header(&event(name), "Origin", &[PAGE])).await;
        assert_eq!(answered["statusCode"], status);
        assert_eq!(header(&answered, "access-control-allow-origin"), Some(PAGE));
        assert_eq!(header(&answered, "access-control-expose-headers"), Some(cors::READABLE_HEADERS));
    }
    assert_eq!(header(&answer(&api, &event("api-rest-api-iam")).await, "access-control-allow-origin"), None);
}

/// An HTTP API or a function URL says it too, and browsers refuse an answer that says it twice.
#[tokio::test]
async fn pages_are_not_told_twice() {
    let world = World::new();
    let api = api(&world, SIGNED, &[PAGE]);
    for name in ["api-http-api-iam", "api-function-url-iam", "api-http-api"] {
        let mut asked = event(name);
        asked["headers"]["origin"] = PAGE.into();
        let answered = answer(&api, &asked).await;
        let said =
            |headers: &Value| headers.as_object().is_some_and(|all| all.keys().any(|name| name.contains("access")));
        assert!(!said(&answered["headers"]) && !said(&answered["multiValueHeaders"]), "{name}: {answered}");
    }
}

#[tokio::test]
async fn a_challenge_has_a_second_name() {
    let world = World::new();
    for name in ["api-rest-api", "api-http-api", "api-function-url"] {
        let refused = answer(&api(&world, Auth::Gateway(TokenClaims::default(), None), &[]), &event(name)).await;
        assert_eq!(refused["statusCode"], 401);
        let challenge = header(&refused, "www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer"), "{challenge}");
        assert_eq!(header(&refused, "x-longhaul-www-authenticate"), Some(challenge), "{name}");
    }
}
