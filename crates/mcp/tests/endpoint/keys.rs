//! The keys that sign what passes through clients: they change, and values expire, and no client notices unless its
//! value is too old.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use longhaul_core::{Clock, Timestamp};
use longhaul_engine::{Engine, Ports, Settings};
use longhaul_mcp::{KeyTexts, McpServer, McpSettings, Policies, key_mailboxes};
use longhaul_sqlite::Database;
use longhaul_testkit::{Fault, FaultyStore, ManualClock, SeededIds, StoreCall};
use serde_json::json;

use crate::older_client::{Older, another_instance, initialize};
use crate::tools::Tools;
use crate::world::{Answer, World, alice, read};

const REVISION: &str = "2025-11-25";
const DAY_MS: u64 = 24 * 3_600_000;
/// How long a key signs.
const PERIOD_MS: u64 = 30 * DAY_MS;
/// How long a session is valid.
const SESSION_MS: u64 = 14 * DAY_MS;

fn second(world: &World) -> McpServer {
    another_instance(world, McpSettings::new([7; 32]))
}

/// Lets time pass until `ms` before the next key signs.
fn until_before_the_next_period(world: &World, ms: u64) {
    let into = world.now_ms() % PERIOD_MS;
    world.clock.advance_ms(PERIOD_MS - into - ms);
}

async fn ping(server: &McpServer, client: &Older) -> Answer {
    client.send(server, "ping", json!({})).await
}

async fn works(server: &McpServer, client: &Older) {
    assert_eq!(ping(server, client).await.result(), json!({}));
}

async fn must_begin_again(server: &McpServer, client: &Older) {
    let answer = ping(server, client).await;
    assert_eq!(answer.status, 404, "{}", answer.text);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("send a new initialize"));
}

/// The id of the key that signed a value.
fn key_id(signed: &str) -> String {
    let mut sections = signed.split('.');
    assert_eq!(sections.next(), Some("rs2"), "{signed}");
    String::from_utf8(URL_SAFE_NO_PAD.decode(sections.next().unwrap()).unwrap()).unwrap()
}

/// The same value as if another key had signed it.
fn with_key_id(signed: &str, id: &str) -> String {
    let mut sections: Vec<_> = signed.split('.').map(str::to_owned).collect();
    sections[1] = URL_SAFE_NO_PAD.encode(id);
    sections.join(".")
}

#[tokio::test]
async fn a_session_that_has_expired_begins_again() {
    let (world, client) = Older::in_new_world(REVISION).await;
    world.clock.advance_ms(SESSION_MS - 1);
    works(&world.mcp, &client).await;
    world.clock.advance_ms(1);
    must_begin_again(&world.mcp, &client).await;
    works(&world.mcp, &Older::connect(&world.mcp, REVISION).await).await;
}

#[tokio::test]
async fn a_cursor_expires_before_its_session() {
    let world = World::new();
    for _ in 0..51 {
        world.start("add", json!({"a": 1, "b": 2})).await;
        world.clock.advance_ms(1);
    }
    let client = Older::connect(&world.mcp, REVISION).await;
    let list = async |server: &McpServer, params| client.send(server, "tasks/list", params).await;
    let cursor = list(&world.mcp, json!({})).await.result()["nextCursor"].as_str().unwrap().to_owned();
    assert_eq!(list(&second(&world), json!({"cursor": cursor})).await.status, 200);
    world.clock.advance_ms(DAY_MS);
    let (_, code, message) = list(&world.mcp, json!({"cursor": cursor})).await.error();
    assert_eq!((code, message.as_str()), (-32602, "the cursor is not valid; start again without one"));
}

#[tokio::test]
async fn sessions_of_the_old_key_go_on_when_a_new_one_signs() {
    let world = World::new();
    let other = second(&world);
    until_before_the_next_period(&world, 2 * DAY_MS);
    let client = Older::connect(&world.mcp, REVISION).await;
    works(&other, &client).await;
    world.clock.advance_ms(2 * DAY_MS);
    // The instance that notices first makes the key, and the others find it; so does one that starts only now.
    let later = Older::connect(&other, REVISION).await;
    assert_ne!(key_id(&client.session), key_id(&later.session));
    let started_now = second(&world);
    for server in [&world.mcp, &other, &started_now] {
        works(server, &client).await;
        works(server, &later).await;
        assert_eq!(key_id(&Older::connect(server, REVISION).await.session), key_id(&later.session));
    }
    world.clock.advance_ms(PERIOD_MS);
    must_begin_again(&world.mcp, &client).await;
    must_begin_again(&other, &later).await;
}

/// Clocks differ: shortly before a key signs, all instances have it.
#[tokio::test]
async fn an_instance_whose_clock_is_slow_knows_the_key_of_the_others() {
    let world = World::new();
    until_before_the_next_period(&world, 60_000);
    let slow = Older::connect(&world.mcp, REVISION).await;
    let clock = Arc::new(ManualClock::at(world.clock.now().plus_ms(120_000)));
    let ports = Ports { clock, ..world.engine.ports().clone() };
    let handler = Tools::new(Arc::clone(&world.observed));
    let settings = McpSettings::new([7; 32]);
    let engine = Engine::new(ports, Settings::default());
    let ahead = McpServer::new(move || handler.clone(), world.policies.clone(), engine, settings);
    let fast = Older::connect(&ahead, REVISION).await;
    assert_ne!(key_id(&slow.session), key_id(&fast.session));
    works(&world.mcp, &fast).await;
    works(&ahead, &slow).await;
}

#[tokio::test]
async fn instances_that_start_at_the_same_time_have_the_same_keys() {
    let world = World::new();
    let servers: Vec<_> = (0..8).map(|_| second(&world)).collect();
    let clients = futures::future::join_all(servers.iter().map(|server| Older::connect(server, REVISION))).await;
    for (server, client) in servers.iter().rev().zip(&clients) {
        works(server, client).await;
    }
}

#[tokio::test]
async fn a_key_that_is_not_ours_verifies_nothing() {
    let (world, client) = Older::in_new_world(REVISION).await;
    let of_another_secret = another_instance(&world, McpSettings::new([8; 32]));
    must_begin_again(&of_another_secret, &client).await;
    let foreign = World::new();
    until_before_the_next_period(&foreign, 0);
    must_begin_again(&foreign.mcp, &client).await;
    let now: u64 = key_id(&client.session).parse().unwrap();
    let ids = [now + 1, now + 2, now.wrapping_sub(1), u64::MAX].map(|id| id.to_string());
    for id in ids.iter().map(String::as_str).chain(["", "x", "00"]) {
        let session = with_key_id(&client.session, id);
        must_begin_again(&world.mcp, &Older { session, ..client.clone() }).await;
    }
}

/// A plain call's token of another purpose, or of the time before keys had ids.
#[tokio::test]
async fn a_value_without_a_key_id_is_refused() {
    let (world, client) = Older::in_new_world(REVISION).await;
    let sections: Vec<_> = client.session.split('.').collect();
    let session = format!("rs1.{}.{}", sections[2], sections[3]);
    must_begin_again(&world.mcp, &Older { session, ..client.clone() }).await;
}

/// A server whose store fails as `script` says.
fn on_a_failing_store(
    clock: &Arc<ManualClock>,
    script: impl FnMut(StoreCall<'_>) -> Fault + Send + 'static,
) -> McpServer {
    let settings = longhaul_sqlite::Settings::default();
    let database = Database::in_memory(Arc::<ManualClock>::clone(clock), settings).unwrap();
    let store = FaultyStore::new(Arc::new(database.store()), script);
    let ids = Arc::new(SeededIds::new(1));
    let clock = Arc::<ManualClock>::clone(clock);
    let ports = Ports { store: Arc::new(store), queue: Arc::new(database.queue()), clock, ids };
    let handler = Tools::new(Arc::default());
    let engine = Engine::new(ports, Settings { write_retry_ms: 0, ..Settings::default() });
    McpServer::new(move || handler.clone(), Policies::default(), engine, McpSettings::new([7; 32]))
}

/// If the keys cannot be read, a session would seem not to exist, and its client would begin again for nothing.
#[tokio::test]
async fn without_keys_the_server_is_not_available() {
    let server = on_a_failing_store(&Arc::default(), |call| match call {
        StoreCall::Collect(..) | StoreCall::Leave(..) => Fault::Before,
        _ => Fault::None,
    });
    let answer = read(server.respond(initialize(REVISION, json!({})).request(), alice()).await).await;
    assert_eq!(answer.status, 503);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("try again"), "{}", answer.text);
    assert!(server.ready(&KeyTexts::new()).await.is_err());
}

#[tokio::test]
async fn a_key_whose_writer_got_no_answer_is_the_key() {
    let mut first = true;
    let server = on_a_failing_store(&Arc::default(), move |call| match call {
        StoreCall::Leave(..) if std::mem::take(&mut first) => Fault::After,
        _ => Fault::None,
    });
    let client = Older::connect(&server, REVISION).await;
    works(&server, &client).await;
}

/// Whoever served requests shortly before a key begins to sign has read it.
#[tokio::test]
async fn a_change_of_keys_needs_no_store() {
    let (clock, fails) = (Arc::new(ManualClock::default()), Arc::new(AtomicBool::new(false)));
    let failing = Arc::clone(&fails);
    let server =
        on_a_failing_store(&clock, move |_| if failing.load(Ordering::SeqCst) { Fault::Before } else { Fault::None });
    let before_the_change = clock.now().as_ms() / PERIOD_MS * PERIOD_MS + PERIOD_MS - 60_000;
    clock.advance_to(Timestamp::from_ms(before_the_change));
    let client = Older::connect(&server, REVISION).await;
    fails.store(true, Ordering::SeqCst);
    clock.advance_ms(60_000);
    works(&server, &client).await;
    assert_ne!(key_id(&Older::connect(&server, REVISION).await.session), key_id(&client.session));
    fails.store(false, Ordering::SeqCst);
    clock.advance_ms(PERIOD_MS);
    must_begin_again(&server, &client).await;
}

/// The start of a function reads the keys together with other items.
#[tokio::test]
async fn keys_that_were_read_already_are_not_read_again() {
    let (clock, reads) = (Arc::new(ManualClock::default()), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&reads);
    let server = on_a_failing_store(&clock, move |call| {
        if let StoreCall::Collect(_, mailbox) = call {
            seen.lock().unwrap().push(*mailbox);
        }
        Fault::None
    });
    clock.advance_ms(3 * PERIOD_MS);
    let needed = key_mailboxes(clock.now()).into_iter().map(|(_, mailbox)| mailbox).collect::<Vec<_>>();
    let [before, now] = needed[..] else { panic!("{needed:?}") };
    // No instance has made the key of this period: it is looked for once more, and made.
    server.ready(&[(before, None), (now, None)].into()).await.unwrap();
    assert_eq!(*reads.lock().unwrap(), [now]);

    let other = on_a_failing_store(&clock, |_| Fault::Before);
    other.ready(&[(before, None), (now, Some("text".to_owned()))].into()).await.unwrap();
    let client = Older::connect(&other, REVISION).await;
    works(&other, &client).await;
}
