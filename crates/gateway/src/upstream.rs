//! One server behind the gateway: starting it or connecting to it, in the era that it speaks.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RoleClient, RunningService, ServiceError, serve_client_with_lifecycle,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) mod client;
pub(crate) mod http;
mod lines;
pub(crate) mod process;
pub(crate) mod session;
mod stdio;
pub(crate) mod task_tools;
pub(crate) mod tasks;

use client::Client;
use http::Endpoint;
use process::{Groups, Launch, Process};
use stdio::Stdio;
use task_tools::TaskTools;

use crate::config;

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A process is started.
    Child(Launch),
    /// It runs somewhere.
    Http(Endpoint),
}

/// How a server begins a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// `initialize`, up to revision `2025-11-25`.
    Handshake,
    /// Requests that say everything themselves, from revision `2026-07-28`.
    PerRequest,
}

impl Era {
    fn of(version: &ProtocolVersion) -> Self {
        if version.has_initialize() { Self::Handshake } else { Self::PerRequest }
    }
}

fn lifecycle(era: Option<Era>) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match era {
        Some(Era::Handshake) => ClientLifecycleMode::Initialize,
        Some(Era::PerRequest) => ClientLifecycleMode::Discover { preferred_versions },
        None => ClientLifecycleMode::Auto { preferred_versions, legacy_version: Some(ProtocolVersion::V_2025_11_25) },
    }
}

/// One server, and what was learned about it.
pub(crate) struct Upstream {
    name: String,
    target: Target,
    start_max: Duration,
    groups: Groups,
    /// One permit for each process or connection.
    permits: Arc<Semaphore>,
    /// The era that the operator wants.
    wanted: Option<Era>,
    era: Mutex<Option<Era>>,
    task_tools: TaskTools,
}

/// Why there is no connection, or none any more. Its text is for operators and callers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct ConnectError {
    why: String,
    /// Whether it may be different the next time.
    pub(crate) lasting: Lasting,
}

/// Whether another try can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// Not before somebody changes the configuration or installs something.
    Yes,
    /// Perhaps.
    No,
}

/// A connection. When it is dropped, the process behind it is ended.
pub(crate) struct Connection {
    server: String,
    running: RunningService<RoleClient, Client>,
    process: Option<Process>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Connection {
    /// The name of the server.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// What requests are sent to.
    pub(crate) fn peer(&self) -> &rmcp::Peer<RoleClient> {
        self.running.peer()
    }

    /// Why the connection is gone, after a request failed because of it.
    pub(crate) async fn last_words(mut self, error: &ServiceError) -> String {
        match &mut self.process {
            Some(process) => process.last_words().await,
            None => format!("the connection was lost: {}", lost(error)),
        }
    }
}

impl Upstream {
    /// A server as it is configured.
    pub(crate) fn new(server: &config::Server, groups: Groups) -> Self {
        Self {
            name: server.name.clone(),
            target: server.target.clone(),
            start_max: server.start_max,
            groups,
            permits: Arc::new(Semaphore::new(server.concurrency)),
            wanted: server.era,
            era: Mutex::new(server.era),
            task_tools: TaskTools::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The era that it spoke last; `None` before the first connection.
    pub(crate) fn era(&self) -> Option<Era> {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, era: Option<Era>) {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner) = self.wanted.or(era);
    }

    /// A new connection: for a child process, a new process. Waits while as many as allowed are open.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub(crate) async fn connect(&self, client: Client) -> Result<Connection, ConnectError> {
        let permit = self.permit().await?;
        let known = self.era();
        match self.connect_as(known, client.clone(), permit).await {
            Ok(connection) => Ok(connection),
            Err(error) if error.lasting == Lasting::Yes => Err(error),
            // It may have been replaced by one of another era: the next connection asks again.
            Err(error) if known.is_some() => {
                self.remember(None);
                Err(error)
            }
            // Some older servers end, or fall silent, when their first message is not `initialize`.
            Err(_) => {
                let permit = self.permit().await?;
                self.connect_as(Some(Era::Handshake), client, permit).await
            }
        }
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, ConnectError> {
        // The semaphore is never closed.
        Arc::clone(&self.permits).acquire_owned().await.map_err(|closed| self.lost(&closed.to_string()))
    }

    async fn connect_as(
        &self,
        era: Option<Era>,
        client: Client,
        permit: OwnedSemaphorePermit,
    ) -> Result<Connection, ConnectError> {
        let connection = match &self.target {
            Target::Child(launch) => self.start(launch, era, client, permit).await?,
            Target::Http(endpoint) => {
                let transport = endpoint.transport().map_err(|why| self.lost(&why))?;
                match self.begin(Box::pin(serve_client_with_lifecycle(client, transport, lifecycle(era)))).await {
                    Ok(running) => self.connection(running, None, Some(permit)),
                    Err(Unbegun::Late) => return Err(self.lost(LATE)),
                    Err(Unbegun::Refused(error)) => return Err(self.lost(&unbegun(&error))),
                }
            }
        };
        self.remember(connection.peer().peer_info().map(|info| Era::of(&info.protocol_version)));
        Ok(connection)
    }

    async fn start(
        &self,
        launch: &Launch,
        era: Option<Era>,
        client: Client,
        permit: OwnedSemaphorePermit,
    ) -> Result<Connection, ConnectError> {
        let started = Process::start(&self.name, launch, &self.groups, permit);
        let (mut process, pipes) =
            started.map_err(|why| ConnectError { why: self.cannot_start(&why), lasting: Lasting::Yes })?;
        match self
            .begin(Box::pin(serve_client_with_lifecycle(
                client,
                Stdio::new(pipes, self.task_tools.clone()),
                lifecycle(era),
            )))
            .await
        {
            Ok(running) => return Ok(self.connection(running, Some(process), None)),
            Err(Unbegun::Late) => process.note(LATE),
            Err(Unbegun::Refused(error)) if answered(&error) => {
                process.note(format!("it does not speak MCP as expected: {error}"));
            }
            // The process has ended.
            Err(Unbegun::Refused(_)) => {}
        }
        Err(self.lost(&process.last_words().await))
    }

    fn connection(
        &self,
        running: RunningService<RoleClient, Client>,
        process: Option<Process>,
        permit: Option<OwnedSemaphorePermit>,
    ) -> Connection {
        Connection { server: self.name.clone(), running, process, _permit: permit }
    }

    async fn begin(
        &self,
        beginning: impl Future<Output = Result<RunningService<RoleClient, Client>, ClientInitializeError>>,
    ) -> Result<RunningService<RoleClient, Client>, Unbegun> {
        match tokio::time::timeout(self.start_max, beginning).await {
            Ok(Ok(running)) => Ok(running),
            Ok(Err(error)) => Err(Unbegun::Refused(Box::new(error))),
            Err(_late) => Err(Unbegun::Late),
        }
    }

    fn cannot_start(&self, why: &str) -> String {
        match &self.target {
            Target::Child(_) => format!("the server `{}` cannot be started: {why}", self.name),
            Target::Http(_) => format!("the server `{}` cannot be reached: {why}", self.name),
        }
    }

    fn lost(&self, why: &str) -> ConnectError {
        ConnectError { why: self.cannot_start(why), lasting: Lasting::No }
    }
}

const LATE: &str = "it did not answer in time";

/// Why a connection did not begin.
enum Unbegun {
    Late,
    Refused(Box<ClientInitializeError>),
}

/// Whether the server was there and said something.
fn answered(error: &ClientInitializeError) -> bool {
    !matches!(error, ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. })
}

/// Why a connection did not begin, without the names of types.
fn unbegun(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => chain(&*error.error),
        other => chain(other),
    }
}

/// Why a connection was lost, without the names of types.
fn lost(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportSend(error) => chain(&*error.error),
        other => chain(other),
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
