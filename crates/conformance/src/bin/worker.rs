//! `conformance-worker`: the Lambda function that runs the tasks of the conformance suite.

use longhaul::lambda;
use longhaul_conformance::{ListChanges, server};

fn main() -> Result<(), lambda::FunctionError> {
    lambda::worker(&server(ListChanges::NotNotified))
}
