//! Jobs of other systems as durable tools. A tool starts an existing job once, costs nothing while the job runs, and
//! returns the job's result. A crash of Longhaul does not affect the job. The job is stopped when its task is
//! cancelled, times out or is given up.
//!
//! [`DurableJob`] is the body of such a tool, [`ExternalJob`] is the interface to the other system, and [`Driver`] runs
//! one call. `docs/jobs.md` says how a configuration of the gateway makes tools of jobs without any code.

mod arguments;
mod aws;
mod batch;
mod codebuild;
mod driver;
mod durable;
mod ecs;
mod glue;
mod http_job;
mod job;
mod limits;
mod output;
mod rights;
mod step_functions;
mod template;
mod web;

pub use aws::{Aws, AwsJob, ParameterError, ParameterValue, SigningError};
pub use batch::{BatchJob, BatchJobSpec};
pub use codebuild::{CodeBuild, CodeBuildSpec};
pub use driver::{CleanUpError, Driver};
pub use durable::DurableJob;
pub use ecs::{EcsTask, EcsTaskSpec};
pub use glue::{GlueJob, GlueJobSpec};
pub use http_job::{HttpJob, HttpJobSpec, HttpRequest, HttpResult, RequestKind};
pub use job::{Again, ExternalJob, JobError, JobKey, JobProgress, JobRef, Poll, Start, Started, Steps};
pub use rights::Rights;
pub use step_functions::{StateMachine, StepFunctions};
