//! `tool_env`: says whether tools find something in their environment.

use longhaul::rmcp::handler::server::wrapper::{Json, Parameters};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::App;

/// The arguments of `tool_env`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolEnvArgs {
    /// The name of a setting or a secret.
    pub name: String,
}

/// What is found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// How many bytes the value has, which may be a secret and is not shown.
    pub bytes: usize,
}

#[tool_router(router = tool_env_tool, vis = "pub(crate)")]
impl App {
    /// Says how long a value of the tools' environment is.
    #[tool(
        name = "tool_env",
        description = "Says how many bytes a setting or a secret of the tools has, and fails if it is not set. For \
                       checking a deployment."
    )]
    async fn tool_env(
        &self,
        Parameters(ToolEnvArgs { name }): Parameters<ToolEnvArgs>,
    ) -> Result<Json<Found>, ErrorData> {
        Ok(Json(Found { bytes: self.env().get(&name)?.len() }))
    }
}
