//! A server with one tool, which is an external job.

use std::sync::Arc;
use std::time::Duration;

use longhaul::rmcp::handler::server::wrapper::Parameters;
use longhaul::rmcp::model::{CallToolResult, JsonObject};
use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
use longhaul::testing::{self, Call};
use longhaul::{EndedTask, Server, TaskContext, TaskPolicy};
use longhaul_gateway::jobs::{DurableJob, ExternalJob};
use serde_json::Value;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Clone)]
struct Tools(DurableJob);

#[tool_router]
impl Tools {
    #[tool(description = "Works")]
    async fn work(&self, input: Parameters<JsonObject>, task: TaskContext) -> Result<CallToolResult, ErrorData> {
        self.0.run(&task, &input.0.into()).await
    }
}

#[tool_handler]
impl ServerHandler for Tools {}

/// A call of a tool that is such a job, and may take a day. Tests look at its end themselves.
pub(crate) fn call(job: impl ExternalJob + 'static, arguments: Value) -> Call {
    call_within(24 * HOUR, Arc::new(job), arguments)
}

/// The same with another time.
pub(crate) fn call_within(time: Duration, job: Arc<dyn ExternalJob>, arguments: Value) -> Call {
    let job = DurableJob::shared(job);
    let cleanup = job.clone();
    let policy = TaskPolicy::required().run_at_most(time).retention(24 * HOUR).ttl_at_most(3 * 24 * HOUR);
    let server =
        Server::new(move || Tools(job.clone())).task("work", policy).clean_up("work", move |ended: EndedTask| {
            let job = cleanup.clone();
            async move { job.clean_up(&ended).await }
        });
    testing::of(&server).call("work", arguments).expect_any_end()
}
