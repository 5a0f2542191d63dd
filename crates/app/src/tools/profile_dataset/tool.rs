//! The tool itself: one step to identify the source, then one for each chunk.

use longhaul::TaskContext;
use longhaul::rmcp::handler::server::tool::schema_for_output;
use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::model::{CallToolResult, ContentBlock};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};

use super::arguments::ProfileArgs;
use super::chunk::Progress;
use super::error::{ProfileError, refused};
use super::report::DatasetProfile;
use super::source::Sources;
use crate::App;

/// The maximum number of chunks in a data set: more than the largest one has.
const CHUNKS_MAX: u32 = 4_000;

/// The version of the recorded state, which is part of the steps' names. A profile that another version began finds
/// none of its steps, and begins again.
const STATE_VERSION: u8 = 2;

#[tool_router(router = profile_tool, vis = "pub(crate)")]
impl App {
    /// Profiles a data set.
    #[tool(
        name = "profile_dataset",
        description = "Describes every column of a CSV or JSON Lines data set: type, count, nulls, distinct values, \
                       minimum, maximum, mean, standard deviation, quantiles and most frequent values. Takes inline \
                       text, a file below the server's data directory, or a public https URL, of any size.",
        annotations(read_only_hint = true),
        output_schema = schema_for_output::<DatasetProfile>()
    )]
    async fn profile_dataset(
        &self,
        Parameters(args): Parameters<ProfileArgs>,
        task: TaskContext,
    ) -> Result<CallToolResult, ErrorData> {
        match profile(self.sources(), args, &task).await {
            Ok(profile) => Ok(CallToolResult::structured(serde_json::json!(profile))),
            Err(error) => answer_to(&error),
        }
    }
}

async fn profile(sources: &Sources, args: ProfileArgs, task: &TaskContext) -> Result<DatasetProfile, ProfileError> {
    let plan = &args.plan()?;
    let known =
        &task.try_step(&format!("source v{STATE_VERSION}"), || sources.identify(plan)).retry_if(may_pass).await?;
    let mut before = None;
    for chunk in 0..CHUNKS_MAX {
        let begin = before.take();
        let name = format!("chunk {chunk} v{STATE_VERSION}");
        match task.try_step(&name, || sources.chunk(plan, known, begin.clone())).retry_if(may_pass).await? {
            Progress::Done(profile) => return Ok(*profile),
            Progress::More(state) => {
                let progress = task.progress(state.offset).message("bytes read");
                match known.bytes {
                    Some(bytes) => progress.of(bytes).await,
                    None => progress.await,
                }
                before = Some(state);
            }
        }
    }
    Err(refused(format!("the data set has more than {CHUNKS_MAX} chunks: profile a part of it")))
}

/// Whether another try may succeed.
fn may_pass(error: &ProfileError) -> bool {
    matches!(error, ProfileError::Read(_))
}

/// An error that the caller can correct is a tool error; any other is a protocol error.
fn answer_to(error: &ProfileError) -> Result<CallToolResult, ErrorData> {
    match error {
        ProfileError::Arguments(_) => Err(ErrorData::invalid_params(error.to_string(), None)),
        ProfileError::Refused(_) | ProfileError::Read(_) => {
            tracing::info!(error = error as &dyn std::error::Error, "a data set was not profiled");
            Ok(CallToolResult::error(vec![ContentBlock::text(error.to_string())]))
        }
        ProfileError::Internal(_) => {
            tracing::error!(error = error as &dyn std::error::Error, "a data set was not profiled");
            Err(ErrorData::internal_error(error.to_string(), None))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use longhaul::testing;
    use serde_json::json;

    use super::*;

    /// A folder with a file of so many rows.
    fn data(rows: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let mut file = std::io::BufWriter::new(std::fs::File::create(folder.path().join("a.csv")).unwrap());
        writeln!(file, "id,pad").unwrap();
        (0..rows).for_each(|row| writeln!(file, "{row},{:>100}", row % 7).unwrap());
        folder
    }

    /// The rows of the file. The first attempt begins with the steps of version 1, and what they recorded.
    async fn rows(sources: Arc<Sources>, task: TaskContext) -> String {
        if task.attempt() == 1 {
            task.step("source", async || json!({"file": {"bytes": 1, "modified_ns": 2}})).await;
            let state = json!({"offset": 50, "rows": 7, "state": "AQAsAAAAAA"});
            task.step("chunk 0", async || json!({"more": state})).await;
        }
        let args = serde_json::from_value(json!({"path": "a.csv"})).unwrap();
        profile(&sources, args, &task).await.unwrap().rows.to_string()
    }

    #[tokio::test]
    async fn a_profile_that_an_earlier_version_began_begins_anew() {
        let folder = data(1_000);
        let sources = Arc::new(Sources::new(Some(folder.path())).unwrap());
        let run = testing::tool(move |task: TaskContext| rows(Arc::clone(&sources), task));
        assert_eq!(run.crash_after("chunk 0").to_end().await.unwrap().text(), "1000");
    }
}
