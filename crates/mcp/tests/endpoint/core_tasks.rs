//! Tasks of MCP `2025-11-25`, each message checked against the published schema.

use longhaul_core::{Clock, Outcome, PartsName, Payload, ResultKind, TaskEvent, TaskKey};
use longhaul_mcp::{McpServer, McpSettings};
use longhaul_testkit::given;
use serde_json::{Value, json};

use crate::older_client::{Older, REVISION, Stream, another_instance, everything};
use crate::schema;
use crate::world::{World, bob};

const RELATED: &str = "io.modelcontextprotocol/related-task";

async fn connect(world: &World) -> Older {
    Older::connect(&world.mcp, REVISION).await
}

async fn connected() -> (World, Older) {
    let world = World::new();
    let client = connect(&world).await;
    (world, client)
}

/// A call that asks for a task.
fn call(tool: &str, arguments: Value, task: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments, "task": task});
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    schema::is(REVISION, "CallToolRequest", &request);
    params
}

async fn start(client: &Older, server: &McpServer, tool: &str, arguments: Value) -> String {
    let created = client.result(server, "tools/call", call(tool, arguments, json!({}))).await;
    schema::is(REVISION, "CreateTaskResult", &created);
    assert_eq!(created["task"]["status"], "working");
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(created["_meta"][RELATED], json!({"taskId": id}));
    id
}

async fn started(tool: &str, arguments: Value) -> (World, Older, String) {
    let (world, client) = connected().await;
    let id = start(&client, &world.mcp, tool, arguments).await;
    (world, client, id)
}

async fn get(client: &Older, server: &McpServer, id: &str) -> Value {
    let task = client.result(server, "tasks/get", json!({"taskId": id})).await;
    schema::is(REVISION, "GetTaskResult", &task);
    assert!(task["ttl"].is_u64() && task["pollInterval"].is_u64(), "integers are integers: {task}");
    assert_eq!(task.get("_meta"), None, "the id is in the task itself");
    task
}

fn second(world: &World) -> McpServer {
    another_instance(world, McpSettings::new([7; 32]))
}

#[tokio::test]
async fn the_handshake_declares_tasks_only_for_this_revision() {
    let world = World::new();
    let tasks = connect(&world).await.initialized["capabilities"]["tasks"].clone();
    assert_eq!(tasks, json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
    let client = Older::connect(&world.mcp, "2025-06-18").await;
    assert_eq!(client.initialized["capabilities"].get("tasks"), None);
}

#[tokio::test]
async fn every_tool_says_whether_it_runs_as_a_task_and_that_is_enforced() {
    let (world, client) = connected().await;
    let listed = client.result(&world.mcp, "tools/list", json!({})).await;
    schema::is(REVISION, "ListToolsResult", &listed);
    let mut seen: Vec<String> = Vec::new();
    // The tools for clients without tasks belong to another protocol version, which ignores calls that ask for a task.
    let is_ours = |tool: &&Value| tool["name"] != "get_job_status" && tool["name"] != "cancel_job";
    for tool in listed["tools"].as_array().unwrap().iter().filter(is_ours) {
        let support = tool["execution"]["taskSupport"].as_str().unwrap().to_owned();
        let name = tool["name"].as_str().unwrap();
        match &*support {
            "forbidden" => {
                let error = client.error(&world.mcp, "tools/call", call(name, json!({}), json!({}))).await;
                assert_eq!(error.0, -32601, "{name}");
            }
            "required" => {
                let error = client.error(&world.mcp, "tools/call", json!({"name": name, "arguments": {}})).await;
                assert_eq!(error.0, -32601, "{name}");
            }
            _ => assert_eq!(support, "optional"),
        }
        seen.push(support);
    }
    assert!(["required", "optional"].iter().all(|level| seen.iter().any(|seen| seen == level)), "{seen:?}");
    let unknown = client.error(&world.mcp, "tools/call", call("no_such_tool", json!({}), json!({}))).await;
    assert_eq!(unknown.0, -32602);
}

#[tokio::test]
async fn a_call_that_does_not_ask_for_a_task_is_plain() {
    let (world, client) = connected().await;
    let result = world.served(&client.call("add", json!({"a": 1, "b": 2}))).await.result();
    schema::is(REVISION, "CallToolResult", &result);
    assert_eq!(result["content"][0]["text"], "3");
    assert_eq!(result.get("_meta"), None);
}

#[tokio::test]
async fn a_task_is_created_polled_and_fetched() {
    let (world, client, id) = started("add", json!({"a": 1, "b": 2})).await;
    assert_eq!(get(&client, &world.mcp, &id).await["status"], "working");
    world.work().await;
    assert_eq!(get(&client, &world.mcp, &id).await["status"], "completed");
    let result = client.result(&second(&world), "tasks/result", json!({"taskId": id})).await;
    schema::is(REVISION, "CallToolResult", &result);
    let mut plain = world.served(&client.call("add", json!({"a": 1, "b": 2}))).await.result();
    plain["_meta"] = json!({RELATED: {"taskId": id}});
    assert_eq!(result, plain, "what the plain call would have been answered with");
}

#[tokio::test]
async fn the_ttl_is_what_was_asked_for_within_what_the_policy_allows() {
    let (world, client) = connected().await;
    let ttl = async |task: Value| {
        let params = call("add", json!({"a": 1, "b": 2}), task);
        client.result(&world.mcp, "tools/call", params).await["task"]["ttl"].as_u64().unwrap()
    };
    assert_eq!(ttl(json!({})).await, 3_600_000);
    assert_eq!(ttl(json!({"ttl": 7_200_000})).await, 7_200_000);
    assert_eq!(ttl(json!({"ttl": 1})).await, 3_600_000, "the longest run and the retention");
    assert_eq!(ttl(json!({"ttl": 1_000_000_000_000_000_u64})).await, 86_400_000);
    for bad in [json!({"ttl": -1}), json!({"ttl": "1"}), json!(7), json!("task")] {
        let params = json!({"name": "add", "arguments": {"a": 1, "b": 2}, "task": bad});
        assert_eq!(client.error(&world.mcp, "tools/call", params).await.0, -32602, "{bad}");
    }
}

#[tokio::test]
async fn an_immediate_response_is_sent_if_the_policy_has_one() {
    let (world, client) = connected().await;
    let created = client.result(&world.mcp, "tools/call", call("only_task", json!({}), json!({}))).await;
    assert_eq!(created["_meta"]["io.modelcontextprotocol/model-immediate-response"], "It is being done.");
    let created = client.result(&world.mcp, "tools/call", call("add", json!({"a": 1, "b": 1}), json!({}))).await;
    assert_eq!(created["_meta"].get("io.modelcontextprotocol/model-immediate-response"), None);
}

#[tokio::test]
async fn a_tools_error_fails_the_task_and_its_result_is_the_same() {
    let (world, client, id) = started("tool_error", json!({})).await;
    world.work().await;
    let task = get(&client, &world.mcp, &id).await;
    assert_eq!((&task["status"], &task["statusMessage"]), (&json!("failed"), &json!("it did not work")));
    let result = client.result(&world.mcp, "tasks/result", json!({"taskId": id})).await;
    schema::is(REVISION, "CallToolResult", &result);
    assert_eq!((&result["isError"], &result["content"][0]["text"]), (&json!(true), &json!("it did not work")));
}

#[tokio::test]
async fn a_protocol_error_fails_the_task_and_is_the_answer_to_its_result() {
    let (world, client, id) = started("fails", json!({})).await;
    world.work().await;
    let task = get(&client, &world.mcp, &id).await;
    assert_eq!((&task["status"], &task["statusMessage"]), (&json!("failed"), &json!("no such city")));
    let answer = client.send(&world.mcp, "tasks/result", json!({"taskId": id})).await.json();
    schema::is(REVISION, "JSONRPCErrorResponse", &answer);
    let plain = world.served(&client.call("fails", json!({}))).await.json();
    assert_eq!(answer["error"], plain["error"]);
}

#[tokio::test]
async fn a_task_is_cancelled_once() {
    let (world, client, id) = started("hangs", json!({})).await;
    let cancelled = client.result(&world.mcp, "tasks/cancel", json!({"taskId": id})).await;
    schema::is(REVISION, "CancelTaskResult", &cancelled);
    assert_eq!(cancelled["status"], "cancelled");
    assert_eq!(get(&client, &world.mcp, &id).await["status"], "cancelled");
    let (code, message) = client.error(&world.mcp, "tasks/cancel", json!({"taskId": id})).await;
    assert_eq!((code, &*message), (-32602, "the task cannot be cancelled: it is cancelled already"));
    assert_eq!(client.error(&world.mcp, "tasks/result", json!({"taskId": id})).await.0, -32603);
    let done = start(&client, &world.mcp, "add", json!({"a": 1, "b": 2})).await;
    world.work().await;
    assert_eq!(client.error(&world.mcp, "tasks/cancel", json!({"taskId": done})).await.0, -32602);
}

#[tokio::test]
async fn the_list_has_all_tasks_of_its_owner_page_by_page() {
    let (world, client) = connected().await;
    let anonymous_caller = Older::connect_as(&world.mcp, REVISION, bob(), everything()).await;
    start(&anonymous_caller, &world.mcp, "add", json!({"a": 1, "b": 2})).await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(start(&client, &world.mcp, "add", json!({"a": 1, "b": 2})).await);
        world.clock.advance_ms(1);
    }
    // One that was created in another protocol version.
    ids.push(world.start("add", json!({"a": 1, "b": 2})).await);
    ids.reverse();
    let first = client.result(&world.mcp, "tasks/list", json!({})).await;
    schema::is(REVISION, "ListTasksResult", &first);
    let cursor = first["nextCursor"].as_str().unwrap().to_owned();
    let rest = client.result(&second(&world), "tasks/list", json!({"cursor": cursor})).await;
    schema::is(REVISION, "ListTasksResult", &rest);
    assert_eq!(rest.get("nextCursor"), None);
    let listed = [&first, &rest].map(|page| page["tasks"].as_array().unwrap().clone()).concat();
    let listed: Vec<&str> = listed.iter().map(|task| task["taskId"].as_str().unwrap()).collect();
    assert_eq!(listed, ids);
    for cursor in ["", "made-up", &format!("{cursor}x"), &client.session] {
        let error = client.error(&world.mcp, "tasks/list", json!({"cursor": cursor})).await;
        assert_eq!(error.0, -32602, "{cursor}");
    }
    assert_eq!(anonymous_caller.error(&world.mcp, "tasks/list", json!({"cursor": cursor})).await.0, -32602);
}

async fn wait_for(client: &Older, server: &McpServer, id: &str) -> Stream {
    client.stream(server, &client.sent("tasks/result", json!({"taskId": id}))).await
}

#[tokio::test]
async fn a_result_is_waited_for() {
    let (world, client, id) = started("add", json!({"a": 1, "b": 2})).await;
    let mut stream = wait_for(&client, &world.mcp, &id).await;
    world.work().await;
    let notification = world.while_time_passes(stream.next()).await.unwrap();
    schema::is(REVISION, "TaskStatusNotification", &notification);
    assert_eq!(
        (&notification["params"]["taskId"], &notification["params"]["status"]),
        (&json!(id), &json!("completed"))
    );
    assert_eq!(notification["params"].get("_meta"), None);
    let last = stream.next().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!(7), &json!("3")));
    assert_eq!(last["result"]["_meta"][RELATED]["taskId"], id);
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn a_wait_ends_after_a_while_and_any_instance_resumes_it() {
    let (world, client, id) = started("add", json!({"a": 1, "b": 2})).await;
    let mut stream = wait_for(&client, &world.mcp, &id).await;
    assert_eq!(world.while_time_passes(stream.next()).await, None, "closed without an answer");
    assert_eq!(stream.retry_ms, Some(1_000));
    world.work().await;
    let mut stream = Stream::of(client.resume(&second(&world), &stream.last_event_id).await);
    assert_eq!(stream.next().await.unwrap()["method"], "notifications/tasks/status");
    let last = stream.next().await.unwrap();
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&json!(7), &json!("3")));
}

#[tokio::test]
async fn a_task_asks_over_the_stream_and_is_answered_through_another_instance() {
    let (world, client, id) = started("asks_side_by_side", json!({})).await;
    world.work().await;
    assert_eq!(get(&client, &world.mcp, &id).await["status"], "input_required");
    let mut stream = wait_for(&client, &world.mcp, &id).await;
    let asked = [stream.next().await.unwrap(), stream.next().await.unwrap()];
    for asked in &asked {
        assert_eq!(asked["params"]["_meta"][RELATED]["taskId"], id);
    }
    let [name, color] = asked;
    assert_eq!([&name["params"]["message"], &color["params"]["message"]], ["Name?", "Color?"]);
    client.fill_in(&second(&world), &color, "blue").await;
    // The connection breaks here. A question is not asked again when the stream is resumed; on a new stream it is.
    let mut resumed = Stream::of(client.resume(&second(&world), &stream.last_event_id).await);
    let mut other = wait_for(&client, &world.mcp, &id).await;
    assert_eq!(other.next().await.unwrap()["params"]["message"], "Name?");
    drop(other);
    client.fill_in(&world.mcp, &name, "Ann").await;
    world.work().await;
    let notification = world.while_time_passes(resumed.next()).await.unwrap();
    assert_eq!(
        (&notification["method"], &notification["params"]["status"]),
        (&json!("notifications/tasks/status"), &json!("completed"))
    );
    assert_eq!(resumed.next().await.unwrap()["result"]["content"][0]["text"], "Ann likes blue");
}

#[tokio::test]
async fn requests_of_an_older_style_tool_are_questions_of_its_task() {
    let (world, client, id) = started("old_style", json!({})).await;
    for answer in ["one", "two"] {
        world.work().await;
        let mut stream = wait_for(&client, &world.mcp, &id).await;
        client.fill_in(&world.mcp, &stream.next().await.unwrap(), answer).await;
    }
    world.work().await;
    let result = client.result(&world.mcp, "tasks/result", json!({"taskId": id})).await;
    assert_eq!(result["content"][0]["text"], "one and two");
}

#[tokio::test]
async fn a_client_that_cannot_answer_says_so_to_the_tool() {
    let (world, client, id) = started("reports", json!({})).await;
    world.work().await;
    let mut stream = wait_for(&client, &world.mcp, &id).await;
    let asked = stream.next().await.unwrap();
    let refused = json!({"code": -1, "message": "user rejected"});
    assert_eq!(client.reply(&world.mcp, &asked["id"], ("error", refused.clone())).await, 202);
    world.work().await;
    let answer = client.send(&world.mcp, "tasks/result", json!({"taskId": id})).await.json();
    assert_eq!(answer["error"], refused);
}

#[tokio::test]
async fn a_client_that_declared_no_elicitation_is_not_asked() {
    let world = World::new();
    let client = Older::connect_as(&world.mcp, REVISION, bob(), json!({})).await;
    let id = start(&client, &world.mcp, "reports", json!({})).await;
    world.work().await;
    assert_eq!(get(&client, &world.mcp, &id).await["status"], "failed");
}

#[tokio::test]
async fn the_progress_token_of_the_call_lives_as_long_as_its_task() {
    let (world, client) = connected().await;
    let mut params = call("reports", json!({}), json!({}));
    params["_meta"] = json!({"progressToken": "p-1"});
    let created = client.result(&world.mcp, "tools/call", params).await;
    let id = created["task"]["taskId"].as_str().unwrap().to_owned();
    world.work().await;
    let mut stream = wait_for(&client, &world.mcp, &id).await;
    let notification = stream.next().await.unwrap();
    schema::is(REVISION, "ProgressNotification", &notification);
    let mut expected = json!({"progressToken": "p-1", "progress": 3.0, "total": 10.0, "message": "adding up"});
    expected["_meta"] = json!({RELATED: {"taskId": id}});
    assert_eq!(notification["params"], expected);
    let asked = stream.next().await.unwrap();
    assert_eq!(asked["method"], "elicitation/create");
    let mut resumed = Stream::of(client.resume(&world.mcp, &stream.last_event_id).await);
    client.fill_in(&world.mcp, &asked, "yes").await;
    let notification = world.while_time_passes(resumed.next()).await.unwrap();
    assert_eq!(notification["params"]["status"], "working", "progress that was reported is not reported again");
}

#[tokio::test]
async fn the_variables_of_a_tool_can_be_read_by_its_client() {
    let (world, client, id) = started("remembers", json!({})).await;
    world.work().await;
    let task = client.result(&world.mcp, "tasks/get", json!({"taskId": id})).await;
    schema::is(REVISION, "GetTaskResult", &task);
    assert_eq!(task["_meta"], json!({"dev.longhaul/variables": {"seen": 1}}));
    assert_eq!(world.get(&id).await["_meta"], task["_meta"]);
}

/// Such a stream once sent nothing for as long as it was open, and its client reconnected again and again.
#[tokio::test]
async fn a_result_whose_parts_are_missing_is_an_error_on_the_stream_too() {
    let (world, client, id) = started("add", json!({"a": 1, "b": 2})).await;
    let mut stream = wait_for(&client, &world.mcp, &id).await;
    let (store, now) = (&world.engine.ports().store, world.clock.now());
    let key = TaskKey::new(client.owner, id.parse().unwrap());
    store.apply(&key, &given::claim(1, now), now).await.unwrap();
    let result = Payload::Parts { name: PartsName::Outcome { attempt: 1 }, count: 1, bytes: 2 };
    let outcome = Outcome::Completed { result, kind: ResultKind::Success };
    store.apply(&key, &TaskEvent::Finish { attempt: 1, outcome, progress: None, labels: None }, now).await.unwrap();
    assert_eq!(world.while_time_passes(stream.next()).await.unwrap()["params"]["status"], "completed");
    let last = world.while_time_passes(stream.next()).await.unwrap();
    assert_eq!((&last["id"], &last["error"]["code"]), (&json!(7), &json!(-32603)));
    assert_eq!(stream.next().await, None);
}
