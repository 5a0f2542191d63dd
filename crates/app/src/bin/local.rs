//! `local`: the server as one process with an embedded database.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use longhaul::local::{self, Options};
use longhaul_app::{Settings, ToolSet, server};

/// Durable, long-running MCP tools, served from one process with an embedded database.
///
/// Every flag can also be set by the environment variable that it names; the flag wins.
#[derive(Debug, Parser)]
#[command(name = "local", version)]
struct Arguments {
    #[command(flatten)]
    options: Options,

    /// Folder below which `profile_dataset` may read files; without it, it reads inline text and https URLs only.
    #[arg(long, env = "LONGHAUL_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// Also serve the tools with which people check a deployment: echo, countdown, fail, ask, large_result.
    #[arg(long, env = "LONGHAUL_DIAGNOSTICS")]
    diagnostics: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    local::init_logs(&arguments.options);
    let tools = if arguments.diagnostics { ToolSet::WithDiagnostics } else { ToolSet::Product };
    let server = server(Settings { data_dir: arguments.data_dir, tools })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(local::serve(server, arguments.options, print_welcome))?;
    Ok(())
}

/// What somebody needs who has just started it: where it is, how to tell a client, how to try it by hand.
#[expect(clippy::print_stdout, reason = "this is what the program has to say to the person who started it")]
fn print_welcome(address: SocketAddr) {
    let url = format!("http://{address}/mcp");
    println!(
        r#"Longhaul serves MCP on {url}

For a client's configuration:

{{"mcpServers": {{"longhaul": {{"type": "http", "url": "{url}"}}}}}}

By hand, the list of tools:

curl -sS {url} \
  -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \
  -H 'mcp-protocol-version: 2026-07-28' -H 'mcp-method: tools/list' \
  -d '{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}'
"#
    );
}
