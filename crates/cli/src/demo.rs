//! `longhaul demo`: a server with the demonstration tools, in one process with an embedded database.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;

use longhaul::local::{self, CommandLine};
use longhaul::settings::ProcessEnv;
use longhaul::settings::table::{self, Role};
use longhaul_app::{Settings, server, settings};

const ABOUT: &str = "Serves demonstration tools from one process with an embedded database.";

/// Runs until it is asked to stop.
pub(crate) fn run(args: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let command_line =
        CommandLine::new("longhaul demo").version(env!("CARGO_PKG_VERSION")).about(ABOUT).settings(&settings::ALL);
    let args = std::iter::once(OsString::from("longhaul demo")).chain(args);
    let options = match command_line.read(args, &ProcessEnv) {
        Ok(options) => options,
        Err(error) => return Ok(error.report()),
    };
    local::init_logs(&options)?;
    let server = server(Settings::of(options.values(), options.tool_env()?)?)?;
    let welcome = match options.values().get(&table::ROLE)? {
        Role::All | Role::Http => print_welcome,
        Role::Worker => print_health,
    };
    local::run_with(server, options, welcome)?;
    Ok(ExitCode::SUCCESS)
}

/// What a user needs after starting the server: its URL, a client's configuration, and a request to try by hand.
#[expect(clippy::print_stdout, reason = "this output is for the user who started the program")]
fn print_welcome(address: SocketAddr) {
    let url = format!("http://{address}/mcp");
    println!(
        r#"Longhaul serves MCP on {url}

Configuration for a client:

{{"mcpServers": {{"longhaul": {{"type": "http", "url": "{url}"}}}}}}

To list the tools by hand:

curl -sS {url} \
  -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \
  -H 'mcp-protocol-version: 2026-07-28' -H 'mcp-method: tools/list' \
  -d '{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}'
"#
    );
}

/// Where a worker, which serves nothing else, answers questions about its health.
#[expect(clippy::print_stdout, reason = "this output is for the user who started the program")]
fn print_health(address: SocketAddr) {
    println!("Longhaul runs tasks; its health is on http://{address}/healthz and http://{address}/readyz");
}
