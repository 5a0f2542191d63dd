//! Calls that are answered by their tool, with the same context.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use longhaul_mcp::{McpServer, McpSettings, Retry, TaskContext};
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::{RequestContext, RoleServer};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Value, json};

use crate::older_client::Older;
use crate::schema;
use crate::world::{Sent, World, bob, no_tasks};

fn plain(tool: &str, arguments: Value) -> Sent {
    Sent::call(tool, arguments).declaring(no_tasks())
}

fn accept(value: &str) -> Value {
    json!({"action": "accept", "content": {"value": value}})
}

fn retry(call: &Sent, asked: &Value, answers: Value) -> Sent {
    call.clone().with_param("inputResponses", answers).with_param("requestState", asked["requestState"].clone())
}

#[tokio::test]
async fn a_client_without_tasks_gets_the_result_itself() {
    let world = World::plain();
    let result = world.result(&plain("add", json!({"a": 1, "b": 2}))).await;
    schema::is("2026-07-28", "CallToolResult", &result);
    assert_eq!(result["content"][0]["text"], "3");
    let error = world.send(&plain("fails", json!({}))).await.error();
    assert_eq!(error, (200, -32602, "no such city".to_owned()));
}

#[tokio::test]
async fn a_question_ends_the_call_and_its_answer_continues_it() {
    let world = World::plain();
    let call = plain("steps", json!({}));
    let asked = world.result(&call).await;
    schema::is("2026-07-28", "InputRequiredResult", &asked);
    assert_eq!(asked["inputRequests"]["name"]["params"]["message"], "Name?");
    let result = world.result(&retry(&call, &asked, json!({"name": accept("Ann")}))).await;
    // There is no record of a plain call: its steps run in each round.
    assert_eq!(result["content"][0]["text"], "Ann 2 3");
}

#[tokio::test]
async fn answers_of_earlier_rounds_are_kept_in_the_state() {
    let world = World::plain();
    let call = plain("after_input", json!({}));
    let first = world.result(&call).await;
    assert_eq!(first["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["name"]);
    let second = world.result(&retry(&call, &first, json!({"name": accept("Ann")}))).await;
    assert_eq!(second["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["color"]);
    assert_ne!(first["requestState"], second["requestState"]);
    // Missing answers are asked for again; unexpected ones are ignored.
    let again = world.result(&retry(&call, &second, json!({"other": accept("x")}))).await;
    assert_eq!(again["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["color"]);
    let result = world.result(&retry(&call, &again, json!({"color": accept("red")}))).await;
    assert_eq!(result["content"][0]["text"], "Ann likes red");
}

#[tokio::test]
async fn questions_that_are_asked_side_by_side_are_one_round() {
    let world = World::plain();
    let asked = world.result(&plain("asks_side_by_side", json!({}))).await;
    assert_eq!(asked["inputRequests"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn a_state_that_was_changed_or_belongs_elsewhere_or_is_too_old_is_refused() {
    let world = World::plain();
    let call = plain("after_input", json!({"note": 1}));
    let asked = world.result(&call).await;
    let state = asked["requestState"].as_str().unwrap().to_owned();
    let good = retry(&call, &asked, json!({"name": accept("Ann")}));
    let mut changed = state.clone().into_bytes();
    for index in ["longhaul.".len(), changed.len() / 2, changed.len() - 1] {
        changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
        let text = String::from_utf8(changed.clone()).unwrap();
        refused(&world, &good.clone().with_param("requestState", text.into())).await;
    }
    refused(&world, &good.clone().with_param("requestState", "longhaul.".into())).await;
    refused(&world, &good.clone().of(bob())).await;
    refused(&world, &good.clone().with_param("arguments", json!({"note": 2}))).await;
    let other_tool = retry(&plain("reports", json!({"note": 1})), &asked, json!({}));
    refused(&world, &other_tool).await;
    world.result(&good).await;
    world.clock.advance_ms(15 * 60 * 1_000);
    refused(&world, &good).await;
}

async fn refused(world: &World, sent: &Sent) {
    let (_, code, message) = world.send(sent).await.error();
    assert_eq!(code, -32602);
    assert!(message.contains("requestState"), "{message}");
}

#[tokio::test]
async fn a_tools_own_state_goes_out_signed_and_comes_back_to_it_unchanged() {
    let world = World::plain();
    let call = plain("carries_state", json!({}));
    let asked = world.result(&call).await;
    assert_eq!(asked["resultType"], "input_required");
    assert!(asked["requestState"].as_str().unwrap().starts_with("longhaul.rs2."), "{asked}");
    let again = retry(&call, &asked, json!({}));
    assert_eq!(world.result(&again).await["content"][0]["text"], "carried");
    refused(&world, &again.clone().of(bob())).await;
    world.clock.advance_ms(15 * 60 * 1_000);
    refused(&world, &again).await;
}

/// Such a state once reached the tool as if the tool had sent it.
#[tokio::test]
async fn a_state_that_was_not_signed_here_is_refused_in_every_kind_of_call() {
    let foreign = World::plain();
    foreign.clock.advance_ms(40 * 24 * 3_600_000);
    let call = plain("carries_state", json!({}));
    let signed_elsewhere = foreign.result(&call).await["requestState"].as_str().unwrap().to_owned();
    let calls = [
        call,
        plain("add", json!({"a": 1, "b": 2})),
        Sent::call("add", json!({"a": 1, "b": 2})),
        Sent::call("after_input", json!({})),
        Sent::new("prompts/get", json!({"name": "carries_state"})),
        Sent::new("resources/read", json!({"uri": "test://carries_state"})),
    ];
    let (plain, with_tasks) = (World::plain(), World::new());
    for state in ["carried", "", "longhaul", "longhaul.", "longhaul.carried", "rs1.a.b", &signed_elsewhere] {
        for call in &calls {
            let call = call.clone().with_param("requestState", state.into());
            refused(&plain, &call).await;
            refused(&with_tasks, &call).await;
        }
    }
}

#[tokio::test]
async fn the_states_of_prompts_and_resources_are_signed_too() {
    let world = World::plain();
    let prompt = Sent::new("prompts/get", json!({"name": "carries_state"}));
    let resource = Sent::new("resources/read", json!({"uri": "test://carries_state"}));
    let (of_prompt, of_resource) = (world.result(&prompt).await, world.result(&resource).await);
    let texts = [
        world.result(&retry(&prompt, &of_prompt, json!({}))).await["messages"][0]["content"]["text"].clone(),
        world.result(&retry(&resource, &of_resource, json!({}))).await["contents"][0]["text"].clone(),
    ];
    assert_eq!(texts, ["prompt carried", "carried"]);
    // Each belongs to its own request.
    refused(&world, &retry(&prompt, &of_resource, json!({}))).await;
    refused(&world, &retry(&resource, &of_prompt, json!({}))).await;
    let other = Sent::new("prompts/get", json!({"name": "carries_state", "arguments": {"a": "b"}}));
    refused(&world, &retry(&other, &of_prompt, json!({}))).await;
    refused(&world, &retry(&prompt, &of_prompt, json!({})).of(bob())).await;
}

#[tokio::test]
async fn a_plain_caller_is_asked_only_what_it_declared() {
    let world = World::plain();
    for tool in ["after_input", "asks_in_rounds"] {
        let answer = world.send(&Sent::call(tool, json!({})).declaring(json!({}))).await;
        assert_eq!((answer.error().0, answer.error().1), (400, -32021), "{tool}");
        let required = &answer.json()["error"]["data"]["requiredCapabilities"];
        assert_eq!(*required, json!({"elicitation": {"form": {}}}));
    }
}

#[tokio::test]
async fn progress_is_sent_to_a_caller_that_asked_for_it() {
    let world = World::plain();
    let call = plain("reports", json!({}));
    let answer = world.send(&call.clone().with_meta("progressToken", "p1".into())).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    let events = answer.events();
    schema::is("2026-07-28", "ProgressNotification", &events[0]);
    let params = json!({"progressToken": "p1", "progress": 3.0, "total": 10.0, "message": "adding up"});
    assert_eq!(events[0]["params"], params);
    assert_eq!(events.last().unwrap()["result"]["resultType"], "input_required");
    assert_eq!(world.send(&call).await.headers["content-type"], "application/json", "the call has no progress token");
}

#[tokio::test]
async fn a_sleep_is_waited_for_up_to_a_limit() {
    let world = World::plain();
    let result = world.while_time_passes(world.result(&plain("sleeps", json!({"ms": 20_000})))).await;
    assert_eq!(result["content"][0]["text"], "attempt 1");
    let (_, code, message) = world.send(&plain("sleeps", json!({"ms": 20_001}))).await.error();
    assert_eq!(code, -32600);
    assert!(message.contains("as a task"), "{message}");
}

#[tokio::test]
async fn races_and_timeouts_run_in_memory() {
    let world = World::plain();
    for (ms, expected) in [(3_000, "3000"), (6_000, "the timeout `four` has elapsed, 4000 ms after it began")] {
        let result = world.while_time_passes(world.result(&plain("races", json!({"ms": ms})))).await;
        assert_eq!(result["content"][0]["text"], expected);
    }
}

#[tokio::test]
async fn looks_go_on_up_to_the_limit_of_a_sleep() {
    let world = World::plain();
    let found = world.while_time_passes(world.result(&plain("looks", json!({"looks": 3, "ms": 10_000})))).await;
    assert_eq!(found["content"][0]["text"], "look 3 of attempt 1");
    let too_long = plain("looks", json!({"looks": 4, "ms": 10_000}));
    let (_, code, message) = world.while_time_passes(world.send(&too_long)).await.error();
    assert_eq!(code, -32600);
    assert!(message.contains("as a task"), "{message}");
    let failing = plain("looks", json!({"looks": 14, "ms": 1_000}));
    let (_, _, message) = world.while_time_passes(world.send(&failing)).await.error();
    assert_eq!(message, "the thirteenth look");
}

#[tokio::test]
async fn variables_live_as_long_as_the_call_and_have_the_same_limits() {
    let world = World::plain();
    let call = plain("remembers", json!({}));
    let asked = world.result(&call).await;
    let result = world.result(&retry(&call, &asked, json!({"go_on": accept("yes")}))).await;
    assert_eq!(result["content"][0]["text"], "seen 1");
}

#[tokio::test]
async fn the_idempotency_key_of_a_plain_call_belongs_to_its_caller_and_key() {
    let world = World::plain();
    let call = plain("who", json!({}));
    let with_key = call.clone().with_header("idempotency-key", "k");
    let key = async |sent: &Sent| world.result(sent).await["content"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(key(&with_key).await, key(&with_key).await);
    assert_ne!(key(&with_key).await, key(&with_key.clone().of(bob())).await);
    assert_ne!(key(&call).await, key(&call).await);
    assert!(key(&call).await.ends_with(" false"), "there is no deadline");
}

#[tokio::test]
async fn a_panic_in_a_plain_call_is_an_error_and_not_a_hanging_request() {
    let world = World::plain();
    let (_, code, message) = world.send(&plain("panics_always", json!({}))).await.error();
    assert_eq!((code, message.as_str()), (-32603, "the server's handler panicked"));
}

#[tokio::test]
async fn a_client_that_leaves_drops_the_tools_future() {
    for is_older in [false, true] {
        let world = World::plain();
        let older = Older::connect(&world.mcp, "2025-06-18").await;
        let sent = if is_older { older.call("hangs", json!({})) } else { plain("hangs", json!({})) };
        let mut answer = Box::pin(world.mcp.respond(sent.request(), sent.owner));
        while world.observed.calls_begun.load(Ordering::SeqCst) == 0 {
            assert!((&mut answer).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        assert_eq!(world.observed.calls_dropped.load(Ordering::SeqCst), 0);
        drop(answer);
        while world.observed.calls_dropped.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Notes what it does, and fails.
#[derive(Clone, Default)]
struct Undone(Arc<Mutex<Vec<String>>>);

impl Undone {
    async fn note(self, done: impl Into<String>) -> Result<(), ErrorData> {
        self.0.lock().unwrap().push(done.into());
        Ok(())
    }
}

impl ServerHandler for Undone {
    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let task = TaskContext::of(&context);
        for number in 1..=2 {
            let this = self.clone();
            task.on_failure(&format!("undo {number}"), move || this.clone().note(format!("undone {number}"))).await;
            task.try_step("again", || self.clone().note(format!("done {number}"))).await?;
        }
        assert_eq!(task.recorded_step::<()>("again").await, None);
        assert_eq!(task.version("path", 1..=3).await, 3);
        let (this, once) = (self.clone(), Retry::never());
        let fails =
            move || this.clone().note("not undone").map(|_| Err::<(), _>(ErrorData::internal_error("no", None)));
        task.on_failure("cannot", fails).retry(once).await;
        task.sleep("", Duration::from_secs(1)).await;
        Err(ErrorData::internal_error("it failed", None))
    }
}

#[tokio::test]
async fn a_plain_call_may_use_a_name_twice_and_is_undone_when_it_fails() {
    let mut world = World::plain();
    let tools = Undone::default();
    let handler = tools.clone();
    world.mcp =
        McpServer::new(move || handler.clone(), BTreeMap::new(), world.engine.clone(), McpSettings::new([7; 32]));
    let (_, code, message) = world.while_time_passes(world.send(&plain("any", json!({})))).await.error();
    assert_eq!((code, message.as_str()), (-32603, "it failed"));
    assert_eq!(*tools.0.lock().unwrap(), ["done 1", "done 2", "not undone", "undone 2", "undone 1"]);
}
