//! `gateway-worker`: the Lambda function that calls the tools of the servers, and handles dead letters. It also runs on
//! a managed runtime for another language, as the wrapper that Lambda starts instead of that runtime.

fn main() -> std::process::ExitCode {
    longhaul_gateway::functions::worker()
}
