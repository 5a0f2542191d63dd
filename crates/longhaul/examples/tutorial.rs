//! The server of docs/tutorial.md: a report that is written region by region, and published after a question.
//!
//!     cargo run --example tutorial

use std::process::ExitCode;
use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Server, TaskContext, TaskPolicy, ToolEnv, serve};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Report {
    /// The regions of the report.
    regions: Vec<String>,
}

/// The form that the user sees.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Publication {
    /// Publish the report?
    publish: bool,
}

#[derive(Clone)]
struct Reports;

#[tool_router]
impl Reports {
    #[tool(description = "Writes a report on the sales of regions, and publishes it after asking")]
    async fn report(
        &self,
        Parameters(Report { regions }): Parameters<Report>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        let mut sales = 0;
        for (done, region) in regions.iter().enumerate() {
            task.progress(done).of(regions.len()).message(region).await;
            sales += task.try_step(&format!("sales of {region}"), || sales_of(region)).await?;
            task.sleep("pause", Duration::from_secs(4)).await;
        }
        let question = format!("Sales are {sales}. Publish the report?");
        let answer = task.ask::<Publication>("publish", question).await?;
        if !answer.accepted().is_some_and(|form| form.publish) {
            return Ok("the report was not published".to_owned());
        }
        let key = task.idempotency_key();
        let url = task.try_step("publish", || publish(&key, sales)).await?;
        Ok(format!("the report is at {url}"))
    }
}

#[tool_handler(name = "reports")]
impl ServerHandler for Reports {}

/// Stands for a query that takes minutes.
async fn sales_of(region: &str) -> Result<u64, ErrorData> {
    match region {
        "" => Err(ErrorData::invalid_params("a region has a name", None)),
        _ => Ok(1_000 * region.len() as u64),
    }
}

/// Stands for a service that recognises a repeated request by its key.
async fn publish(_key: &str, _sales: u64) -> Result<String, ErrorData> {
    Ok("https://reports.example.com/17".to_owned())
}

/// The server: its tools, and the policies of those that may become tasks.
fn server(_env: ToolEnv) -> Server {
    let policy = TaskPolicy::optional().run_at_most(Duration::from_secs(24 * 3_600));
    Server::new(|| Reports).task("report", policy)
}

fn main() -> ExitCode {
    serve::main(server)
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, Call, TestError};
    use serde_json::json;

    use super::*;

    fn report() -> Call {
        let regions = json!({"regions": ["north", "south"]});
        testing::of(&server(ToolEnv::default())).call("report", regions).answer("publish", json!({"publish": true}))
    }

    #[tokio::test]
    async fn a_region_is_not_queried_twice() -> Result<(), TestError> {
        let run = report().crash_after("sales of north").to_end().await?;
        assert_eq!(run.text(), "the report is at https://reports.example.com/17");
        assert_eq!(run.times("sales of north"), 1);
        Ok(())
    }

    #[tokio::test]
    async fn it_does_the_same_after_any_crash() -> Result<(), TestError> {
        report().crash_everywhere().await
    }
}
