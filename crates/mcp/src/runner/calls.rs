//! The calls that tools make to other tools of their server.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::RequestedTerms;
use longhaul_engine::{Attempt, Call};
use rmcp::model::{CallToolRequestParams, ClientCapabilities, JsonObject, RequestMetaObject};
use rmcp::{ErrorData, ServerHandler};

use crate::VerifiedCaller;
use crate::context::Calls;
use crate::shared::accept::{self, NewTask};
use crate::shared::record::StoredCall;
use crate::shared::{Shared, arguments};

/// Those of the tools of `H`.
pub(super) struct CallsOf<H> {
    pub(super) make_handler: Arc<dyn Fn() -> H + Send + Sync>,
    pub(super) shared: Arc<Shared>,
}

#[async_trait]
impl<H: ServerHandler> Calls for CallsOf<H> {
    async fn call_of(
        &self,
        attempt: &Attempt,
        tool: &str,
        mut arguments: Option<JsonObject>,
        caller: Option<&VerifiedCaller>,
    ) -> Result<Call, ErrorData> {
        let shared = &*self.shared;
        let policy = shared.policies.get(tool).ok_or_else(|| {
            let message = format!(
                "calls of `{tool}` do not become tasks, so that no tool can call it: name it with `Server::task`"
            );
            ErrorData::invalid_params(message, None)
        })?;
        let handler = (self.make_handler)();
        let checked = arguments::check(&handler, shared, tool, &mut arguments).await;
        checked.map_err(|why| ErrorData::invalid_params(why, None))?;
        let mut meta = RequestMetaObject::default();
        meta.set_client_capabilities(ClientCapabilities::default());
        if let Some(trace) = &attempt.task().trace {
            meta.0.0.insert("traceparent".to_owned(), trace.as_str().into());
        }
        let mut params = CallToolRequestParams::new(tool.to_owned());
        params.arguments = arguments;
        let new = NewTask {
            caller: &VerifiedCaller::principal_of(caller, attempt.task().owner),
            tool: tool.to_owned(),
            call: StoredCall::new(params, meta, BTreeMap::new()),
            policy: &policy,
            requested: RequestedTerms::default(),
            idempotency: None,
        };
        accept::call(shared, new)
    }
}
