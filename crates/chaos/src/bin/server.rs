//! `chaos-server`: the server as one process. `--tool-env LEDGER=FOLDER` says where its tools note what they do.

use std::process::ExitCode;

use longhaul::serve::CommandLine;

fn main() -> ExitCode {
    CommandLine::new("chaos-server").version(env!("CARGO_PKG_VERSION")).main(longhaul_chaos::server)
}
