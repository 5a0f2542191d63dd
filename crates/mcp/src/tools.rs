//! The tools of a handler: which it has, and whether the arguments of a call match the input schema of its tool.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::{Clock, Timestamp};
use rmcp::model::{InitializeRequestParams, JsonObject, NumberOrString, PaginatedRequestParams, Tool};
use rmcp::service::{RequestContext, serve_directly};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use crate::Policies;
use crate::policy::ArgumentCheck;
use crate::schema::Schema;
use crate::tools::handler::{UnusedService, Wire, guard};

pub(crate) mod handler;

/// At most so many pages of a list of tools are read.
const PAGES_MAX: usize = 100;

/// Input schemas, by the names of their tools.
type Listed = BTreeMap<String, Arc<JsonObject>>;

/// For how long a list that was read counts as what there is, in milliseconds. Names that no tool has, and arguments
/// that are not valid, have it read no more often.
const FRESH_MS: u64 = 1_000;

/// What is known of the handler's tools.
pub(crate) struct Tools {
    clock: Arc<dyn Clock>,
    /// The schemas of the tools that policies name. Each is compiled once, and again if its tool changes it.
    compiled: Mutex<BTreeMap<String, Compiled>>,
    /// What a handler lists that does not answer `get_tool`.
    listed: Mutex<Option<Arc<Listed>>>,
    /// When it was last read; held while it is read. Calls that the last list is enough for do not wait for this.
    reading: tokio::sync::Mutex<Option<Timestamp>>,
}

struct Compiled {
    source: Arc<JsonObject>,
    /// `None` if it cannot be compiled: calls of the tool are refused.
    schema: Option<Arc<Schema>>,
}

impl Tools {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, compiled: Mutex::default(), listed: Mutex::default(), reading: tokio::sync::Mutex::default() }
    }

    /// Refuses a tool that does not exist (`-32602`). A handler written by hand may have tools and not implement
    /// `get_tool`, so a "no" counts only if it says "yes" to another tool, or if its list has others.
    pub(crate) async fn must_have<H: ServerHandler>(
        &self,
        handler: &H,
        policies: &Policies,
        tool: &str,
    ) -> Result<(), ErrorData> {
        if handler.get_tool(tool).is_some() {
            return Ok(());
        }
        let names_tools = policies.named().any(|(name, _)| handler.get_tool(name).is_some());
        // The start of the server has found the tools that are named, and knows no others.
        if names_tools || (!policies.names(tool) && self.lack(handler, tool).await) {
            return Err(ErrorData::invalid_params(format!("there is no tool `{tool}`"), None));
        }
        Ok(())
    }

    /// Whether the handler lists tools, and this one is not among them. The list is read again before it is missed.
    async fn lack<H: ServerHandler>(&self, handler: &H, tool: &str) -> bool {
        if self.listed().is_some_and(|listed| listed.contains_key(tool)) {
            return false;
        }
        let listed = self.list_again(handler).await;
        listed.is_some_and(|listed| !listed.is_empty() && !listed.contains_key(tool))
    }

    /// What was listed last.
    fn listed(&self) -> Option<Arc<Listed>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The list, not older than a second. One call reads it at a time, for all that want it.
    async fn list_again<H: ServerHandler>(&self, handler: &H) -> Option<Arc<Listed>> {
        let mut read_at = self.reading.lock().await;
        let now = self.clock.now();
        if !read_at.is_some_and(|read_at| read_at <= now && now.since_ms(read_at) < FRESH_MS) {
            let listed = list(handler).await.map(Arc::new);
            *self.listed.lock().unwrap_or_else(PoisonError::into_inner) = listed;
            *read_at = Some(self.clock.now());
        }
        self.listed()
    }

    /// Checks the arguments of a call before there is a task, if the tool has a policy that wants it. Returns whether
    /// it left some out that are `null`. They are taken and put back, not copied.
    pub(crate) async fn check_arguments<H: ServerHandler>(
        &self,
        handler: &H,
        policies: &Policies,
        tool: &str,
        arguments: &mut Option<JsonObject>,
    ) -> Result<bool, ErrorData> {
        match policies.get(tool).map(|policy| policy.arguments) {
            Some(ArgumentCheck::BySchema) => {}
            Some(ArgumentCheck::ByTool) | None => return Ok(false),
        }
        self.check_by_schema(handler, tool, arguments).await.inspect_err(|_| {
            tracing::info!(
                tool,
                "a call was refused by the tool's input schema; `unchecked_arguments` lets it through"
            );
        })
    }

    async fn check_by_schema<H: ServerHandler>(
        &self,
        handler: &H,
        tool: &str,
        arguments: &mut Option<JsonObject>,
    ) -> Result<bool, ErrorData> {
        if let Some(known) = handler.get_tool(tool) {
            return self.check_against(tool, known.input_schema, arguments);
        }
        let source = |listed: Option<Arc<Listed>>| listed?.get(tool).cloned();
        if let Some(source) = source(self.listed())
            && let Ok(is_changed) = self.check_against(tool, source, arguments)
        {
            return Ok(is_changed);
        }
        // It is listed again before a call is refused: the tool may have changed.
        let source = source(self.list_again(handler).await);
        source.map_or(Ok(false), |source| self.check_against(tool, source, arguments))
    }

    fn check_against(
        &self,
        tool: &str,
        source: Arc<JsonObject>,
        arguments: &mut Option<JsonObject>,
    ) -> Result<bool, ErrorData> {
        let schema = self.compiled(tool, source)?;
        let mut taken = Value::Object(arguments.take().unwrap_or_default());
        let mut checked = schema.check(&taken).map(|()| false);
        if checked.is_err()
            && let Some(without) = schema.without_refused_nulls(&taken)
        {
            (taken, checked) = (without, Ok(true));
        }
        if let Value::Object(taken) = taken {
            *arguments = Some(taken);
        }
        checked.map_err(|faults| {
            ErrorData::invalid_params(format!("The arguments of `{tool}` are not valid: {}.", faults.join("; ")), None)
        })
    }

    /// The compiled schema. Fails with `-32603` if it cannot be compiled: the start of a function does not try, and a
    /// tool may change its schema later.
    fn compiled(&self, tool: &str, source: Arc<JsonObject>) -> Result<Arc<Schema>, ErrorData> {
        let unusable = || ErrorData::internal_error(format!("the input schema of `{tool}` cannot be used"), None);
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(tool)
            && (Arc::ptr_eq(&known.source, &source) || known.source == source)
        {
            return known.schema.clone().ok_or_else(unusable);
        }
        let schema = match Schema::compile(Value::Object((*source).clone())) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(error) => {
                tracing::error!(tool, %error, "calls are refused: the tool's input schema cannot be used");
                None
            }
        };
        compiled.insert(tool.to_owned(), Compiled { source, schema: schema.clone() });
        schema.ok_or_else(unusable)
    }
}

/// The input schemas of the tools that the handler lists for a caller about whom it knows nothing, by the tools' names;
/// `None` if the list cannot be read to its end.
pub(crate) async fn list<H: ServerHandler>(handler: &H) -> Option<Listed> {
    let tools = list_whole(handler).await?;
    Some(tools.into_iter().map(|tool| (tool.name.into_owned(), tool.input_schema)).collect())
}

/// The tools that the handler lists for a caller about whom it knows nothing; `None` if the list cannot be read to its
/// end.
pub(crate) async fn list_whole<H: ServerHandler>(handler: &H) -> Option<Vec<Tool>> {
    let (wire, _pipes) = Wire::new();
    let client = InitializeRequestParams::default();
    let service = serve_directly::<RoleServer, _, _, _, _>(UnusedService, wire, Some(client));
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let context = RequestContext::new(NumberOrString::Number(0), service.peer().clone());
        let request = PaginatedRequestParams::default().with_cursor(cursor);
        let page = guard(handler.list_tools(Some(request), context)).await.ok()?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Some(tools);
        }
    }
    None
}
