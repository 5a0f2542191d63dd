//! `dev.longhaul/tasks/list`: some of the caller's tasks, in both revisions that have tasks of their own.

use longhaul_core::{Identity, OwnerId, TaskKey};
use longhaul_mcp::{AnonymousCallers, McpSettings};
use serde_json::{Value, json};

use crate::older_client::{Older, another_instance, everything};
use crate::schema;
use crate::world::{Sent, World, alice, bob, no_tasks, read};

const METHOD: &str = "dev.longhaul/tasks/list";

fn list(params: Value) -> Sent {
    Sent::new(METHOD, params)
}

/// The ids on a page.
fn ids(page: &Value) -> Vec<String> {
    page["tasks"].as_array().unwrap().iter().map(|row| row["taskId"].as_str().unwrap().to_owned()).collect()
}

/// A task in each status, by status; the tools differ.
async fn tasks(world: &World) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for (status, tool, arguments) in [
        ("completed", "add", json!({"a": 1, "b": 2})),
        ("input_required", "asks_side_by_side", json!({})),
        ("failed", "fails", json!({})),
        ("working", "sleeps", json!({"ms": 600_000})),
        ("cancelled", "sleeps", json!({"ms": 600_000})),
    ] {
        let id = world.start(tool, arguments).await;
        match status {
            "working" => {}
            "cancelled" => world.cancel(&id).await,
            _ => drop(world.work_until(&id, status).await),
        }
        all.push((status, id));
        world.clock.advance_ms(1);
    }
    all
}

#[tokio::test]
async fn each_status_and_each_tool_has_its_list_in_both_revisions() {
    let world = World::new();
    let all = tasks(&world).await;
    let core = Older::connect(&world.mcp, "2025-11-25").await;
    let newest_first: Vec<String> = all.iter().rev().map(|(_, id)| id.clone()).collect();
    for (params, expected) in [
        (json!({}), newest_first),
        (json!({"status": ["completed"]}), vec![all[0].1.clone()]),
        (json!({"status": ["input_required"]}), vec![all[1].1.clone()]),
        (json!({"status": ["failed"]}), vec![all[2].1.clone()]),
        (json!({"status": ["working"], "tool": "sleeps"}), vec![all[3].1.clone()]),
        (json!({"tool": "sleeps"}), vec![all[4].1.clone(), all[3].1.clone()]),
        (json!({"status": ["failed", "completed", "failed"]}), vec![all[2].1.clone(), all[0].1.clone()]),
        (json!({"status": ["failed"], "tool": "add"}), vec![]),
        (json!({"tool": "no_such_tool"}), vec![]),
        (json!({"tool": ""}), vec![]),
    ] {
        let page = world.result(&list(params.clone())).await;
        assert_eq!((ids(&page), &page["resultType"]), (expected, &json!("complete")), "{params}");
        let older = core.result(&world.mcp, METHOD, params.clone()).await;
        assert_eq!((&older["tasks"], older.get("resultType")), (&page["tasks"], None), "{params}");
    }
}

#[tokio::test]
async fn a_row_is_the_task_with_its_tool_and_progress_and_whether_the_tool_reported_an_error() {
    let world = World::new();
    let reports = world.start("tool_error", json!({})).await;
    world.work_until(&reports, "completed").await;
    world.clock.advance_ms(1);
    let runs = world.start("sleeps", json!({"ms": 600_000})).await;
    let key = TaskKey::new(alice(), runs.parse().unwrap());
    let (store, now) = (&world.engine.ports().store, world.engine.ports().clock.now());
    store.apply(&key, &longhaul_testkit::given::claim(1, now), now).await.unwrap();
    store.apply(&key, &longhaul_testkit::given::progress(1, now, 3.0), now).await.unwrap();
    let page = world.result(&list(json!({}))).await;
    let mut shown = world.get(&runs).await;
    shown.as_object_mut().unwrap().remove("resultType");
    let [row, error] = &page["tasks"].as_array().unwrap()[..] else { panic!("two tasks") };
    assert_eq!((&row["tool"], &row["progress"]["progress"], row.get("isError")), (&json!("sleeps"), &json!(3.0), None));
    assert_eq!(
        (&error["tool"], &error["status"], &error["isError"]),
        (&json!("tool_error"), &json!("completed"), &json!(true))
    );
    assert_eq!(error.get("result"), None, "no payload");
    let mut row = row.clone();
    assert_eq!((&row["title"], &error["says"]), (&json!("ms=600000"), &json!("it did not work")));
    for added in ["tool", "title", "progress", "startedAt", "deadlineAt"] {
        row.as_object_mut().unwrap().remove(added);
    }
    assert_eq!(row, shown, "the rest is what `tasks/get` shows");
    schema::is("tasks-extension", "Task", &row);
}

/// As many of Alice's tasks as do not fit on a page.
async fn sixty(world: &World) -> Vec<String> {
    let mut all = Vec::new();
    for number in 0..60 {
        let id = world.start("add", json!({"a": 1, "b": 2})).await;
        if number % 20 == 0 {
            world.cancel(&id).await;
        } else {
            all.push(id);
        }
        world.clock.advance_ms(1);
    }
    all.reverse();
    all
}

#[tokio::test]
async fn pages_follow_each_other_on_any_instance_in_either_revision() {
    let world = World::new();
    let all = sixty(&world).await;
    let params = json!({"status": ["working"], "tool": "add"});
    let first = world.result(&list(params.clone())).await;
    let mut next = params;
    next["cursor"] = first["nextCursor"].clone();
    let second = another_instance(&world, McpSettings::new([7; 32]));
    let core = Older::connect(&world.mcp, "2025-11-25").await;
    let rest = core.result(&second, METHOD, next).await;
    assert_eq!([ids(&first), ids(&rest)].concat(), all);
    assert_eq!((ids(&first).len(), rest.get("nextCursor")), (50, None));
}

#[tokio::test]
async fn a_cursor_belongs_to_its_caller_and_its_filter() {
    let world = World::new();
    sixty(&world).await;
    let cursor = |page: &Value| page["nextCursor"].as_str().unwrap().to_owned();
    let working = cursor(&world.result(&list(json!({"status": ["working"]}))).await);
    let plain = {
        let core = Older::connect(&world.mcp, "2025-11-25").await;
        let refused = core.error(&world.mcp, "tasks/list", json!({"cursor": working})).await;
        assert_eq!(refused.0, -32602, "in the plain list");
        cursor(&core.result(&world.mcp, "tasks/list", json!({})).await)
    };
    let mut tampered = working.clone();
    tampered.replace_range(working.len() - 6..working.len() - 5, if working.ends_with("A") { "B" } else { "-" });
    let elsewhere = another_instance(&world, McpSettings::new([8; 32]));
    let foreign = read(elsewhere.respond(list(json!({"status": ["working"]})).request(), alice()).await).await;
    let of_bob = list(json!({"status": ["working"], "cursor": working})).of(bob());
    let mut refused = vec![("another owner", of_bob)];
    for (what, params) in [
        ("more statuses", json!({"status": ["working", "failed"], "cursor": working})),
        ("no statuses", json!({"cursor": working})),
        ("a tool", json!({"status": ["working"], "tool": "add", "cursor": working})),
        ("a tool called like a status", json!({"status": ["working"], "tool": "failed", "cursor": working})),
        ("the plain list's", json!({"cursor": plain})),
        ("changed", json!({"status": ["working"], "cursor": tampered})),
        ("empty", json!({"cursor": ""})),
        ("made up", json!({"cursor": "x".repeat(100_000)})),
        ("another deployment's", json!({"status": ["working"], "cursor": foreign.result()["nextCursor"]})),
    ] {
        refused.push((what, list(params)));
    }
    for (what, sent) in refused {
        let error = world.send(&sent).await.error();
        let expected = (200, -32602, "the cursor is not valid for this list; start again without one".to_owned());
        assert_eq!(error, expected, "{what}");
    }
    let ordered = list(json!({"status": ["working", "working"], "cursor": working}));
    assert_eq!(ids(&world.result(&ordered).await).len(), 7, "the same filter in other words");
}

#[tokio::test]
async fn what_is_no_filter_is_refused_before_anything_is_read() {
    let world = World::new();
    tasks(&world).await;
    let core = Older::connect(&world.mcp, "2025-11-25").await;
    drop(world.calls.take());
    for params in [
        json!({"status": []}),
        json!({"status": ["sleeping"]}),
        json!({"status": ["working", "Failed"]}),
        json!({"status": "working"}),
        json!({"status": [7]}),
        json!({"tool": ["add"]}),
        json!({"tool": "x".repeat(1_025)}),
        json!({"statuses": ["working"]}),
        json!({"cursor": 7}),
    ] {
        let (status, code, message) = world.send(&list(params.clone())).await.error();
        assert_eq!((status, code), (200, -32602), "{params}");
        assert!(message.len() < 200, "{message}");
        assert_eq!(core.error(&world.mcp, METHOD, params).await.0, -32602);
    }
    assert_eq!(world.calls.take(), [""; 0]);
}

#[tokio::test]
async fn anonymous_callers_have_no_list_and_a_single_user_has_one() {
    let world = World::new();
    let anonymous = OwnerId::of(Identity::Anonymous);
    let (status, code, _) = world.send(&list(json!({})).of(anonymous)).await.error();
    assert_eq!((status, code), (404, -32601));
    let for_one_user = McpSettings { anonymous_callers: AnonymousCallers::OneUser, ..McpSettings::new([7; 32]) };
    let local = another_instance(&world, for_one_user);
    let anonymous_callers = Older::connect_as(&world.mcp, "2025-11-25", anonymous, everything()).await;
    let user = Older::connect_as(&local, "2025-11-25", anonymous, everything()).await;
    let declared = [&anonymous_callers, &user].map(|client| client.initialized["capabilities"]["tasks"].get("list"));
    assert_eq!(declared, [None, Some(&json!({}))]);
    for method in ["tasks/list", METHOD] {
        assert_eq!(anonymous_callers.error(&world.mcp, method, json!({})).await.0, -32601, "{method}");
        assert_eq!(user.result(&local, method, json!({})).await, json!({"tasks": []}), "{method}");
    }
}

#[tokio::test]
async fn other_revisions_and_clients_without_tasks_do_not_have_it() {
    let world = World::new();
    for revision in ["2025-06-18", "2025-03-26", "next"] {
        let client = Older::connect(&world.mcp, revision).await;
        assert_eq!(client.error(&world.mcp, METHOD, json!({})).await.0, -32601, "{revision}");
    }
    let undeclared = world.send(&list(json!({})).declaring(no_tasks())).await.error();
    assert_eq!((undeclared.0, undeclared.1), (400, -32021));
    let unmatched = world.send(&list(json!({})).with_header("mcp-method", "tasks/get")).await.error();
    assert_eq!((unmatched.0, unmatched.1), (400, -32020));
}
