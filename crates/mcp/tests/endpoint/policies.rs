//! Policies that come from a function: the same as policies by name, in every protocol version.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use longhaul_core::{FlowControl, Principal, Rate, Scopes, VerifiedIdentity};
use longhaul_mcp::{McpServer, McpSettings, Policies, TaskPolicy, ToolError, check_tools};
use rmcp::model::{ListToolsResult, PaginatedRequestParams, Tool};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::older_client::Older;
use crate::world::{Answer, Sent, World, alice, no_tasks, read};

/// What clients without sessions send: each way in which a policy shows.
fn sent() -> Vec<Sent> {
    let add = json!({"a": 1, "b": 2});
    vec![
        Sent::new("tools/list", json!({})),
        Sent::new("tools/list", json!({})).declaring(no_tasks()),
        Sent::call("add", add.clone()),
        Sent::call("add", json!({"a": "one"})),
        Sent::call("add", add.clone()).declaring(no_tasks()),
        Sent::call("only_task", json!({})).declaring(no_tasks()),
        Sent::call("links", json!({})),
        Sent::call("no_such_tool", json!({})),
        Sent::call("get_job_status", json!({"job_id": "none"})).declaring(no_tasks()),
    ]
}

/// What clients of a revision with sessions send.
fn sent_in(revision: &str) -> Vec<(&'static str, Value)> {
    let add = json!({"name": "add", "arguments": {"a": 1, "b": 2}});
    let mut sent = vec![
        ("tools/list", json!({})),
        ("tools/call", add.clone()),
        ("tools/call", json!({"name": "only_task", "arguments": {}})),
        ("tools/call", json!({"name": "no_such_tool", "arguments": {}})),
    ];
    match revision {
        "2025-11-25" => {
            for tool in ["add", "links", "no_such_tool"] {
                let params = json!({"name": tool, "arguments": {"a": 1, "b": 2}, "task": {"ttl": 60_000}});
                sent.push(("tools/call", params));
            }
        }
        "2025-06-18" => sent.push(("tools/async/call", add)),
        _ => {}
    }
    sent
}

/// The answers of a world to all of these, and which calls became tasks.
async fn answers(world: &World) -> Vec<(u16, String)> {
    let mut answers = Vec::new();
    let mut note = |answer: Answer| answers.push((answer.status.as_u16(), answer.text));
    for sent in sent() {
        note(world.served(&sent).await);
    }
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26", "next"] {
        let client = Older::connect(&world.mcp, revision).await;
        for (method, params) in sent_in(revision) {
            note(world.while_working(client.send(&world.mcp, method, params)).await);
        }
    }
    let page = world.engine.list(&alice(), None, 100).await.unwrap();
    // Whether each has ended depends on when its worker was stopped, which is as soon as there is an answer.
    let mut tasks: Vec<_> = page.tasks.iter().map(|task| (0, task.tool.clone())).collect();
    tasks.sort();
    answers.into_iter().chain(tasks).collect()
}

/// The text without ids and times, which differ from one world to the next because their clocks run freely.
fn without_ids(text: &str) -> String {
    let mut masked = String::new();
    let mut run = String::new();
    for letter in text.chars().chain(['\n']) {
        if letter.is_ascii_hexdigit() || "-:.TZ".contains(letter) {
            run.push(letter);
        } else {
            // A time has ten digits or more here, and follows a colon.
            let number = run.trim_start_matches(':');
            let is_time = number.len() >= 10 && number.bytes().all(|byte| byte.is_ascii_digit());
            masked.push_str(if run.len() >= 20 || is_time { "#" } else { &run });
            run.clear();
            masked.push(letter);
        }
    }
    masked
}

#[tokio::test]
async fn a_function_does_what_names_do_in_every_protocol_version() {
    let (named, by_function) = (World::new(), World::by_function());
    let (expected, got) = (answers(&named).await, answers(&by_function).await);
    assert_eq!(expected.len(), got.len());
    for ((status, text), (expected_status, expected_text)) in got.into_iter().zip(expected) {
        assert_eq!(without_ids(&text), without_ids(&expected_text));
        assert_eq!(status, expected_status, "{text}");
    }
}

/// A handler that lists its tools, and does not implement `get_tool`.
#[derive(Clone)]
struct Listing;

impl ServerHandler for Listing {
    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = rmcp::object!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let tools = ["one", "two"].map(|name| Tool::new(name, "", schema.clone()));
        Ok(ListToolsResult::with_all_items(tools.into()))
    }
}

fn by(decide: impl Fn(&str) -> Option<TaskPolicy> + Send + Sync + 'static) -> Policies {
    let mut policies = Policies::default();
    policies.decide_by(decide);
    policies
}

async fn send(server: &McpServer, sent: &Sent) -> Answer {
    read(server.respond(sent.request(), alice()).await).await
}

#[tokio::test]
async fn a_name_that_no_tool_has_never_becomes_a_task() {
    let world = World::new();
    let every = by(|_tool| Some(TaskPolicy::optional()));
    let server = McpServer::new(|| Listing, every, world.engine.clone(), McpSettings::new([7; 32]));
    let refused = send(&server, &Sent::call("three", json!({}))).await.error();
    assert_eq!((refused.1, refused.2.as_str()), (-32602, "there is no tool `three`"));
    assert!(world.engine.list(&alice(), None, 1).await.unwrap().tasks.is_empty());
    let created = send(&server, &Sent::call("two", json!({"n": 1}))).await.result();
    assert_eq!(created["resultType"], "task");
    let refused = send(&server, &Sent::call("two", json!({"n": "one"}))).await.result();
    assert_eq!(refused["isError"], true, "{refused}");
    let created = send(&server, &Sent::call("two", json!({"n": null}))).await.result();
    assert_eq!(created["resultType"], "task", "an optional member that is null is absent: {created}");
}

/// The same, when there is a permit for it.
#[derive(Clone)]
struct Slow(Arc<Semaphore>, Arc<AtomicU32>);

impl ServerHandler for Slow {
    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.acquire().await.unwrap().forget();
        Listing.list_tools(request, context).await
    }
}

/// Every call of the server once waited for the list that one caller's mistake had read again.
#[tokio::test]
async fn mistakes_of_one_caller_hold_up_no_call_that_is_right() {
    let world = World::new();
    let (permits, lists) = (Arc::new(Semaphore::new(1)), Arc::new(AtomicU32::new(0)));
    let handler = Slow(Arc::clone(&permits), Arc::clone(&lists));
    let every = by(|_tool| Some(TaskPolicy::optional()));
    let server = McpServer::new(move || handler.clone(), every, world.engine.clone(), McpSettings::new([7; 32]));
    let right = Sent::call("two", json!({"n": 1}));
    assert_eq!(send(&server, &right).await.result()["resultType"], "task");
    world.clock.advance_ms(1_000);
    let wrong = [Sent::call("three", json!({})), Sent::call("two", json!({"n": "x"})), Sent::call("four", json!({}))];
    let mut mistakes = Box::pin(join_all(wrong.iter().map(|sent| send(&server, sent))));
    while lists.load(Ordering::SeqCst) < 2 {
        assert!((&mut mistakes).now_or_never().is_none(), "nothing is refused before the list was read again");
        tokio::task::yield_now().await;
    }
    assert_eq!(send(&server, &right).await.result()["resultType"], "task");
    permits.add_permits(1);
    let refused: Vec<_> = mistakes.await.iter().map(|answer| answer.text.contains("-32602")).collect();
    assert_eq!(refused, [true, false, true]);
    assert_eq!(lists.load(Ordering::SeqCst), 2, "one list for all, and none within a second");
}

#[tokio::test]
async fn what_the_function_says_about_listed_tools_is_checked_at_start() {
    let none = BTreeMap::new();
    let scoped =
        by(|tool| Some(TaskPolicy::optional()).map(|policy| if tool == "two" { policy.scope("a b") } else { policy }));
    let refused = check_tools(|| Listing, &scoped, &none).await.unwrap_err();
    assert_eq!(refused, ToolError::Scope { tool: "two".to_owned(), scope: "a b".to_owned() });
    let classed = by(|tool| (tool == "one").then(|| TaskPolicy::optional().class("Heavy")));
    let refused = check_tools(|| Listing, &classed, &none).await.unwrap_err();
    assert_eq!(refused, ToolError::Class { tool: "one".to_owned(), class: "Heavy".to_owned() });
    let fine = by(|_tool| Some(TaskPolicy::optional()));
    assert_eq!(check_tools(|| Listing, &fine, &none).await, Ok(()));
}

#[tokio::test]
async fn a_policy_that_is_named_counts_more_than_the_function() {
    let world = World::new();
    let mut policies = by(|_tool| None);
    policies.insert("one".to_owned(), TaskPolicy::optional());
    let server = McpServer::new(|| Listing, policies, world.engine.clone(), McpSettings::new([7; 32]));
    assert_eq!(send(&server, &Sent::call("one", json!({}))).await.result()["resultType"], "task");
}

#[tokio::test]
async fn scopes_that_a_function_names_are_needed_and_hide_tools() {
    let world = World::new();
    let policies = by(|tool| Some(TaskPolicy::optional().scope(format!("{tool}:run"))));
    let server = McpServer::new(|| Listing, policies, world.engine.clone(), McpSettings::new([7; 32]));
    let granted = Scopes::Granted(["one:run".to_owned()].into());
    let identity = Some(VerifiedIdentity::new("https://id.example.com", "alice"));
    let caller = Principal { owner: alice(), identity, scopes: granted };
    let ask = async |sent: Sent| read(server.respond(sent.request(), caller.clone()).await).await;
    let listed = ask(Sent::new("tools/list", json!({}))).await.result();
    let names: Vec<&str> =
        listed["tools"].as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["one"]);
    assert_eq!(listed["cacheScope"], "private");
    assert_eq!(ask(Sent::call("one", json!({}))).await.result()["resultType"], "task");
    let denied = ask(Sent::call("two", json!({}))).await;
    assert_eq!(denied.status.as_u16(), 403);
    assert!(denied.text.contains("two:run"), "{}", denied.text);
}

/// A call says what its key is, and the tasks of one key share its limits.
#[tokio::test]
async fn the_limits_of_a_call_are_stored_with_its_task_and_a_key_that_is_too_long_is_refused() {
    let world = World::new();
    let by_n = |arguments: &Value| arguments["n"].as_str().map_or_else(|| arguments["n"].to_string(), str::to_owned);
    let policy = TaskPolicy::optional().unchecked_arguments().concurrency(3).rate(5, Duration::from_secs(60));
    let policies = by(move |_tool| Some(policy.clone().concurrency_key(by_n)));
    let server = McpServer::new(|| Listing, policies, world.engine.clone(), McpSettings::new([7; 32]));
    for (n, key) in [(json!(7), "7".to_owned()), (json!("x".repeat(1_024)), "x".repeat(1_024))] {
        world.clock.advance_ms(1);
        let created = send(&server, &Sent::call("two", json!({"n": n}))).await.result();
        assert_eq!(created["resultType"], "task", "{created}");
        let task = world.engine.list(&alice(), None, 1).await.unwrap().tasks.remove(0);
        let rate = Some(Rate { max: 5, per_ms: 60_000 });
        assert_eq!(
            task.flow,
            Some(FlowControl { key, concurrency: Some(3), rate, priority: 0, attempt_ms: 3_600_000 })
        );
    }
    let refused = send(&server, &Sent::call("two", json!({"n": "x".repeat(1 << 20)}))).await;
    assert!(refused.text.contains("-32602"), "{}", refused.text);
    let said = "the concurrency key of `two` has 1048576 bytes for these arguments, and at most 1024 are allowed";
    assert!(refused.text.contains(said), "{}", refused.text);
    assert_eq!(world.engine.list(&alice(), None, 9).await.unwrap().tasks.len(), 2);
}

#[tokio::test]
async fn arguments_of_which_no_key_can_be_made_are_refused() {
    let world = World::new();
    let policies = by(|_tool| {
        let by_name = |(name,): &(String,)| name.clone();
        Some(TaskPolicy::optional().unchecked_arguments().concurrency(1).concurrency_key(by_name))
    });
    let server = McpServer::new(|| Listing, policies, world.engine.clone(), McpSettings::new([7; 32]));
    let refused = send(&server, &Sent::call("two", json!({"n": 1}))).await;
    assert!(refused.text.contains("-32602"), "{}", refused.text);
    assert!(refused.text.contains("the limits of `two` cannot be read from these arguments"), "{}", refused.text);
}

/// A policy labels the tasks of its tool, and lists find them by their labels.
#[tokio::test]
async fn labels_of_a_policy_are_stored_with_the_task_shown_and_found() {
    let world = World::new();
    let customer = |arguments: &Value| arguments["customer"].as_str().unwrap_or_default().to_owned();
    let policy = TaskPolicy::optional().unchecked_arguments().label("kind", |_: &Value| 7).label("customer", customer);
    let policies = by(move |_tool| Some(policy.clone()));
    let server = McpServer::new(|| Listing, policies, world.engine.clone(), McpSettings::new([7; 32]));
    let mut ids = Vec::new();
    for customer in ["acme", "globex", ""] {
        world.clock.advance_ms(1);
        let created = send(&server, &Sent::call("two", json!({"customer": customer}))).await.result();
        ids.push(created["taskId"].as_str().unwrap().to_owned());
    }
    let listed = async |params| send(&server, &Sent::new("dev.longhaul/tasks/list", params)).await;
    let acme = listed(json!({"labels": {"customer": "acme", "kind": "7"}})).await.result();
    let labels = json!({"customer": "acme", "kind": "7"});
    assert_eq!(acme["tasks"].as_array().unwrap().len(), 1, "{acme}");
    assert_eq!((&acme["tasks"][0]["taskId"], &acme["tasks"][0]["labels"]), (&json!(ids[0]), &labels));
    let all = listed(json!({"labels": {"kind": "7"}})).await.result();
    let labels_of_all: Vec<_> = all["tasks"].as_array().unwrap().iter().map(|row| row["labels"].clone()).collect();
    assert_eq!(labels_of_all, [json!({"kind": "7"}), json!({"customer": "globex", "kind": "7"}), labels.clone()]);
    for (none, tool) in [(json!({"customer": "acm"}), json!(null)), (json!({"customer": "acme"}), json!("one"))] {
        assert_eq!(listed(json!({"labels": none, "tool": tool})).await.result()["tasks"], json!([]));
    }
    let shown = send(&server, &Sent::new("tasks/get", json!({"taskId": ids[0]}))).await.result();
    assert_eq!(shown["_meta"]["dev.longhaul/labels"], labels);
    let inspected = send(&server, &Sent::new("dev.longhaul/tasks/inspect", json!({"taskId": ids[0]}))).await.result();
    assert_eq!(inspected["labels"], labels);
    for (wrong, why) in [
        (json!({"customer": ""}), "the label `customer` has no value"),
        (json!({"a=b": "c"}), "`a=b` cannot be the key of a label"),
        (json!({"customer": 7}), "the parameters are status, tool, labels and cursor"),
    ] {
        let refused = listed(json!({"labels": wrong})).await;
        assert!(refused.text.contains("-32602") && refused.text.contains(why), "{}", refused.text);
    }
    let refused = send(&server, &Sent::call("two", json!({"customer": "x".repeat(257)}))).await;
    let said = "the label `customer` has 257 bytes, and at most 256 are allowed";
    assert!(refused.text.contains("-32602") && refused.text.contains(said), "{}", refused.text);
}

#[tokio::test]
async fn a_cursor_of_one_label_is_not_valid_for_another() {
    let world = World::new();
    let policies = by(|_tool| Some(TaskPolicy::optional().unchecked_arguments().label("kind", |_: &Value| 7)));
    let server = McpServer::new(|| Listing, policies, world.engine.clone(), McpSettings::new([7; 32]));
    for _ in 0..51 {
        world.clock.advance_ms(1);
        send(&server, &Sent::call("two", json!({}))).await.result();
    }
    let listed = async |params| send(&server, &Sent::new("dev.longhaul/tasks/list", params)).await;
    let first = listed(json!({"labels": {"kind": "7"}})).await.result();
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = listed(json!({"labels": {"kind": "7"}, "cursor": cursor})).await.result();
    assert_eq!(rest["tasks"].as_array().unwrap().len(), 1);
    for other in [json!({"cursor": cursor}), json!({"labels": {"kind": "8"}, "cursor": cursor})] {
        assert!(listed(other).await.text.contains("the cursor is not valid for this list"));
    }
}
