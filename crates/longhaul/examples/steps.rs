//! Steps are recorded once, also across crashes; progress shows how far the work is.
//!
//!     cargo run --example steps

use std::process::ExitCode;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Server, TaskContext, TaskPolicy, serve};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Migration {
    /// The tables to migrate, in this order.
    tables: Vec<String>,
}

#[derive(Clone)]
struct Migrations;

#[tool_router]
impl Migrations {
    #[tool(description = "Migrates tables, one after the other")]
    async fn migrate(
        &self,
        Parameters(Migration { tables }): Parameters<Migration>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        let mut rows = 0;
        for (done, table) in tables.iter().enumerate() {
            task.progress(done).of(tables.len()).message(table).await;
            // The name is the identity of the step: a table is in the list once.
            rows += task.try_step(&format!("migrate {table}"), || copy(table)).await?;
        }
        task.progress(tables.len()).of(tables.len()).message("done").await;
        Ok(format!("{rows} rows in {} tables", tables.len()))
    }
}

#[tool_handler]
impl ServerHandler for Migrations {}

/// Stands for minutes of work.
async fn copy(table: &str) -> Result<u64, ErrorData> {
    match table {
        "" => Err(ErrorData::invalid_params("a table has a name", None)),
        _ => Ok(1_000),
    }
}

fn main() -> ExitCode {
    serve::main(|_env| Server::new(|| Migrations).task("migrate", TaskPolicy::required()))
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, TestError};
    use serde_json::{Value, json};

    use super::*;

    fn tables() -> Value {
        json!({"tables": ["customers", "orders"]})
    }

    #[tokio::test]
    async fn no_table_is_copied_twice() -> Result<(), TestError> {
        let call = testing::server(Migrations).call("migrate", tables()).crash_after("migrate customers");
        let run = call.to_end().await?;
        assert_eq!(run.text(), "2000 rows in 2 tables");
        assert_eq!((run.attempts(), run.times("migrate customers"), run.times("migrate orders")), (2, 1, 1));
        Ok(())
    }

    #[tokio::test]
    async fn it_does_the_same_after_any_crash() -> Result<(), TestError> {
        testing::crash_everywhere(Migrations, "migrate", tables()).await
    }

    #[tokio::test]
    async fn an_error_ends_the_task() -> Result<(), TestError> {
        let call = testing::server(Migrations).call("migrate", json!({"tables": ["orders", ""]}));
        let run = call.expect_failure().to_end().await?;
        run.assert_error("a table has a name");
        run.assert_steps(&["migrate orders", "migrate "]);
        Ok(())
    }
}
