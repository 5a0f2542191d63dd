//! `local`: the server as one process, with its tasks in one SQLite file. `--help` lists its flags.

use std::process::ExitCode;

use longhaul::local::CommandLine;

fn main() -> ExitCode {
    CommandLine::new("local")
        .version(env!("CARGO_PKG_VERSION"))
        .main(tools::server)
}
