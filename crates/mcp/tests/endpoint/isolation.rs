//! Nobody learns anything about what belongs to others: in each method of each protocol version, what names somebody
//! else's thing gets the same answer as what names nothing, with the same headers, from the same calls to the store.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::ready;
use futures::{StreamExt, stream};
use harness::protocol_versions::REVISIONS;
use http::{HeaderMap, Request, StatusCode};
use longhaul_core::{Identity, OwnerId, TaskId, TaskKey};
use longhaul_engine::Settings;
use longhaul_mcp::McpSettings;
use serde_json::json;

use super::isolation_requests::{Named, requests};
use crate::older_client::{Older, Stream, another_instance, everything};
use crate::world::{Answer, Sent, World, alice, bob, no_tasks, other_tenant, read};

/// The list of some of a caller's tasks.
pub(super) const FILTERED: &str = "dev.longhaul/tasks/list";

/// What a request may name.
#[derive(Clone)]
pub(super) struct Thing {
    pub(super) task: String,
    /// The token of an operation.
    pub(super) token: String,
    /// The id of the request that began an operation.
    pub(super) request: i64,
    pub(super) idempotency_key: String,
    /// Whether it is asked for by what its client chose, too: others can use such a name once.
    pub(super) has_names: bool,
    /// What is signed for its owner.
    pub(super) signed: Option<Signed>,
}

#[derive(Clone)]
pub(super) struct Signed {
    /// One for each of [`REVISIONS`].
    pub(super) sessions: Vec<String>,
    pub(super) question: String,
    pub(super) event: String,
    pub(super) cursor: String,
    /// Of a filtered list.
    pub(super) filtered: String,
    pub(super) state: String,
    pub(super) rejection: String,
}

/// Somebody's clients.
pub(super) struct Clients {
    pub(super) owner: OwnerId,
    pub(super) older: Vec<Older>,
}

impl Clients {
    async fn of(world: &World, owner: OwnerId) -> Self {
        let mut older = Vec::new();
        for revision in REVISIONS {
            older.push(Older::connect_as(&world.mcp, revision, owner, everything()).await);
        }
        Self { owner, older }
    }
}

pub(super) fn anonymous() -> OwnerId {
    OwnerId::of(Identity::Anonymous)
}

/// What a caller can see of an answer, and what it cost.
#[derive(Debug, PartialEq)]
struct Seen {
    status: u16,
    headers: HeaderMap,
    text: String,
    calls: Vec<String>,
}

fn difference(what: &str, one: &Seen, other: &Seen) -> Option<String> {
    (one != other).then(|| format!("{what}:\n{one:?}\n{other:?}"))
}

/// The difference that `owner` sees between two requests: one names `thing`, the other one names `nothing`.
async fn seen_by(
    world: &World,
    owner: OwnerId,
    thing: &Thing,
    nothing: &Thing,
    (foreign, unknown): (Named, Named),
) -> Option<String> {
    let unknown = see(world, unknown.request, owner, nothing).await;

    let seen = see(world, foreign.request, owner, thing).await;

    difference(&format!("{}, of {owner:?}", foreign.name), &seen, &unknown)
}

/// Sends the request, under an id of its own. What it names itself, and the ids of new tasks, are left out of the
/// answer.
async fn see(world: &World, request: Request<Bytes>, owner: OwnerId, thing: &Thing) -> Seen {
    let id = (7_000_000 + NEXT.fetch_add(1, Ordering::SeqCst)).to_string();
    let named = format!("\"id\":{id}");
    let request = request.map(|body| str::from_utf8(&body).unwrap().replace("\"id\":7", &named).into());
    drop(world.calls.take());
    let answer = async { read(world.mcp.respond(request, owner).await).await };
    let Answer { status, headers, text } = world.while_time_passes(answer).await;
    let mut text = text.replace(&id, "7").replace(&thing.task, "<named>").replace(&thing.token, "<named>");
    for signed in
        thing.signed.iter().flat_map(|signed| [&signed.rejection, &signed.question, &signed.cursor, &signed.filtered])
    {
        text = text.replace(signed.as_str(), "<named>");
    }
    Seen { status: status.as_u16(), headers, text: without_ids(&text), calls: world.calls.take() }
}

/// Numbers that are used once.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// The text without the ids of tasks.
fn without_ids(text: &str) -> String {
    let parts = text.split('"').map(|part| if part.parse::<TaskId>().is_ok() { "<id>" } else { part });
    parts.collect::<Vec<_>>().join("\"")
}

/// The same value with one character changed: as long, and signed by nobody.
fn tampered(signed: &str) -> String {
    let (at, last) = signed.char_indices().rev().nth(4).unwrap();
    let other = if last == 'A' { 'B' } else { 'A' };
    format!("{}{other}{}", &signed[..at], &signed[at + 1..])
}

/// What nobody ever had.
fn nothing(like: &Thing) -> Thing {
    let number = NEXT.fetch_add(1, Ordering::SeqCst);
    Thing {
        task: format!("0199aaaa-0000-7000-8000-{number:012}"),
        token: format!("never {number}"),
        request: 4_711,
        idempotency_key: format!("never {number}"),
        has_names: like.has_names,
        signed: like.signed.as_ref().map(|signed| Signed {
            sessions: signed.sessions.iter().map(|session| tampered(session)).collect(),
            question: tampered(&signed.question),
            event: tampered(&signed.event),
            cursor: tampered(&signed.cursor),
            filtered: tampered(&signed.filtered),
            state: tampered(&signed.state),
            rejection: tampered(&signed.rejection),
        }),
    }
}

/// Alice's tasks, one in each state, with everything else that is hers.
async fn things(world: &World) -> Vec<Thing> {
    let clients = Clients::of(world, alice()).await;
    let [core, next, june, _] = &clients.older[..] else { panic!("a client of each revision") };
    let asks = world.start("asks_side_by_side", json!({})).await;
    world.work_until(&asks, "input_required").await;
    let round = Sent::call("asks_side_by_side", json!({})).declaring(no_tasks());
    let state = world.served(&round).await.result()["requestState"].as_str().unwrap().to_owned();
    let mut stream = core.stream(&world.mcp, &core.sent("tasks/result", json!({"taskId": asks}))).await;
    let question = stream.next().await.unwrap()["id"].as_str().unwrap().to_owned();
    let rejected = june.result(&world.mcp, "tools/async/call", json!({"name": "at_once"})).await;
    let add = |key: &str| Sent::call("add", json!({"a": 1, "b": 2})).with_header("idempotency-key", key);
    for number in 0..51 {
        world.result(&add(&format!("key {number}"))).await;
    }
    let listed = core.result(&world.mcp, "tasks/list", json!({})).await;
    let filtered = core.result(&world.mcp, FILTERED, json!({"tool": "add"})).await;
    let signed = Signed {
        sessions: clients.older.iter().map(|client| client.session.clone()).collect(),
        question,
        event: event_id(&mut stream),
        cursor: listed["nextCursor"].as_str().unwrap().to_owned(),
        filtered: filtered["nextCursor"].as_str().unwrap().to_owned(),
        state,
        rejection: rejected["token"].as_str().unwrap().to_owned(),
    };
    let completed = world.result(&add("hers")).await["taskId"].as_str().unwrap().to_owned();
    world.work_until(&completed, "completed").await;
    let cancelled = world.start("sleeps", json!({"ms": 600_000})).await;
    world.cancel(&cancelled).await;
    let params = json!({"name": "sleeps", "arguments": {"ms": 600_000}, "operation": {"token": "hers"}});
    let begun = next.result(&world.mcp, "tools/call", params).await;
    let queued = begun["_meta"]["io.modelcontextprotocol/related-task"]["taskId"].as_str().unwrap().to_owned();
    let thing = |task: &String, signed: Option<&Signed>| Thing {
        task: task.clone(),
        token: "hers".to_owned(),
        request: 7,
        idempotency_key: "hers".to_owned(),
        has_names: signed.is_some(),
        signed: signed.cloned(),
    };
    vec![thing(&queued, Some(&signed)), thing(&asks, None), thing(&completed, None), thing(&cancelled, None)]
}

fn event_id(stream: &mut Stream) -> String {
    assert!(!stream.last_event_id.is_empty());
    std::mem::take(&mut stream.last_event_id)
}

/// All that is on record of these tasks.
async fn on_record(world: &World, things: &[Thing]) -> Vec<String> {
    let mut all = Vec::new();
    for thing in things {
        let (key, ports) = (TaskKey::new(alice(), thing.task.parse().unwrap()), world.engine.ports());
        let task = ports.store.get(&key, ports.clock.now()).await.unwrap();
        all.push(format!("{task:?} {:?}", ports.store.journal(&key).await.unwrap()));
    }
    all
}

#[tokio::test]
async fn what_belongs_to_others_is_to_nobody_different_from_what_does_not_exist() {
    let world = World::new();
    let things = things(&world).await;
    let before = on_record(&world, &things).await;
    let mut differences = Vec::new();
    for owner in [bob(), other_tenant(), anonymous()] {
        let clients = Clients::of(&world, owner).await;
        for thing in &things {
            let nothing = nothing(thing);
            let pairs = requests(&clients, thing).into_iter().zip(requests(&clients, &nothing));
            let seen = stream::iter(pairs).then(|pair| seen_by(&world, owner, thing, &nothing, pair));
            differences.extend(seen.filter_map(ready).collect::<Vec<_>>().await);
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(on_record(&world, &things).await, before, "nobody changed anything");
}

/// Otherwise the test above would compare nothing.
#[tokio::test]
async fn the_owner_sees_the_difference_in_every_request_that_can_tell() {
    let world = World::new();
    let things = things(&world).await;
    let clients = Clients::of(&world, alice()).await;
    // Her key and her token name her tasks from every session; a session is hers alone, and so is what she asked in it.
    let nothing = nothing(&things[0]);
    let pairs = requests(&clients, &things[0]).into_iter().zip(requests(&clients, &nothing));
    let mut wrong = Vec::new();
    for (Named { name, request, tells_owner }, unknown) in pairs {
        let unknown = see(&world, unknown.request, alice(), &nothing).await;
        let own = see(&world, request, alice(), &things[0]).await;
        let differs = (own.status, &own.text) != (unknown.status, &unknown.text);
        if differs != tells_owner {
            wrong.push(format!("{name}: {own:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn what_has_expired_is_to_its_owner_not_different_from_what_never_existed() {
    let world = World::new();
    let things = things(&world).await;
    world.clock.advance_ms(5 * 24 * 3_600_000);
    let clients = Clients::of(&world, alice()).await;
    let mut differences = Vec::new();
    for thing in things {
        let thing = Thing { signed: None, ..thing };
        let nothing = nothing(&thing);
        let pairs = requests(&clients, &thing).into_iter().zip(requests(&clients, &nothing));
        // An operation whose token is free again has the id that the token always gives.
        for (expired, unknown) in pairs.filter(|(named, _)| !named.name.starts_with("an operation")) {
            let unknown = see(&world, unknown.request, alice(), &nothing).await;
            let seen = see(&world, expired.request, alice(), &thing).await;
            differences.extend(difference(&expired.name, &seen, &unknown));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

async fn answered(world: &World, sent: &Sent) -> (StatusCode, HeaderMap, String, Vec<String>) {
    let answer = world.send(sent).await;
    (answer.status, answer.headers, without_ids(&answer.text), world.calls.take())
}

/// What one owner has neither shows in another one's list nor counts against its limits, nor costs it anything.
#[tokio::test]
async fn what_others_have_makes_no_difference_to_lists_and_limits() {
    let settings = Settings { open_tasks_max: 3, inline_sleep_ms_max: 0, ..Settings::default() };
    for owner in [bob(), other_tenant()] {
        let (empty, busy) = (World::with(settings), World::with(settings));
        let call = Sent::call("sleeps", json!({"ms": 600_000}));
        while busy.send(&call).await.json().get("result").is_some() {}
        let mut seen = Vec::new();
        for world in [&empty, &busy] {
            let client = Older::connect_as(&world.mcp, "2025-11-25", owner, everything()).await;
            drop(world.calls.take());
            let call = call.clone().of(owner);
            let filtered = Sent::new(FILTERED, json!({"status": ["working"], "tool": "sleeps"})).of(owner);
            let lists = [client.sent("tasks/list", json!({})), filtered];
            let sent: Vec<_> = lists.into_iter().chain(vec![call; 4]).collect();
            let answers = stream::iter(&sent).then(|sent| answered(world, sent)).collect::<Vec<_>>().await;
            seen.push(answers);
        }
        assert_eq!(seen[0], seen[1], "{owner:?}");
        assert!(seen[0][5].2.contains("3 unfinished tasks"), "{:?}", seen[0][5]);
    }
}

/// Signed by a server with another secret, a value is worth as much as one that somebody else was given.
#[tokio::test]
async fn a_value_of_another_deployment_is_not_different_from_one_of_another_owner() {
    let world = World::new();
    let elsewhere = another_instance(&world, McpSettings::new([8; 32]));
    let [ours, hers, foreign] = [(&world.mcp, bob()), (&world.mcp, alice()), (&elsewhere, bob())];
    let ours = Older::connect_as(ours.0, "2025-11-25", ours.1, everything()).await;
    let hers = Older::connect_as(hers.0, "2025-11-25", hers.1, everything()).await;
    let foreign = Older::connect_as(foreign.0, "2025-11-25", foreign.1, everything()).await;
    let mut seen = Vec::new();
    for session in [&hers.session, &foreign.session] {
        drop(world.calls.take());
        let sent = ours.sent("ping", json!({})).with_header("mcp-session-id", session);
        let answer = world.send(&sent).await;
        seen.push((answer.status, answer.headers, answer.text, world.calls.take()));
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0].0, 404);
}
