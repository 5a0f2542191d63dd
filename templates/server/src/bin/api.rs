//! `api`: the Lambda function that answers requests.

use longhaul::lambda;

fn main() -> Result<(), lambda::FunctionError> {
    lambda::api(&tools::server())
}
