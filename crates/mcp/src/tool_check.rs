//! Whether a handler has the tools that policies and scopes name, with schemas that arguments can be checked against.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use longhaul_core::{Scopes, ToolClass};
use rmcp::ServerHandler;
use rmcp::model::{Implementation, JsonObject, TASKS_EXTENSION_ID};
use serde_json::Value;

use crate::nearest::nearest;
use crate::policy::ArgumentCheck;
use crate::schedule::ScheduleError;
use crate::schema::{Schema, SchemaError};
use crate::tools::handler::catch;
use crate::{Policies, TaskPolicy, tools};

/// A policy or a scope names a tool that the handler does not have.
///
/// Its sentence is for the author: ``there is no tool `migrat`; did you mean `migrate`?``
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{tool}`{}", did_you_mean(.nearest.as_deref()))]
#[non_exhaustive]
pub struct UnknownTool {
    /// The name.
    pub tool: String,
    /// The most similar name among the handler's tools, if any is similar enough.
    pub nearest: Option<String>,
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

/// Why a server does not start: something is wrong with a tool that a policy or a scope names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The handler does not have it.
    #[error(transparent)]
    Unknown(#[from] UnknownTool),
    /// Arguments cannot be checked against its input schema.
    #[error(
        "the input schema of the tool `{tool}` cannot be used to check arguments: {cause}. Change the schema, or leave \
         the check to the tool with `TaskPolicy::unchecked_arguments`"
    )]
    Schema {
        /// The tool's name.
        tool: String,
        /// The fault of the schema.
        cause: SchemaError,
    },
    /// Something that is not a scope was named as one that its callers need.
    #[error(
        "`{scope}` cannot be a scope of the tool `{tool}`: a scope has 1 to 256 characters of ASCII, without spaces, \
         quotes \
         and backslashes (RFC 6749, section 3.3). Name each scope on its own"
    )]
    Scope {
        /// The tool's name.
        tool: String,
        /// The scope's name.
        scope: String,
    },
    /// Something that is not a name was named as its class.
    #[error(
        "`{class}` cannot be the class of the tool `{tool}`: a class has a letter first, then letters, digits and \
         hyphens; \
         all lower case, 32 at most"
    )]
    Class {
        /// The tool's name.
        tool: String,
        /// The class's name.
        class: String,
    },
    /// It has a cleanup function, and its calls never become tasks.
    #[error("`clean_up` names the tool `{tool}`, whose calls do not become tasks: name it with `Server::task`, too")]
    NeverATask {
        /// The tool's name.
        tool: String,
    },
    /// Its policy says what cannot be kept.
    #[error("the policy of the tool `{tool}` contradicts itself: {why}")]
    Policy {
        /// The tool's name.
        tool: String,
        /// The fault.
        why: String,
    },
    /// No form can ask for a type: its name, and that of its field.
    #[error("{0}")]
    Form(String),
    /// The handler has tasks of its own.
    #[error(
        "the handler declares tasks of its own (`{TASKS_EXTENSION_ID}`), whose `get_task`, `update_task` and \
         `cancel_task` would never be called. Leave them and the declaration out; name the tools with `Server::task`"
    )]
    OwnTasks,
    /// A schedule cannot be kept.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

/// Checks that the handler has every tool that `policies`, their cleaners or `scopes` name: that its `get_tool` returns
/// it, or its `list_tools` shows it. A handler that names no tool in either way cannot be checked, and passes. The
/// function's policies for listed tools are checked, too. [`check_schemas`] checks the schemas.
///
/// # Errors
/// [`ToolError`] for the first tool that the handler does not have. Also for the first name that cannot be a scope or a
/// class, and for the first policy that contradicts itself.
pub async fn check_tools<H: ServerHandler>(
    make_handler: impl FnOnce() -> H,
    policies: &Policies,
    scopes: &BTreeMap<String, BTreeSet<String>>,
) -> Result<(), ToolError> {
    scopes.iter().try_for_each(|(tool, scopes)| check_scopes(tool, scopes))?;
    policies.named().try_for_each(|(tool, policy)| check_policy(tool, policy))?;
    unless_it_panics(async { check(&make_handler(), policies, scopes).await }).await
}

fn check_scopes(tool: &str, scopes: &BTreeSet<String>) -> Result<(), ToolError> {
    let wrong = scopes.iter().find(|scope| !Scopes::is_scope(scope));
    wrong.map_or(Ok(()), |scope| Err(ToolError::Scope { tool: tool.to_owned(), scope: scope.clone() }))
}

fn check_policy(tool: &str, policy: &TaskPolicy) -> Result<(), ToolError> {
    check_scopes(tool, policy.scopes())?;
    if let Some(class) = policy.class_name().filter(|name| ToolClass::parse(name).is_none()) {
        return Err(ToolError::Class { tool: tool.to_owned(), class: class.to_owned() });
    }
    policy.contradiction().map_or(Ok(()), |why| Err(ToolError::Policy { tool: tool.to_owned(), why }))
}

async fn check<H: ServerHandler>(
    handler: &H,
    policies: &Policies,
    scopes: &BTreeMap<String, BTreeSet<String>>,
) -> Result<(), ToolError> {
    if handler.get_info().capabilities.supports_tasks() {
        return Err(ToolError::OwnTasks);
    }
    let named = policies.named().map(|(tool, _)| tool).chain(scopes.keys()).chain(policies.cleaners().names());
    let named: BTreeSet<&String> = named.collect();
    let schemas = schemas(handler, policies, &named).await;
    if let Some(tool) = named.into_iter().find(|tool| !schemas.contains_key(*tool)).filter(|_| !schemas.is_empty()) {
        return Err(UnknownTool { nearest: nearest(tool, schemas.keys()).cloned(), tool: tool.clone() }.into());
    }
    if let Some(tool) = policies.cleaners().names().find(|tool| policies.get(tool).is_none()) {
        return Err(ToolError::NeverATask { tool: tool.clone() });
    }
    schemas.keys().try_for_each(|tool| policies.get(tool).map_or(Ok(()), |policy| check_policy(tool, &policy)))
}

/// Compiles the input schemas of the tools whose arguments are checked. Without this, a schema is compiled at the first
/// call of its tool, which is refused if the schema cannot be compiled.
///
/// # Errors
/// [`ToolError::Schema`] for the first one that cannot be compiled.
pub async fn check_schemas<H: ServerHandler>(
    make_handler: impl FnOnce() -> H,
    policies: &Policies,
) -> Result<(), ToolError> {
    unless_it_panics(async {
        let named = policies.named().map(|(tool, _)| tool).collect();
        for (tool, schema) in schemas(&make_handler(), policies, &named).await {
            if policies.get(&tool).is_some_and(|policy| policy.arguments == ArgumentCheck::BySchema) {
                let compiled = Schema::compile(Value::Object((*schema).clone()));
                compiled.map_err(|cause| ToolError::Schema { tool, cause })?;
            }
        }
        Ok(())
    })
    .await
}

async fn unless_it_panics(checked: impl Future<Output = Result<(), ToolError>>) -> Result<(), ToolError> {
    catch(checked).await.unwrap_or_else(|panicked| {
        tracing::error!(panic = panicked.0, "the handler panicked, so its tools are not checked");
        Ok(())
    })
}

/// The input schemas of the tools that are named, and of those that a function of `policies` may name.
async fn schemas<H: ServerHandler>(
    handler: &H,
    policies: &Policies,
    named: &BTreeSet<&String>,
) -> BTreeMap<String, Arc<JsonObject>> {
    let schema = |name: &String| Some((name.clone(), handler.get_tool(name)?.input_schema));
    let mut schemas: BTreeMap<_, _> = named.iter().filter_map(|name| schema(name)).collect();
    if schemas.len() < named.len() || policies.has_function() {
        schemas.extend(tools::list(handler).await.unwrap_or_default());
    }
    schemas
}

/// The server as its handler describes it.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Its name, if the handler gives it one.
    pub name: Option<String>,
    /// The names of the tools that it lists to a caller about whom it knows nothing.
    pub tools: Vec<String>,
}

/// The outline of the server whose handler this makes: empty if the handler panics, and without tools if it lists none.
pub async fn outline<H: ServerHandler>(make_handler: impl FnOnce() -> H) -> Outline {
    let outline = catch(async {
        let handler = make_handler();
        // `rmcp` gives its own name to a handler that has none.
        let name = handler.get_info().server_info.name;
        let name = Some(name).filter(|name| *name != Implementation::from_build_env().name);
        Outline { name, tools: tools::list(&handler).await.unwrap_or_default().into_keys().collect() }
    });
    outline.await.unwrap_or_default()
}

#[cfg(test)]
mod tests;
