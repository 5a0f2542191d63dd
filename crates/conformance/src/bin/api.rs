//! `conformance-api`: the Lambda function that answers the conformance suite.

use std::process::ExitCode;

use longhaul::lambda;
use longhaul_conformance::{ListChanges, server};

fn main() -> ExitCode {
    lambda::api(|_env| server(ListChanges::NotNotified))
}
