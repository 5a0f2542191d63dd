//! A running local server: its parts, and how they are stopped.

use std::net::SocketAddr;
use std::sync::Arc;

use longhaul_core::Clock;
use longhaul_engine::{Engine, Ports};
use longhaul_http::HttpFrontend;
use longhaul_mcp::{McpServer, McpSettings};
use longhaul_oauth::ResourceServer;
use longhaul_sqlite::{Database, DatabaseError, Purged};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::bearer::TokenFile;
use super::options::{Config, LocalCallers};
use super::worker::Workers;
use super::{Backend, Options, ServeError, http_server};
use crate::{OsIds, Server, SystemClock};

/// How often expired tasks are deleted.
const PURGE_EVERY_MS: u64 = 10_000;

/// Expired tasks that are deleted in one transaction.
const PURGE_MAX: u32 = 500;

/// A running local server. If it is dropped without [`Running::stop`], it runs until the runtime ends.
pub struct Running {
    address: SocketAddr,
    /// The embedded database, unless the server runs on the application's own store.
    database: Option<Database>,
    mcp: McpServer,
    stop: CancellationToken,
    parts: TaskTracker,
}

impl Running {
    /// Starts on the embedded database.
    pub(crate) async fn start(server: &Server, options: &Options) -> Result<Self, ServeError> {
        server.check().await?;
        let options = &options.config()?;
        let database = open(options)?;
        take_up(&database).await?;
        let signing_key = database.secret("request-state", &OsIds).await;
        let signing_key = signing_key.map_err(|cause| ServeError::Database(cause.into()))?;
        let (store, queue) = (Arc::new(database.store()), Arc::new(database.queue()));
        let backend = Backend { store, queue, signing_key };
        Self::begin(server, backend, Some(database), options).await
    }

    /// Starts on the application's own store and queue.
    pub(crate) async fn start_on(server: &Server, backend: Backend, options: &Options) -> Result<Self, ServeError> {
        server.check().await?;
        Self::begin(server, backend, None, &options.config()?).await
    }

    async fn begin(
        server: &Server,
        backend: Backend,
        database: Option<Database>,
        options: &Config,
    ) -> Result<Self, ServeError> {
        let identified = Identified::by(&options.callers).await?;
        let listener = listen(options).await?;
        let address = listener.local_addr().map_err(|cause| ServeError::Listen { address: options.listen, cause })?;
        let Backend { store, queue, signing_key } = backend;
        let ports = Ports { store, queue, clock: Arc::new(SystemClock), ids: Arc::new(OsIds) };
        let engine = Engine::new(ports, options.engine);
        let settings = McpSettings {
            listen_ms_max: options.listen_ms_max,
            result_ms_max: options.listen_ms_max,
            ask_ms_max: options.listen_ms_max,
            inline_wait_ms: options.inline_wait_ms,
            anonymous_callers: options.callers.anonymous(),
            scopes: options.scopes.clone(),
            poll_limit: options.poll_limit,
            streams_max: Some(options.streams_max),
            ..McpSettings::new(signing_key)
        };
        let mcp = server.build(engine.clone(), settings);
        let running = Self { address, database, mcp, stop: CancellationToken::new(), parts: TaskTracker::new() };
        running.spawn(engine, listener, identified, options);
        Ok(running)
    }

    /// Where the server listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Shuts down: accepts no new connections, returns running legs to the queue, closes the file.
    pub async fn stop(self) {
        self.mcp.close();
        self.stop.cancel();
        self.parts.close();
        self.parts.wait().await;
        if let Some(database) = self.database {
            database.close().await;
        }
        longhaul_audit::flush();
    }

    fn spawn(&self, engine: Engine, listener: TcpListener, identified: Identified, options: &Config) {
        let workers =
            Workers { engine, runner: self.mcp.runner(), stop: self.stop.clone(), legs_max: options.concurrency };
        self.parts.spawn(workers.clone().run());
        self.parts.spawn(workers.run_dead_letters());
        if let Some(database) = self.database.clone() {
            self.parts.spawn(purge(database, self.stop.clone()));
        }
        let mut frontend = HttpFrontend::new(options.origin_policy());
        match identified {
            Identified::ByToken(file) => {
                frontend = frontend.identified_by(Arc::new(file.callers()));
                self.parts.spawn(file.follow(self.stop.clone()));
            }
            Identified::ByAccessToken(server) => frontend = frontend.identified_by(Arc::new(*server)),
            Identified::Not => {}
        }
        let service = http_server::Service { frontend, mcp: self.mcp.clone() };
        let limits = options.connections.in_this_process();
        self.parts.spawn(http_server::serve(listener, service, limits, self.stop.clone()));
    }
}

/// How callers are identified.
enum Identified {
    /// Not at all.
    Not,
    /// By a token of this file.
    ByToken(TokenFile),
    /// By an access token.
    ByAccessToken(Box<ResourceServer>),
}

impl Identified {
    async fn by(callers: &LocalCallers) -> Result<Self, ServeError> {
        match callers {
            LocalCallers::OneUser | LocalCallers::Strangers => Ok(Self::Not),
            LocalCallers::WithToken(file) => Ok(Self::ByToken(TokenFile::open(file).await?)),
            LocalCallers::WithAccessToken(config) => {
                Ok(Self::ByAccessToken(Box::new(ResourceServer::new((**config).clone(), Arc::new(SystemClock)))))
            }
        }
    }
}

fn open(options: &Config) -> Result<Database, ServeError> {
    let clock = Arc::new(SystemClock);
    let settings = longhaul_sqlite::Settings {
        owner_in_flight_max: options.owner_concurrency,
        ..longhaul_sqlite::Settings::default()
    };
    let opened = if options.in_memory() {
        Database::in_memory(clock, settings)
    } else {
        Database::open(&options.db, clock, settings)
    };
    opened.map_err(|cause| ServeError::Open(cause.into()))
}

/// This process has the database alone, so the work that a former one left is taken up at once.
async fn take_up(database: &Database) -> Result<(), ServeError> {
    let ended = database.take_up(SystemClock.now()).await.map_err(|cause| ServeError::Database(cause.into()))?;
    if ended > 0 {
        tracing::info!(tasks = ended, "taking up tasks that a former process left unfinished");
    }
    Ok(())
}

async fn listen(options: &Config) -> Result<TcpListener, ServeError> {
    let address = options.listen;
    if options.callers == LocalCallers::Strangers {
        tracing::warn!(%address, "everyone who reaches this address can call every tool: a local server does not identify callers");
    }
    TcpListener::bind(address).await.map_err(|cause| ServeError::Listen { address, cause })
}

/// Deletes expired tasks until the process stops.
async fn purge(database: Database, stop: CancellationToken) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = SystemClock.sleep_ms(PURGE_EVERY_MS) => {}
        }
        if let Err(error) = purge_all(&database, &stop).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "expired tasks were not deleted");
        }
    }
}

async fn purge_all(database: &Database, stop: &CancellationToken) -> Result<(), DatabaseError> {
    while !stop.is_cancelled() {
        match database.purge(SystemClock.now(), PURGE_MAX).await? {
            Purged::All => return Ok(()),
            Purged::UpToLimit => {}
        }
    }
    Ok(())
}
