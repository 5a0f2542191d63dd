//! Whether a handler has the tools that policies name.

use std::collections::{BTreeMap, BTreeSet};

use rmcp::model::{InitializeRequestParams, NumberOrString, PaginatedRequestParams};
use rmcp::service::{RequestContext, serve_directly};
use rmcp::{RoleServer, ServerHandler};

use crate::TaskPolicy;
use crate::shared::guard::{catch, guard};
use crate::shared::wire::{UnusedService, Wire};

/// At most so many pages of a list of tools are read.
const PAGES_MAX: usize = 100;

/// How similar a name must be to be suggested, between 0 and 1.
const SIMILARITY_MIN: f64 = 0.5;

/// A policy names a tool that the handler does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{tool}`{}", did_you_mean(.nearest.as_deref()))]
#[non_exhaustive]
pub struct UnknownTool {
    /// The name in the policy.
    pub tool: String,
    /// The most similar name among the handler's tools, if any is similar enough.
    pub nearest: Option<String>,
}

fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

/// Checks that the handler has every tool that `policies` name: that its `get_tool` returns it, or its `list_tools`
/// shows it. A handler that names no tool in either way cannot be checked, and passes.
///
/// # Errors
/// [`UnknownTool`] for the first name that the handler does not have.
pub async fn check_tool_names<H: ServerHandler>(
    make_handler: impl FnOnce() -> H,
    policies: &BTreeMap<String, TaskPolicy>,
) -> Result<(), UnknownTool> {
    let checked = catch(async { check(&make_handler(), policies).await }).await;
    checked.unwrap_or_else(|panicked| {
        tracing::error!(panic = panicked.0, "the handler panicked, so the names of its tools are not checked");
        Ok(())
    })
}

async fn check<H: ServerHandler>(handler: &H, policies: &BTreeMap<String, TaskPolicy>) -> Result<(), UnknownTool> {
    let (mut known, unknown): (BTreeSet<String>, BTreeSet<String>) =
        policies.keys().cloned().partition(|name| handler.get_tool(name).is_some());
    if unknown.is_empty() {
        return Ok(());
    }
    known.extend(listed(handler).await);
    match unknown.into_iter().find(|tool| !known.contains(tool)) {
        Some(tool) if !known.is_empty() => Err(UnknownTool { nearest: nearest(&tool, &known), tool }),
        Some(_) | None => Ok(()),
    }
}

/// The tools that the handler lists for a caller about whom it knows nothing; empty if the list cannot be read to its
/// end.
async fn listed<H: ServerHandler>(handler: &H) -> BTreeSet<String> {
    let (wire, _pipes) = Wire::new();
    let client = InitializeRequestParams::default();
    let service = serve_directly::<RoleServer, _, _, _, _>(UnusedService, wire, Some(client));
    let (mut names, mut cursor) = (BTreeSet::new(), None);
    for _ in 0..PAGES_MAX {
        let context = RequestContext::new(NumberOrString::Number(0), service.peer().clone());
        let request = PaginatedRequestParams::default().with_cursor(cursor);
        let Ok(page) = guard(handler.list_tools(Some(request), context)).await else { return BTreeSet::new() };
        names.extend(page.tools.into_iter().map(|tool| tool.name.into_owned()));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return names;
        }
    }
    BTreeSet::new()
}

fn nearest(tool: &str, known: &BTreeSet<String>) -> Option<String> {
    let similarity = |name: &String| strsim::normalized_damerau_levenshtein(tool, name);
    let similar =
        known.iter().map(|name| (similarity(name), name)).filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    similar.max_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use rmcp::ErrorData;
    use rmcp::model::{ListToolsResult, Tool};

    use super::*;

    /// A handler written by hand: it lists its tools page by page, and does not implement `get_tool`.
    struct Listing(&'static [&'static str]);

    impl ServerHandler for Listing {
        async fn list_tools(
            &self,
            request: Option<PaginatedRequestParams>,
            _context: RequestContext<RoleServer>,
        ) -> Result<ListToolsResult, ErrorData> {
            let at = request.and_then(|request| request.cursor).map_or(0, |cursor| cursor.len());
            let tools = self.0.get(at).map(|name| Tool::new(*name, "", rmcp::model::JsonObject::new()));
            let mut page = ListToolsResult::with_all_items(tools.into_iter().collect());
            page.next_cursor = (at + 1 < self.0.len()).then(|| "x".repeat(at + 1));
            Ok(page)
        }
    }

    /// A handler written by hand: it implements `get_tool`, and cannot list its tools.
    struct Naming(&'static [&'static str]);

    impl ServerHandler for Naming {
        fn get_tool(&self, name: &str) -> Option<Tool> {
            let found = self.0.iter().find(|known| **known == name);
            found.map(|name| Tool::new(*name, "", rmcp::model::JsonObject::new()))
        }

        async fn list_tools(
            &self,
            _request: Option<PaginatedRequestParams>,
            _context: RequestContext<RoleServer>,
        ) -> Result<ListToolsResult, ErrorData> {
            panic!("it needs a caller")
        }
    }

    struct Silent;

    impl ServerHandler for Silent {}

    fn policies<const N: usize>(names: [&str; N]) -> BTreeMap<String, TaskPolicy> {
        names.map(|name| (name.to_owned(), TaskPolicy::optional())).into()
    }

    #[tokio::test]
    async fn a_misspelled_name_is_refused_with_the_nearest_one() {
        let handler = || Listing(&["echo", "countdown", "count"]);
        assert_eq!(check_tool_names(handler, &policies(["countdown", "echo"])).await, Ok(()));
        let refused = check_tool_names(handler, &policies(["cuntdown", "echo"])).await.unwrap_err();
        assert_eq!(refused.to_string(), "there is no tool `cuntdown`; did you mean `countdown`?");
        let refused = check_tool_names(handler, &policies(["migrate"])).await.unwrap_err();
        assert_eq!(refused.to_string(), "there is no tool `migrate`");
    }

    #[tokio::test]
    async fn a_handler_that_cannot_list_its_tools_is_asked_for_each() {
        let handler = || Naming(&["hidden", "other"]);
        assert_eq!(check_tool_names(handler, &policies(["hidden"])).await, Ok(()));
        let refused = check_tool_names(handler, &policies(["hidden", "hiden"])).await.unwrap_err();
        assert_eq!(refused.nearest.as_deref(), Some("hidden"));
    }

    #[tokio::test]
    async fn a_handler_that_names_no_tool_is_not_checked() {
        assert_eq!(check_tool_names(|| Silent, &policies(["anything"])).await, Ok(()));
        let panics = || -> Silent { panic!("no database") };
        assert_eq!(check_tool_names(panics, &policies(["anything"])).await, Ok(()));
    }
}
