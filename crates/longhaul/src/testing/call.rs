//! A call, and what is to happen on its way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longhaul_core::{EntryKind, Identity, OwnerId, Principal, Scopes, VerifiedIdentity};
use longhaul_mcp::{TaskContext, TaskPolicy};
use rmcp::handler::server::tool::IntoCallToolResult;
use rmcp::model::{CallToolRequestParams, CallToolResponse, Tool};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::crash::Processes;
use super::failures::Times;
use super::run::End;
use super::running::Running;
use super::script::{Moment, Script};
use super::world::{Deliveries, World};
use super::{Run, TestError};
use crate::Server;

/// A server whose tools are tested. See [`testing`](super).
#[derive(Clone, Debug)]
pub struct TestServer {
    pub(super) server: Server,
    /// Whether every tool is a task, or those that the author names.
    pub(super) any_tool: bool,
}

impl TestServer {
    /// A call of one of its tools, by an anonymous caller.
    pub fn call(&self, tool: impl Into<String>, arguments: Value) -> Call {
        let tool = tool.into();
        let server = self.server.clone();
        let policy = TaskPolicy::optional().compensates();
        let server = if self.any_tool { server.task(tool.clone(), policy) } else { server };
        let caller = Principal::from(OwnerId::of(Identity::Anonymous));
        Call {
            server,
            tool,
            arguments,
            caller,
            crashes: Vec::new(),
            cancels: Vec::new(),
            failures: Vec::new(),
            answers: BTreeMap::new(),
            deliveries: Deliveries::Once,
            processes: Processes::default(),
            order: Order::Matters,
            end: End::Success,
        }
    }
}

/// A call of a tool that has not been made yet, and what is to happen while its task runs. Each crash happens once,
/// when an attempt first comes to its point. As in production, a task fails after three attempts in a row that die,
/// unless a policy says otherwise ([`TaskPolicy::consecutive_failures_max`]).
///
/// ```
/// use longhaul::testing::{self, Status, TestError};
/// use longhaul::TaskContext;
///
/// async fn hello(task: TaskContext) -> String {
///     task.step("greet", async || "hello".to_owned()).await
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), TestError> {
/// let run = testing::tool(hello).crash_at_begin().in_any_order().expect_any_end().to_end().await?;
/// assert_eq!((run.status(), run.attempts()), (Status::Completed, 2));
/// assert!(run.structured().is_none() && run.asked().is_empty() && run.status().is_terminal());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a call is made by `to_end`, `begin` or `crash_everywhere`"]
pub struct Call {
    pub(super) server: Server,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) caller: Principal,
    pub(super) crashes: Vec<Moment>,
    pub(super) cancels: Vec<String>,
    /// The steps that fail, how often, and their errors.
    pub(super) failures: Vec<(String, Times, Value)>,
    /// The answers of the user, by the keys of the questions.
    pub(super) answers: BTreeMap<String, Value>,
    pub(super) deliveries: Deliveries,
    pub(super) processes: Processes,
    pub(super) order: Order,
    pub(super) end: End,
}

/// Whether a tool has to come to its steps in the same order each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Matters,
    DoesNotMatter,
}

impl Call {
    /// The tool's policy, instead of the one of its server, or of the default.
    ///
    /// ```
    /// use std::time::Duration;
    /// use longhaul::{TaskContext, TaskPolicy, testing};
    ///
    /// async fn remind(task: TaskContext) -> String {
    ///     task.sleep("a week", Duration::from_secs(7 * 86_400)).await;
    ///     "it is time".to_owned()
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), testing::TestError> {
    /// let a_month = TaskPolicy::optional().run_at_most(Duration::from_secs(30 * 86_400));
    /// testing::tool(remind).policy(a_month).to_end().await?.assert_text("it is time");
    /// let run = testing::tool(remind).expect_failure().to_end().await?;
    /// run.assert_error("would take 604800000 ms, and the task has 86400000 ms left");
    /// # Ok(())
    /// # }
    /// ```
    pub fn policy(mut self, policy: TaskPolicy) -> Self {
        self.server = self.server.task(self.tool.clone(), policy);
        self
    }

    /// The process dies when the tool comes to this step, whose work has not begun.
    pub fn crash_before(self, step: impl Into<String>) -> Self {
        self.crash(Moment::BeforeStep(step.into()))
    }

    /// The process dies after the work of this step, before its value is recorded: the work is done again.
    pub fn crash_before_record(self, step: impl Into<String>) -> Self {
        self.crash(Moment::BeforeRecord(EntryKind::Step, step.into()))
    }

    /// The process dies as soon as the value of this step is recorded: its work is not done again.
    pub fn crash_after(self, step: impl Into<String>) -> Self {
        self.crash(Moment::AfterRecord(EntryKind::Step, step.into()))
    }

    /// The process dies before it has run the tool for the first time.
    pub fn crash_at_begin(self) -> Self {
        self.crash(Moment::Begin)
    }

    /// The process dies when the tool has ended, before its result is recorded.
    pub fn crash_at_end(self) -> Self {
        self.crash(Moment::End)
    }

    /// The process dies when the server's [`clean_up`](Server::clean_up) has succeeded, before that is recorded: it
    /// runs again.
    pub fn crash_after_cleanup(self) -> Self {
        self.crash(Moment::AfterCleanup)
    }

    /// The tries of this [step](longhaul_mcp::TaskContext::try_step) fail with this error, and do not do its work: the
    /// first ones, or all of them.
    ///
    /// ```
    /// use longhaul::rmcp::ErrorData;
    /// use longhaul::testing::{self, always, times};
    /// use longhaul::TaskContext;
    ///
    /// async fn pay() -> Result<String, ErrorData> {
    ///     Ok("paid".to_owned())
    /// }
    ///
    /// async fn order(task: TaskContext) -> Result<String, ErrorData> {
    ///     match task.try_step("pay", pay).await {
    ///         Ok(paid) => Ok(paid),
    ///         Err(_) => Ok(task.step("send an invoice", async || "an invoice".to_owned()).await),
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), testing::TestError> {
    /// let away = ErrorData::internal_error("the bank is away", None);
    /// let call = || testing::tool(order);
    /// call().fail_step("pay", times(2), &away).to_end().await?.assert_text("paid");
    /// call().fail_step("pay", times(3), &away).to_end().await?.assert_text("an invoice");
    /// call().fail_step("pay", always(), &away).crash_everywhere().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is as if an attempt before had tried that, and given the task back: `TaskContext::attempt` begins with 2. The
    /// error counts as one that another try may not meet; as many as the step's policy allows are final. A step that
    /// runs at most once has no tries to count: use [`always`](super::always).
    pub fn fail_step(mut self, step: impl Into<String>, times: Times, error: &impl Serialize) -> Self {
        let error = serde_json::to_value(error).unwrap_or_else(|unwritable| unwritable.to_string().into());
        self.failures.push((step.into(), times, error));
        self
    }

    /// The client cancels the task when this step is recorded.
    pub fn cancel_after(mut self, step: impl Into<String>) -> Self {
        self.cancels.push(step.into());
        self
    }

    /// When the tool asks the question `key`, the user fills in the form with this object.
    ///
    /// ```
    /// use longhaul::rmcp::{ErrorData, schemars};
    /// use longhaul::{TaskContext, testing};
    /// use serde_json::json;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Confirmation {
    ///     confirm: bool,
    /// }
    ///
    /// async fn delete(task: TaskContext) -> Result<String, ErrorData> {
    ///     let answer = task.ask::<Confirmation>("confirm", "This deletes 4,211 files.").await?;
    ///     let confirmed = answer.accepted().is_some_and(|form| form.confirm);
    ///     Ok(if confirmed { "deleted" } else { "kept" }.to_owned())
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), testing::TestError> {
    /// let run = testing::tool(delete).answer("confirm", json!({"confirm": true})).to_end().await?;
    /// assert_eq!(run.text(), "deleted");
    /// let run = testing::tool(delete).decline("confirm").to_end().await?;
    /// assert_eq!(run.text(), "kept");
    /// # Ok(())
    /// # }
    /// ```
    pub fn answer(self, key: impl Into<String>, form: Value) -> Self {
        self.respond(key, json!({"action": "accept", "content": form}))
    }

    /// The user says no to the question `key`.
    pub fn decline(self, key: impl Into<String>) -> Self {
        self.respond(key, json!({"action": "decline"}))
    }

    /// The client responds with this to the request `key`: the result of the request that the tool sent with
    /// [`request_input`](longhaul_mcp::TaskContext::request_input).
    ///
    /// ```
    /// use longhaul::testing::{Call, TestError};
    /// use serde_json::json;
    ///
    /// async fn lists_roots(call: Call) -> Result<(), TestError> {
    ///     let run = call.respond("roots", json!({"roots": []})).crash_after_cleanup().to_end().await?;
    ///     run.assert_structured(&json!({"count": 0}));
    ///     Ok(())
    /// }
    /// ```
    pub fn respond(mut self, key: impl Into<String>, response: Value) -> Self {
        self.answers.insert(key.into(), response);
        self
    }

    /// Every message is delivered to two workers at once, and once more when the attempt has ended.
    pub fn deliver_twice(mut self) -> Self {
        self.deliveries = Deliveries::Twice;
        self
    }

    /// The caller is this subject of this issuer, as [`TaskContext::caller`](longhaul_mcp::TaskContext::caller) says.
    /// Without scopes in `scopes`, the caller may do everything.
    pub fn by<'a>(
        mut self,
        issuer: &str,
        subject: &str,
        claims: Map<String, Value>,
        scopes: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut identity = VerifiedIdentity::new(issuer, subject);
        identity.claims = claims;
        let owner = OwnerId::of(Identity::Verified { issuer, subject, tenant: "" });
        let scopes: BTreeSet<String> = scopes.into_iter().map(str::to_owned).collect();
        let scopes = if scopes.is_empty() { Scopes::Unrestricted } else { Scopes::Granted(scopes) };
        self.caller = Principal { owner, identity: Some(identity), scopes };
        self
    }

    /// Allows a tool to come to its steps in another order after a crash. It is for tools whose branches wait for other
    /// things than steps, sleeps and answers.
    pub fn in_any_order(mut self) -> Self {
        self.order = Order::DoesNotMatter;
        self
    }

    /// The task fails, and [`crash_everywhere`](Self::crash_everywhere) is to see that it fails in the same way after
    /// every crash. Without this, a task that fails fails the test, and with this one that does not.
    pub fn expect_failure(mut self) -> Self {
        self.end = End::Failure;
        self
    }

    /// The test looks at [`Run::status`] itself: no end of the task fails the test.
    pub fn expect_any_end(mut self) -> Self {
        self.end = End::Any;
        self
    }

    /// Makes the call, and runs its task to its end: time passes, crashed attempts are repeated, questions are
    /// answered. After the end, [compensations](longhaul_mcp::TaskContext::on_failure) run, and what the server [cleans
    /// up](Server::clean_up) is cleaned up, or given up.
    ///
    /// # Errors
    /// [`TestError`], including a task that does not end as it [was expected to](Self::expect_failure), and an answer
    /// to a question that the tool never asked.
    pub async fn to_end(self) -> Result<Run, TestError> {
        self.begin().await?.to_end().await
    }

    /// Makes the call. Nothing of its task runs before [`Running::work`].
    ///
    /// # Errors
    /// [`TestError`], for example if the server refuses the arguments.
    pub async fn begin(self) -> Result<Running, TestError> {
        let checked = self.server.check().await;
        checked.map_err(|error| TestError::Refused { request: "tools/call", message: error.to_string() })?;
        let script = Arc::new(Script::new(self.crashes.clone(), self.cancels.clone()));
        let world = World::new(&self.server, self.caller.clone(), script, (self.deliveries, self.processes));
        let mut running = Running::begin(world, &self.tool, self.arguments, self.answers, self.end).await?;
        running.fail_steps(&self.failures).await?;
        Ok(running)
    }

    pub(super) fn crash(mut self, moment: Moment) -> Self {
        self.crashes.push(moment);
        self
    }
}

/// The name of the tool of [`OneTool`].
pub(super) const NAME: &str = "tool";

#[derive(Clone)]
pub(super) struct OneTool<F>(pub(super) F);

impl<F, Fut> ServerHandler for OneTool<F>
where
    F: Fn(TaskContext) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoCallToolResult> + Send + 'static,
{
    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let task = context.extensions.get::<TaskContext>().cloned();
        let task = task.ok_or_else(|| ErrorData::internal_error("a task has a TaskContext", None))?;
        (self.0)(task).await.into_call_tool_result()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let schema = Map::from_iter([("type".to_owned(), "object".into())]);
        (name == NAME).then(|| Tool::new(NAME, "", Arc::new(schema)))
    }
}
