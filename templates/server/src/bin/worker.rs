//! `worker`: the Lambda function that runs the tools, and handles dead letters.

use std::process::ExitCode;

use longhaul::lambda;

fn main() -> ExitCode {
    lambda::worker(tools::server)
}
