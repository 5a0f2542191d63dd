//! `conformance-api`: the Lambda function that answers the conformance suite.

use std::process::ExitCode;

use longhaul::lambda;
use longhaul_conformance::{ListChanges, server, with_schedules};

fn main() -> ExitCode {
    lambda::api(|_env| with_schedules(server(ListChanges::NotNotified)))
}
