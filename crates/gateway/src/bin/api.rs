//! `gateway-api`: the Lambda function that answers requests.

fn main() -> std::process::ExitCode {
    longhaul_gateway::functions::api()
}
