//! What AWS verified about a caller decides what it sees: for everyone else, what belongs to it does not exist. The answer,
//! its headers and the calls to the table are the same as for what never existed, in every dialect.

use std::sync::{Arc, Mutex};

use futures::{StreamExt, stream};
use longhaul_engine::{Engine, Ports};
use longhaul_lambda::{Auth, IamOwner, TokenClaims};
use longhaul_testkit::{Fault, FaultyStore, StoreCall};
use serde_json::{Value, json};

use crate::answering::{answer, api, message, poll};
use crate::world::{World, event};

/// What was never a task.
const UNKNOWN: &str = "0199aaaa-0000-7000-8000-00000000000a";

/// What was asked of the store.
type Calls = Arc<Mutex<Vec<&'static str>>>;

fn counting() -> (World, Calls) {
    let (mut world, calls) = (World::new(), Calls::default());
    let Ports { store, queue, clock, ids } = world.engine.ports().clone();
    let noted = Arc::clone(&calls);
    let store = FaultyStore::new(store, move |call| {
        noted.lock().unwrap().push(match call {
            StoreCall::Create(_) => "create",
            StoreCall::Get(_) => "get",
            StoreCall::Apply(..) => "apply",
            StoreCall::List(_) => "list",
            StoreCall::Record(..) => "record",
            StoreCall::Journal(_) => "journal",
            StoreCall::PutParts(..) => "put parts",
            StoreCall::Parts(..) => "parts",
            StoreCall::Leave(..) => "leave",
            StoreCall::Collect(..) => "collect",
        });
        Fault::None
    });
    let settings = *world.engine.settings();
    world.engine = Engine::new(Ports { store: Arc::new(store), queue, clock, ids }, settings);
    (world, calls)
}

/// The event with another body, of a client of this revision.
fn older(event: &Value, revision: &str, session: Option<&str>, body: Value) -> Value {
    let mut event = event.clone();
    let headers = event["headers"].as_object_mut().unwrap();
    headers.remove("mcp-method");
    headers.remove("mcp-name");
    headers.insert("mcp-protocol-version".to_owned(), revision.into());
    if let Some(session) = session {
        headers.insert("mcp-session-id".to_owned(), session.into());
    }
    event["body"] = body.to_string().into();
    event
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Begins a session of this revision.
async fn session(api: &longhaul_lambda::Api, caller: &Value, revision: &str) -> String {
    let params = json!({"protocolVersion": revision, "clientInfo": {"name": "t", "version": "1"}, "capabilities": {}});
    let mut begun = older(caller, revision, None, request("initialize", params));
    begun["headers"].as_object_mut().unwrap().remove("mcp-protocol-version");
    let answered = answer(api, &begun).await;
    let header =
        answered["headers"].get("mcp-session-id").or_else(|| answered["multiValueHeaders"]["mcp-session-id"].get(0));
    header.and_then(Value::as_str).unwrap_or_else(|| panic!("{answered}")).to_owned()
}

/// Requests that name a task, in each dialect.
fn requests(caller: &Value, sessions: &[(&str, String)], task: &str) -> Vec<Value> {
    let newest = |method: &str, more: Value| {
        let mut event = poll(caller, task);
        let mut body: Value = serde_json::from_str(event["body"].as_str().unwrap()).unwrap();
        body["method"] = method.into();
        body["params"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event["headers"]["mcp-method"] = method.into();
        event["body"] = body.to_string().into();
        event
    };
    let mut all = vec![
        newest("tasks/get", json!({})),
        newest("tasks/cancel", json!({})),
        newest("tasks/update", json!({"inputResponses": {"name": {"action": "decline"}}})),
        newest("subscriptions/listen", json!({"notifications": {"taskIds": [task]}})),
    ];
    let job = |tool: &str| json!({"name": tool, "arguments": {"job_id": task, "wait_s": 0}});
    for (revision, session) in sessions {
        let each = [
            ("tasks/get", json!({"taskId": task})),
            ("tasks/result", json!({"taskId": task})),
            ("tasks/cancel", json!({"taskId": task})),
            ("tools/async/status", json!({"token": task})),
            ("tools/async/result", json!({"token": task})),
            ("tools/async/join", json!({"token": task})),
            ("tools/async/get", json!({"token": task, "timeout": 0})),
            ("tools/async/cancel", json!({"token": task})),
            ("resources/read", json!({"uri": format!("longhaul://tasks/{task}")})),
            ("tools/call", job("get_job_status")),
            ("tools/call", job("cancel_job")),
        ];
        all.extend(each.map(|(method, params)| older(caller, revision, Some(session), request(method, params))));
    }
    all
}

const REVISIONS: [&str; 4] = ["2025-11-25", "next", "2025-06-18", "2025-03-26"];

async fn holds(auth: Auth, own: &Value, others: &[(&str, Value)]) {
    let (world, calls) = counting();
    let api = api(&world, auth, &[]);
    let task = message(&answer(&api, own).await)["result"]["taskId"].as_str().unwrap().to_owned();
    for (who, other) in others {
        let mut sessions = Vec::new();
        for revision in REVISIONS {
            sessions.push((revision, session(&api, other, revision).await));
        }
        let pairs = requests(other, &sessions, &task).into_iter().zip(requests(other, &sessions, UNKNOWN));
        for (foreign, unknown) in pairs {
            let mut seen = Vec::new();
            for (event, named) in [(&foreign, task.as_str()), (&unknown, UNKNOWN)] {
                calls.lock().unwrap().clear();
                let answered = answer(&api, event).await.to_string().replace(named, "<named>");
                seen.push((answered, calls.lock().unwrap().clone()));
            }
            assert_eq!(seen[0], seen[1], "{who}: {foreign}");
        }
    }
    // It is as it was, and its owner sees it.
    let shown = message(&answer(&api, &poll(own, &task)).await);
    assert_eq!(shown["result"]["status"], "working", "{shown}");
}

#[tokio::test]
async fn signed_callers_see_nothing_of_each_other() {
    for name in ["api-function-url-iam", "api-http-api-iam"] {
        let own = event(name);
        let with = |field: &str, value: &str| {
            let mut other = own.clone();
            other["requestContext"]["authorizer"]["iam"][field] = value.into();
            other
        };
        let others =
            [("another user", with("userId", "AIDAOTHER")), ("another account", with("accountId", "444455556666"))];
        holds(Auth::Iam(IamOwner::Principal), &own, &others).await;
    }
}

#[tokio::test]
async fn callers_with_tokens_see_nothing_of_each_other() {
    let own = event("api-http-api-jwt");
    let with = |claim: &str, value: &str| {
        let mut other = own.clone();
        other["requestContext"]["authorizer"]["jwt"]["claims"][claim] = value.into();
        other
    };
    let others =
        [("another subject", with("sub", "bob")), ("another issuer", with("iss", "https://other.example.com"))];
    holds(Auth::Gateway(TokenClaims::default(), None), &own, &others).await;
}

/// A caller whom nobody verified learns nothing at all: every request has the same answer, and no call is made for it.
#[tokio::test]
async fn a_caller_whom_nobody_verified_gets_the_same_answer_to_everything() {
    for (auth, own, others) in [
        (Auth::Iam(IamOwner::Principal), "api-function-url-iam", ["api-function-url-call", "api-http-api-jwt"]),
        (
            Auth::Gateway(TokenClaims::default(), None),
            "api-http-api-jwt",
            ["api-function-url-call", "api-http-api-iam"],
        ),
    ] {
        let (world, calls) = counting();
        let api = api(&world, auth, &[]);
        let task = message(&answer(&api, &event(own)).await)["result"]["taskId"].as_str().unwrap().to_owned();
        let sessions = [("2025-11-25", session(&api, &event(own), "2025-11-25").await)];
        for other in others.map(event) {
            calls.lock().unwrap().clear();
            let mut all = requests(&other, &sessions, &task);
            all.extend(requests(&other, &sessions, UNKNOWN));
            all.push(other.clone());
            let seen: Vec<Value> = stream::iter(&all).then(|event| answer(&api, event)).collect().await;
            assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
            assert!([401, 403].contains(&seen[0]["statusCode"].as_u64().unwrap()), "{}", seen[0]);
            assert_eq!(calls.lock().unwrap().len(), 0);
        }
    }
}
