//! A handler with one tool for each feature that a tool can use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::FutureExt;
use longhaul_mcp::{Answer, TaskContext, VariableError, VariableLimit, VerifiedCaller};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::{InputResponses as Answers, RequestState, schema_for_type};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResponse, CallToolResult, ContentBlock, ElicitRequest, ElicitRequestParams, InputRequest,
    InputRequiredResult, ServerRequest,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, tool, tool_router};
use serde_json::json;

use super::tools_policies::{Add, Large, Looks, Person, Sleep, shown, value};
pub(crate) use super::tools_policies::{Observed, form, policies, short, text};

pub(super) static TOOLS: LazyLock<ToolRouter<Tools>> = LazyLock::new(Tools::tool_router);

#[derive(Clone)]
pub(crate) struct Tools {
    observed: Arc<Observed>,
}

#[tool_router]
impl Tools {
    pub(crate) fn new(observed: Arc<Observed>) -> Self {
        Self { observed }
    }

    #[tool]
    async fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> CallToolResult {
        text((a + b).to_string())
    }

    #[tool]
    async fn adds_anything(&self, Parameters(Add { a, b }): Parameters<Add>) -> CallToolResult {
        text((a + b).to_string())
    }

    /// Has what the first revisions do not have.
    #[tool]
    async fn links(&self) -> CallToolResult {
        let blocks = json!([
            {"type": "resource_link", "name": "report", "uri": "file:///report.pdf"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
        ]);
        let mut result = CallToolResult::structured(json!({"pages": 3}));
        result.content = serde_json::from_value(blocks).unwrap();
        result
    }

    /// Has only structured content.
    #[tool]
    async fn measures(&self) -> CallToolResult {
        let mut result = CallToolResult::structured(json!({"meters": 3}));
        result.content = Vec::new();
        result
    }

    /// Asks with everything that forms of `2025-11-25` have.
    #[tool]
    async fn asks_choices(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let schema = serde_json::from_value(json!({
            "type": "object",
            "properties": {
                "color": {
                    "type": "string",
                    "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}],
                    "default": "r",
                },
                "sure": {"type": "boolean", "default": true},
                "name": {"type": "string", "default": "nobody"},
            },
        }));
        let request = ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: "Which?".to_owned(),
            requested_schema: schema.unwrap(),
        });
        let answer = task.request_input("choice", InputRequest::Elicitation(request)).await?;
        Ok(text(answer["content"]["color"].as_str().unwrap_or("none")))
    }

    #[tool]
    async fn greets(&self) -> CallToolResult {
        CallToolResult::structured(json!({"greeting": "hello"}))
    }

    /// It has no policy, and one field of each revision.
    #[tool(title = "At once", annotations(read_only_hint = true), output_schema = schema_for_type::<Add>())]
    async fn at_once(&self) -> CallToolResult {
        text("there")
    }

    #[tool]
    async fn only_task(&self) -> CallToolResult {
        text("done")
    }

    #[tool]
    async fn fails(&self) -> Result<CallToolResult, ErrorData> {
        Err(ErrorData::invalid_params("no such city", Some(json!({"city": "Atlantis"}))))
    }

    #[tool]
    async fn tool_error(&self) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text("it did not work")])
    }

    #[tool]
    async fn panics_once(&self, task: TaskContext) -> CallToolResult {
        assert!(task.attempt() > 1, "the first try");
        text(format!("attempt {}", task.attempt()))
    }

    #[tool]
    async fn panics_always(&self) -> CallToolResult {
        panic!("this tool always panics")
    }

    #[tool]
    async fn hangs(&self) -> CallToolResult {
        struct Dropped(Arc<Observed>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.calls_dropped.fetch_add(1, Ordering::SeqCst);
            }
        }
        let _dropped = Dropped(Arc::clone(&self.observed));
        self.observed.calls_begun.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }

    #[tool]
    async fn large(&self, Parameters(Large { bytes }): Parameters<Large>) -> CallToolResult {
        text("x".repeat(bytes))
    }

    /// Reports progress, then asks, so that the progress can be seen.
    #[tool]
    async fn reports(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        task.progress(3).of(10).message("adding up").await;
        task.request_input("go_on", form("Go on?")).await?;
        task.progress(10).of(10).message("added up").await;
        Ok(text("reported"))
    }

    /// Reports progress three times, each when the test says so, and ends when the test says so.
    #[tool]
    async fn is_paced(&self, task: TaskContext) -> CallToolResult {
        for done in 1..=3 {
            self.observed.pace.acquire().await.unwrap().forget();
            task.progress(done).of(3).message("paced").await;
        }
        self.observed.pace.acquire().await.unwrap().forget();
        text("arrived")
    }

    /// Reports progress as any `rmcp` tool does.
    #[tool]
    async fn meters(
        &self,
        context: RequestContext<RoleServer>,
        task: TaskContext,
    ) -> Result<CallToolResult, ErrorData> {
        if let Some(token) = context.meta.get_progress_token() {
            let progress = rmcp::model::ProgressNotificationParam::new(token, 2.0).with_total(5.0);
            context.peer.notify_progress(progress).await.unwrap();
        }
        task.request_input("go_on", form("Go on?")).await?;
        Ok(text("metered"))
    }

    #[tool]
    async fn asks_side_by_side(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let (name, color) = (task.request_input("name", form("Name?")), task.request_input("color", form("Color?")));
        let (name, color) = tokio::join!(name, color);
        Ok(text(format!("{} likes {}", value(&name?), value(&color?))))
    }

    #[tool]
    async fn asks_url(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let request = ElicitRequest::new(ElicitRequestParams::UrlElicitationParams {
            meta: None,
            message: "Sign in".to_owned(),
            url: "https://example.com".to_owned(),
            elicitation_id: String::new(),
        });
        task.request_input("sign_in", InputRequest::Elicitation(request)).await?;
        Ok(text("signed in"))
    }

    #[tool]
    async fn typed(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let answer = task.ask::<Person>("person", "Who are you?").await?;
        Ok(text(match answer {
            Answer::Accepted(Person { name, age }) => format!("{name} is {age}"),
            Answer::Declined => "declined".to_owned(),
            Answer::Cancelled => "cancelled".to_owned(),
            other => format!("{other:?}"),
        }))
    }

    #[tool]
    async fn steps(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let count = async || self.observed.steps_run.fetch_add(1, Ordering::SeqCst) + 1;
        let first = task.step("first", count).await;
        let name = task.request_input("name", form("Name?")).await?;
        let second = task.step("second", count).await;
        Ok(text(format!("{} {first} {second}", value(&name))))
    }

    /// Does a step and gets stuck, unless another attempt did so before.
    #[tool]
    async fn stalls_once(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        task.step("first", async || self.observed.steps_run.fetch_add(1, Ordering::SeqCst)).await;
        if task.attempt() == 1 {
            self.observed.calls_begun.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        Ok(text(format!("attempt {}", task.attempt())))
    }

    /// Records one type and reads another.
    #[tool]
    async fn misreads(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        if task.attempt() == 1 {
            task.step("number", async || "text".to_owned()).await;
        } else {
            task.step("number", async || 1_u32).await;
        }
        task.request_input("go_on", form("Go on?")).await?;
        Ok(text("never"))
    }

    #[tool]
    async fn remembers(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let seen = task.get::<u64>("seen").await?.unwrap_or_default();
        task.set("seen", &(seen + 1)).await?;
        let too_deep = (0..11).fold(json!(1), |inner, _| json!([inner]));
        let refused = task.set("deep", &too_deep).await;
        assert!(matches!(refused, Err(VariableError::Limit { cause: VariableLimit::TooDeep { .. }, .. })));
        let refused = task.get::<String>("seen").await;
        assert!(matches!(refused, Err(VariableError::WrongType { name, .. }) if name == "seen"));
        let refused = task.set("pairs", &BTreeMap::from([((1, 2), 3)])).await;
        assert!(matches!(refused, Err(VariableError::NotJson { name, .. }) if name == "pairs"));
        task.set("gone", "soon").await?;
        task.remove("gone").await?;
        assert_eq!(task.get::<String>("gone").await?, None);
        task.request_input("go_on", form("Go on?")).await?;
        Ok(text(format!("seen {}", task.get::<u64>("seen").await?.unwrap())))
    }

    #[tool]
    async fn remembers_and_reports(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        task.set("seen", &1).await?;
        task.progress(3).of(10).message("adding up").await;
        task.request_input("go_on", form("Go on?")).await?;
        Ok(text("done"))
    }

    #[tool]
    async fn sleeps(&self, Parameters(Sleep { ms }): Parameters<Sleep>, task: TaskContext) -> CallToolResult {
        task.sleep("sleep", Duration::from_millis(ms)).await;
        text(format!("attempt {}", task.attempt()))
    }

    #[tool]
    async fn races(&self, Parameters(Sleep { ms }): Parameters<Sleep>, task: TaskContext) -> CallToolResult {
        let nap = |ms| task.sleep("nap", Duration::from_millis(ms)).map(move |()| ms);
        let won = task.timeout("four", Duration::from_secs(4), task.race("first", [ms, 5_000].map(nap))).await;
        text(won.map_or_else(|late| late.to_string(), |ms| ms.to_string()))
    }

    /// Looks as often as it is told to.
    #[tool]
    async fn looks(
        &self,
        Parameters(Looks { looks, ms }): Parameters<Looks>,
        task: TaskContext,
    ) -> Result<CallToolResult, ErrorData> {
        let looked = AtomicU32::new(0);
        let look = async || {
            let look = looked.fetch_add(1, Ordering::Relaxed) + 1;
            if look == 13 {
                return Err(ErrorData::internal_error("the thirteenth look", None));
            }
            Ok((look == looks).then_some(look))
        };
        let found = task.poll_until("found", Duration::from_millis(ms), look).await?;
        Ok(text(format!("look {found} of attempt {}", task.attempt())))
    }

    #[tool]
    async fn who(&self, task: TaskContext) -> CallToolResult {
        text(format!("{} {}", task.idempotency_key(), task.deadline().is_some()))
    }

    /// Shows who calls, before and after a question, in each of both ways.
    #[tool]
    async fn shows_caller(
        &self,
        context: RequestContext<RoleServer>,
        task: TaskContext,
    ) -> Result<CallToolResult, ErrorData> {
        let before = shown(task.caller());
        task.request_input("go_on", form("Go on?")).await?;
        Ok(text(json!([before, shown(VerifiedCaller::of(&context).as_ref())]).to_string()))
    }

    /// Gets stuck in the first attempt, and shows who called in the second one.
    #[tool]
    async fn shows_caller_late(&self, task: TaskContext) -> CallToolResult {
        if task.attempt() == 1 {
            self.observed.calls_begun.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>().await;
        }
        text(json!({"attempt": task.attempt(), "caller": shown(task.caller())}).to_string())
    }

    /// Has no policy and takes no context of ours.
    #[tool]
    async fn asks_for_caller(&self, context: RequestContext<RoleServer>) -> CallToolResult {
        text(shown(VerifiedCaller::of(&context).as_ref()).to_string())
    }

    /// Asks by returning questions, one round after the other.
    #[tool]
    async fn asks_in_rounds(&self, answers: Answers, state: RequestState) -> CallToolResponse {
        let answers = answers.0.unwrap_or_default();
        let ask = |key: &str, state: Option<String>| {
            InputRequiredResult::new(Some(BTreeMap::from([(key.to_owned(), form(key))])), state)
        };
        match (state.0, answers.get("value")) {
            (None, None) => ask("value", None).into(),
            // The same key again, which a task may not use twice.
            (None, Some(first)) => ask("value", Some(value(first))).into(),
            (Some(first), Some(second)) => text(format!("{first} and {}", value(second))).into(),
            (Some(first), None) => ask("value", Some(first)).into(),
        }
    }

    /// Returns only a state, without questions, to be called again with it.
    #[tool]
    async fn carries_state(&self, state: RequestState) -> CallToolResponse {
        match state.0 {
            None => InputRequiredResult::from_request_state("carried").into(),
            Some(state) => text(state).into(),
        }
    }

    /// Sends a request to its client while it runs, as revisions before `2026-07-28` allow.
    #[tool]
    async fn old_style(&self, context: RequestContext<RoleServer>) -> Result<CallToolResult, ErrorData> {
        let mut said = Vec::new();
        for question in ["First?", "Second?"] {
            let InputRequest::Elicitation(request) = form(question) else { unreachable!() };
            let answer = context.peer.send_request(ServerRequest::ElicitRequest(request)).await;
            let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
            said.push(value(&serde_json::to_value(answer).unwrap()));
        }
        Ok(text(said.join(" and ")))
    }

    /// Asks for a name before it becomes a task, and for a color after.
    #[tool]
    async fn after_input(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        let name = task.request_input("name", form("Name?")).await?;
        let color = task.request_input("color", form("Color?")).await?;
        Ok(text(format!("{} likes {}", value(&name), value(&color))))
    }

    /// Sleeps, and then asks.
    #[tool]
    async fn after_rounds_of_sleep(&self, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        task.sleep("sleep", Duration::from_secs(60)).await;
        let name = task.request_input("name", form("Name?")).await?;
        Ok(text(value(&name)))
    }

    /// Asks for a name by returning the question, before it becomes a task.
    #[tool]
    async fn after_rounds(&self, answers: Answers) -> CallToolResponse {
        match answers.0.as_ref().and_then(|answers| answers.get("name")) {
            Some(name) => text(format!("Hello, {}!", value(name))).into(),
            None => {
                InputRequiredResult::from_input_requests(BTreeMap::from([("name".to_owned(), form("Name?"))])).into()
            }
        }
    }
}
