//! A tool that runs a program, and leaves a file: the way of an `ffmpeg`, with a program that every machine has.
//!
//!     cargo run --example convert

use std::path::{Path, PathBuf};

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::{self, ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use longhaul::{Program, Server, TaskContext, TaskPolicy, serve};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Convert {
    /// The name of the file, in the folder of the server.
    file: String,
}

#[derive(Clone)]
struct Converter {
    /// A folder that every process of the server has: on several machines, a bucket takes its place.
    folder: PathBuf,
}

#[tool_router]
impl Converter {
    #[tool(description = "Converts a file with commas into one with semicolons")]
    async fn convert(
        &self,
        Parameters(Convert { file }): Parameters<Convert>,
        task: TaskContext,
    ) -> Result<String, ErrorData> {
        // A name, and no path: the next attempt may run in another process, with other temporary folders.
        let converted = task
            .try_step("convert", || async {
                let name = format!("{file}.converted");
                run(&self.folder.join(&file), &self.folder.join(&name)).await?;
                Ok::<_, ErrorData>(name)
            })
            .await?;
        Ok(format!("converted into {converted}"))
    }
}

/// Writes `to` completely or not at all. If the program is killed half-way, only the unfinished file is left, and the
/// next attempt writes it again.
async fn run(from: &Path, to: &Path) -> Result<(), ErrorData> {
    let unfinished = to.with_extension("unfinished");
    let failed = |why: String| ErrorData::internal_error(why, None);
    let error = |error: std::io::Error| failed(error.to_string());
    let program = Program::new("sed").map_err(error)?.arg("s/,/;/g").arg(from);
    let output = program.output().await.map_err(error)?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    std::fs::write(&unfinished, output.stdout).map_err(error)?;
    std::fs::rename(&unfinished, to).map_err(error)
}

#[tool_handler(name = "converter")]
impl ServerHandler for Converter {}

fn main() -> std::process::ExitCode {
    serve::main(|env| {
        let converter = Converter { folder: env.find("FOLDER").unwrap_or(".").into() };
        Server::new(move || converter.clone()).task("convert", TaskPolicy::optional())
    })
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, Call, TestError};
    use serde_json::json;

    use super::*;

    fn convert(folder: &Path, file: &str) -> Call {
        std::fs::write(folder.join("a.csv"), "1,2\n3,4\n").unwrap();
        testing::server(Converter { folder: folder.to_owned() }).call("convert", json!({ "file": file }))
    }

    #[tokio::test]
    async fn the_file_is_converted_whatever_crashes() -> Result<(), TestError> {
        let folder = tempfile::tempdir().unwrap();
        convert(folder.path(), "a.csv").crash_everywhere().await?;
        assert_eq!(std::fs::read_to_string(folder.path().join("a.csv.converted")).unwrap(), "1;2\n3;4\n");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing unfinished is left");
        Ok(())
    }

    #[tokio::test]
    async fn what_the_program_says_is_the_error() -> Result<(), TestError> {
        let folder = tempfile::tempdir().unwrap();
        let run = convert(folder.path(), "missing.csv").expect_failure().to_end().await?;
        assert!(run.text().contains("missing.csv"), "{}", run.text());
        Ok(())
    }
}
