//! The tool itself: one step to look at the source, then one for each chunk.

use longhaul::TaskContext;
use longhaul::rmcp::handler::server::tool::schema_for_output;
use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::model::{CallToolResult, ContentBlock};
use longhaul::rmcp::{self, ErrorData, tool, tool_router};

use super::arguments::{Plan, ProfileArgs};
use super::chunk::{Pace, Progress};
use super::error::ProfileError;
use super::report::DatasetProfile;
use super::source::address::UrlPolicy;
use super::source::{SourceIdentity, Sources};
use crate::App;

/// The maximum number of chunks in a data set: more than the largest one has.
const CHUNKS_MAX: u32 = 4_000;

#[tool_router(router = profile_tool, vis = "pub(crate)")]
impl App {
    /// Profiles a data set.
    #[tool(
        name = "profile_dataset",
        description = "Describes every column of a CSV or JSON Lines data set: type, count, nulls, distinct values, minimum, maximum, mean, standard deviation, quantiles and most frequent values. Takes inline text, a file below the server's data directory, or a public https URL, of any size.",
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
    let plan = args.plan(Pace::default(), UrlPolicy::PublicHttps)?;
    let identity = task.try_step("source", || sources.identify(&plan)).await?;
    let mut before = None;
    for chunk in 0..CHUNKS_MAX {
        let done = task.try_step(&format!("chunk {chunk}"), || next(sources, &plan, &identity, before.take())).await?;
        match done {
            Progress::Done(profile) => return Ok(*profile),
            Progress::More(checkpoint) => {
                report_progress(task, &identity, checkpoint.offset).await;
                before = Some(checkpoint);
            }
        }
    }
    Err(ProfileError::Refused(format!("the data set has more than {CHUNKS_MAX} chunks: profile a part of it")))
}

async fn next(
    sources: &Sources,
    plan: &Plan,
    identity: &SourceIdentity,
    before: Option<super::checkpoint::Checkpoint>,
) -> Result<Progress, ProfileError> {
    sources.chunk(plan, identity, before).await
}

async fn report_progress(task: &TaskContext, identity: &SourceIdentity, offset: u64) {
    let progress = task.progress(offset).message("bytes read");
    match identity.bytes() {
        Some(bytes) => progress.of(bytes).await,
        None => progress.await,
    }
}

/// What the caller can correct is a tool error; anything else is a protocol error.
fn answer_to(error: &ProfileError) -> Result<CallToolResult, ErrorData> {
    match error {
        ProfileError::Arguments(_) => Err(ErrorData::invalid_params(error.to_string(), None)),
        ProfileError::Format(_)
        | ProfileError::RecordTooLong { .. }
        | ProfileError::TooManyColumns { .. }
        | ProfileError::Refused(_)
        | ProfileError::Changed
        | ProfileError::Read(_)
        | ProfileError::Remote(_) => {
            tracing::info!(error = error as &dyn std::error::Error, "a data set was not profiled");
            Ok(CallToolResult::error(vec![ContentBlock::text(error.to_string())]))
        }
        ProfileError::Stopped | ProfileError::Internal(_) => {
            tracing::error!(error = error as &dyn std::error::Error, "a data set was not profiled");
            Err(ErrorData::internal_error(error.to_string(), None))
        }
    }
}
