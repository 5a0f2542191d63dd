//! `worker`: the Lambda function that runs the tools, and handles dead letters.

use longhaul::lambda;

fn main() -> Result<(), lambda::FunctionError> {
    lambda::worker(&tools::server())
}
