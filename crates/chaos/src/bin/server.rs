//! `chaos-server`: the server as one process. `--tool-env LEDGER=FOLDER` names the folder of its tools' notes.

use std::process::ExitCode;

use longhaul::serve::CommandLine;

fn main() -> ExitCode {
    CommandLine::new("chaos-server").version(env!("CARGO_PKG_VERSION")).main(longhaul_chaos::server)
}
