//! A durable server: an `rmcp` handler, and which of its tools may become tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use longhaul_engine::Engine;
use longhaul_mcp::{McpServer, McpSettings, Policies, Schedule, TaskPolicy, ToolError, form_of};
use rmcp::ServerHandler;
use rmcp::model::Implementation;
use rmcp::schemars::JsonSchema;
use serde_json::Value;

use crate::handlers::{Handlers, Made, program};
use crate::other_servers::{Degraded, Processes};

mod cleanup;
mod other_servers;

/// A durable server that is not running yet. `longhaul::serve` runs it as one process, `longhaul::lambda` as two
/// Lambda functions.
///
/// ```
/// use longhaul::{Server, TaskPolicy};
/// # use longhaul::rmcp::{ServerHandler, tool, tool_handler, tool_router};
///
/// #[derive(Clone)]
/// struct Reports; // with the tools `add_up` and `list`
/// # #[tool_router]
/// # impl Reports {
/// #     #[tool]
/// #     async fn add_up(&self) -> String { String::new() }
/// #     #[tool]
/// #     async fn list(&self) -> String { String::new() }
/// # }
/// # #[tool_handler]
/// # impl ServerHandler for Reports {}
///
/// let server = Server::new(|| Reports).task("add_up", TaskPolicy::optional());
/// ```
#[derive(Clone)]
pub struct Server {
    tasks: Policies,
    /// The tools that say themselves that their calls may become tasks, once they were listed.
    declared: Arc<OnceLock<BTreeMap<String, TaskPolicy>>>,
    /// The scopes that tools need whether or not they may become tasks.
    scopes: BTreeMap<String, BTreeSet<String>>,
    /// The calls that it makes on its own.
    schedules: Vec<Schedule>,
    /// Each says whether a form can ask for a type.
    forms: Vec<fn() -> Result<(), String>>,
    handlers: Arc<dyn Handlers>,
    /// Names its parts that cannot be used now.
    degraded: Arc<dyn Fn() -> Vec<Degraded> + Send + Sync>,
    /// Counts the processes that it starts.
    processes: Arc<dyn Fn() -> Vec<Processes> + Send + Sync>,
    info: Option<Implementation>,
}

impl Server {
    /// A server whose requests are answered by the handlers that `make_handler` builds. It is called often, both in the
    /// process that answers requests and in the one that runs tasks. Keep shared state behind an `Arc`, and state that
    /// has to last in a database.
    pub fn new<H, F>(make_handler: F) -> Self
    where
        H: ServerHandler,
        F: Fn() -> H + Clone + Send + Sync + 'static,
    {
        Self {
            tasks: Policies::default(),
            declared: Arc::default(),
            scopes: BTreeMap::new(),
            schedules: Vec::new(),
            forms: Vec::new(),
            handlers: Arc::new(Made(make_handler)),
            degraded: Arc::new(Vec::new),
            processes: Arc::new(Vec::new),
            info: None,
        }
    }

    /// The name and the version that clients see, unless the handler has its own: `env!("CARGO_PKG_NAME")` and
    /// `env!("CARGO_PKG_VERSION")`. Without this, the name is that of the program, and the version `0.0.0`. A handler
    /// has its own by `#[tool_handler(name = "…")]`, or in its `get_info`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>, version: impl Into<String>) -> Self {
        self.info = Some(Implementation::new(name, version));
        self
    }

    /// Says that calls of `tool` may become tasks, and on which terms. A tool that says so itself
    /// ([`task_support`](crate::task_support)) needs this for other terms only. All other tools are answered as plain
    /// calls. The server does not start if the handler has no tool of this name.
    #[must_use]
    pub fn task(mut self, tool: impl Into<String>, policy: TaskPolicy) -> Self {
        self.tasks.insert(tool.into(), policy);
        self
    }

    /// Lets a function decide by the tool's name which calls may become tasks, and with which policy. It is for servers
    /// whose tools are not known when they are built. Tools that are named with [`task`](Self::task) have the policy
    /// that they are named with. The function has to be quick, and to return the same for a tool on every machine and
    /// every time. Declarations of tools do not count then. It is called for each name that a client sends,
    /// including unknown names. When the server starts, it is called for each tool that the handler lists. The server
    /// does not start if one of these policies is not valid.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use longhaul::{Server, TaskPolicy};
    /// # use longhaul::rmcp::{ServerHandler, tool, tool_handler, tool_router};
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # #[tool_router]
    /// # impl Reports {
    /// #     #[tool]
    /// #     async fn report_sales(&self) -> String { String::new() }
    /// # }
    /// # #[tool_handler]
    /// # impl ServerHandler for Reports {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let policy = TaskPolicy::optional().handle_after(Duration::from_secs(2));
    /// let server = Server::new(|| Reports)
    ///     .policies(move |tool| tool.starts_with("report_").then(|| policy.clone()));
    /// # server.check().await.unwrap();
    /// # }
    /// ```
    #[must_use]
    pub fn policies(mut self, decide: impl Fn(&str) -> Option<TaskPolicy> + Send + Sync + 'static) -> Self {
        self.tasks.decide_by(decide);
        self
    }

    /// Says that callers need this scope to call `tool`. Repeat it for several: all of them are needed then. It does
    /// the same as [`TaskPolicy::scope`], for tools that do not become tasks, too. The server does not start if the
    /// handler lacks a tool of this name, or if a string is not a scope (RFC 6749, section 3.3).
    ///
    /// ```
    /// # use longhaul::{Server, TaskPolicy};
    /// # use longhaul::rmcp::{ServerHandler, tool, tool_handler, tool_router};
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # #[tool_router]
    /// # impl Reports {
    /// #     #[tool]
    /// #     async fn add_up(&self) -> String { String::new() }
    /// #     #[tool]
    /// #     async fn list(&self) -> String { String::new() }
    /// # }
    /// # #[tool_handler]
    /// # impl ServerHandler for Reports {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = Server::new(|| Reports)
    ///     .task("add_up", TaskPolicy::optional().scope("reports:run"))
    ///     .scope("list", "reports:list");
    /// server.check().await.unwrap();
    /// assert!(server.scopes().into_iter().eq(["reports:list", "reports:run"]));
    /// # }
    /// ```
    #[must_use]
    pub fn scope(mut self, tool: impl Into<String>, scope: impl Into<String>) -> Self {
        self.scopes.entry(tool.into()).or_default().insert(scope.into());
        self
    }

    /// Calls `tool` as a task at the times of a cron line in UTC: [`schedule`](Self::schedule) with default settings.
    ///
    /// ```
    /// # use longhaul::{Server, TaskPolicy};
    /// # use longhaul::rmcp::{ServerHandler, tool, tool_handler, tool_router};
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # #[tool_router]
    /// # impl Reports {
    /// #     #[tool]
    /// #     async fn report(&self) -> String { String::new() }
    /// # }
    /// # #[tool_handler]
    /// # impl ServerHandler for Reports {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use serde_json::json;
    ///
    /// let server = Server::new(|| Reports)
    ///     .task("report", TaskPolicy::optional())
    ///     .every("nightly", "30 3 * * *", "report", json!({}));
    /// # server.check().await.unwrap();
    /// # }
    /// ```
    #[must_use]
    pub fn every(
        self,
        name: impl Into<String>,
        cron: impl Into<String>,
        tool: impl Into<String>,
        arguments: Value,
    ) -> Self {
        self.schedule(Schedule::new(name, cron, tool, arguments))
    }

    /// Calls a tool as a task at the times of a schedule. Each time is one task, in any number of processes and after
    /// any crash or duplicate. There is no caller: questions of the tool are refused, and
    /// [`TaskContext::caller`](crate::TaskContext::caller) is `None`.
    ///
    /// A local server runs its schedules while it runs, unless its role is to answer requests only. On AWS, set the
    /// parameter `Schedules` of the template.
    ///
    /// The server does not start with a cron line that is wrong or has no times, or with an unknown time zone or tool.
    /// It does not start with a tool whose calls do not become tasks. The same applies to arguments that the tool does
    /// not accept, a duplicate name, and more than 256 schedules.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedules.push(schedule);
        self
    }

    /// Checks when the server starts that a form can ask for a `T`, for which a tool has
    /// [`TaskContext::ask`](crate::TaskContext::ask). Without this, the first question finds it out.
    ///
    /// ```
    /// # use longhaul::Server;
    /// # use longhaul::rmcp::{ServerHandler, schemars};
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # impl ServerHandler for Reports {}
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Approval {
    ///     approved: bool,
    /// }
    ///
    /// let server = Server::new(|| Reports).form::<Approval>();
    /// ```
    #[must_use]
    pub fn form<T: JsonSchema>(mut self) -> Self {
        self.forms.push(|| form_of::<T>().map(drop));
        self
    }

    /// The scopes that its tools need, sorted. An authorization server has to know them, in addition to those in the
    /// settings of a deployment. The scopes of [`policies`](Self::policies) are not included.
    #[must_use]
    pub fn scopes(&self) -> BTreeSet<&str> {
        let of_tasks = self.tasks.named().flat_map(|(_, policy)| policy.scopes());
        of_tasks.chain(self.scopes.values().flatten()).map(String::as_str).collect()
    }

    /// The policies of its tools.
    pub(crate) fn tasks(&self) -> Policies {
        let mut tasks = self.tasks.clone();
        tasks.insert_declared(self.declared.get().unwrap_or(&BTreeMap::new()));
        tasks
    }

    /// Checks that the handler has every tool that was named with [`task`](Self::task), [`clean_up`](Self::clean_up) or
    /// [`scope`](Self::scope): that its `get_tool` returns it, or its `list_tools` shows it. A handler that shows no
    /// tool in either way cannot be checked, and passes. The tools' input schemas, which the arguments of calls are
    /// checked against, are compiled. Every way to start the server does this first; a test may do it, too. Lambda
    /// functions compile no schemas at the start: without a test, the first call of the tool finds one that is wrong.
    ///
    /// # Errors
    /// [`ToolError`] for the first name that the handler does not have, with the most similar existing one. Also for
    /// the first schema that cannot be compiled, policy that contradicts itself, or scope, class or schedule that is
    /// not valid.
    ///
    /// ```
    /// # use longhaul::{Server, TaskPolicy};
    /// # use longhaul::rmcp::{ServerHandler, tool, tool_handler, tool_router};
    /// # #[derive(Clone)]
    /// # struct Reports;
    /// # #[tool_router]
    /// # impl Reports {
    /// #     #[tool]
    /// #     async fn add_up(&self) -> String { String::new() }
    /// # }
    /// # #[tool_handler]
    /// # impl ServerHandler for Reports {}
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = Server::new(|| Reports).task("adds_up", TaskPolicy::optional());
    /// let error = server.check().await.unwrap_err();
    /// assert_eq!(error.to_string(), "there is no tool `adds_up`; did you mean `add_up`?");
    /// # }
    /// ```
    pub async fn check(&self) -> Result<(), ToolError> {
        self.check_names().await?;
        self.handlers.check_schemas(&self.tasks()).await
    }

    /// [`check`](Self::check) without the schemas.
    pub(crate) async fn check_names(&self) -> Result<(), ToolError> {
        self.forms.iter().try_for_each(|check| check().map_err(ToolError::Form))?;
        self.read_declared().await?;
        self.handlers.check(&self.tasks(), &self.scopes, &self.schedules).await
    }

    /// Reads which tools say themselves that their calls may become tasks. A server is built after this.
    pub(crate) async fn read_declared(&self) -> Result<(), ToolError> {
        if self.declared.get().is_none() {
            let declared = self.handlers.declared().await?;
            self.declared.get_or_init(|| declared);
        }
        Ok(())
    }

    /// The name that it gives itself, and the tools that it lists.
    #[cfg(feature = "serve")]
    pub(crate) async fn outline(&self) -> longhaul_mcp::Outline {
        let outline = self.handlers.outline().await;
        let name = outline.name.or_else(|| Some(self.info.as_ref()?.name.clone()));
        longhaul_mcp::Outline { name: name.or_else(|| Some(program())), ..outline }
    }

    #[cfg_attr(
        not(any(feature = "serve", feature = "lambda", feature = "testing")),
        expect(dead_code, reason = "servers are built by the features that run them")
    )]
    pub(crate) fn build(&self, engine: Engine, mut settings: McpSettings) -> McpServer {
        settings.scopes.tools.clone_from(&self.scopes);
        let info = || self.info.clone().unwrap_or_else(|| Implementation::new(program(), "0.0.0"));
        settings.server_info.get_or_insert_with(info);
        self.handlers.build(self.tasks(), engine, settings).with_schedules(&self.schedules)
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server")
            .field("tasks", &self.tasks)
            .field("scopes", &self.scopes)
            .field("schedules", &self.schedules)
            .finish_non_exhaustive()
    }
}
