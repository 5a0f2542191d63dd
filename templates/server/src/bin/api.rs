//! `api`: the Lambda function that answers requests.

use std::process::ExitCode;

use longhaul::lambda;

fn main() -> ExitCode {
    lambda::api(tools::server)
}
