//! The smallest durable server: one tool, whose call becomes a task.
//!
//!     cargo run --example hello
//!
//! serves MCP on http://127.0.0.1:8080/mcp. Kill it during a call and start it again: the call continues.

use std::process::ExitCode;
use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Server, TaskContext, TaskPolicy, serve};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting {
    /// The name to greet.
    name: String,
}

#[derive(Clone)]
struct Hello;

#[tool_router]
impl Hello {
    #[tool(description = "Thinks for ten seconds, and greets")]
    async fn greet(&self, Parameters(Greeting { name }): Parameters<Greeting>, task: TaskContext) -> String {
        task.sleep("wait", Duration::from_secs(10)).await;
        format!("Hello, {name}!")
    }
}

#[tool_handler]
impl ServerHandler for Hello {}

fn main() -> ExitCode {
    serve::main(|_env| Server::new(|| Hello).task("greet", TaskPolicy::optional()))
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, TestError};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn it_greets_after_ten_seconds() -> Result<(), TestError> {
        let run = testing::server(Hello).call("greet", json!({"name": "Ann"})).to_end().await?;
        assert_eq!(run.text(), "Hello, Ann!");
        assert_eq!(run.elapsed().as_secs(), 10);
        Ok(())
    }
}
