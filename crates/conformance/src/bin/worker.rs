//! `conformance-worker`: the Lambda function that runs the tasks of the conformance suite.

use std::process::ExitCode;

use longhaul::lambda;
use longhaul_conformance::{ListChanges, server, with_schedules};

fn main() -> ExitCode {
    lambda::worker(|_env| with_schedules(server(ListChanges::NotNotified)))
}
