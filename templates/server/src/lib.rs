//! The tools of this server.

use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Server, TaskContext, TaskPolicy, ToolEnv};

/// How long the source rests after each file.
const REST: Duration = Duration::from_secs(2);

/// The server: its tools, and on which terms their calls become tasks. All programs serve the same one. `env` has the
/// settings and the secrets of the tools.
pub fn server(env: ToolEnv) -> Server {
    let tools = Tools { env };
    Server::new(move || tools.clone()).task("import", TaskPolicy::optional())
}

/// The arguments of `import`. Clients see these comments.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Import {
    /// The files to import, in this order.
    files: Vec<String>,
}

/// The handler with the tools. State that they share would be another field, behind an `Arc`.
#[derive(Clone)]
struct Tools {
    env: ToolEnv,
}

#[tool_router]
impl Tools {
    #[tool(description = "Imports files, one after the other")]
    async fn import(
        &self,
        Parameters(Import { files }): Parameters<Import>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        // On AWS a value of `tool-env` or a secret, here a `--tool-env FOLDER=…` or a `--secret`.
        let folder = self.env.find("FOLDER").unwrap_or("incoming");
        let mut rows = 0;
        for (done, file) in files.iter().enumerate() {
            task.progress(done).of(files.len()).message(file).await;
            // A step is done once, whatever crashes. Its name is its identity: here, each file is in the list once.
            rows += task
                .try_step(&format!("import {file}"), || read(folder, file))
                .await?;
            // Also a sleep of days costs nothing, and survives every crash.
            task.sleep("rest", REST).await;
        }
        Ok(format!("{rows} rows of {} files in {folder}", files.len()))
    }
}

#[tool_handler(name = "{{project_name}}")]
impl ServerHandler for Tools {}

/// Stands for minutes of work.
async fn read(_folder: &str, file: &str) -> Result<u64, ErrorData> {
    match file {
        "" => Err(ErrorData::invalid_params("a file has a name", None)),
        _ => Ok(1_000),
    }
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, Call, TestError};
    use serde_json::json;

    use super::*;

    fn import(files: &[&str]) -> Call {
        let env = ToolEnv::from([("FOLDER", "archive")]);
        testing::of(&server(env)).call("import", json!({ "files": files }))
    }

    #[tokio::test]
    async fn no_file_is_imported_twice() -> Result<(), TestError> {
        let run = import(&["a.csv", "b.csv"])
            .crash_after("import a.csv")
            .to_end()
            .await?;
        assert_eq!(run.text(), "2000 rows of 2 files in archive");
        assert_eq!(
            (run.times("import a.csv"), run.times("import b.csv")),
            (1, 1)
        );
        Ok(())
    }

    #[tokio::test]
    async fn it_does_the_same_after_any_crash() -> Result<(), TestError> {
        import(&["a.csv", "b.csv"]).crash_everywhere().await
    }

    #[tokio::test]
    async fn an_error_ends_the_task() -> Result<(), TestError> {
        let run = import(&["a.csv", ""]).expect_failure().to_end().await?;
        run.assert_error("a file has a name");
        run.assert_steps(&["import a.csv", "import "]);
        Ok(())
    }
}
