//! What a leg has to know of its server to call another tool.

use async_trait::async_trait;
use longhaul_engine::{Call, Leg};
use rmcp::ErrorData;
use rmcp::model::JsonObject;

use crate::VerifiedCaller;

/// Makes the calls of tools to other tools: what a leg has to know of its server.
#[async_trait]
pub(crate) trait Calls: Send + Sync {
    /// The call of `tool` with these arguments, by the tool of `leg`.
    ///
    /// # Errors
    /// If calls of the tool do not become tasks, or if it does not take the arguments.
    async fn call_of(
        &self,
        leg: &Leg,
        tool: &str,
        arguments: Option<JsonObject>,
        caller: Option<&VerifiedCaller>,
    ) -> Result<Call, ErrorData>;
}
