//! The server as two Lambda functions: one that answers requests, one that works.
//!
//! Both take the same [`Server`]; the same tools run in either. Their configuration is in environment variables,
//! which the deployment's template sets and `docs/settings.md` lists. Tasks are stored in a
//! DynamoDB table; an SQS queue delivers the work.
//!
//! Each function is a binary with one line, next to the same function that makes the server:
//!
//! ```no_run
//! # use longhaul::rmcp::{self, ServerHandler, tool, tool_handler, tool_router};
//! # use longhaul::{Server, TaskPolicy, ToolEnv};
//! # #[derive(Clone)]
//! # struct Reports;
//! # #[tool_router]
//! # impl Reports {
//! #     #[tool]
//! #     async fn report(&self) -> String { String::new() }
//! # }
//! # #[tool_handler]
//! # impl ServerHandler for Reports {}
//! fn server(_env: ToolEnv) -> Server {
//!     Server::new(|| Reports).task("report", TaskPolicy::optional())
//! }
//!
//! // src/bin/api.rs
//! fn main() -> std::process::ExitCode {
//!     longhaul::lambda::api(server)
//! }
//!
//! // src/bin/worker.rs
//! # mod worker {
//! # use super::*;
//! fn main() -> std::process::ExitCode {
//!     longhaul::lambda::worker(server)
//! }
//! # }
//! ```

mod variables;

use std::fmt;
use std::future::ready;
use std::process::ExitCode;
use std::sync::Arc;

use futures::TryFutureExt;
use futures::future::try_join;
use longhaul_core::settings::{Declared, Flags, Place, SettingsError, Values, table};
use longhaul_core::with_causes;
pub use longhaul_lambda::StartError;
use longhaul_lambda::{
    ApiConfig, Common, LogSettings, WorkerConfig, World, init_logs, start_api, start_publisher, start_worker,
    tool_secrets,
};
use tokio::runtime::Handle;

use crate::settings::ProcessEnv;
use crate::{IntoServer, OsIds, Server, SystemClock, ToolEnv, ToolError, telemetry};

/// Threads of a worker: one for tools, and one that keeps the heartbeats going while a tool computes.
const WORKER_THREADS: usize = 2;

/// Why a function does not run. `{:?}` is the same in full, with all causes, because a `main` that returns it prints
/// that.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FunctionError {
    /// Settings in the environment are missing or wrong.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The runtime for async code could not be started.
    #[error("the function could not start its threads")]
    Runtime(#[source] std::io::Error),
    /// Something that the function needs does not answer.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The values of `tool-env` could not be set as environment variables.
    #[error("the program could not be started again with the values of `tool-env` as environment variables")]
    Variables(#[source] std::io::Error),
    /// Lambda's Runtime API does not answer.
    #[error("the Runtime API does not answer")]
    RuntimeApi(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Something is wrong with a tool that a policy names.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The application could not make its server.
    #[error("the server could not be made")]
    Program(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A function was started where a runtime runs already.
    #[error("a function starts its own runtime, and this program has one already: leave out `#[tokio::main]`")]
    NestedRuntime,
}

impl fmt::Debug for FunctionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&with_causes(self))
    }
}

/// The whole `main` of an API function. It reads the environment, makes the server with the settings of its tools, and
/// answers requests until the sandbox ends. Errors are printed, with their causes.
pub fn api<S: IntoServer<Kind>, Kind>(server: impl FnOnce(ToolEnv) -> S) -> ExitCode {
    let run = || {
        let function = ApiFunction::from_env(&[])?;
        function.run_made(made(server(function.tool_env()?)))
    };
    exit_code(run())
}

/// The whole `main` of a worker function. It reads the environment and the secrets of its tools, makes the server with
/// them, and runs its tools until the sandbox ends. The same function handles dead letters, and publishes the ends of
/// tasks, if its settings say so. Errors are printed, with their causes.
pub fn worker<S: IntoServer<Kind>, Kind>(server: impl FnOnce(ToolEnv) -> S) -> ExitCode {
    let run = || {
        let function = WorkerFunction::from_env(&[])?;
        function.run_made(made(server(function.tool_env()?)))
    };
    exit_code(run())
}

/// The server that the application makes, in the runtime of the function.
async fn made<S: IntoServer<Kind>, Kind>(server: S) -> Result<Server, FunctionError> {
    server.into_server().await.map_err(FunctionError::Program)
}

/// The function that answers requests, for an application that has its own settings.
///
/// ```no_run
/// use longhaul::lambda::{ApiFunction, FunctionError};
/// use longhaul::settings::Preset::Value;
/// use longhaul::settings::{Setting, Switch};
///
/// static DRAFTS: Setting<Switch> = Setting::new("drafts", "REPORTS_DRAFTS", Switch, "Also list drafts.")
///     .lambda(Value("false"));
///
/// # #[derive(Clone)]
/// # struct Reports;
/// # impl longhaul::rmcp::ServerHandler for Reports {}
/// # fn server(_env: longhaul::ToolEnv, _drafts: bool) -> longhaul::Server { longhaul::Server::new(|| Reports) }
/// fn main() -> Result<(), FunctionError> {
///     let function = ApiFunction::from_env(&[&DRAFTS])?;
///     let server = server(function.tool_env()?, function.values().get(&DRAFTS)?);
///     function.run(&server)
/// }
/// ```
pub struct ApiFunction {
    config: ApiConfig,
    values: Values,
}

impl ApiFunction {
    /// Reads the environment: Longhaul's settings, and those that the application declares. If `tool-env` has values
    /// that are not environment variables yet, the program is started again with them: call it first.
    ///
    /// # Errors
    /// [`FunctionError::Settings`], with all that is wrong with either.
    pub fn from_env(own: &[&'static dyn Declared]) -> Result<Self, FunctionError> {
        let values = read(Place::Api, own)?;
        Ok(Self { config: ApiConfig::of(&values)?, values })
    }

    /// All values, with those of the application's settings.
    #[must_use]
    pub const fn values(&self) -> &Values {
        &self.values
    }

    /// The settings of the tools. Secrets are not there: this function has no permission to read them.
    pub fn tool_env(&self) -> Result<ToolEnv, FunctionError> {
        Ok(self.values.find(&table::TOOL_ENV)?.unwrap_or_default().into_iter().collect())
    }

    /// Answers requests with `server` until the sandbox ends.
    pub fn run(&self, server: &Server) -> Result<(), FunctionError> {
        self.run_made(ready(Ok(server.clone())))
    }

    fn run_made(&self, server: impl Future<Output = Result<Server, FunctionError>>) -> Result<(), FunctionError> {
        let config = &self.config;
        start_logs(&config.common);
        telemetry::start(&self.values, Place::Api)?;
        // A sandbox answers one request at a time: a second thread would only cost time at the start.
        let runtime = runtime(&mut tokio::runtime::Builder::new_current_thread())?;
        runtime.block_on(async {
            let server = &server.await?;
            let build = |engine, settings| server.build(engine, settings);
            // On the heap: the compiler gives up on one future that holds all of these.
            server.read_declared().await?;
            let tasks = server.tasks();
            let starting = Box::pin(start_api(config, world(), &tasks, build));
            let api = started(starting, server).await?;
            Box::pin(api.run(config)).await.map_err(FunctionError::RuntimeApi)
        })
    }
}

/// The function that runs tools and takes dead letters, for an application that has its own settings. It is used as
/// [`ApiFunction`] is.
pub struct WorkerFunction {
    config: WorkerConfig,
    values: Values,
}

impl WorkerFunction {
    /// Reads the environment: Longhaul's settings, and those that the application declares. If `tool-env` has values
    /// that are not environment variables yet, the program is started again with them: call it first.
    ///
    /// # Errors
    /// [`FunctionError::Settings`], with all that is wrong with either.
    pub fn from_env(own: &[&'static dyn Declared]) -> Result<Self, FunctionError> {
        let values = read(Place::Worker, own)?;
        Ok(Self { config: WorkerConfig::of(&values)?, values })
    }

    /// All values, with those of the application's settings.
    #[must_use]
    pub const fn values(&self) -> &Values {
        &self.values
    }

    /// The settings of the tools, with their secrets, which are read now.
    ///
    /// # Errors
    /// [`FunctionError`], which names a secret that cannot be read, and repeats no part of it.
    pub fn tool_env(&self) -> Result<ToolEnv, FunctionError> {
        let plain = self.values.find(&table::TOOL_ENV)?.unwrap_or_default();
        if self.config.secret_arns.is_empty() {
            return Ok(plain.into_iter().collect());
        }
        start_logs(&self.config.common);
        // Of its own: the threads that run tools do not exist yet.
        let runtime = runtime(&mut tokio::runtime::Builder::new_current_thread())?;
        let secrets = runtime.block_on(tool_secrets(&self.config, &world()))?;
        Ok(plain.into_iter().chain(secrets).collect())
    }

    /// Runs the tools of `server` until the sandbox ends. If the setting `event-bus` makes this function a publisher,
    /// it publishes the ends of their tasks instead.
    pub fn run(&self, server: &Server) -> Result<(), FunctionError> {
        self.run_made(ready(Ok(server.clone())))
    }

    fn run_made(&self, server: impl Future<Output = Result<Server, FunctionError>>) -> Result<(), FunctionError> {
        let config = &self.config;
        start_logs(&config.common);
        telemetry::start(&self.values, Place::Worker)?;
        let runtime = runtime(tokio::runtime::Builder::new_multi_thread().worker_threads(WORKER_THREADS))?;
        runtime.block_on(async {
            if let Some(bus) = &config.event_bus {
                return start_publisher(config, bus, world()).await?.run().await.map_err(FunctionError::RuntimeApi);
            }
            let server = &server.await?;
            let build = |engine, settings| server.build(engine, settings);
            server.read_declared().await?;
            let tasks = server.tasks();
            let starting = Box::pin(start_worker(config, world(), &tasks, build));
            let worker = started(starting, server).await?;
            worker.run().await.map_err(FunctionError::RuntimeApi)
        })
    }
}

/// The runtime of a function, unless its program has one already.
fn runtime(builder: &mut tokio::runtime::Builder) -> Result<tokio::runtime::Runtime, FunctionError> {
    if Handle::try_current().is_ok() {
        return Err(FunctionError::NestedRuntime);
    }
    builder.enable_all().build().map_err(FunctionError::Runtime)
}

/// Finishes the set-up. It checks the tools of the server while the set-up waits for the table to answer. Their schemas
/// are compiled at their first calls: a function may handle polls alone.
async fn started<T>(
    starting: impl Future<Output = Result<T, StartError>>,
    server: &Server,
) -> Result<T, FunctionError> {
    let checked = server.check_names().map_err(FunctionError::from);
    Ok(try_join(starting.map_err(FunctionError::from), checked).await?.0)
}

fn start_logs(config: &Common) {
    let clock = Arc::new(SystemClock);
    init_logs(&LogSettings { filter: &config.log, payloads: config.log_payloads, audit: config.audit, clock });
}

fn read(place: Place, own: &[&'static dyn Declared]) -> Result<Values, FunctionError> {
    let values = Values::read(place, &[&table::ALL, own], &Flags::new(), &ProcessEnv)?;
    let wanted = variables::wanted(&values)?;
    variables::set(&wanted, &ProcessEnv).map_err(FunctionError::Variables)?;
    Ok(values)
}

fn world() -> World {
    World { clock: Arc::new(SystemClock), ids: Arc::new(OsIds), environment: Arc::new(ProcessEnv) }
}

/// Prints why a function ended, with all causes, if it was not asked to.
#[expect(clippy::print_stderr, reason = "this is the output of the program for who started it")]
fn exit_code(end: Result<(), FunctionError>) -> ExitCode {
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_main_that_returns_it_prints_all_of_it() {
        let error = FunctionError::RuntimeApi("connection refused".into());
        assert_eq!(format!("{error:?}"), "the Runtime API does not answer: connection refused");
    }
}
