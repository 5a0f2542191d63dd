//! Lists that depend on what a caller may do.

use bytes::Bytes;
use http::Request;
use longhaul_core::Principal;
use longhaul_mcp::McpServer;
use serde_json::{Value, json};

use super::scopes::{ADD, CALL, CANCEL, LINKS, READ, assert_denied, member, scoped};
use crate::older_client::{Older, everything, initialize};
use crate::world::{Sent, alice, no_tasks, read};

pub(super) async fn names(server: &McpServer, sent: &Sent, caller: &Principal) -> Vec<String> {
    let listed = read(server.respond(sent.request(), caller.clone()).await).await.result();
    let tools = listed["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn tools_that_a_caller_may_not_call_are_not_listed() {
    let (_world, server) = scoped();
    let mut lists = vec![
        ("2026-07-28", Sent::new("tools/list", json!({}))),
        ("2026-07-28 without tasks", Sent::new("tools/list", json!({})).declaring(no_tasks())),
    ];
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "next"] {
        lists.push((revision, Older::connect(&server, revision).await.sent("tools/list", json!({}))));
    }
    for (what, sent) in lists {
        let all = read(server.respond(sent.request(), alice()).await).await.result();
        let all: Vec<&str> =
            all["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        let grants: [&[&str]; 6] =
            [&[], &[READ], &[CALL], &[CALL, ADD], &[CALL, CANCEL, LINKS], &[CALL, READ, CANCEL, ADD, LINKS]];
        for granted in grants {
            let expected: Vec<&str> = all.iter().copied().filter(|tool| may_call(tool, granted)).collect();
            assert_eq!(names(&server, &sent, &member("alice", granted)).await, expected, "{what} {granted:?}");
        }
    }
}

fn may_call(tool: &str, granted: &[&str]) -> bool {
    let needed: &[&str] = match tool {
        "get_job_status" => &[READ],
        "cancel_job" => &[CANCEL],
        "add" => &[CALL, ADD],
        "links" => &[CALL, LINKS],
        _ => &[CALL],
    };
    needed.iter().all(|scope| granted.contains(scope))
}

/// A list without a hint may be shown to everyone.
#[tokio::test]
async fn a_list_that_depends_on_its_caller_is_not_for_others() {
    let (world, server) = scoped();
    let sent = Sent::new("tools/list", json!({}));
    for caller in [member("alice", &[CALL]), alice().into()] {
        let listed = read(server.respond(sent.request(), caller).await).await.result();
        assert_eq!(listed["cacheScope"], "private");
    }
    assert_ne!(world.result(&sent).await["cacheScope"], "private", "without scopes all see the same");
    let client = Older::connect(&server, "2025-11-25").await;
    let older = client.result(&server, "tools/list", json!({})).await;
    assert!(older.get("cacheScope").is_none(), "older revisions have no such field");
}

/// The values that clients carry belong to an owner, who may be a team: they carry no rights.
#[tokio::test]
async fn what_one_member_was_given_does_not_widen_what_another_may_do() {
    let (world, server) = scoped();
    let everything_scoped = [CALL, READ, CANCEL, ADD, LINKS];
    let (ann, bea) = (member("ann", &everything_scoped), member("bea", &[LINKS]));
    let send = async |sent: &Sent, caller: &Principal| read(server.respond(sent.request(), caller.clone()).await).await;
    // A session.
    let begun = send(&initialize("2025-11-25", everything()), &ann).await;
    let session = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let client = Older { revision: "2025-11-25".to_owned(), session, owner: alice(), initialized: Value::Null };
    let created = client.sent("tools/call", json!({"name": "reports", "arguments": {}, "task": {}}));
    let id = send(&created, &ann).await.result()["task"]["taskId"].as_str().unwrap().to_owned();
    let get = client.sent("tasks/get", json!({"taskId": id}));
    assert_eq!(send(&get, &ann).await.result()["taskId"], json!(id));
    assert_denied("a session", &send(&get, &bea).await, &[READ].into());
    assert_eq!(names(&server, &client.sent("tools/list", json!({})), &bea).await, Vec::<String>::new());
    assert!(names(&server, &client.sent("tools/list", json!({})), &ann).await.len() > 10);
    // The id of an event, and that of a question.
    world.work().await;
    let response = server.respond(client.sent("tasks/result", json!({"taskId": id})).request(), ann.clone()).await;
    let mut stream = crate::older_client::Stream::of(response);
    let asked = loop {
        let message = stream.next().await.unwrap();
        if message["method"] == "elicitation/create" {
            break message;
        }
    };
    let mut resumed = Request::get("/mcp").body(Bytes::new()).unwrap();
    resumed.headers_mut().insert("last-event-id", stream.last_event_id.parse().unwrap());
    let answer = read(server.respond(resumed.clone(), bea.clone()).await).await;
    assert_denied("an event", &answer, &[READ].into());
    assert_eq!(server.respond(resumed, ann.clone()).await.status(), 200);
    let mut answered = client.sent("x", json!({}));
    answered.body = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    assert_denied("a question", &send(&answered, &bea).await, &[CALL].into());
    assert_eq!(world.get(&id).await["status"], "input_required");
    assert_eq!(send(&answered, &ann).await.status, 202);
    // A request state.
    let asks = Sent::call("asks_choices", json!({})).declaring(no_tasks());
    let state = send(&asks, &ann).await.result()["requestState"].as_str().unwrap().to_owned();
    let answers = json!({"choice": {"action": "decline"}});
    let next = asks.with_param("requestState", json!(state)).with_param("inputResponses", answers);
    assert_denied("a request state", &send(&next, &bea).await, &[CALL].into());
    assert_eq!(send(&next, &ann).await.result()["content"][0]["text"], "none");
}
