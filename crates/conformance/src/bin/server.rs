//! `conformance-server`: serves the fixtures of the MCP conformance suite from one process.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use longhaul::serve::{Options, ServeError, init_logs, serve};
use longhaul_conformance::{ListChanges, server, with_flow_control, with_schedules};

#[derive(Parser)]
#[command(about, version)]
struct Settings {
    /// Where to listen; port 0 chooses a free one, which is then written to standard error.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Keeps its tasks in this file, and calls some of its tools on its own every minute.
    #[arg(long)]
    scheduled: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> Result<(), ServeError> {
    let settings = Settings::parse();
    let server = server(ListChanges::Notified);
    let options = Options::default().listen(settings.listen);
    init_logs(&options)?;
    match settings.scheduled {
        Some(db) => serve(with_schedules(with_flow_control(server)), options.database(db)).await,
        None => serve(server, options.database(":memory:")).await,
    }
}
