//! On which terms the calls of each tool become tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use longhaul::{Server, TaskPolicy, ToolError};
use rmcp::ServerHandler;
use rmcp::model::Tool;

use crate::catalog::{Callers, Catalog};
use crate::config::Terms;
use crate::limits;
use crate::start_error::Problem;

/// Gives its policy to each tool that has none yet. Each tool is checked on its own, so that a faulty one does not hide
/// the others. A faulty tool is taken out, and the reason is returned.
pub(crate) async fn with_policies(catalog: &mut Catalog) -> Vec<Problem> {
    let (mut problems, mut unchecked, mut left_out) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    let new = catalog.tools.iter_mut().filter(|(_, route)| route.is_durable() && route.policy.is_none());
    for (name, route) in new {
        let policy = if route.fold.is_some() {
            policy(&kept_for_stops(&route.terms), route.callers)
        } else {
            policy(&route.terms, route.callers)
        };
        match check(&route.tool, &policy).await {
            Ok(()) => route.policy = Some(policy),
            // Most often its protocol version is an older one.
            Err(ToolError::Schema { .. }) => {
                unchecked.insert(name.clone());
                route.policy = Some(policy.unchecked_arguments());
            }
            Err(error) => {
                left_out.insert(name.clone());
                problems.push(error.into());
            }
        }
    }
    if !unchecked.is_empty() {
        tracing::info!(tools = ?unchecked, "the arguments of these tools are checked by their servers only");
    }
    catalog.tools.retain(|name, _| !left_out.contains(name));
    problems
}

/// A server that has only this tool. Nothing else of it is read.
#[derive(Clone)]
struct Only(Tool);

impl ServerHandler for Only {
    fn get_tool(&self, name: &str) -> Option<Tool> {
        (self.0.name == name).then(|| self.0.clone())
    }
}

pub(crate) async fn check(tool: &Tool, policy: &TaskPolicy) -> Result<(), ToolError> {
    let only = Only(tool.clone());
    Server::new(move || only.clone()).task(tool.name.to_string(), policy.clone()).check().await
}

/// The terms of a tool whose job is to be stopped after its task. The stop is tried again while the task is kept.
pub(crate) fn kept_for_stops(terms: &Terms) -> Terms {
    Terms { retention: terms.retention.or(Some(limits::STOPPED_WITHIN)), ..*terms }
}

pub(crate) fn policy(terms: &Terms, callers: Callers) -> TaskPolicy {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let run_at_most = terms.run_at_most();
    let wait = terms.handle_after.unwrap_or(limits::HANDLE_AFTER);
    let policy = match (callers, terms.handle_after) {
        (Callers::All, _) => TaskPolicy::optional().handle_after(wait),
        (Callers::KnowTasks, Some(_)) => TaskPolicy::required().handle_after(wait),
        // Once its question is answered, the call becomes a task at once: a tool that requires tasks is not quick.
        (Callers::KnowTasks, None) => TaskPolicy::required(),
    };
    // A server's call has no steps, and its task's deadline ends it: only the server knows whether it hangs.
    let policy = policy.questions_within(wait.min(run_at_most)).run_at_most(run_at_most);
    let policy = policy.attempt_at_most(run_at_most.saturating_add(DAY));
    let policy = policy.consecutive_failures_max(limits::DEATHS_MAX);
    match terms.retention {
        Some(retention) => policy.retention(retention).ttl_at_most(DAY.max(run_at_most.saturating_add(retention))),
        None => policy.ttl_at_most(DAY.max(run_at_most.saturating_mul(2))),
    }
}
