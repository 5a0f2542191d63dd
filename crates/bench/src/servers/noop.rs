//! The durable server: a tool that does nothing, and one that never ends.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use longhaul::local::{self, Options};
use longhaul::settings::table;
use longhaul::{Server, TaskPolicy};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::{ServerHandler, tool, tool_handler, tool_router};

struct Noop;

static ROUTER: LazyLock<ToolRouter<Noop>> = LazyLock::new(Noop::tool_router);

#[tool_router]
impl Noop {
    #[tool(description = "Does nothing")]
    async fn noop(&self) -> String {
        "done".to_owned()
    }

    #[tool(description = "Never ends")]
    async fn hold(&self) -> String {
        std::future::pending().await
    }
}

#[tool_handler(router = ROUTER)]
impl ServerHandler for Noop {}

/// Serves until it is asked to stop.
pub(crate) fn run(listen: SocketAddr, db: PathBuf) -> anyhow::Result<()> {
    let policy = TaskPolicy::required().retention(Duration::from_secs(6 * 3600));
    let server = Server::new(|| Noop).task("noop", policy.clone()).task("hold", policy);
    Ok(local::run(server, Options::default().with(&table::LISTEN, listen).with(&table::DB, db))?)
}
