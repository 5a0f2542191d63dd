//! The input schemas of tools, compiled.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::ServerHandler;
use rmcp::model::JsonObject;
use serde_json::Value;

use crate::schema::Schema;
use crate::shared::tool_list;

/// The schemas of the tools that policies name. Each is compiled once, and again if its tool changes it.
#[derive(Default)]
pub(crate) struct Schemas {
    compiled: Mutex<BTreeMap<String, Compiled>>,
    /// What a handler lists that does not answer `get_tool`.
    pub(crate) listed: tokio::sync::Mutex<Option<BTreeMap<String, Arc<JsonObject>>>>,
}

struct Compiled {
    source: Arc<JsonObject>,
    /// `None` if it cannot be compiled.
    schema: Option<Arc<Schema>>,
}

impl Schemas {
    /// Whether the handler lists tools, and this one is not among them. The list is read again before it is missed.
    pub(crate) async fn lack<H: ServerHandler>(&self, handler: &H, tool: &str) -> bool {
        let mut listed = self.listed.lock().await;
        if listed.as_ref().is_some_and(|listed| listed.contains_key(tool)) {
            return false;
        }
        *listed = tool_list::read(handler).await;
        listed.as_ref().is_some_and(|listed| !listed.is_empty() && !listed.contains_key(tool))
    }

    /// The compiled schema; `None` if it cannot be compiled, which the start of the server refuses: then the tool has
    /// changed it since.
    pub(crate) fn compiled(&self, tool: &str, source: Arc<JsonObject>) -> Option<Arc<Schema>> {
        let mut compiled = self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = compiled.get(tool)
            && (Arc::ptr_eq(&known.source, &source) || known.source == source)
        {
            return known.schema.clone();
        }
        let schema = match Schema::compile(&Value::Object((*source).clone())) {
            Ok(schema) => Some(Arc::new(schema)),
            Err(error) => {
                tracing::error!(tool, %error, "arguments are not checked: the tool's input schema cannot be used");
                None
            }
        };
        compiled.insert(tool.to_owned(), Compiled { source, schema: schema.clone() });
        schema
    }
}
