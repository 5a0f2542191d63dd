//! `longhaul`: durable MCP tools at the command line.

mod gateway;

use std::ffi::OsString;
use std::process::ExitCode;

const USAGE: &str = "Durable, long-running MCP tools.

Usage: longhaul gateway [OPTIONS] --config FILE
       longhaul gateway [OPTIONS] -- COMMAND [ARGS...]

Verbs:
  gateway  Put any MCP server behind a gateway that makes its tools durable

`longhaul gateway --help` has the options. `longhaul --version` prints the version.
";

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "this is the output of the program for its user")]
fn main() -> anyhow::Result<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let verb = args.next().unwrap_or_default();
    match verb.to_str() {
        Some("gateway") => gateway::run(args.collect::<Vec<OsString>>()),
        Some("--help" | "-h" | "help") => {
            print!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        Some("--version" | "-V") => {
            println!("longhaul {}", env!("CARGO_PKG_VERSION"));
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            eprint!("error: there is no verb `{}`\n\n{USAGE}", verb.display());
            Ok(ExitCode::from(2))
        }
    }
}
