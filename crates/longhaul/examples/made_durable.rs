//! A server as `rmcp` alone would serve it, and what makes it durable: the lines that are marked with `+`.
//!
//!     cargo run --example made_durable

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Server, TaskPolicy, serve}; // +

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Numbers {
    a: i64,
    b: i64,
}

#[derive(Clone)]
struct Calculator;

#[tool_router]
impl Calculator {
    #[tool(description = "The sum of two numbers")]
    async fn sum(&self, Parameters(Numbers { a, b }): Parameters<Numbers>) -> String {
        (a + b).to_string()
    }

    #[tool(description = "The product of two numbers, slowly")]
    async fn product(&self, Parameters(Numbers { a, b }): Parameters<Numbers>) -> String {
        (a * b).to_string()
    }
}

#[tool_handler]
impl ServerHandler for Calculator {}

// Before, `main` called `Calculator.serve(…)`, or gave `StreamableHttpService` a function that makes one.
fn main() -> std::process::ExitCode {
    // +
    serve::main(|_env| Server::new(|| Calculator).task("product", TaskPolicy::optional())) // +
} // +

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, TestError};
    use serde_json::json;

    use super::*;

    /// A tool without a `TaskContext` is one step: a crash runs it again.
    #[tokio::test]
    async fn a_tool_that_knows_nothing_of_tasks_is_run_again_after_a_crash() -> Result<(), TestError> {
        let call = testing::server(Calculator).call("product", json!({"a": 6, "b": 7}));
        let run = call.crash_at_end().to_end().await?;
        assert_eq!((run.text().as_str(), run.attempts()), ("42", 2));
        Ok(())
    }
}
