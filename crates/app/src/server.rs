//! The server: which tools there are, and which of them may become tasks.

use std::sync::LazyLock;
use std::time::Duration;

use longhaul::rmcp::handler::server::router::tool::ToolRouter;
use longhaul::rmcp::model::{Implementation, ServerCapabilities, ServerConfig};
use longhaul::rmcp::{self, ServerHandler, tool_handler};
use longhaul::{Server, TaskPolicy};

use crate::settings::{Settings, ToolSet};
use crate::tools::diagnostics;
use crate::tools::{App, ServerError};

static PRODUCT: LazyLock<ToolRouter<App>> =
    LazyLock::new(|| App::profile_tool() + App::access_code_tools() + App::countdown_tool());

static WITH_DIAGNOSTICS: LazyLock<ToolRouter<App>> = LazyLock::new(|| PRODUCT.clone() + App::diagnostic_tools());

impl App {
    fn router(&self) -> &'static ToolRouter<Self> {
        match self.tools {
            ToolSet::Product => &PRODUCT,
            ToolSet::WithDiagnostics => &WITH_DIAGNOSTICS,
        }
    }
}

#[tool_handler(router = self.router())]
impl ServerHandler for App {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("longhaul", env!("CARGO_PKG_VERSION")))
            .with_instructions(
                "Long-running tools. A call may become a task: poll it until it ends; you may disconnect meanwhile.",
            )
    }
}

/// The server with the tools that `settings` select.
pub fn server(settings: Settings) -> Result<Server, ServerError> {
    let tools = settings.tools;
    let app = App::new(settings)?;
    let server = Server::new(move || app.clone())
        .task("profile_dataset", TaskPolicy::optional().run_at_most(Duration::from_secs(2 * 3_600)).class("heavy"))
        .task("bulk_generate_access_codes", with_questions())
        .task("countdown", TaskPolicy::optional().run_at_most(Duration::from_secs(25 * 3_600)));
    Ok(match tools {
        ToolSet::Product => server,
        ToolSet::WithDiagnostics => with_diagnostics(server),
    })
}

/// A day for a person to answer, and an hour for the work.
fn with_questions() -> TaskPolicy {
    TaskPolicy::optional().run_at_most(Duration::from_secs(25 * 3_600))
}

/// A check of a deployment kills it several times in a row, perhaps before the tool gets any further.
fn gather() -> TaskPolicy {
    TaskPolicy::required().run_at_most(Duration::from_secs(26 * 3_600)).consecutive_failures_max(10)
}

fn with_diagnostics(server: Server) -> Server {
    server
        .task("fail", TaskPolicy::optional().run_at_most(Duration::from_secs(diagnostics::FAIL_RUN_S_MAX)))
        .clean_up("fail", diagnostics::clean_up)
        .task("ask", with_questions())
        .task("gather", gather())
        .task("large_result", TaskPolicy::optional())
        .task("tool_env", TaskPolicy::optional())
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;

    use super::WITH_DIAGNOSTICS;
    use crate::tools::access_codes::price::Confirmation;
    use crate::tools::diagnostics::Answer;

    #[test]
    fn no_text_that_clients_read_has_a_rustdoc_link() {
        let tools = WITH_DIAGNOSTICS.list_all();
        assert_eq!(tools.len(), 10, "all tools, with their schemas, and below the forms that they ask with");
        let read = serde_json::json!([tools, schema_for!(Confirmation), schema_for!(Answer)]).to_string();
        assert!(!read.contains("[`"), "a doc comment of a schema has a link: {read}");
    }
}
