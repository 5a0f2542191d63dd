//! An external job as the body of a durable tool.

use std::sync::Arc;

use longhaul::{EndedTask, Every, TaskContext};
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult};
use serde_json::Value;

use crate::jobs::driver::{CleanUpError, Driver, failed};
use crate::jobs::job::{ExternalJob, JobKey};

/// An external job as the body of a durable tool. Clones are the same.
///
/// ```
/// # use std::sync::Arc;
/// use longhaul::rmcp::handler::server::wrapper::Parameters;
/// use longhaul::rmcp::model::{CallToolResult, JsonObject};
/// use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
/// use longhaul::{EndedTask, Server, TaskContext, TaskPolicy};
/// use longhaul_gateway::jobs::{Aws, DurableJob, StateMachine, StepFunctions};
///
/// #[derive(Clone)]
/// struct Tools {
///     etl: DurableJob,
/// }
///
/// #[tool_router]
/// impl Tools {
///     #[tool(description = "Loads the sales of a month")]
///     async fn etl(&self, input: Parameters<JsonObject>, task: TaskContext) -> Result<CallToolResult, ErrorData> {
///         self.etl.run(&task, &input.0.into()).await
///     }
/// }
///
/// #[tool_handler]
/// impl ServerHandler for Tools {}
///
/// # fn server() -> Result<Server, Box<dyn std::error::Error>> {
/// let machine = StateMachine::of_arn("arn:aws:states:eu-west-1:123456789012:stateMachine:etl")?;
/// let etl = DurableJob::new(StepFunctions::new(Aws::from_environment(), machine));
/// let tools = Tools { etl: etl.clone() };
/// # Ok(
/// Server::new(move || tools.clone()).task("etl", TaskPolicy::required()).clean_up("etl", move |ended: EndedTask| {
///     let etl = etl.clone();
///     async move { etl.clean_up(&ended).await }
/// })
/// # )
/// # }
/// ```
#[derive(Clone)]
pub struct DurableJob {
    job: Arc<dyn ExternalJob>,
    every: Option<Every>,
}

impl DurableJob {
    /// Jobs of this kind, polled as often as the kind says: after a second, then at growing intervals, up to every 15
    /// minutes.
    pub fn new(job: impl ExternalJob + 'static) -> Self {
        Self::shared(Arc::new(job))
    }

    /// The same for a kind that is shared.
    #[must_use]
    pub fn shared(job: Arc<dyn ExternalJob>) -> Self {
        Self { job, every: None }
    }

    /// Waits so long between two polls.
    #[must_use]
    pub fn poll_every(self, every: impl Into<Every>) -> Self {
        Self { every: Some(every.into()), ..self }
    }

    fn driver(&self) -> Driver<'_> {
        Driver::new(&*self.job).poll_every(self.every)
    }

    /// Starts the job, unless that is recorded, and waits for its end. For the body of a tool whose task has nothing
    /// else to do. Nothing is held while it waits.
    ///
    /// # Errors
    /// Why it could not be started or polled, with what to do. A job that failed is a result that says so.
    pub async fn run(&self, task: &TaskContext, input: &Value) -> Result<CallToolResult, ErrorData> {
        let Some(task_key) = task.task_key() else {
            return Err(failed("an external job needs a task: give its tool a TaskPolicy"));
        };
        match self.driver().run(task, &JobKey::of(&task_key), input).await? {
            CallToolResponse::Complete(result) => Ok(result),
            _ => Err(failed("a job that asks before it starts is not supported here")),
        }
    }

    /// Stops the job that the task has started. For `Server::clean_up`. It searches for a job whose start is not
    /// recorded.
    pub async fn clean_up(&self, ended: &EndedTask) -> Result<(), CleanUpError> {
        self.driver().clean_up(ended).await
    }
}

impl std::fmt::Debug for DurableJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DurableJob").field("every", &self.every).finish_non_exhaustive()
    }
}
