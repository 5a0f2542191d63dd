//! A job that runs elsewhere: start it once, poll it, and return its result.
//!
//!     cargo run --example outside_job

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use longhaul::rmcp::{self, ErrorData, ServerHandler, tool, tool_handler, tool_router};
use longhaul::{Server, TaskContext, TaskPolicy, serve};

const HOUR: Duration = Duration::from_secs(3_600);

/// Stands for a service that runs jobs.
#[derive(Default)]
struct Service {
    started: AtomicU32,
    looks: AtomicU32,
}

impl Service {
    /// Starts a job. A service that recognises a repeated request by its key starts no second one for it.
    async fn start(&self, _key: &str) -> Result<String, ErrorData> {
        self.started.fetch_add(1, Ordering::Relaxed);
        Ok("job-17".to_owned())
    }

    /// The result of the job, if it has one by now.
    async fn report_of(&self, job: &str) -> Result<Option<String>, ErrorData> {
        let look = self.looks.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((look >= 3).then(|| format!("the report of {job}")))
    }
}

#[derive(Clone, Default)]
struct Reports {
    service: Arc<Service>,
}

#[tool_router]
impl Reports {
    #[tool(description = "Has a report written, which takes hours")]
    async fn report(&self, task: TaskContext) -> Result<String, ErrorData> {
        let key = task.idempotency_key();
        let job = task.try_step("start", || self.service.start(&key)).await?;
        task.progress(0).message(format!("{job} is running")).await;
        // Nothing runs between the looks, and they leave nothing behind but the report.
        task.poll_until("report", HOUR, || self.service.report_of(&job)).await
    }
}

#[tool_handler]
impl ServerHandler for Reports {}

fn main() -> ExitCode {
    // Shared by all handlers: there is one for each request, and one for each attempt.
    let service = Arc::<Service>::default();
    let policy = TaskPolicy::required().run_at_most(5 * 24 * HOUR);
    serve::main(|_env| Server::new(move || Reports { service: Arc::clone(&service) }).task("report", policy))
}

#[cfg(test)]
mod tests {
    use longhaul::testing::{self, TestError};
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_job_is_looked_at_every_hour() -> Result<(), TestError> {
        let run = testing::server(Reports::default()).call("report", json!({})).to_end().await?;
        assert_eq!(run.text(), "the report of job-17");
        assert_eq!((run.elapsed(), run.times("report")), (2 * HOUR, 3));
        assert_eq!(run.steps(), ["start", "report"]);
        Ok(())
    }

    #[tokio::test]
    async fn a_crash_before_the_record_starts_it_again_with_the_same_key() -> Result<(), TestError> {
        let reports = Reports::default();
        let run = testing::server(reports.clone()).call("report", json!({})).crash_before_record("start");
        assert_eq!(run.to_end().await?.times("start"), 2);
        assert_eq!(reports.service.started.load(Ordering::Relaxed), 2, "this service does not look at the key");
        Ok(())
    }

    #[tokio::test]
    async fn it_does_the_same_after_any_crash() -> Result<(), TestError> {
        testing::crash_everywhere(Reports::default(), "report", json!({})).await
    }
}
