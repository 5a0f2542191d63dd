//! What a sandbox sets up once, before its first event: clients, the first connections, the engine.

use std::sync::Arc;

use longhaul_aws::clients::Clients;
use longhaul_aws::{DynamoStore, QuotaMode, SECRET, SqsQueue};
use longhaul_core::ports::StoreError;
use longhaul_core::{Clock, IdSource};
use longhaul_engine::{Engine, LegLimit, Ports};
use longhaul_mcp::{McpServer, McpSettings};

use crate::api::Api;
use crate::metrics::EmbeddedMetrics;
use crate::worker::{DeadLetters, Worker};
use crate::{ApiConfig, Common, WorkerConfig};

/// The sources of time and randomness for a sandbox.
#[derive(Clone)]
pub struct World {
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub ids: Arc<dyn IdSource>,
}

/// Why a sandbox cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The table does not answer, or this function may not read it.
    #[error("the table `{table}` cannot be used: is LONGHAUL_TABLE right, and may this function read and write it?")]
    Table {
        /// Which one.
        table: String,
        /// Why.
        #[source]
        cause: StoreError,
    },
}

/// Sets up the API function. Reading the secret that all instances share is the first call to the table, so connection
/// and handshake are done before the first event.
///
/// # Errors
/// [`StartError`]
pub async fn start_api(
    config: &ApiConfig,
    world: World,
    build: impl FnOnce(Engine, McpSettings) -> McpServer,
) -> Result<Api, StartError> {
    let clients = Clients::from_environment().await;
    let store = store(&clients, &config.common, &world);
    let unusable = |cause| StartError::Table { table: config.common.table.clone(), cause };
    let secret = store.secret(SECRET, &*world.ids).await.map_err(unusable)?;
    // The API function only sends: it needs no dead-letter queue.
    let queue = SqsQueue::new(clients.sqs, &config.common.queue_url, "");
    let clock = Arc::clone(&world.clock);
    let metrics = metrics(&config.common, &world);
    let engine = engine(&config.common, store, queue, world, Arc::clone(&metrics));
    let server = build(engine, config.mcp(secret));
    server.ready().await.map_err(unusable)?;
    Ok(Api::new(server, config.auth.clone(), config.allow_origins.clone(), clock).measured_by(metrics))
}

/// Sets up the worker function.
///
/// # Errors
/// [`StartError`]
pub async fn start_worker(
    config: &WorkerConfig,
    world: World,
    build: impl FnOnce(Engine, McpSettings) -> McpServer,
) -> Result<Worker, StartError> {
    let clients = Clients::from_environment().await;
    let store = store(&clients, &config.common, &world);
    store.connect().await.map_err(|cause| StartError::Table { table: config.common.table.clone(), cause })?;
    let queue = |url: &str| SqsQueue::new(clients.sqs.clone(), url, &config.dead_letter_queue_url);
    let dead_letters = DeadLetters::new(Arc::new(queue(&config.dead_letter_queue_url)), &config.dead_letter_queue_url);
    // A worker answers no requests and so signs nothing: a random secret of its own will do. It may not read the table's.
    let mut secret = [0; 32];
    world.ids.fill(&mut secret);
    let metrics = metrics(&config.common, &world);
    let places = config.owner_legs_max.map(|legs_max| LegLimit::new(Arc::new(store.clone()), legs_max));
    let engine = engine(&config.common, store, queue(&config.common.queue_url), world, metrics);
    let engine = places.into_iter().fold(engine, Engine::limited_by);
    let runner = build(engine.clone(), McpSettings::new(secret)).runner();
    Ok(Worker::new(engine, runner, dead_letters, config.concurrency))
}

fn store(clients: &Clients, config: &Common, world: &World) -> DynamoStore {
    DynamoStore::new(clients.dynamo.clone(), &config.table)
        .with_quota(QuotaMode::Counted)
        .with_pauses(Arc::clone(&world.clock), Arc::clone(&world.ids))
}

fn metrics(config: &Common, world: &World) -> Arc<EmbeddedMetrics> {
    let out = Box::new(std::io::stdout());
    Arc::new(EmbeddedMetrics::new(config.metrics_namespace.clone(), Arc::clone(&world.clock), out))
}

fn engine(config: &Common, store: DynamoStore, queue: SqsQueue, world: World, metrics: Arc<EmbeddedMetrics>) -> Engine {
    let ports = Ports { store: Arc::new(store), queue: Arc::new(queue), clock: world.clock, ids: world.ids };
    Engine::new(ports, config.engine).observed_by(metrics)
}
