//! Tools that are jobs of other systems: known from the configuration alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::jobs::{
    Aws, BatchJob, CodeBuild, DurableJob, EcsTask, ExternalJob, GlueJob, HttpJob, JobError, StepFunctions,
};
use futures::future::join_all;
use longhaul::{EndedTask, TaskContext, TaskPolicy};
use rmcp::ErrorData;
use rmcp::model::{CallToolRequestParams, CallToolResponse, Tool};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use crate::catalog::Callers;
use crate::config::{self, Kind};
use crate::limits;
use crate::policy::{check, kept_for_stops, policy};
use crate::start_error::{Problem, StartError};
use crate::upstream::failed;

/// All of them, in the order of the configuration.
#[derive(Default)]
pub(crate) struct OutsideTools(Vec<OutsideTool>);

pub(crate) struct OutsideTool {
    pub(crate) tool: Tool,
    pub(crate) policy: TaskPolicy,
    place: String,
    /// Which job it is, or why this process does not run it.
    job: Result<Job, String>,
}

struct Job {
    kind: Arc<dyn ExternalJob>,
    durable: DurableJob,
}

impl OutsideTools {
    /// The tools of these entries.
    pub(crate) async fn of(entries: &[config::OutsideJob]) -> Result<Self, StartError> {
        let aws = Aws::from_environment();
        let (mut tools, mut problems) = (Vec::new(), Vec::new());
        for entry in entries {
            let tool = OutsideTool::of(entry, &aws);
            if let Err(error) = check(&tool.tool, &tool.policy).await {
                problems.push(Problem::Entry { place: entry.place.clone(), what: error.to_string() });
            }
            tools.push(tool);
        }
        StartError::unless_none(problems).map(|()| Self(tools))
    }

    /// Asks the systems whether the jobs can be started at all.
    ///
    /// # Errors
    /// The problems that have to be solved first. A system that does not answer now is not a problem.
    pub(crate) async fn check(&self) -> Result<(), StartError> {
        let problems = join_all(self.0.iter().map(OutsideTool::check)).await;
        StartError::unless_none(problems.into_iter().flatten().collect())
    }

    pub(crate) fn find(&self, tool: &str) -> Option<&OutsideTool> {
        self.0.iter().find(|outside| outside.tool.name == tool)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &OutsideTool> {
        self.0.iter()
    }

    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.0.iter().map(|outside| outside.tool.name.to_string()).collect()
    }
}

impl OutsideTool {
    fn of(entry: &config::OutsideJob, aws: &Arc<Aws>) -> Self {
        let mut tool = Tool::new(entry.name.clone(), entry.description.clone(), Arc::new(entry.input_schema.clone()));
        tool.title.clone_from(&entry.title);
        tool.output_schema = entry.output_schema.clone().map(Arc::new);
        let callers = Callers::of(entry.terms.durable, &entry.name, None);
        let job = entry.kind.clone().map(|kind| {
            let kind = reached(kind, aws);
            let durable = DurableJob::shared(Arc::clone(&kind));
            let durable = match entry.poll_every {
                Some(every) => durable.poll_every(every),
                None => durable,
            };
            Job { kind, durable }
        });
        Self { tool, policy: policy(&kept_for_stops(&entry.terms), callers), place: entry.place.clone(), job }
    }

    async fn check(&self) -> Option<Problem> {
        let job = self.job.as_ref().ok()?;
        let checked = tokio::time::timeout(limits::CHECK_MAX, job.kind.check()).await;
        match checked {
            Ok(Ok(())) => None,
            Ok(Err(JobError::Refused(what))) => Some(Problem::Entry { place: self.place.clone(), what }),
            Ok(Err(JobError::NotNow(why) | JobError::Unanswered(why) | JobError::NotFound(why))) => {
                tracing::warn!(tool = %self.tool.name, why, "whether this job can be started is not known yet");
                None
            }
            Err(_late) => {
                tracing::warn!(tool = %self.tool.name, "whether this job can be started is not known yet: no answer in \
                    time");
                None
            }
        }
    }

    /// Runs one attempt of a call.
    pub(crate) async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let task = context.extensions.get::<TaskContext>();
        let task = task.ok_or_else(|| ErrorData::internal_error("the gateway needs Longhaul around it", None))?;
        let job = self.job.as_ref().map_err(|why| self.elsewhere(why))?;
        let input = Value::Object(request.arguments.unwrap_or_default());
        Ok(job.durable.run(task, &input).await?.into())
    }

    /// Stops the job of a task that has ended otherwise.
    pub(crate) async fn clean_up(&self, ended: &EndedTask) -> Result<(), String> {
        let job = self.job.as_ref().map_err(Clone::clone)?;
        job.durable.clean_up(ended).await.map_err(|error| error.to_string())
    }

    fn elsewhere(&self, why: &str) -> ErrorData {
        failed(&format!("the job `{}` cannot be started: {why}", self.tool.name))
    }
}

fn reached(kind: Kind, aws: &Arc<Aws>) -> Arc<dyn ExternalJob> {
    let aws = Arc::clone(aws);
    match kind {
        Kind::StepFunctions(machine) => Arc::new(StepFunctions::new(aws, machine)),
        Kind::Batch(spec) => Arc::new(BatchJob::new(aws, spec)),
        Kind::CodeBuild(spec) => Arc::new(CodeBuild::new(aws, spec)),
        Kind::Ecs(spec) => Arc::new(EcsTask::new(aws, spec)),
        Kind::Glue(spec) => Arc::new(GlueJob::new(aws, spec)),
        Kind::Http(spec) => Arc::new(HttpJob::new(*spec)),
    }
}
