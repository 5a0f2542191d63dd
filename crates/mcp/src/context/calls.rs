//! What an attempt has to know of its server to call another tool.

use async_trait::async_trait;
use longhaul_engine::{Attempt, Call};
use rmcp::ErrorData;
use rmcp::model::JsonObject;

use crate::VerifiedCaller;

/// Makes the calls of tools to other tools: what an attempt has to know of its server.
#[async_trait]
pub(crate) trait Calls: Send + Sync {
    /// The call of `tool` with these arguments, by the tool of `attempt`.
    ///
    /// # Errors
    /// If calls of the tool do not become tasks, or if it does not take the arguments.
    async fn call_of(
        &self,
        attempt: &Attempt,
        tool: &str,
        arguments: Option<JsonObject>,
        caller: Option<&VerifiedCaller>,
    ) -> Result<Call, ErrorData>;
}
