//! One server behind the gateway: starting it or connecting to it, in the lifecycle that it speaks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul::{Processes, SystemClock};
use longhaul_core::Clock;
use rmcp::model::{ProtocolVersion, Tool};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RoleClient, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::Transport;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) mod client;
mod counts;
pub(crate) mod credentials;
mod error;
mod first_starts;
pub(crate) mod http;
mod incoming;
mod lanes;
mod notes;
pub(crate) mod orphans;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod questions;
mod quota;
pub(crate) mod remote_tasks;
mod results;
mod stderr;
mod stdio;
mod subscription;
pub(crate) mod task;
pub(crate) mod task_tools;
pub(crate) mod tasks;
mod texts;
mod updates;
pub(crate) mod watch;

use client::{Client, Watched};
use counts::Counts;
pub(crate) use error::{ConnectError, Lasting, RequestError, failed};
use http::{Http, ParamHeaders};
pub(crate) use pool::Connection;
use pool::Pool;
use process::{Groups, Process};
use quota::Quota;
use remote_tasks::EndedSessions;
use stdio::StdioTransport;
pub(crate) use subscription::ResourceSubscription;
use task_tools::TaskTools;
use updates::Updates;

use crate::config;
use crate::limits;
use crate::target::{Launch, Lifecycle, Target};

fn client_mode(lifecycle: Option<Lifecycle>) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match lifecycle {
        Some(Lifecycle::Handshake) => ClientLifecycleMode::Initialize,
        Some(Lifecycle::PerRequest) => ClientLifecycleMode::Discover { preferred_versions },
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
    /// One permit for each call, so that no call waits with a worker for the connection of another one.
    calls: Arc<Semaphore>,
    /// Another one, for quick requests that must not wait for calls: polls, answers, cancels.
    quick: Arc<Semaphore>,
    /// Another one, for lists, prompts, resources and completions, for which neither calls nor polls wait.
    requests: Arc<Semaphore>,
    /// The connections that are kept between calls, if connections are kept.
    pool: Option<Arc<Pool>>,
    /// The HTTP client for requests to a URL.
    http: Http,
    wanted: Option<Lifecycle>,
    lifecycle: Mutex<Option<Lifecycle>>,
    /// Whether it was found to speak the newer lifecycle only.
    newer_only: AtomicBool,
    /// Whether a process of it has ever answered.
    has_started: AtomicBool,
    params: ParamHeaders,
    /// Whether it has reported that its lists have changed.
    changed: Arc<AtomicBool>,
    task_tools: TaskTools,
    ended_sessions: EndedSessions,
    updates: Updates,
    quota: Quota,
    processes: Counts,
}

impl Upstream {
    pub(crate) fn new(server: &config::Server, groups: Groups) -> Self {
        Self {
            name: server.name.clone(),
            target: server.target.clone(),
            start_max: server.start_max,
            groups,
            permits: Arc::new(Semaphore::new(server.concurrency)),
            calls: Arc::new(Semaphore::new(server.concurrency)),
            quick: Arc::new(Semaphore::new(match server.target {
                Target::Child(_) => 1,
                Target::Http(_) | Target::Elsewhere(_) => limits::QUICK_REQUESTS,
            })),
            requests: Arc::new(Semaphore::new(1)),
            pool: server.keeping.map(|keeping| Arc::new(Pool::new(server.concurrency, keeping))),
            http: Http::default(),
            wanted: server.lifecycle,
            lifecycle: Mutex::new(server.lifecycle),
            newer_only: AtomicBool::new(false),
            has_started: AtomicBool::new(false),
            params: ParamHeaders::default(),
            changed: Arc::default(),
            task_tools: TaskTools::default(),
            ended_sessions: EndedSessions::default(),
            updates: Updates::default(),
            quota: Quota::default(),
            processes: Counts::default(),
        }
    }

    /// Notes the parts of its list of tools that calls need.
    pub(crate) fn learn(&self, tools: &[Tool]) {
        self.params.learn(tools);
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its processes, if the gateway starts it.
    pub(crate) fn processes(&self) -> Option<Processes> {
        self.is_process().then(|| self.processes.of(&self.name))
    }

    /// The permits of its calls.
    pub(crate) const fn call_permits(&self) -> &Arc<Semaphore> {
        &self.calls
    }

    /// Whether this process can connect to it.
    pub(crate) const fn is_reached_from_here(&self) -> bool {
        !matches!(self.target, Target::Elsewhere(_))
    }

    /// The lifecycle that it spoke last; `None` before the first connection.
    pub(crate) fn lifecycle(&self) -> Option<Lifecycle> {
        *self.lifecycle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next connections in this lifecycle, unless the operator wants another.
    pub(crate) fn remember(&self, lifecycle: Option<Lifecycle>) {
        *self.lifecycle.lock().unwrap_or_else(PoisonError::into_inner) = self.wanted.or(lifecycle);
    }

    /// Whether it has reported changed lists since they were read last.
    pub(crate) fn has_changed(&self) -> bool {
        self.changed.load(Ordering::Acquire)
    }

    /// Its lists are about to be read.
    pub(crate) fn forget_change(&self) {
        self.changed.store(false, Ordering::Release);
    }

    /// Ends the connections that are kept, and keeps none from now on.
    pub(crate) fn close(&self) {
        if let Some(pool) = &self.pool {
            pool.close();
        }
    }

    /// A connection without a call: a kept one, or a new one. Waits while the limit of connections is reached.
    pub(crate) async fn connect(&self, client: Client) -> Result<Connection, ConnectError> {
        let Some(pool) = &self.pool else {
            return self.connect_anew(client).await;
        };
        // The semaphore is never closed.
        let mut turn = pool.turn().await.map_err(|closed| self.lost(&closed.to_string()))?;
        let mut connection = match turn.idle(&client) {
            Some(connection) => connection,
            None => {
                if self.permits.available_permits() == 0 {
                    pool.make_room();
                }
                Box::pin(self.connect_anew(client)).await?
            }
        };
        connection.may_be_kept(turn);
        Ok(connection)
    }

    /// A new connection: for a child process, a new process. Waits while the limit of connections is reached.
    async fn connect_anew(&self, client: Client) -> Result<Connection, ConnectError> {
        let client = client.noting_changes(&self.changed, &self.quota);
        if client.lifecycle() != Some(Lifecycle::Handshake) || !self.may_speak_the_older() {
            return self.connect_in_its_lifecycle(client, &self.permits).await;
        }
        let permit = self.permit(&self.permits).await?;
        match self.connect_as(Some(Lifecycle::Handshake), client.clone(), permit).await {
            Err(error) if error.lasting == Lasting::No => {}
            connected => return connected,
        }
        let connected = self.connect_in_its_lifecycle(client, &self.permits).await;
        if connected.is_ok() {
            self.newer_only.store(true, Ordering::Relaxed);
        }
        connected
    }

    /// Whether a server that speaks the newer lifecycle may speak the older one too.
    fn may_speak_the_older(&self) -> bool {
        let both = self.wanted.is_none() && self.lifecycle() == Some(Lifecycle::PerRequest);
        both && !self.newer_only.load(Ordering::Relaxed)
    }

    async fn connect_in_its_lifecycle(
        &self,
        client: Client,
        permits: &Arc<Semaphore>,
    ) -> Result<Connection, ConnectError> {
        self.connect_with_any(client, &[permits]).await
    }

    async fn connect_with_any(&self, client: Client, any: &[&Arc<Semaphore>]) -> Result<Connection, ConnectError> {
        let (permit, known) = (self.first_permit(any).await?, self.lifecycle());
        match self.connect_as(known, client.clone(), permit).await {
            Ok(connection) => Ok(self.remembered(connection)),
            Err(error) if error.lasting == Lasting::Yes => Err(error),
            // The server may have been replaced by one with another lifecycle: the next connection detects it again.
            Err(error) if known.is_some() => {
                self.remember(None);
                Err(error)
            }
            // Some older servers end, or fall silent, when their first message is not `initialize`.
            Err(_) => {
                let permit = self.first_permit(any).await?;
                let connected = self.connect_as(Some(Lifecycle::Handshake), client, permit).await;
                connected.map(|connection| self.remembered(connection))
            }
        }
    }

    async fn connect_as(
        &self,
        lifecycle: Option<Lifecycle>,
        client: Client,
        permit: OwnedSemaphorePermit,
    ) -> Result<Connection, ConnectError> {
        match &self.target {
            Target::Child(launch) => self.start(launch, lifecycle, client, permit).await,
            Target::Http(endpoint) => {
                let transport =
                    self.http.transport(&self.name, endpoint, self.params.clone()).map_err(|why| self.lost(&why))?;
                match self.begin(lifecycle, client, transport).await {
                    Ok(running) => Ok(Connection::new(&self.name, running, None, Some(permit))),
                    Err(None) => Err(self.lost(LATE)),
                    Err(Some(error)) => Err(self.lost(&unbegun(&error))),
                }
            }
            Target::Elsewhere(why) => Err(ConnectError { why: self.cannot_start(why), lasting: Lasting::Yes }),
        }
    }

    /// The connection, after noting its lifecycle.
    fn remembered(&self, connection: Connection) -> Connection {
        self.remember(connection.peer().peer_info().map(|info| Lifecycle::of(&info.protocol_version)));
        connection
    }

    async fn start(
        &self,
        launch: &Launch,
        lifecycle: Option<Lifecycle>,
        client: Client,
        permit: OwnedSemaphorePermit,
    ) -> Result<Connection, ConnectError> {
        // Held until the process has answered, or its time has elapsed.
        let _alone = match self.has_started.load(Ordering::Relaxed) {
            true => None,
            false => self.groups.first_starts.alone(&launch.command).await,
        };
        let started = Process::start(&self.name, launch, &self.groups, self.quota.clone(), (permit, &self.processes));
        let (mut process, pipes) =
            started.map_err(|why| ConnectError { why: self.cannot_start(&why), lasting: Lasting::Yes })?;
        let transport = StdioTransport::new(&self.name, pipes, client.watch().clone(), self.task_tools.clone());
        match self.begin(lifecycle, client, transport).await {
            Ok(running) => {
                self.has_started.store(true, Ordering::Relaxed);
                process.answered();
                return Ok(Connection::new(&self.name, running, Some(process), None));
            }
            Err(None) => process.note(LATE),
            Err(Some(error)) if answered(&error) => {
                process.note(format!("it does not speak MCP as expected: {error}"));
            }
            // The process has ended.
            Err(Some(_)) => {}
        }
        Err(self.lost(&process.last_words().await))
    }

    /// # Errors
    /// Why the server does not begin; `None` if it takes too long.
    async fn begin(
        &self,
        lifecycle: Option<Lifecycle>,
        client: Client,
        transport: impl Transport<RoleClient> + 'static,
    ) -> Result<RunningService<RoleClient, Client>, Option<Box<ClientInitializeError>>> {
        let transport = Watched::new(transport, &client);
        let beginning = Box::pin(serve_client_with_lifecycle(client, transport, client_mode(lifecycle)));
        match tokio::time::timeout(self.start_max, beginning).await {
            Ok(began) => began.map_err(|error| Some(Box::new(error))),
            Err(_late) => Err(None),
        }
    }

    fn cannot_start(&self, why: &str) -> String {
        match &self.target {
            Target::Child(_) => format!("the server `{}` cannot be started: {why}", self.name),
            Target::Http(_) | Target::Elsewhere(_) => format!("the server `{}` cannot be reached: {why}", self.name),
        }
    }

    /// The error that there is no connection.
    pub(crate) fn lost(&self, why: &str) -> ConnectError {
        ConnectError { why: self.cannot_start(why), lasting: Lasting::No }
    }
}

/// Ends the kept processes, waits until the others have ended, and kills the rest.
pub(crate) async fn stop(upstreams: &[Arc<Upstream>], groups: &Groups) {
    upstreams.iter().for_each(|upstream| upstream.close());
    // Each process has its grace times to end on its own, and is killed by then.
    let mut left_ms = 3 * limits::END_GRACE_MS;
    while !groups.is_empty() && left_ms > 0 {
        SystemClock.sleep_ms(limits::POLL_MS).await;
        left_ms = left_ms.saturating_sub(limits::POLL_MS);
    }
    groups.kill();
}

const LATE: &str = "it did not answer in time";

/// Whether the server has answered.
fn answered(error: &ClientInitializeError) -> bool {
    !matches!(error, ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. })
}

/// Why a connection did not begin, without the names of types.
fn unbegun(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::TransportError { error, .. } => http::why(error),
        other => longhaul_client::with_causes(other),
    }
}
