//! Many steps side by side. After a crash, recorded steps are not run again.
//!
//!     cargo run --example fan_out

use std::process::ExitCode;

use futures::future::try_join_all;
use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Server, TaskContext, TaskPolicy, serve};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Scan {
    /// The pages to look at.
    urls: Vec<String>,
}

#[derive(Clone)]
struct Scanner;

#[tool_router]
impl Scanner {
    #[tool(description = "Counts the words of pages, all of them at a time")]
    async fn count_words(
        &self,
        Parameters(Scan { urls }): Parameters<Scan>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        let task = &task;
        // Each step is named by what it works on, so that the order in which they are done does not matter.
        let pages = urls.iter().map(|url| async move { task.try_step(&format!("read {url}"), || words(url)).await });
        let words: u64 = try_join_all(pages).await?.into_iter().sum();
        Ok(format!("{words} words on {} pages", urls.len()))
    }
}

#[tool_handler]
impl ServerHandler for Scanner {}

/// Stands for a request.
async fn words(url: &str) -> Result<u64, ErrorData> {
    Ok(url.len() as u64)
}

fn main() -> ExitCode {
    serve::main(|_env| Server::new(|| Scanner).task("count_words", TaskPolicy::optional()))
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, TestError};
    use serde_json::{Value, json};

    use super::*;

    fn pages() -> Value {
        json!({"urls": ["a", "bb", "ccc"]})
    }

    #[tokio::test]
    async fn a_page_that_was_read_is_not_read_again() -> Result<(), TestError> {
        let run = testing::server(Scanner).call("count_words", pages()).crash_after("read bb").to_end().await?;
        assert_eq!(run.text(), "6 words on 3 pages");
        assert_eq!(run.times("read bb"), 1);
        Ok(())
    }

    #[tokio::test]
    async fn it_does_the_same_after_any_crash() -> Result<(), TestError> {
        testing::crash_everywhere(Scanner, "count_words", pages()).await
    }
}
