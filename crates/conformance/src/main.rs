//! `conformance-server`: serves the fixtures of the MCP conformance suite. For tests only; it is never deployed.

#![expect(deprecated, reason = "the suite also tests what newer revisions have deprecated")]

mod fixtures;
mod serve;

use std::net::SocketAddr;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use fixtures::Fixtures;

#[derive(Parser)]
#[command(about, version)]
struct Settings {
    /// Where to listen; port 0 takes a free one, which is then written to standard error.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::parse();
    tracing_subscriber::fmt().with_env_filter(EnvFilter::new("info,rmcp=warn")).with_writer(std::io::stderr).init();
    serve::serve(settings.listen, Fixtures::new()).await
}
