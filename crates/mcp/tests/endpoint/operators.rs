//! What operators see, and nobody else: the tasks of all owners.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{Page, StoreError, TaskStore};
use longhaul_core::{Identity, OwnerId, Principal, Scopes, TaskFilter, TaskId, Timestamp};
use longhaul_engine::{Engine, Ports, Settings};
use longhaul_mcp::{AnonymousCallers, McpServer, McpSettings};
use longhaul_testkit::{Layered, StoreLayer};
use serde_json::{Map, Value, json};

use crate::older_client::another_instance;
use crate::scopes::member;
use crate::tools::Tools;
use crate::world::{Answer, Sent, World, alice, bob, other_tenant, read};

const LIST: &str = "dev.longhaul/tasks/list";
const OPERATE: &str = "mcp:operate";
const OWNER: &str = "dev.longhaul/owner";

/// A server on which tokens with this scope are those of operators.
fn with_operators(world: &World, scope: Option<&str>) -> McpServer {
    let operator_scopes = scope.map(str::to_owned).into_iter().collect::<BTreeSet<String>>();
    another_instance(world, McpSettings { operator_scopes, ..McpSettings::new([7; 32]) })
}

fn operator() -> Principal {
    Principal { owner: other_tenant(), ..member("operator", &[OPERATE]) }
}

async fn send(server: &McpServer, sent: &Sent, caller: impl Into<Principal>) -> Answer {
    read(server.respond(sent.request(), caller).await).await
}

fn of(method: &str, params: Value, owner: &str) -> Sent {
    Sent::new(method, params).with_meta(OWNER, owner.into())
}

fn owners(page: &Value) -> Vec<&str> {
    page["tasks"].as_array().unwrap().iter().map(|row| row["owner"].as_str().unwrap()).collect()
}

async fn of_bob(world: &World) -> String {
    let call = Sent::call("sleeps", json!({"ms": 600_000})).of(bob());
    world.clock.advance_ms(1);
    world.result(&call).await["taskId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_operator_sees_and_cancels_the_tasks_of_all_owners_and_answers_none() {
    let (world, asks, asked) = World::asked_by("asks_side_by_side").await;
    let task = of_bob(&world).await;
    let server = with_operators(&world, Some(OPERATE));
    let page = send(&server, &of(LIST, json!({}), "*"), operator()).await.result();
    let (alice, bob) = (alice().to_string(), bob().to_string());
    assert_eq!(owners(&page), [bob.as_str(), alice.as_str()]);
    assert_eq!((&page["tasks"][0]["title"], page["tasks"][0].get("says")), (&json!("ms=600000"), None));
    assert!(page["tasks"][1]["says"].is_string(), "the question of the other task: {page}");
    let page = send(&server, &of(LIST, json!({}), &bob), operator()).await.result();
    assert_eq!(owners(&page), [bob.as_str()]);
    for method in ["tasks/get", "dev.longhaul/tasks/inspect", "tasks/cancel"] {
        let about = json!({"taskId": task});
        let not_found = send(&server, &Sent::new(method, about.clone()), operator()).await.error();
        assert_eq!(not_found.1, -32602, "{method}: without its owner it is not the caller's");
        send(&server, &of(method, about.clone(), &bob), operator()).await.result();
        assert_eq!(send(&server, &of(method, about, "*"), operator()).await.error().1, -32602, "{method}");
    }
    let cancelled = world.result(&Sent::new("tasks/get", json!({"taskId": task})).of(self::bob())).await;
    assert_eq!(cancelled["status"], "cancelled");
    let answers: Map<String, Value> =
        asked.as_object().unwrap().keys().map(|key| (key.clone(), json!({"action": "decline"}))).collect();
    let answer = of("tasks/update", json!({"taskId": asks, "inputResponses": answers}), &alice);
    assert_eq!(send(&server, &answer, operator()).await.error().1, -32602);
    assert_eq!(world.get(&asks).await["status"], "input_required");
}

/// Callers who are not operators, each with the reason.
fn others() -> [(&'static str, Principal, Option<&'static str>); 5] {
    [
        ("without the scope", member("ann", &["mcp:read"]), Some(OPERATE)),
        ("where no scope is named", member("ann", &[OPERATE]), None),
        ("with a scope that begins the same", member("ann", &["mcp:operate:not"]), Some(OPERATE)),
        ("with everything but an operator's scope", Principal::from(alice()), Some(OPERATE)),
        ("anonymous on a server for anyone", Principal::from(OwnerId::of(Identity::Anonymous)), Some(OPERATE)),
    ]
}

/// Each request that names an owner.
fn requests(task: &str, owner: &str) -> Vec<Sent> {
    let about = ["tasks/get", "tasks/cancel", "dev.longhaul/tasks/inspect"];
    let about = about.map(|method| of(method, json!({"taskId": task}), owner));
    [of(LIST, json!({}), owner)].into_iter().chain(about).collect()
}

#[tokio::test]
async fn the_token_of_an_ordinary_owner_never_reaches_the_tasks_of_others() {
    let world = World::new();
    let task = of_bob(&world).await;
    let bob = bob().to_string();
    for (why, caller, scope) in others() {
        let server = with_operators(&world, scope);
        let discovered = send(&server, &Sent::new("server/discover", json!({})), caller.clone()).await.result();
        assert_eq!(discovered.pointer("/capabilities/extensions/dev.longhaul~1allOwners"), None, "{why}");
        drop(world.calls.take());
        for sent in ["*", bob.as_str(), "", "x"].into_iter().flat_map(|owner| requests(&task, owner)) {
            let answer = send(&server, &sent, caller.clone()).await;
            // Anonymous callers do not have the list at all.
            let is_without_list = answer.status == 404 && sent.body["method"] == LIST;
            let refused = (answer.error().0, answer.error().1);
            assert!(is_without_list || refused == (403, -32600), "{why}: {} {}", sent.body, answer.text);
            assert!(!answer.text.contains(&task), "{why}");
        }
        assert_eq!(world.calls.take(), [""; 0], "{why}: nothing is read");
    }
}

#[tokio::test]
async fn the_user_of_a_server_without_authentication_is_an_operator() {
    let world = World::new();
    of_bob(&world).await;
    let settings = McpSettings { anonymous_callers: AnonymousCallers::OneUser, ..McpSettings::new([7; 32]) };
    let local = another_instance(&world, settings);
    let user = || Principal { scopes: Scopes::Unrestricted, ..OwnerId::of(Identity::Anonymous).into() };
    let discovered = send(&local, &Sent::new("server/discover", json!({})), user()).await.result();
    assert_eq!(discovered.pointer("/capabilities/extensions/dev.longhaul~1allOwners"), Some(&json!({})));
    let page = send(&local, &of(LIST, json!({}), "*"), user()).await.result();
    assert_eq!(owners(&page), [bob().to_string()]);
}

/// A store without the list of all owners.
struct ListsOneOwner(Arc<dyn TaskStore>);

#[async_trait]
impl StoreLayer for ListsOneOwner {
    fn inner(&self) -> &dyn TaskStore {
        &*self.0
    }

    async fn list_of_all_owners(
        &self,
        _filter: &TaskFilter,
        _before: Option<TaskId>,
        _limit: usize,
        _now: Timestamp,
    ) -> Result<Option<Page>, StoreError> {
        Ok(None)
    }
}

#[tokio::test]
async fn a_store_without_the_list_of_all_owners_does_not_offer_it() {
    let world = World::new();
    let ports = world.engine.ports();
    let ports = Ports { store: Arc::new(Layered(ListsOneOwner(Arc::clone(&ports.store)))), ..ports.clone() };
    let engine = Engine::new(ports, Settings::default());
    let settings = McpSettings { operator_scopes: BTreeSet::from([OPERATE.to_owned()]), ..McpSettings::new([7; 32]) };
    let handler = Tools::new(Arc::clone(&world.observed));
    let server = McpServer::new(move || handler.clone(), world.policies.clone(), engine, settings);
    let discovered = send(&server, &Sent::new("server/discover", json!({})), operator()).await.result();
    assert_eq!(discovered.pointer("/capabilities/extensions/dev.longhaul~1allOwners"), None);
    assert_eq!(send(&server, &of(LIST, json!({}), "*"), operator()).await.error().1, -32602);
}

#[tokio::test]
async fn pages_of_all_owners_follow_each_other_and_their_cursors_belong_to_this_list() {
    let world = World::new();
    for _ in 0..30 {
        of_bob(&world).await;
        world.start("sleeps", json!({"ms": 600_000})).await;
    }
    let server = with_operators(&world, Some(OPERATE));
    let first = send(&server, &of(LIST, json!({}), "*"), operator()).await.result();
    let cursor = json!({"cursor": first["nextCursor"]});
    let rest = send(&server, &of(LIST, cursor.clone(), "*"), operator()).await.result();
    assert_eq!((owners(&first).len(), owners(&rest).len(), rest.get("nextCursor")), (50, 10, None));
    assert_eq!(send(&server, &Sent::new(LIST, cursor), operator()).await.error().1, -32602);
}
