//! What AWS verified about a caller decides what it sees: for everyone else, what belongs to it does not exist. The
//! answer, its headers and the calls to the table are the same as for what never existed, in every protocol version.

use std::sync::{Arc, Mutex};

use futures::{StreamExt, stream};
use harness::protocol_versions::{Naming, REVISIONS, UNKNOWN, about_sessions, call, in_sessions, initialize, requests};
use longhaul_engine::{Engine, Ports};
use longhaul_lambda::{Api, Auth, IamOwner, TokenClaims};
use longhaul_testkit::{Fault, FaultyStore, StoreCall};
use serde_json::{Value, json};

use crate::answering::{answer, api, message};
use crate::oauth::{Issuing, auth_of};
use crate::world::{World, event};

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

/// The event of the same caller with another request, as the function URL or the API of this event sends it.
fn sent(caller: &Value, naming: &Naming, sessions: &[String]) -> Value {
    let mut event = caller.clone();
    for headers in ["headers", "multiValueHeaders"] {
        let Some(headers) = event[headers].as_object_mut() else { continue };
        headers.retain(|name, _| !name.to_ascii_lowercase().starts_with("mcp-"));
    }
    for (name, value) in naming.headers(sessions) {
        event = with_header(&event, name, &value);
    }
    let method = naming.http_method.into();
    if event["httpMethod"].is_string() {
        (event["httpMethod"], event["requestContext"]["httpMethod"]) = (Value::clone(&method), method);
    } else {
        event["requestContext"]["http"]["method"] = method;
    }
    event["body"] = naming.body.as_ref().map_or(Value::Null, |body| body.to_string().into());
    event
}

/// The event with another value of a header.
fn with_header(event: &Value, name: &str, value: &str) -> Value {
    let mut event = event.clone();
    let is_rest = event["multiValueHeaders"].is_object();
    for (place, value) in [("headers", json!(value)), ("multiValueHeaders", json!([value]))] {
        if place == "headers" || is_rest {
            let headers = event[place].as_object_mut().unwrap();
            headers.retain(|other, _| !other.eq_ignore_ascii_case(name));
            headers.insert(name.to_owned(), value);
        }
    }
    event
}

/// Begins a session of each revision.
async fn sessions(api: &Api, caller: &Value) -> Vec<String> {
    let mut sessions = Vec::new();
    for revision in REVISIONS {
        let answered = answer(api, &sent(caller, &initialize(revision), &[])).await;
        let name = "mcp-session-id";
        let header = answered["headers"].get(name).or_else(|| answered["multiValueHeaders"][name].get(0));
        sessions.push(header.and_then(Value::as_str).unwrap_or_else(|| panic!("{answered}")).to_owned());
    }
    sessions
}

/// The id of a new task of this caller.
async fn begin(api: &Api, caller: &Value) -> String {
    let begun = answer(api, &sent(caller, &call("countdown", json!({"seconds": 2})), &[])).await;
    message(&begun)["result"]["taskId"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned()
}

/// The same value with one character changed: as long, and signed by nobody.
fn tampered(signed: &str) -> String {
    let (at, last) = signed.char_indices().rev().nth(4).unwrap();
    let other = if last == 'A' { 'B' } else { 'A' };
    format!("{}{other}{}", &signed[..at], &signed[at + 1..])
}

/// To these callers what belongs to `own` is not different from what never was, and costs the same calls.
async fn holds(auth: Auth, own: &Value, others: &[(&str, Value)]) {
    let (world, calls) = counting();
    let api = api(&world, auth, &[]);
    let (task, hers) = (begin(&api, own).await, sessions(&api, own).await);
    let never: Vec<_> = hers.iter().map(|session| tampered(session)).collect();
    let see = async |event: Value, named: &str| {
        calls.lock().unwrap().clear();
        let answered = answer(&api, &event).await.to_string().replace(named, "<named>");
        (answered, calls.lock().unwrap().clone())
    };
    for (who, other) in others {
        let sessions = sessions(&api, other).await;
        for (foreign, unknown) in requests(&task).into_iter().zip(requests(UNKNOWN)) {
            let seen = see(sent(other, &foreign, &sessions), &task).await;
            assert_eq!(seen, see(sent(other, &unknown, &sessions), UNKNOWN).await, "{who}: {}", foreign.name());
        }
        for naming in in_sessions().into_iter().chain(about_sessions()) {
            let seen = see(sent(other, &naming, &hers), "<nothing>").await;
            assert_eq!(seen, see(sent(other, &naming, &never), "<nothing>").await, "{who}: {}", naming.name());
        }
    }
    // It is as it was, and its owner sees it.
    let polled = requests(&task).into_iter().next().unwrap();
    let shown = message(&answer(&api, &sent(own, &polled, &[])).await);
    assert_eq!(shown["result"]["status"], "working", "{shown}");
    // Otherwise the requests would compare nothing.
    for (named, unknown) in requests(&task).into_iter().zip(requests(UNKNOWN)) {
        let (seen, _) = see(sent(own, &named, &hers), &task).await;
        let (of_unknown, _) = see(sent(own, &unknown, &hers), UNKNOWN).await;
        assert_eq!(seen != of_unknown, named.tells_owner, "{}: {seen}", named.name());
    }
}

/// To these callers every request has the same answer, and no call is made for it.
async fn denies(auth: Auth, own: &Value, others: &[(&str, Value)]) {
    let (world, calls) = counting();
    let api = api(&world, auth, &[]);
    let (task, sessions) = (begin(&api, own).await, sessions(&api, own).await);
    for (who, other) in others {
        calls.lock().unwrap().clear();
        let mut all = requests(&task);
        all.extend(requests(UNKNOWN));
        all.extend(in_sessions());
        all.extend(about_sessions());
        all.extend(REVISIONS.map(initialize));
        let events = all.iter().map(|naming| sent(other, naming, &sessions));
        let seen: Vec<Value> = stream::iter(events).then(async |event| answer(&api, &event).await).collect().await;
        assert!([401, 403].contains(&seen[0]["statusCode"].as_u64().unwrap()), "{who}: {}", seen[0]);
        for (naming, one) in all.iter().zip(&seen) {
            assert_eq!(*one, seen[0], "{who}: {}", naming.name());
        }
        assert_eq!(calls.lock().unwrap().len(), 0, "{who}");
    }
}

/// The event with another value at a place.
fn with(event: &Value, place: &str, value: &str) -> Value {
    let mut event = event.clone();
    *event.pointer_mut(place).expect("the event has it") = value.into();
    event
}

#[tokio::test]
async fn signed_callers_see_nothing_of_each_other() {
    for (name, user, account) in [
        ("api-function-url-iam", "authorizer/iam/userId", "authorizer/iam/accountId"),
        ("api-http-api-iam", "authorizer/iam/userId", "authorizer/iam/accountId"),
        ("api-rest-api-iam", "identity/user", "identity/accountId"),
    ] {
        let own = event(name);
        let other = |place: &str, value: &str| with(&own, &format!("/requestContext/{place}"), value);
        let others = [("another user", other(user, "AIDAOTHER")), ("another account", other(account, "444455556666"))];
        holds(Auth::Iam(IamOwner::Principal), &own, &others).await;
    }
}

#[tokio::test]
async fn callers_with_tokens_see_nothing_of_each_other() {
    for (name, claims) in [("api-http-api-jwt", "authorizer/jwt/claims"), ("api-rest-api-jwt", "authorizer/claims")] {
        let own = event(name);
        let other = |claim: &str, value: &str| with(&own, &format!("/requestContext/{claims}/{claim}"), value);
        let others =
            [("another subject", other("sub", "bob")), ("another issuer", other("iss", "https://other.example.com"))];
        holds(Auth::Gateway(TokenClaims::default(), None), &own, &others).await;
    }
}

/// A caller whom nobody verified learns nothing at all.
#[tokio::test]
async fn a_caller_whom_nobody_verified_gets_the_same_answer_to_everything() {
    let others = |names: [&'static str; 4]| names.map(|name| (name, event(name)));
    let unsigned = others(["api-function-url-call", "api-http-api-jwt", "api-rest-api", "api-rest-api-jwt"]);
    for own in ["api-function-url-iam", "api-rest-api-iam"] {
        denies(Auth::Iam(IamOwner::Principal), &event(own), &unsigned).await;
    }
    let without_token = others(["api-function-url-call", "api-http-api-iam", "api-rest-api", "api-rest-api-iam"]);
    for own in ["api-http-api-jwt", "api-rest-api-jwt"] {
        denies(Auth::Gateway(TokenClaims::default(), None), &event(own), &without_token).await;
    }
}

/// The function verifies these itself. Each kind of event is answered as if it were the only one.
#[tokio::test]
async fn callers_with_access_tokens_see_nothing_of_each_other_and_others_learn_nothing() {
    let (first, second, anonymous_caller) = (Issuing::new().await, Issuing::new().await, Issuing::new().await);
    let auth = || auth_of(&[&first, &second]);
    for name in ["api-function-url", "api-http-api", "api-rest-api"] {
        let anonymous = event(name);
        let url = format!("https://{}/mcp", anonymous["requestContext"]["domainName"].as_str().unwrap());
        let bearer = |token: String| with_header(&anonymous, "authorization", &format!("Bearer {token}"));
        let own = bearer(first.token("ann", &url, 3_600));
        let others = [
            ("another user", bearer(first.token("bob", &url, 3_600))),
            ("the user of the same name at another issuer", bearer(second.token("ann", &url, 3_600))),
        ];
        holds(auth(), &own, &others).await;
        let denied = [
            ("anonymous", anonymous.clone()),
            ("expired", bearer(first.token("ann", &url, -3_600))),
            ("of an issuer that is not listed", bearer(anonymous_caller.token("ann", &url, 3_600))),
            ("for another server", bearer(first.token("ann", "https://other.example.com/mcp", 3_600))),
            ("garbage", bearer("garbage".to_owned())),
        ];
        denies(auth(), &own, &denied).await;
    }
}
