//! The policies of the tools, their arguments, and what they note.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use longhaul_mcp::{TaskPolicy, VerifiedCaller};
use rmcp::model::{CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, ElicitationSchema, InputRequest};
use rmcp::schemars;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// What tools did, for tests to check.
pub(crate) struct Observed {
    pub(crate) steps_run: AtomicU32,
    pub(crate) calls_begun: AtomicU32,
    pub(crate) calls_dropped: AtomicU32,
    /// Each permit lets `is_paced` do one more thing.
    pub(crate) pace: Semaphore,
}

impl Default for Observed {
    fn default() -> Self {
        let none = AtomicU32::default;
        Self { steps_run: none(), calls_begun: none(), calls_dropped: none(), pace: Semaphore::new(0) }
    }
}

/// A policy with shorter times than the default has.
pub(crate) fn short() -> TaskPolicy {
    shorter(TaskPolicy::optional())
}

fn shorter(policy: TaskPolicy) -> TaskPolicy {
    let half_an_hour = Duration::from_secs(1_800);
    let policy = policy.run_at_most(half_an_hour).retention(half_an_hour);
    policy.ttl(2 * half_an_hour).ttl_at_most(48 * half_an_hour)
}

pub(crate) fn policies() -> BTreeMap<String, TaskPolicy> {
    let names = [
        "add",
        "after_rounds_of_sleep",
        "asks_side_by_side",
        "asks_url",
        "asks_in_rounds",
        "carries_state",
        "fails",
        "hangs",
        "is_paced",
        "looks",
        "large",
        "meters",
        "misreads",
        "old_style",
        "panics_once",
        "panics_always",
        "remembers",
        "remembers_and_reports",
        "reports",
        "shows_caller",
        "shows_caller_late",
        "sleeps",
        "stalls_once",
        "steps",
        "tool_error",
        "typed",
        "who",
    ];
    let mut policies: BTreeMap<_, _> = names.map(|name| (name.to_owned(), short())).into();
    policies.insert("adds_anything".to_owned(), short().unchecked_arguments());
    policies.insert("only_task".to_owned(), shorter(TaskPolicy::required()).immediate("It is being done."));
    policies.insert("after_input".to_owned(), short().after_input());
    policies.insert("after_rounds".to_owned(), short().after_input());
    policies.insert("gone".to_owned(), short());
    let fetched = short().immediate("Greeting them now.").forget_once_fetched();
    policies.insert("greets".to_owned(), fetched.retention(Duration::from_secs(90)));
    let hangs = short().run_at_most(Duration::from_secs(60)).poll_every(Duration::from_millis(700));
    policies.insert("hangs".to_owned(), hangs);
    policies
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Add {
    pub(super) a: i64,
    pub(super) b: i64,
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Large {
    pub(super) bytes: usize,
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Sleep {
    pub(super) ms: u64,
}

#[derive(Deserialize, schemars::JsonSchema)]
pub(crate) struct Looks {
    pub(super) looks: u32,
    pub(super) ms: u64,
}

#[derive(Debug, Deserialize, schemars::JsonSchema)]
pub(crate) struct Person {
    pub(super) name: String,
    pub(super) age: u32,
}

pub(crate) fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// A form that asks for one text named `value`.
pub(crate) fn form(message: &str) -> InputRequest {
    let schema: ElicitationSchema = serde_json::from_value(
        json!({"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]}),
    )
    .unwrap();
    InputRequest::Elicitation(ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema: schema,
    }))
}

/// All that a tool can see of its caller.
pub(super) fn shown(caller: Option<&VerifiedCaller>) -> Value {
    caller.map_or(Value::Null, |caller| {
        json!({
            "issuer": caller.issuer(), "subject": caller.subject(), "team": caller.claims()["team"],
            "scopes": caller.scopes().map(Iterator::collect::<Vec<_>>),
            "may": [caller.has_scope("etl:run"), caller.has_scope("etl:stop")],
        })
    })
}

pub(super) fn value(answer: &Value) -> String {
    answer["content"]["value"].as_str().unwrap_or("nothing").to_owned()
}
