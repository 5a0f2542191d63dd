//! The server as one process, with its tasks in one SQLite file, or several on a DynamoDB table and an SQS queue.
//! `--help` lists its flags.

use std::process::ExitCode;

use longhaul::serve::CommandLine;

fn main() -> ExitCode {
    CommandLine::new(env!("CARGO_BIN_NAME"))
        .version(env!("CARGO_PKG_VERSION"))
        .main(tools::server)
}
