//! A tool that waits for days. A long sleep ends the attempt: no process waits, and on AWS nothing is paid.
//!
//!     cargo run --example long_sleep

use std::process::ExitCode;
use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Server, TaskContext, TaskPolicy, serve};

const DAY: Duration = Duration::from_secs(86_400);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Invoice {
    /// The number of the invoice.
    number: u32,
}

#[derive(Clone)]
struct Reminders;

#[tool_router]
impl Reminders {
    #[tool(description = "Sends an invoice, and a reminder for each week in which it is not paid, three at most")]
    async fn collect(
        &self,
        Parameters(Invoice { number }): Parameters<Invoice>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        task.try_step("send the invoice", || send(number)).await?;
        for week in 1..=3 {
            task.sleep("a week", 7 * DAY).await;
            if task.try_step(&format!("look in week {week}"), || is_paid(number, week)).await? {
                return Ok(format!("paid in week {week}"));
            }
            task.try_step(&format!("remind in week {week}"), || send(number)).await?;
        }
        Ok("not paid".to_owned())
    }
}

#[tool_handler]
impl ServerHandler for Reminders {}

async fn send(_number: u32) -> Result<(), ErrorData> {
    Ok(())
}

async fn is_paid(number: u32, week: u32) -> Result<bool, ErrorData> {
    Ok(number == 7 && week == 2)
}

fn main() -> ExitCode {
    serve::main(|_env| server())
}

fn server() -> Server {
    // Without this, a task may take a day.
    let policy = TaskPolicy::required().run_at_most(30 * DAY).ttl_at_most(40 * DAY);
    Server::new(|| Reminders).task("collect", policy)
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, TestError};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn two_weeks_pass_in_no_time() -> Result<(), TestError> {
        let run = testing::of(&server()).call("collect", json!({"number": 7})).to_end().await?;
        assert_eq!(run.text(), "paid in week 2");
        assert_eq!(run.elapsed(), 14 * DAY);
        assert_eq!(run.times("remind in week 1"), 1);
        Ok(())
    }

    #[tokio::test]
    async fn it_does_the_same_after_any_crash() -> Result<(), TestError> {
        testing::of(&server()).call("collect", json!({"number": 1})).crash_everywhere().await
    }
}
