//! Jobs of other systems, as the tools of the server start them. `JOBS` in the environment of its tools is the URL of
//! the system that runs some. `MACHINE` is the ARN of a state machine, where there is one.

use std::time::Duration;

use longhaul::rmcp::ErrorData;
use longhaul::rmcp::model::CallToolResult;
use longhaul::{EndedTask, TaskContext, ToolEnv};
use longhaul_gateway::jobs::{
    Again, Aws, DurableJob, HttpJob, HttpJobSpec, HttpRequest, HttpResult, RequestKind, StateMachine, StepFunctions,
};
use reqwest::Method;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a callback is waited for.
const CALLBACK: Duration = Duration::from_secs(600);

/// How often a start is tried that the system does not answer, and how long to wait between two tries and for each
/// answer.
const STARTS_MAX: u32 = 100;
const START_AGAIN: Duration = Duration::from_millis(500);
const START_MAX: Duration = Duration::from_secs(10);

/// The work of a job.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Work {
    /// Which file.
    name: String,
    /// How long it takes.
    ms: u64,
    /// The same in whole seconds.
    s: u64,
    /// How it ends: `done` or `failed`.
    end: String,
}

/// The system, and the effect of a second start.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The system recognises it by its key.
    Repeatable,
    /// It would be another job; the one that was started can be found.
    Once,
    /// An execution of the state machine.
    Execution,
}

/// The systems.
#[derive(Debug)]
pub(crate) struct Systems {
    url: String,
    repeatable: DurableJob,
    once: DurableJob,
    execution: Option<DurableJob>,
}

impl Systems {
    /// The systems that this environment names.
    pub(crate) fn of(env: &ToolEnv) -> Result<Self, String> {
        let url = env.get("JOBS").map_err(|error| error.to_string())?.to_owned();
        let execution = |arn: &str| {
            Ok::<_, String>(DurableJob::new(StepFunctions::new(Aws::from_environment(), StateMachine::of_arn(arn)?)))
        };
        Ok(Self {
            repeatable: over_http(&url, "repeatable", Again::SameJob)?,
            once: over_http(&url, "once", Again::AnotherJob)?,
            execution: env.find("MACHINE").map(execution).transpose()?,
            url,
        })
    }

    fn job(&self, kind: Kind) -> Result<&DurableJob, ErrorData> {
        match kind {
            Kind::Repeatable => Ok(&self.repeatable),
            Kind::Once => Ok(&self.once),
            Kind::Execution => self.execution.as_ref().ok_or_else(|| wrong("there is no MACHINE")),
        }
    }

    /// Runs one to its end.
    pub(crate) async fn run(&self, kind: Kind, task: &TaskContext, work: &Work) -> Result<CallToolResult, ErrorData> {
        self.job(kind)?.run(task, &json!(work)).await
    }

    /// Stops what an ended task has started.
    pub(crate) async fn clean_up(&self, kind: Kind, ended: &EndedTask) -> Result<(), ErrorData> {
        self.job(kind)?.clean_up(ended).await.map_err(|error| wrong(&error.to_string()))
    }

    /// Starts a job that sends its result with a token, and waits for that.
    pub(crate) async fn run_and_be_called(&self, task: &TaskContext, work: &Work) -> Result<Option<Value>, ErrorData> {
        let key = task.idempotency_key();
        let start = |token| async move {
            let body = json!({"name": work.name, "ms": work.ms, "end": work.end, "key": key, "token": token});
            self.start_until_answered(&body.to_string()).await
        };
        task.callback("job", CALLBACK, start).await
    }

    async fn start_until_answered(&self, body: &str) -> Result<(), ErrorData> {
        for _ in 0..STARTS_MAX {
            let request = reqwest::Client::new().post(format!("{}/repeatable/jobs", self.url));
            let request = request.header("content-type", "application/json").body(body.to_owned()).timeout(START_MAX);
            if request.send().await.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(START_AGAIN).await;
        }
        Err(wrong("the system does not answer"))
    }
}

fn over_http(url: &str, path: &str, again: Again) -> Result<DurableJob, String> {
    let request = |kind, method, path: &str| HttpRequest::new(kind, method, &format!("{url}{path}"));
    let body = json!({"name": "{input/name}", "ms": "{input/ms}", "end": "{input/end}", "key": "{key}"});
    let start = request(RequestKind::Start, Method::POST, &format!("/{path}/jobs"))?.body(RequestKind::Start, body)?;
    let spec = HttpJobSpec {
        start,
        again,
        find: Some(request(RequestKind::Find, Method::GET, "/jobs/of/{key}")?),
        status: request(RequestKind::OfJob, Method::GET, "/jobs/{id}")?,
        stop: Some(request(RequestKind::OfJob, Method::DELETE, "/jobs/{id}")?),
        result: HttpResult::At("/output".to_owned()),
        id: "/id".to_owned(),
        state: "/state".to_owned(),
        done: vec!["done".to_owned()],
        failed: vec!["failed".to_owned(), "stopped".to_owned()],
        error: Some("/error".to_owned()),
        progress: [None, None, None],
    };
    Ok(DurableJob::new(HttpJob::new(spec)))
}

fn wrong(why: &str) -> ErrorData {
    ErrorData::internal_error(why.to_owned(), None)
}
