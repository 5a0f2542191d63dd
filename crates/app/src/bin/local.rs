//! `local`: the server as one process with an embedded database, or several on a DynamoDB table and an SQS queue.

use std::process::ExitCode;

use longhaul::local::CommandLine;
use longhaul_app::{Settings, server, settings};

fn main() -> ExitCode {
    CommandLine::new("local")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Durable, long-running MCP tools, served from one process with an embedded database.")
        .settings(&settings::ALL)
        .main_with(|options| Ok(server(Settings::of(options.values(), options.tool_env()?)?)?))
}
