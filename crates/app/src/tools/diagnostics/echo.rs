//! `echo`: returns its argument at once.

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::App;

/// The arguments of `echo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EchoArgs {
    /// The text to return.
    pub text: String,
}

#[tool_router(router = echo_tool, vis = "pub(crate)")]
impl App {
    /// Returns the text.
    #[tool(name = "echo", description = "Returns the given text at once. For checking a deployment.")]
    async fn echo(&self, Parameters(EchoArgs { text }): Parameters<EchoArgs>) -> String {
        text
    }
}
