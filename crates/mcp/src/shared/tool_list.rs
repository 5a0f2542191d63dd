//! The tools that a handler lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{InitializeRequestParams, JsonObject, NumberOrString, PaginatedRequestParams};
use rmcp::service::{RequestContext, serve_directly};
use rmcp::{RoleServer, ServerHandler};

use crate::shared::guard::guard;
use crate::shared::wire::{UnusedService, Wire};

/// At most so many pages of a list of tools are read.
const PAGES_MAX: usize = 100;

/// The input schemas of the tools that the handler lists for a caller about whom it knows nothing, by the tools' names;
/// `None` if the list cannot be read to its end.
pub(crate) async fn read<H: ServerHandler>(handler: &H) -> Option<BTreeMap<String, Arc<JsonObject>>> {
    let (wire, _pipes) = Wire::new();
    let client = InitializeRequestParams::default();
    let service = serve_directly::<RoleServer, _, _, _, _>(UnusedService, wire, Some(client));
    let (mut schemas, mut cursor) = (BTreeMap::new(), None);
    for _ in 0..PAGES_MAX {
        let context = RequestContext::new(NumberOrString::Number(0), service.peer().clone());
        let request = PaginatedRequestParams::default().with_cursor(cursor);
        let page = guard(handler.list_tools(Some(request), context)).await.ok()?;
        schemas.extend(page.tools.into_iter().map(|tool| (tool.name.into_owned(), tool.input_schema)));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Some(schemas);
        }
    }
    None
}
