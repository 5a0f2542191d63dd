//! `conformance-server`: serves the fixtures of the MCP conformance suite. For tests only; it is never deployed.

#![expect(deprecated, reason = "the suite also tests what newer revisions have deprecated")]

mod fixtures;

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;
use longhaul::{Server, TaskPolicy, local};

use fixtures::Fixtures;

#[derive(Parser)]
#[command(about, version)]
struct Settings {
    /// Where to listen; port 0 takes a free one, which is then written to standard error.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

fn main() -> Result<(), local::ServeError> {
    let settings = Settings::parse();
    let options = local::Options { listen: settings.listen, db: ":memory:".into(), ..local::Options::default() };
    local::run(server(), options)
}

/// The fixtures, and which of their tools may or must become tasks.
fn server() -> Server {
    // Clones share their subscriptions.
    let fixtures = Fixtures::new();
    // The suite waits ten seconds for a task.
    let optional = TaskPolicy::optional().poll_every(Duration::from_millis(200));
    let required = TaskPolicy::required().poll_every(Duration::from_millis(200));
    Server::new(move || fixtures.clone())
        .task("slow_compute", optional)
        .task("failing_job", required)
        .task("protocol_error_job", optional)
        .task("confirm_delete", optional)
        .task("multi_input", optional)
        .task("test_tool_with_task", required.after_input())
}
