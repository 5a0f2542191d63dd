//! `conformance-api`: the Lambda function that answers the conformance suite.

use longhaul::lambda;
use longhaul_conformance::{ListChanges, server};

fn main() -> Result<(), lambda::FunctionError> {
    lambda::api(&server(ListChanges::NotNotified))
}
