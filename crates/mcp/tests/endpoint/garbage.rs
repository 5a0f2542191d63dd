//! Requests that are not valid.

use bytes::Bytes;
use http::{Method, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::{Answer, Sent, World, alice, read};

async fn post(world: &World, headers: &[(&str, &str)], body: Bytes) -> Answer {
    let mut request = Request::post("/mcp").header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    read(world.mcp.respond(request.body(body).unwrap(), alice()).await).await
}

#[tokio::test]
async fn other_http_methods_are_not_allowed() {
    let world = World::new();
    for method in [Method::GET, Method::DELETE, Method::PUT, Method::OPTIONS, Method::HEAD, Method::PATCH] {
        let request = Request::builder().method(method).uri("/mcp").body(Bytes::new()).unwrap();
        let answer = read(world.mcp.respond(request, alice()).await).await;
        assert_eq!(answer.error().0, 405);
        assert_eq!(answer.headers["allow"], "POST");
    }
}

#[tokio::test]
async fn a_body_that_is_not_a_message_is_refused_in_json_rpc() {
    let world = World::new();
    let json = [("content-type", "application/json")];
    for (body, code) in [("", -32700), ("{", -32700), ("[]", -32600), ("{}", -32600), ("7", -32600)] {
        let answer = post(&world, &json, Bytes::from(body)).await;
        assert_eq!((answer.error().0, answer.error().1), (400, code), "{body}");
        assert_eq!(answer.json().get("id"), None, "{body}");
    }
}

/// `serde` reads structures from lists too: the place in the list then said which parameter it was.
#[tokio::test]
async fn parameters_are_not_read_by_position() {
    let world = World::new();
    let by_position = [
        ("tools/call", json!([null, "add", {"a": 1, "b": 2}])),
        ("tasks/get", json!([null, "x"])),
        ("tasks/update", json!([{}])),
        ("tasks/list", json!(["x"])),
        ("subscriptions/listen", json!([{}])),
        ("initialize", json!(["2025-11-25", {}, {"name": "a", "version": "1"}])),
        ("completion/complete", json!(["x"])),
        ("anything", json!("text")),
    ];
    for (method, params) in by_position {
        for revision in [None, Some("2025-11-25"), Some("2025-06-18"), Some("next")] {
            let sent = Sent::new(method, json!({}));
            let mut sent = revision.map_or(sent.clone(), |revision| sent.legacy(revision));
            sent.body["params"] = params.clone();
            let answer = world.send(&sent).await;
            assert_eq!((answer.error().0, answer.error().1), (400, -32602), "{method} {revision:?}");
            assert_eq!(answer.json()["id"], 7);
            assert!(answer.error().2.contains("`params` must be an object"), "{:?}", answer.error());
        }
    }
    let id = r#"{"jsonrpc":"2.0","id":"x","#;
    for outcome in [r#""result":["accept"]}"#, r#""result":1}"#, r#""error":[-1,"no"]}"#] {
        let answer = post(&world, &[("content-type", "application/json")], Bytes::from(format!("{id}{outcome}"))).await;
        assert_eq!((answer.error().0, answer.error().1), (400, -32600), "{outcome}");
    }
}

/// PHP writes an empty map as an empty list.
#[tokio::test]
async fn an_empty_list_of_parameters_is_none() {
    let world = World::new();
    for method in ["ping", "tools/list"] {
        for params in ["[]", "[ ]", "{}"] {
            let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params": {params} }}"#);
            let headers = [("content-type", "application/json"), ("mcp-protocol-version", "2025-11-25")];
            post(&world, &headers, Bytes::from(body)).await.result();
        }
    }
    let body = r#"{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}"#;
    let answer = post(&world, &[("content-type", "application/json")], Bytes::from(body)).await;
    assert_eq!(answer.status, 202);
}

#[tokio::test]
async fn a_session_begins_without_the_capabilities_of_an_unknown_shape() {
    let world = World::new();
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": ["x"]},
        "clientInfo": {"name": "a", "version": "1"},
    });
    let mut sent = Sent::new("initialize", json!({})).legacy("2025-11-25");
    sent.body["params"] = params;
    let answer = world.send(&sent).await;
    assert_eq!(answer.result()["protocolVersion"], "2025-11-25");
    assert!(answer.headers.contains_key("mcp-session-id"));
}

#[tokio::test]
async fn any_accept_header_counts_as_accepting_both_kinds() {
    let world = World::new();
    let sent = Sent::new("tools/list", json!({}));
    for accept in ["*/*", "application/json", "text/event-stream", "text/html"] {
        world.send(&sent.clone().with_header("accept", accept)).await.result();
    }
    world.send(&sent.without_header("accept")).await.result();
}

#[tokio::test]
async fn a_refusal_has_the_id_of_its_request() {
    let world = World::new();
    let text = Sent::new("tools/list", json!({})).with_header("content-type", "text/plain");
    assert_eq!(world.send(&text).await.error().0, 415);
    let unknown = Sent::new("tools/list", json!({})).legacy("1999-01-01");
    let answer = world.send(&unknown).await;
    assert_eq!(answer.error().0, 400);
    assert_eq!(answer.json()["id"], 7);
}

#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let world = World::new();
    let id = world.start("add", json!({"a": 1, "b": 1})).await;
    for request_id in [json!("a \" b"), json!(0), json!(-1), json!(""), json!(9_007_199_254_740_991_i64)] {
        let mut sent = Sent::new("tasks/get", json!({"taskId": id}));
        sent.body["id"] = request_id.clone();
        assert_eq!(world.send(&sent).await.json()["id"], request_id);
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map(".{0,8}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn methods() -> impl Strategy<Value = String> {
    let known = [
        "tools/call",
        "tools/list",
        "tasks/get",
        "tasks/update",
        "tasks/cancel",
        "dev.longhaul/tasks/inspect",
        "dev.longhaul/tasks/resume",
        "dev.longhaul/tasks/list",
        "subscriptions/listen",
        "initialize",
        "server/discover",
        "prompts/get",
        "resources/read",
        "completion/complete",
        "ping",
    ];
    prop_oneof![4 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => ".{0,10}"]
}

/// A message of the right form with arbitrary contents.
fn nearly_right() -> impl Strategy<Value = Value> {
    let id = prop_oneof![Just(json!(1)), Just(json!("a")), any_json()];
    let name = prop_oneof![Just(json!("add")), Just(json!("hangs")), any_json()];
    (methods(), id, name, any_json(), any_json(), any_json()).prop_map(|(method, id, name, a, b, c)| {
        json!({
            "jsonrpc": "2.0", "id": id, "method": method,
            "params": {
                "name": name, "arguments": a, "taskId": b, "inputResponses": c, "requestState": "longhaul.x",
                "notifications": {"taskIds": a}, "uri": b,
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
                },
            },
        })
    })
}

fn check(headers: Vec<(&'static str, String)>, body: Bytes) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::new();
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = world.while_time_passes(post(&world, &headers, body)).await;
        if answer.status.as_u16() == 202 {
            return;
        }
        let messages = match answer.headers["content-type"].to_str().unwrap() {
            "text/event-stream" => answer.events(),
            // An array answers a batch, which a request that names no revision may be.
            _ => match answer.json() {
                Value::Array(answers) => answers,
                answer => vec![answer],
            },
        };
        assert!(!messages.is_empty());
        for message in messages {
            assert_eq!(message["jsonrpc"], "2.0");
            let refused = answer.status.is_client_error() || answer.status.is_server_error();
            assert!(!refused || message["error"]["code"].is_i64(), "{message}");
            assert_ne!(message["error"]["message"], "the server could not answer", "{message}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_bytes_are_answered_in_json_rpc(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        check(vec![("content-type", "application/json".to_owned())], body.into());
    }

    #[test]
    fn any_json_is_answered_in_json_rpc(body in any_json()) {
        check(vec![("content-type", "application/json".to_owned())], body.to_string().into());
    }

    #[test]
    fn any_message_is_answered_in_json_rpc(body in nearly_right(), version in "2025-11-25|2026-07-28|next|.{0,5}") {
        let method = body["method"].as_str().unwrap().to_owned();
        let mut headers = vec![("content-type", "application/json".to_owned())];
        for (name, value) in [("mcp-protocol-version", version), ("mcp-method", method)] {
            if http::HeaderValue::from_str(&value).is_ok() {
                headers.push((name, value));
            }
        }
        check(headers, body.to_string().into());
    }
}
