//! `longhaul demo`: a server with the demonstration tools, in one process with an embedded database.

use std::process::ExitCode;

use longhaul::local::CommandLine;
use longhaul_app::{Settings, server, settings};

/// Runs until it is asked to stop.
pub(crate) fn run() -> ExitCode {
    CommandLine::new("longhaul demo")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Serves demonstration tools from one process with an embedded database.")
        .settings(&settings::ALL)
        .main_with(|options| Ok(server(Settings::of(options.values(), options.tool_env()?)?)?))
}
