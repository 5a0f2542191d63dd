//! A tool that asks before it does something that cannot be undone. The answer may come hours later.
//!
//!     cargo run --example question

use std::process::ExitCode;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Answer, Server, TaskContext, TaskPolicy, serve};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Cleanup {
    /// The folder to clean.
    folder: String,
}

/// The form that the user sees.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Confirmation {
    /// Delete all of it?
    confirm: bool,
}

#[derive(Clone)]
struct Cleaner;

#[tool_router]
impl Cleaner {
    #[tool(description = "Deletes the files of a folder, after asking")]
    async fn clean(
        &self,
        Parameters(Cleanup { folder }): Parameters<Cleanup>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        let files = task.try_step("count", || count(&folder)).await?;
        let question = format!("This deletes {files} files in {folder}.");
        match task.ask::<Confirmation>("confirm", question).await? {
            Answer::Accepted(Confirmation { confirm: true }) => {
                let deleted = task.try_step("delete", || delete(&folder)).await?;
                Ok(format!("{deleted} files were deleted"))
            }
            _ => Ok("nothing was deleted".to_owned()),
        }
    }
}

#[tool_handler]
impl ServerHandler for Cleaner {}

async fn count(_folder: &str) -> Result<u32, ErrorData> {
    Ok(4_211)
}

async fn delete(_folder: &str) -> Result<u32, ErrorData> {
    Ok(4_211)
}

fn main() -> ExitCode {
    serve::main(|_env| Server::new(|| Cleaner).task("clean", TaskPolicy::optional()))
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, Call, State, TestError};
    use serde_json::json;

    use super::*;

    fn call() -> Call {
        testing::server(Cleaner).call("clean", json!({"folder": "/tmp"}))
    }

    #[tokio::test]
    async fn nothing_is_deleted_without_a_yes() -> Result<(), TestError> {
        for call in [call().decline("confirm"), call().answer("confirm", json!({"confirm": false}))] {
            let run = call.to_end().await?;
            assert_eq!((run.text().as_str(), run.times("delete")), ("nothing was deleted", 0));
        }
        Ok(())
    }

    #[tokio::test]
    async fn a_yes_deletes_once_whatever_crashes() -> Result<(), TestError> {
        call().answer("confirm", json!({"confirm": true})).crash_everywhere().await
    }

    #[tokio::test]
    async fn the_user_sees_how_many_files_there_are() -> Result<(), TestError> {
        let mut task = call().begin().await?;
        let State::Asks(questions) = task.work().await? else { panic!("it does not ask") };
        let text = questions.first().map(|question| question.request.to_string());
        assert!(text.is_some_and(|text| text.contains("This deletes 4211 files in /tmp.")));
        Ok(())
    }
}
