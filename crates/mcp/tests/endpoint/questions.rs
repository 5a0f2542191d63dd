//! Tasks that ask their client.

use longhaul_core::{Ask, Clock, Suspension, TaskKey};
use longhaul_testkit::given;
use serde_json::{Value, json};

use crate::older_client::Older;
use crate::world::{Answer, Sent, World, alice, no_tasks};

fn accept(value: &str) -> Value {
    json!({"action": "accept", "content": {"value": value}})
}

fn only_tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

#[tokio::test]
async fn questions_that_are_asked_side_by_side_are_one_suspension_and_may_be_answered_one_by_one() {
    let (world, id, task) = World::asked_by("asks_side_by_side").await;
    let request = json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form", "message": "Name?",
            "requestedSchema": {"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]},
        },
    });
    assert_eq!(task["inputRequests"]["name"], request);
    assert_eq!(task["inputRequests"].as_object().unwrap().len(), 2);

    world.update(&id, json!({"name": accept("Ann"), "never asked": accept("x")})).await;
    world.work().await;
    let task = world.get(&id).await;
    assert_eq!(task["status"], "input_required");
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["color"]);

    // A second answer does not replace the first one.
    world.update(&id, json!({"name": accept("Bob")})).await;
    world.update(&id, json!({"color": accept("red")})).await;
    let task = world.work_until(&id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "Ann likes red");
}

#[tokio::test]
async fn answers_without_a_question_are_acknowledged() {
    let world = World::new();
    let id = world.start("add", json!({"a": 1, "b": 1})).await;
    world.update(&id, json!({"x": accept("y")})).await;
    world.work().await;
    world.update(&id, json!({"x": accept("y")})).await;
    assert_eq!(world.get(&id).await["status"], "completed");
}

#[tokio::test]
async fn a_form_can_be_asked_for_by_its_type() {
    let world = World::new();
    for (answer, said) in [
        (json!({"action": "accept", "content": {"name": "Ann", "age": 7}}), "Ann is 7"),
        (json!({"action": "decline"}), "declined"),
        (json!({"action": "cancel"}), "cancelled"),
    ] {
        let id = world.start("typed", json!({})).await;
        let task = world.work_until(&id, "input_required").await;
        let form = &task["inputRequests"]["person"]["params"]["requestedSchema"];
        assert_eq!(form["properties"]["age"]["type"], "integer", "{form}");
        world.update(&id, json!({"person": answer})).await;
        let task = world.work_until(&id, "completed").await;
        assert_eq!(task["result"]["content"][0]["text"], said);
    }
    let id = world.start("typed", json!({})).await;
    world.work_until(&id, "input_required").await;
    world.update(&id, json!({"person": {"action": "accept", "content": {"name": 1}}})).await;
    let task = world.work_until(&id, "failed").await;
    assert_eq!(task["error"]["code"], -32602);
}

#[tokio::test]
async fn a_client_is_asked_only_what_it_declared() {
    let world = World::new();
    for tool in ["asks_side_by_side", "asks_url", "asks_in_rounds", "old_style"] {
        let created = world.result(&Sent::call(tool, json!({})).declaring(only_tasks())).await;
        let task = world.work_until(created["taskId"].as_str().unwrap(), "failed").await;
        let message = task["error"]["message"].as_str().unwrap();
        assert!(message.contains("Missing required client capability"), "{tool}: {message}");
    }
    // Support for forms does not include links.
    let id = world.start("asks_url", json!({})).await;
    let task = world.work_until(&id, "failed").await;
    assert_eq!(task["error"]["data"]["requiredCapabilities"], json!({"elicitation": {"url": {}}}));
}

#[tokio::test]
async fn a_tool_that_returns_its_questions_is_a_task_without_knowing_it() {
    let (world, id, task) = World::asked_by("asks_in_rounds").await;
    assert_eq!(task["inputRequests"]["value"]["params"]["message"], "value");
    world.update(&id, json!({"value": accept("one")})).await;
    let task = world.work_until(&id, "input_required").await;
    let keys: Vec<String> = task["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys.len(), 1);
    assert_ne!(keys[0], "value", "a key is used once in a task's life");
    world.update(&id, json!({ &keys[0]: accept("two") })).await;
    let task = world.work_until(&id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "one and two");
}

#[tokio::test]
async fn a_tool_that_returns_only_a_state_is_called_again_with_it() {
    let (world, id) = World::with_task("carries_state").await;
    let task = world.work_until(&id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "carried");
}

#[tokio::test]
async fn a_tool_that_sends_requests_to_its_client_is_a_task_without_knowing_it() {
    let (world, id, task) = World::asked_by("old_style").await;
    let request = &task["inputRequests"]["peer-0"];
    assert_eq!((&request["method"], &request["params"]["message"]), (&json!("elicitation/create"), &json!("First?")));
    assert_eq!(request["params"].get("_meta"), None, "a token of ours means nothing to the client");
    world.update(&id, json!({"peer-0": accept("one")})).await;
    let task = world.work_until(&id, "input_required").await;
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["peer-1"]);
    world.update(&id, json!({"peer-1": accept("two")})).await;
    let task = world.work_until(&id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "one and two");
}

#[tokio::test]
async fn a_tool_may_ask_before_it_becomes_a_task() {
    let world = World::new();
    let call = Sent::call("after_rounds", json!({}));
    let asked = world.result(&call).await;
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked.get("taskId"), None);
    let created = world.result(&call.with_param("inputResponses", json!({"name": accept("Ann")}))).await;
    assert_eq!(created["resultType"], "task");
    for field in ["requestState", "inputRequests", "result"] {
        assert_eq!(created.get(field), None);
    }
    let task = world.work_until(created["taskId"].as_str().unwrap(), "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "Hello, Ann!");
}

#[tokio::test]
async fn what_was_answered_before_the_task_is_not_asked_again_inside() {
    let world = World::new();
    let call = Sent::call("after_input", json!({}));
    let asked = world.result(&call).await;
    let retry = call
        .with_param("inputResponses", json!({"name": accept("Ann")}))
        .with_param("requestState", asked["requestState"].clone());
    let created = world.result(&retry).await;
    let id = created["taskId"].as_str().unwrap();
    let task = world.work_until(id, "input_required").await;
    assert_eq!(task["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["color"]);
    world.update(id, json!({"color": accept("red")})).await;
    let task = world.work_until(id, "completed").await;
    assert_eq!(task["result"]["content"][0]["text"], "Ann likes red");
}

#[tokio::test]
async fn a_tool_that_asks_first_gives_clients_without_tasks_the_result_itself() {
    let world = World::new();
    let call = Sent::call("after_rounds", json!({})).declaring(no_tasks());
    assert_eq!(world.result(&call).await["resultType"], "input_required");
    let result = world.served(&call.with_param("inputResponses", json!({"name": accept("Ann")}))).await.result();
    assert_eq!(result["content"][0]["text"], "Hello, Ann!");
}

/// Each protocol version once had its own code for reading questions, and one of them would have sent a request without
/// a method.
#[tokio::test]
async fn a_stored_question_that_cannot_be_read_is_an_error_in_every_protocol_version() {
    for request in ["{}", "not JSON", r#"{"method":7}"#, r#"{"method":"elicitation/create","params":[]}"#] {
        let (world, id) = World::with_task("hangs").await;
        ask(&world, &id, request).await;
        let unreadable = (-32603, "a question of this task cannot be read".to_owned());
        let last = |answer: Answer| {
            let error = answer.events().last().unwrap()["error"].clone();
            (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
        };

        let (_, code, message) = world.send(&Sent::new("tasks/get", json!({"taskId": id}))).await.error();
        assert_eq!((code, message), unreadable, "{request}");
        let client = Older::connect(&world.mcp, "2025-11-25").await;
        let result = client.sent("tasks/result", json!({"taskId": id}));
        assert_eq!(last(world.while_time_passes(world.send(&result)).await), unreadable, "{request}");
        let get = json!({"token": id, "timeout": 0});
        assert_eq!(client.error(&world.mcp, "tools/async/get", get).await, unreadable, "{request}");
        let look = client.call("get_job_status", json!({"job_id": id, "wait_s": 0}));
        let answer = world.while_time_passes(world.send(&look)).await.json();
        assert_eq!(answer["error"]["message"], unreadable.1, "{request}");

        let client = Older::connect(&world.mcp, "next").await;
        for _ in 0..2 {
            let status = client.error(&world.mcp, "tools/async/status", json!({"token": id})).await;
            assert_eq!(status, unreadable, "{request}");
        }
        let look = Sent::call("get_job_status", json!({"job_id": id, "wait_s": 0})).declaring(no_tasks());
        let (_, code, message) = world.while_time_passes(world.send(&look)).await.error();
        assert_eq!((code, message), unreadable, "{request}");
    }
}

/// A worker claims the task, and suspends it with this question.
async fn ask(world: &World, id: &str, request: &str) {
    let (store, now) = (&world.engine.ports().store, world.clock.now());
    let key = TaskKey::new(alice(), id.parse().unwrap());
    store.apply(&key, &given::claim(1, now), now).await.unwrap();
    let asks = vec![Ask { key: "k".to_owned(), request: request.to_owned() }];
    store.apply(&key, &given::suspend(1, Suspension::Input { asks, until: None }), now).await.unwrap();
}
