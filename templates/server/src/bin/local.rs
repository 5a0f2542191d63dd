//! `local`: the server as one process, with its tasks in one SQLite file. `--help` lists its flags.

use std::process::ExitCode;

use longhaul::local::{self, CommandLine};

fn main() -> Result<ExitCode, local::ServeError> {
    let command_line = CommandLine::new("local").version(env!("CARGO_PKG_VERSION"));
    let options = match command_line.parse() {
        Ok(options) => options,
        Err(error) => return Ok(error.report()),
    };
    local::run(tools::server(), options)?;
    Ok(ExitCode::SUCCESS)
}
