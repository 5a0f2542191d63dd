//! The requests that name something of somebody else.

use bytes::Bytes;
use harness::protocol_versions::{self, Naming};
use http::{HeaderName, Request};
use serde_json::json;

use super::isolation::{Clients, FILTERED, Signed, Thing, anonymous};
use crate::older_client::Older;
use crate::world::{Sent, no_tasks};

/// A request that names something.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) request: Request<Bytes>,
    /// Whether the owner of the thing sees a difference.
    pub(super) tells_owner: bool,
}

impl Named {
    fn new((name, sent): (impl Into<String>, Sent)) -> Self {
        Self { name: name.into(), request: sent.request(), tells_owner: true }
    }

    /// One of those that go over the wire in other tests, too.
    fn wire(number: usize, naming: &Naming, sessions: &[String]) -> Self {
        let body = naming.body.as_ref().map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let mut request = Request::builder().method(naming.http_method).uri("/mcp").header("host", "localhost");
        for (name, value) in naming.headers(sessions) {
            request = request.header(HeaderName::from_static(name), value);
        }
        let (name, tells_owner) = (format!("{number} {}", naming.name()), naming.tells_owner);
        Self { name, request: request.body(body).unwrap(), tells_owner }
    }
}

/// Every request that can name something, in every protocol version.
pub(super) fn requests(clients: &Clients, thing: &Thing) -> Vec<Named> {
    let mut all = of_tasks(clients, thing);
    if thing.has_names {
        all.extend(of_names(clients, thing));
    }
    if let Some(signed) = &thing.signed {
        all.extend(of_signed(clients, signed));
        all.extend(in_sessions(signed));
    }
    all
}

fn of_tasks(clients: &Clients, thing: &Thing) -> Vec<Named> {
    let [_, next, _, _] = &clients.older[..] else { panic!("a client of each revision") };
    let mut cancelled = next.sent("notifications/cancelled", json!({"requestId": thing.request}));
    cancelled.body.as_object_mut().unwrap().remove("id");
    let sessions: Vec<_> = clients.older.iter().map(|client| client.session.clone()).collect();
    let requests = protocol_versions::requests(&thing.task).into_iter().enumerate();
    let mut all: Vec<_> = requests.map(|(number, naming)| Named::wire(number, &naming, &sessions)).collect();
    // It is answered with nothing.
    all.push(Named { tells_owner: false, ..Named::new(("notifications/cancelled", cancelled)) });
    all
}

/// Requests with names that a client chose, for somebody else's task and then for one of its own.
fn of_names(clients: &Clients, thing: &Thing) -> Vec<Named> {
    let [core, next, june, _] = &clients.older[..] else { panic!("a client of each revision") };
    let arguments = json!({"a": 1, "b": 2});
    let operation = |token: &str| json!({"name": "add", "arguments": arguments, "operation": {"token": token}});
    let key = thing.idempotency_key.as_str();
    let keyed = |sent: Sent| sent.with_header("idempotency-key", key);
    let mut all = vec![
        ("the status of the token", next.sent("tools/async/status", json!({"token": thing.token}))),
        ("the result of the token", next.sent("tools/async/result", json!({"token": thing.token}))),
        ("an operation with the token", next.sent("tools/call", operation(&thing.token))),
        ("an operation with the id as its token", next.sent("tools/call", operation(&thing.task))),
        ("a key, core", keyed(core.sent("tools/call", json!({"name": "add", "arguments": arguments, "task": {}})))),
        ("a key, async", keyed(june.sent("tools/async/call", json!({"name": "add", "arguments": arguments})))),
    ];
    if clients.owner != anonymous() {
        // A client without sessions has no keys if nobody identifies it.
        all.push(("a key", keyed(Sent::call("add", arguments.clone()).of(clients.owner))));
    }
    all.into_iter().map(Named::new).collect()
}

fn of_signed(clients: &Clients, signed: &Signed) -> Vec<Named> {
    let [core, next, june, _] = &clients.older[..] else { panic!("a client of each revision") };
    let answer = |client: &Older, outcome: &str| {
        let mut sent = client.sent("x", json!({}));
        let given =
            if outcome == "error" { json!({"code": -1, "message": "no"}) } else { json!({"action": "decline"}) };
        sent.body = json!({"jsonrpc": "2.0", "id": signed.question, outcome: given});
        sent
    };
    let retried = Sent::call("asks_side_by_side", json!({})).of(clients.owner).declaring(no_tasks());
    let retried = retried.with_param("inputResponses", json!({"name": {"action": "decline"}}));
    let rejection = json!({"token": signed.rejection, "timeout": 0});
    let newest_filtered = Sent::new(FILTERED, json!({"tool": "add", "cursor": signed.filtered})).of(clients.owner);
    let posted = [
        ("an answer", answer(core, "result")),
        ("an answer in another protocol version", answer(next, "result")),
        ("a refusal to answer", answer(june, "error")),
        ("a cursor", core.sent("tasks/list", json!({"cursor": signed.cursor}))),
        ("a cursor of a filtered list", core.sent(FILTERED, json!({"tool": "add", "cursor": signed.filtered}))),
        ("the same in the newest revision", newest_filtered),
        ("a request state", retried.with_param("requestState", json!(signed.state))),
        ("join a rejected call", june.sent("tools/async/join", rejection.clone())),
        ("get a rejected call", june.sent("tools/async/get", rejection)),
    ];
    let mut resumed = Request::get("/mcp").body(Bytes::new()).unwrap();
    resumed.headers_mut().insert("last-event-id", signed.event.parse().unwrap());
    resumed.headers_mut().insert("mcp-session-id", core.session.parse().unwrap());
    let resumed = Named { name: "a stream".to_owned(), request: resumed, tells_owner: true };
    posted.into_iter().map(Named::new).chain([resumed]).collect()
}

fn in_sessions(signed: &Signed) -> Vec<Named> {
    let all = protocol_versions::in_sessions().into_iter().chain(protocol_versions::about_sessions()).enumerate();
    all.map(|(number, naming)| Named::wire(number, &naming, &signed.sessions)).collect()
}
