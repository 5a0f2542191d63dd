//! A running local server: its parts, and how they are stopped.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use longhaul_console::Console;
use longhaul_core::Clock;
use longhaul_core::settings::table::{self, Role};
use longhaul_engine::{Engine, Ports};
use longhaul_http::HttpFrontend;
use longhaul_http::oauth::ResourceServer;
use longhaul_http::webhooks::{Endpoints, WebhookDeliveryRunner};
use longhaul_mcp::{McpServer, McpSettings};
use longhaul_sqlite::{Database, Notifications, Purged};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bearer::TokenFile;
use super::console::Pages;
use super::health::{Health, Probe, StoreAlone};
use super::http_server::Endpoint;
use super::metrics::Metrics;
use super::options::{Config, Listeners, LocalCallers};
#[cfg(feature = "aws")]
use super::shared::Shared;
use super::storage::Storage;
use super::welcome::Welcome;
use super::worker::{Receives, Workers, keep_schedules};
use super::{Backend, Options, ServeError, console, http_server, webhooks};
use crate::serve::limits::{LAST_WRITES, PURGE_EVERY_MS, PURGE_MAX};
use crate::settings::ProcessEnv;
use crate::telemetry::MetricsExporter;
use crate::{OsIds, Server, SystemClock};

/// How often a request that waits reads what other processes may have changed: each time is one read of the table.
#[cfg(feature = "aws")]
const LISTEN_POLL_MS_SHARED: u64 = 1_000;

/// How long to wait before a table or a queue that cannot be used is tried again: doubled each time, up to the second
/// value.
#[cfg(feature = "aws")]
const RETRY_MS: (u64, u64) = (1_000, 30_000);

/// A running local server. If it is dropped without [`Running::stop`], it runs until the runtime ends.
pub struct Running {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    /// The embedded database, unless the server runs on another store.
    database: Option<Database>,
    /// Where the tasks are; `None` for the application's own store.
    storage: Option<Storage>,
    parts: Parts,
    /// Ends the HTTP server, and what serves it.
    stop: CancellationToken,
    rest: TaskTracker,
    console: Option<Console>,
    /// The MCP endpoint, unless this process only runs tasks.
    endpoint: Option<Endpoint>,
}

/// The parts that answer requests and run tools, once there is a store.
#[derive(Clone)]
struct Parts {
    server: Server,
    config: Arc<Config>,
    health: Arc<Health>,
    metrics: Option<Arc<Metrics>>,
    mcp: Arc<OnceLock<McpServer>>,
    /// Ends the workers.
    drain: CancellationToken,
    workers: TaskTracker,
}

/// A store and a queue that can be used.
struct Opened {
    backend: Backend,
    probe: Arc<dyn Probe>,
    receives: Receives,
    /// How often a request that waits polls for changes of other processes; `None` for the default.
    listen_poll_ms: Option<u64>,
    /// The endpoints of webhooks; `None` if there are none.
    told: Option<Endpoints>,
}

impl Opened {
    fn alone(backend: Backend, database: Option<Database>) -> Self {
        let probe = Arc::new(StoreAlone { store: Arc::clone(&backend.store), database });
        Self { backend, probe, receives: Receives::INSIDE, listen_poll_ms: None, told: None }
    }
}

impl Running {
    /// Starts on the application's own store and queue, or on those that the options name.
    pub(super) async fn start(server: &Server, options: &Options) -> Result<Self, ServeError> {
        server.check().await?;
        let config = options.config()?;
        if let Some(backend) = options.backend() {
            webhooks::refuse(options.values())?;
            backend.check(server)?;
            let (running, listeners) = Self::listen(server, None, options, config).await?;
            drop(running.parts.begin(Opened::alone(backend.clone(), None)));
            running.serve_http(listeners);
            return Ok(running);
        }
        let storage = options.storage()?;
        match &storage {
            Storage::File(file) => Self::start_on_file(server, file, options, config).await,
            #[cfg(feature = "aws")]
            Storage::Aws { table, queue_url } => {
                let shared = Shared::new(table, queue_url, config.role).await?;
                let (running, listeners) = Self::listen(server, Some(storage), options, config).await?;
                // It may take long until there is a store: meanwhile it says that it is not ready.
                running.serve_http(listeners);
                running.begin_when_open(shared).await;
                Ok(running)
            }
        }
    }

    /// Starts on the embedded database.
    async fn start_on_file(
        server: &Server,
        file: &Path,
        options: &Options,
        config: Config,
    ) -> Result<Self, ServeError> {
        let endpoints = match &config.webhooks {
            Some(webhooks) => webhooks.endpoints(&ProcessEnv)?,
            None => Endpoints::default(),
        };
        let database = open(file, &config)?;
        take_up(&database).await?;
        let signing_key = database.secret("request-state", &OsIds).await;
        let signing_key = signing_key.map_err(|cause| ServeError::Database(cause.into()))?;
        let (store, queue) = (Arc::new(database.store_with_queue()), Arc::new(database.queue()));
        let backend = Backend::new(store, queue).permits(Arc::new(database.store())).signing_key(signing_key);
        let storage = Some(Storage::File(file.to_owned()));
        let (mut running, listeners) = Self::listen(server, storage, options, config).await?;
        running.database = Some(database.clone());
        let told = (!endpoints.is_empty()).then(|| endpoints.clone());
        let engine = running.parts.begin(Opened { told, ..Opened::alone(backend, Some(database.clone())) });
        running.serve_http(listeners);
        running.rest.spawn(webhooks::sweep(engine.clone(), database.store(), running.stop.clone()));
        if !endpoints.is_empty() {
            running.rest.spawn(webhooks::publish(engine, database.outbox(), endpoints, running.stop.clone()));
        }
        running.rest.spawn(purge(database, running.stop.clone()));
        Ok(running)
    }

    /// A server that listens. Clients that connect wait until [`Running::serve_http`].
    async fn listen(
        server: &Server,
        storage: Option<Storage>,
        options: &Options,
        config: Config,
    ) -> Result<(Self, Listeners), ServeError> {
        let listeners = options.listeners(&config).await?;
        let bound = listeners.endpoint.as_ref().map(TcpListener::local_addr).transpose();
        let bound = bound.map_err(|cause| ServeError::Listen { address: config.listen, cause })?;
        let console = match (bound, config.console) {
            (Some(address), table::Console::On) => Some(console::of(address, server, &Pages::ThatAct)?),
            (Some(address), table::Console::ReadOnly) => Some(console::of(address, server, &Pages::ThatOnlyShow)?),
            (Some(_), table::Console::Off) | (None, _) => None,
        };
        let (stop, rest) = (CancellationToken::new(), TaskTracker::new());
        let frontend = HttpFrontend::new(config.origin_policy());
        let frontend = match &config.callers {
            LocalCallers::OneUser | LocalCallers::AnonymousCallers => frontend,
            LocalCallers::WithToken(file) => {
                let file = TokenFile::open(file).await?;
                let callers = file.callers();
                rest.spawn(file.follow(stop.clone()));
                frontend.identified_by(Arc::new(callers))
            }
            LocalCallers::WithAccessToken(config) => {
                frontend.identified_by(Arc::new(ResourceServer::new((**config).clone(), Arc::new(SystemClock))))
            }
        };
        let exporter = MetricsExporter::of(options.values())?;
        let is_read = listeners.metrics.is_some() || exporter.is_some();
        let metrics_address = listeners.metrics.as_ref().and_then(|listener| listener.local_addr().ok());
        let parts = Parts {
            server: server.clone(),
            metrics: is_read.then(|| Arc::new(Metrics::of(server, &config))),
            config: Arc::new(config),
            health: Arc::new(Health::counting(server.degraded_parts())),
            mcp: Arc::default(),
            drain: CancellationToken::new(),
            workers: TaskTracker::new(),
        };
        if let (Some(metrics), Some(exporter)) = (&parts.metrics, exporter) {
            rest.spawn(Arc::clone(metrics).export(exporter, Arc::clone(&parts.health), stop.clone()));
        }
        let endpoint = Endpoint { frontend, mcp: Arc::clone(&parts.mcp) };
        let endpoint = (parts.config.role != Role::Worker).then_some(endpoint);
        let address = bound.unwrap_or(parts.config.listen);
        let running = Self { address, metrics_address, database: None, storage, parts, stop, rest, console, endpoint };
        Ok((running, listeners))
    }

    /// The MCP endpoint, unless this process only runs tasks.
    pub(super) const fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// Where the server listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address on which Prometheus reads the metrics, if they are on.
    ///
    /// ```
    /// # async fn scrape(running: &longhaul::serve::Running) {
    /// if let Some(address) = running.metrics_address() {
    ///     println!("metrics are on http://{address}/metrics");
    /// }
    /// # }
    /// ```
    #[must_use]
    pub const fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The text for the user who started the server.
    pub(super) async fn welcome(&self) -> Welcome {
        Welcome::of(&self.parts.server, self.address, self.storage.as_ref(), &self.parts.config).await
    }

    /// Shuts down. `/readyz` says so, and no new attempts begin; running ones end at their next step boundary, or after
    /// `drain-ms`, and are returned to the queue. Until then requests are answered, since some are still on their way.
    /// Then no connections are accepted any more, open answers end, and the file is closed.
    pub async fn stop(self) {
        let Parts { config, health, mcp, drain, workers, .. } = self.parts;
        health.drain();
        drain.cancel();
        workers.close();
        let longest = Duration::from_millis(config.server.engine.stop_grace_ms).saturating_add(LAST_WRITES);
        if tokio::time::timeout(longest, workers.wait()).await.is_err() {
            tracing::warn!("some attempts did not end in time: their tasks continue when their leases have expired");
        }
        if let Some(mcp) = mcp.get() {
            mcp.close();
        }
        self.console.iter().for_each(Console::close);
        self.stop.cancel();
        self.rest.close();
        self.rest.wait().await;
        if let Some(database) = self.database {
            database.close().await;
        }
        longhaul_core::audit::flush();
        drop(tokio::task::spawn_blocking(longhaul_core::spans::flush).await);
    }

    /// Answers requests: all of them once the server has begun, and before that those about its health.
    fn serve_http(&self, listeners: Listeners) {
        if listeners.endpoint.is_none() && listeners.metrics.is_none() {
            return;
        }
        let limits = self.parts.config.connections.in_this_process();
        let serve = |listener, endpoint, console, metrics| {
            let service = http_server::Service { health: Arc::clone(&self.parts.health), endpoint, console, metrics };
            self.rest.spawn(http_server::serve(listener, service, limits, self.stop.clone()));
        };
        if let Some(listener) = listeners.endpoint {
            serve(listener, self.endpoint.clone(), self.console.clone(), None);
        }
        if let Some(listener) = listeners.metrics {
            serve(listener, None, None, self.parts.metrics.clone());
        }
    }

    /// Begins to work as soon as the table and the queue can be used. They may not be there yet, or not answer. The log
    /// and `/readyz` show that, and the process need not be started again.
    #[cfg(feature = "aws")]
    async fn begin_when_open(&self, shared: Shared) {
        match open_shared(&shared).await {
            Some(opened) => drop(self.parts.begin(opened)),
            None => {
                let (drain, again) = (self.parts.drain.clone(), open_again(self.parts.clone(), shared));
                self.parts.workers.spawn(async move { drain.run_until_cancelled(again).await });
            }
        }
    }
}

/// The table and the queue, if they can be used; otherwise the log says why not.
#[cfg(feature = "aws")]
async fn open_shared(shared: &Shared) -> Option<Opened> {
    match shared.open().await {
        Ok((backend, probe)) => {
            let listen_poll_ms = Some(LISTEN_POLL_MS_SHARED);
            Some(Opened { backend, probe, receives: Receives::OUTSIDE, listen_poll_ms, told: None })
        }
        Err(unusable) => {
            tracing::error!(error = %unusable, cause = unusable.cause(), "not ready");
            None
        }
    }
}

#[cfg(feature = "aws")]
async fn open_again(parts: Parts, shared: Shared) {
    let mut pause_ms = RETRY_MS.0;
    loop {
        SystemClock.sleep_ms(pause_ms).await;
        if let Some(opened) = open_shared(&shared).await {
            tracing::info!("the table and the queue can be used now");
            return drop(parts.begin(opened));
        }
        pause_ms = RETRY_MS.1.min(pause_ms * 2);
    }
}

impl Parts {
    /// Answers requests and runs tools, depending on the role of this process. Returns the engine that does.
    fn begin(&self, opened: Opened) -> Engine {
        let Opened { backend, probe, receives, listen_poll_ms, told } = opened;
        let Backend { store, queue, permits, signing_key } = backend;
        let config = &self.config;
        let ports = Ports { store, queue, clock: Arc::new(SystemClock), ids: Arc::new(OsIds) };
        let engine = permits.into_iter().fold(Engine::new(ports, config.server.engine), Engine::with_permits);
        let engine = match &self.metrics {
            Some(metrics) => engine.observed_by(Arc::clone(metrics) as _),
            None => engine,
        };
        let defaults = config.server.mcp(signing_key);
        let settings = McpSettings {
            listen_poll_ms: listen_poll_ms.unwrap_or(defaults.listen_poll_ms),
            anonymous_callers: config.callers.anonymous(),
            ..defaults
        };
        let mcp = self.server.build(engine.clone(), settings);
        let scheduled = mcp.has_schedules().then(|| mcp.clone());
        let runner = match (told, &config.webhooks) {
            (Some(endpoints), Some(webhooks)) => {
                Arc::new(WebhookDeliveryRunner::new(mcp.runner(), engine.clone(), endpoints, webhooks.reach))
            }
            _ => mcp.runner(),
        };
        // A server begins once.
        drop(self.mcp.set(mcp));
        if config.role != Role::Http {
            let stop = self.drain.clone();
            let workers = Workers { engine: engine.clone(), runner, stop, attempts_max: config.concurrency, receives };
            self.workers.spawn(workers.clone().run());
            self.workers.spawn(workers.run_dead_letters());
            scheduled.into_iter().for_each(|mcp| drop(self.workers.spawn(keep_schedules(mcp, self.drain.clone()))));
        }
        self.health.started(probe);
        engine
    }
}

fn open(file: &Path, config: &Config) -> Result<Database, ServeError> {
    let clock = Arc::new(SystemClock);
    let settings = longhaul_sqlite::Settings {
        owner_in_flight_max: config.owner_concurrency,
        notifications: if config.webhooks.is_some() { Notifications::Left } else { Notifications::None },
        ..longhaul_sqlite::Settings::default()
    };
    let opened = if Storage::is_memory(file) {
        Database::in_memory(clock, settings)
    } else {
        Database::open(file, clock, settings)
    };
    opened.map_err(|cause| ServeError::Open(cause.into()))
}

/// This process has the database alone, so the work that a former one left is resumed at once.
async fn take_up(database: &Database) -> Result<(), ServeError> {
    let ended = database.take_up(SystemClock.now()).await.map_err(|cause| ServeError::Database(cause.into()))?;
    if ended > 0 {
        tracing::info!(tasks = ended, "resuming tasks that an earlier process left unfinished");
    }
    Ok(())
}

/// Deletes expired tasks until the process stops.
async fn purge(database: Database, stop: CancellationToken) {
    let mut pause_ms = PURGE_EVERY_MS;
    while stop.run_until_cancelled(SystemClock.sleep_ms(pause_ms)).await.is_some() {
        let purged = database.purge(SystemClock.now(), PURGE_MAX).await;
        if let Err(error) = &purged {
            tracing::warn!(error = error as &dyn std::error::Error, "expired tasks were not deleted");
        }
        pause_ms = if matches!(purged, Ok(Purged::UpToLimit)) { 0 } else { PURGE_EVERY_MS };
    }
}

#[cfg(test)]
mod tests;
