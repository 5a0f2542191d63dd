//! `conformance-server`: serves the fixtures of the MCP conformance suite from one process.

use std::net::SocketAddr;

use clap::Parser;
use longhaul::local;
use longhaul::settings::table;
use longhaul_conformance::{ListChanges, server};

#[derive(Parser)]
#[command(about, version)]
struct Settings {
    /// Where to listen; port 0 chooses a free one, which is then written to standard error.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

fn main() -> Result<(), local::ServeError> {
    let settings = Settings::parse();
    let options = local::Options::default().with(&table::LISTEN, settings.listen).with(&table::DB, ":memory:");
    local::run(server(ListChanges::Notified), options)
}
