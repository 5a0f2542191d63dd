//! `echo`: answers at once with what it was sent.

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::App;

/// The arguments of `echo`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EchoArgs {
    /// What to answer with.
    pub text: String,
}

#[tool_router(router = echo_tool, vis = "pub(crate)")]
impl App {
    /// Answers with the text.
    #[tool(name = "echo", description = "Answers at once with the text that it is given. For checking a deployment.")]
    async fn echo(&self, Parameters(EchoArgs { text }): Parameters<EchoArgs>) -> String {
        text
    }
}
