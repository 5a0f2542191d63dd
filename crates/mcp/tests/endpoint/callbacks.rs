//! Callbacks: a tool hands out a token and waits; whoever has it sends the value, once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use http::StatusCode;
use longhaul_core::{EntryKind, TaskKey, limits};
use longhaul_mcp::{McpServer, McpSettings, TaskContext, TaskPolicy};
use rmcp::model::CallToolResult;
use rmcp::{ErrorData, ServerHandler, tool, tool_handler, tool_router};
use serde_json::{Value, json};

use crate::world::{Answer, Sent, World, alice, read};

const HOUR: Duration = Duration::from_secs(3_600);

/// A tool that asks the boss, and what it handed out.
#[derive(Clone, Default)]
struct Boss {
    tokens: Arc<Mutex<Vec<String>>>,
    /// How often handing out fails before it works.
    fails: Arc<Mutex<u32>>,
}

#[tool_router]
impl Boss {
    #[tool]
    async fn approve(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let hand_out = async |token| {
            self.tokens.lock().unwrap().push(token);
            let mut fails = self.fails.lock().unwrap();
            if *fails == 0 {
                return Ok(());
            }
            *fails -= 1;
            Err(ErrorData::internal_error("the mail server is down", None))
        };
        let decision: Option<Value> = task.callback("approval", HOUR, hand_out).await?;
        task.sleep("sleep", Duration::from_secs(60)).await;
        Ok(CallToolResult::structured(json!({"decision": decision})))
    }

    #[tool]
    async fn counts(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let hand_out = async |token| {
            self.tokens.lock().unwrap().push(token);
            Ok::<_, ErrorData>(())
        };
        let count: Option<u32> = task.callback("count", HOUR, hand_out).await?;
        Ok(CallToolResult::structured(json!({"count": count})))
    }
}

#[tool_handler]
impl ServerHandler for Boss {}

struct Office {
    world: World,
    boss: Boss,
    server: McpServer,
}

impl Office {
    fn new() -> Self {
        let (mut world, boss) = (World::new(), Boss::default());
        let policies = ["approve", "counts"]
            .map(|tool| (tool.to_owned(), TaskPolicy::optional().run_at_most(24 * HOUR)))
            .into_iter()
            .collect::<std::collections::BTreeMap<_, _>>();
        let handler = boss.clone();
        let server = McpServer::new(move || handler.clone(), policies, world.engine.clone(), McpSettings::new([7; 32]));
        world.mcp = server.clone();
        Self { world, boss, server }
    }

    /// The task of a call that has handed out its token, and the token.
    async fn waits(&self, tool: &str) -> (String, String) {
        let id = self.world.start(tool, json!({})).await;
        self.world.work().await;
        (id, self.token())
    }

    fn token(&self) -> String {
        self.boss.tokens.lock().unwrap().last().cloned().unwrap()
    }

    async fn post(&self, token: &str, body: &[u8]) -> Answer {
        read(self.server.call_back(token, body).await).await
    }

    async fn status(&self, token: &str, body: &str) -> u16 {
        self.post(token, body.as_bytes()).await.status.as_u16()
    }

    async fn result(&self, id: &str) -> Value {
        self.world.work_until(id, "completed").await["result"]["structuredContent"].clone()
    }
}

#[tokio::test]
async fn whoever_has_the_token_sends_the_value() {
    let office = Office::new();
    let (id, token) = office.waits("approve").await;
    let taken = office.post(&token, br#"{"approved": true}"#).await;
    assert_eq!((taken.status, taken.json()), (StatusCode::ACCEPTED, json!({"status": "the value is recorded"})));
    assert_eq!(office.result(&id).await, json!({"decision": {"approved": true}}));
    assert_eq!(office.boss.tokens.lock().unwrap().len(), 1, "it was handed out once");
}

#[tokio::test]
async fn the_first_value_counts_and_later_ones_are_told_so() {
    let office = Office::new();
    let (id, token) = office.waits("approve").await;
    let values: Vec<String> = (0..8).map(|value| value.to_string()).collect();
    let answers = join_all(values.iter().map(|value| office.status(&token, value))).await;
    assert_eq!(answers.iter().filter(|status| **status == 202).count(), 1, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == 409).count(), 7, "{answers:?}");
    let first = answers.iter().position(|status| *status == 202).unwrap();
    assert_eq!(office.status(&token, "9").await, 409);
    assert_eq!(office.result(&id).await, json!({"decision": first}));
    let ended = office.post(&token, b"1").await;
    assert_eq!(ended.status, StatusCode::GONE);
    assert!(ended.text.contains("the task has ended"), "{}", ended.text);
}

#[tokio::test]
async fn a_token_that_nobody_handed_out_is_not_found() {
    let office = Office::new();
    let (_, token) = office.waits("approve").await;
    let (_, other) = office.waits("approve").await;
    // The task of one and the secret of another.
    let mixed = format!("{}{}", &token[..64], &other[64..]);
    let mut forged = token.clone();
    forged.replace_range(100..101, if &token[100..101] == "A" { "B" } else { "A" });
    for wrong in ["", "x", "../mcp", &token[1..], &forged, &mixed, &format!("{token}/")] {
        let answer = office.post(wrong, b"1").await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{wrong}");
        assert_eq!(answer.json(), json!({"error": "the callback does not exist, or has expired"}));
    }
    assert_eq!(office.status(&token, "1").await, 202);
}

#[tokio::test]
async fn a_tool_goes_on_without_a_value_when_the_time_is_over() {
    let office = Office::new();
    let (id, token) = office.waits("approve").await;
    office.world.clock.advance_ms(3_600_000);
    assert_eq!(office.status(&token, "1").await, 404, "the token has expired");
    assert_eq!(office.result(&id).await, json!({"decision": null}));
}

#[tokio::test]
async fn what_is_no_value_is_refused_and_the_next_one_counts() {
    let office = Office::new();
    let (id, token) = office.waits("approve").await;
    for garbage in ["", " ", "{", "1 2", "{\"a\":}", "nul", &"[".repeat(200)] {
        office.world.clock.advance_ms(1_000);
        assert_eq!(office.status(&token, garbage).await, 400, "{garbage:?}");
    }
    assert_eq!(office.post(&token, b"\"\xff\"").await.status, StatusCode::BAD_REQUEST);
    let large = format!("\"{}\"", "x".repeat(limits::ENTRY_BYTES_MAX));
    assert_eq!(office.status(&token, &large).await, 413);
    let heavy = format!("[{}0]", "{\"\":0},".repeat(500_000));
    assert_eq!(office.status(&token, &heavy).await, 413);
    office.world.clock.advance_ms(10_000);
    let large = "x".repeat(1024 * 1024);
    assert_eq!(office.status(&token, &format!("\"{large}\"")).await, 202);
    assert_eq!(office.result(&id).await, json!({"decision": large}));
}

#[tokio::test]
async fn a_value_of_another_type_than_the_tool_expects_ends_the_task() {
    let office = Office::new();
    let (id, token) = office.waits("counts").await;
    assert_eq!(office.status(&token, "\"many\"").await, 202);
    let failed = office.world.work_until(&id, "failed").await;
    let text = failed["error"]["message"].as_str().unwrap();
    assert!(text.contains("callback `count`"), "{text}");
}

#[tokio::test]
async fn a_hand_out_that_fails_is_an_error_of_the_tool_and_is_not_recorded() {
    let office = Office::new();
    *office.boss.fails.lock().unwrap() = 1;
    let id = office.world.start("approve", json!({})).await;
    office.world.work().await;
    assert_eq!(office.world.get(&id).await["error"]["message"], "the mail server is down");
}

#[tokio::test]
async fn a_callback_that_many_send_at_once_is_limited() {
    let office = Office::new();
    let (_, token) = office.waits("approve").await;
    let mut refused = 0;
    for _ in 0..20 {
        let answer = office.post(&token, b"{").await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            assert!(answer.headers.contains_key("retry-after"));
            refused += 1;
        }
    }
    assert_eq!(refused, 10);
}

#[tokio::test]
async fn the_token_is_not_on_record() {
    let office = Office::new();
    let (id, token) = office.waits("approve").await;
    let journal = office.world.engine.ports().store.journal(&TaskKey::new(alice(), id.parse().unwrap())).await.unwrap();
    assert!(journal.iter().any(|entry| entry.kind == EntryKind::Token));
    let text = serde_json::to_string(&journal).unwrap();
    assert!(!text.contains(&token[64..]), "{text}");
}

#[tokio::test]
async fn a_plain_call_cannot_wait_for_a_callback() {
    let office = Office::new();
    let plain = McpServer::new(
        {
            let boss = office.boss.clone();
            move || boss.clone()
        },
        std::collections::BTreeMap::<String, TaskPolicy>::new(),
        office.world.engine.clone(),
        McpSettings::new([7; 32]),
    );
    let answer = read(plain.respond(Sent::call("approve", json!({})).request(), alice()).await).await;
    assert!(answer.text.contains("waits for the callback `approval`, which a plain call cannot"), "{}", answer.text);
    assert!(office.boss.tokens.lock().unwrap().is_empty());
}
