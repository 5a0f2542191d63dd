//! The setup of a sandbox, before its first event: clients, the first connections, the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::join;
use longhaul_aws::clients::{Clients, SdkConfig, function_config};
use longhaul_aws::{
    DynamoStore, EventBus, NotPublishedQueue, Parameter, QuotaMode, SECRET, SqsQueue, ToolSecretError,
    read_tool_secrets,
};
use longhaul_core::ports::{QueueError, StoreError, WorkQueue};
use longhaul_core::settings::EnvSource;
use longhaul_core::{Clock, IdSource, ToolClass};
use longhaul_engine::{AttemptLimit, Engine, Ports, ToolRunner};
use longhaul_http::webhooks::{Endpoints, WebhookDeliveryRunner, read, read_without_secrets};
use longhaul_mcp::{McpServer, McpSettings, Policies, key_mailboxes};

use crate::api::Api;
use crate::caller::{BearerCaller, TokenParameter};
use crate::metrics::EmbeddedMetrics;
use crate::worker::{DeadLetters, Worker};
use crate::{ApiConfig, Auth, Common, Publisher, WorkerConfig};

/// The environment of a sandbox: time, randomness, and its environment.
#[derive(Clone)]
pub struct World {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub ids: Arc<dyn IdSource>,
    /// Its environment variables.
    pub environment: Arc<dyn EnvSource + Send + Sync>,
}

impl World {
    /// Which AWS account, region and endpoints the environment names.
    fn aws(&self) -> SdkConfig {
        let environment = Arc::clone(&self.environment);
        function_config(move |name| environment.get(name)?.into_string().ok())
    }
}

/// Why a sandbox cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A secret of the tools cannot be read.
    #[error(transparent)]
    Secret(#[from] ToolSecretError),
    /// Webhooks are configured, and cannot be sent.
    #[error("the webhooks of LONGHAUL_WEBHOOKS cannot be used")]
    Webhooks(#[source] longhaul_http::webhooks::ConfigError),
    /// The queue of unpublished records does not have its time of creation.
    #[error(
        "the queue `{url}` cannot be used: is LONGHAUL_NOT_PUBLISHED_QUEUE_URL right, and may this function do \
         sqs:GetQueueAttributes?"
    )]
    NotPublished {
        /// Which one.
        url: String,
        /// Why.
        #[source]
        cause: QueueError,
    },
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

/// Sets up the API function. The policies say which queue the work of a tool is sent to. The secret and the keys that
/// all instances share are one read. It is the first call to the table, so connection and handshake are done before the
/// first event.
pub async fn start_api(
    config: &ApiConfig,
    world: World,
    policies: &Policies,
    build: impl FnOnce(Engine, McpSettings) -> McpServer,
) -> Result<Api, StartError> {
    let aws = world.aws();
    let clients = Clients::new(&aws);
    let store = store(&clients, &config.common, &world);
    let unusable = |cause| StartError::Table { table: config.common.table.clone(), cause };
    let bearer = bearer_caller(config, &aws, &world);
    let now = world.clock.now();
    let mailboxes = key_mailboxes(now);
    let reading = store.secret_and_texts(SECRET, &*world.ids, &mailboxes, now);
    let (read, ()) = join(reading, first_read(bearer.as_deref())).await;
    let (secret, keys) = read.map_err(unusable)?;
    // The API function only sends: it needs no dead-letter queue.
    let queues = Queues { clients, dead_letter_url: "" };
    let queue = queues.at(&config.common.queue_url);
    let own_queues = queues.of_classes(&config.common, policies);
    let clock = Arc::clone(&world.clock);
    let metrics = metrics(&config.common, &world);
    let engine = engine(&config.common, store, queue, world, Arc::clone(&metrics)).with_own_queues(own_queues);
    let server = build(engine, config.mcp(secret));
    server.ready(&keys).await.map_err(unusable)?;
    let api = Api::new(server, config.auth.clone(), config.allow_origins.clone(), clock).measured_by(metrics);
    Ok(bearer.into_iter().fold(api, |api, caller| api.identified_by(caller)))
}

/// The callers of the list of tokens, if there is one.
fn bearer_caller(config: &ApiConfig, aws: &SdkConfig, world: &World) -> Option<Arc<BearerCaller>> {
    let Auth::Bearer(name) = &config.auth else { return None };
    let source = TokenParameter { parameter: Parameter::new(aws, name), clock: Arc::clone(&world.clock) };
    Some(Arc::new(BearerCaller::new(source, Arc::clone(&world.clock))))
}

/// Reads the list before the first request. A list that cannot be read is read again for each, and does not stop the
/// function.
async fn first_read(bearer: Option<&BearerCaller>) {
    if let Some(bearer) = bearer {
        drop(bearer.tokens().await);
    }
}

/// Sets up the worker function. The policies say which queue the work of a tool is sent to.
pub async fn start_worker(
    config: &WorkerConfig,
    world: World,
    policies: &Policies,
    build: impl FnOnce(Engine, McpSettings) -> McpServer,
) -> Result<Worker, StartError> {
    let (aws, clock) = (world.aws(), Arc::clone(&world.clock));
    let clients = Clients::new(&aws);
    let store = store(&clients, &config.common, &world);
    store.connect().await.map_err(|cause| StartError::Table { table: config.common.table.clone(), cause })?;
    let queues = Queues { clients, dead_letter_url: &config.dead_letter_queue_url };
    let dead_letters = DeadLetters::new(queues.at(&config.dead_letter_queue_url), &config.dead_letter_queue_url);
    // A worker answers no requests and so signs nothing: a random secret of its own will do. It may not read the
    // table's.
    let mut secret = [0; 32];
    world.ids.fill(&mut secret);
    let metrics = metrics(&config.common, &world);
    let places = config.owner_attempts_max.map(|attempts_max| AttemptLimit::new(Arc::new(store.clone()), attempts_max));
    let engine = engine(&config.common, store, queues.at(&config.common.queue_url), world, Arc::clone(&metrics))
        .with_own_queues(queues.of_classes(&config.common, policies));
    let engine = places.into_iter().fold(engine, Engine::limited_by);
    let server = build(engine.clone(), McpSettings::new(secret));
    let runner = webhook_runner(config, &aws, &*clock, server.runner(), &engine).await?;
    let worker = Worker::new(engine, runner, dead_letters, config.concurrency);
    let worker = worker.keeps_schedules_of(server).measured_by(metrics);
    let of_classes = config.common.class_queues.values();
    Ok(of_classes.fold(worker, |worker, url| worker.and_takes_from(url, queues.at(url))))
}

/// Sets up the publisher function, which sends events to `bus`.
pub async fn start_publisher(config: &WorkerConfig, bus: &str, world: World) -> Result<Publisher, StartError> {
    let aws = world.aws();
    let endpoints = endpoints_without_secrets(config)?;
    let clients = Clients::new(&aws);
    let store = store(&clients, &config.common, &world);
    store.connect().await.map_err(|cause| StartError::Table { table: config.common.table.clone(), cause })?;
    // It only sends.
    let queue = Queues { clients: clients.clone(), dead_letter_url: "" }.at(&config.common.queue_url);
    let bus = EventBus::new(&aws, bus, Arc::clone(&world.clock));
    let metrics = metrics(&config.common, &world);
    let engine = engine(&config.common, store, queue, world, Arc::clone(&metrics));
    let publisher = Publisher::new(engine, bus, endpoints).measured_by(metrics);
    let Some(url) = &config.not_published_queue_url else { return Ok(publisher) };
    let not_published = NotPublishedQueue::new(clients.sqs, url);
    let since =
        not_published.created_at().await.map_err(|cause| StartError::NotPublished { url: url.clone(), cause })?;
    Ok(publisher.publishes_since(since).puts_aside_in(not_published))
}

struct Queues<'a> {
    clients: Clients,
    dead_letter_url: &'a str,
}

impl Queues<'_> {
    fn at(&self, url: &str) -> Arc<dyn WorkQueue> {
        Arc::new(SqsQueue::new(self.clients.sqs.clone(), url, self.dead_letter_url))
    }

    /// The queues of tools whose class has one.
    fn of_classes(
        &self,
        config: &Common,
        policies: &Policies,
    ) -> impl Fn(&str) -> Option<Arc<dyn WorkQueue>> + Send + Sync + 'static {
        let has_class =
            |class: &ToolClass| policies.named().any(|(tool, _)| policies.class_of(tool).as_ref() == Some(class));
        // A function may know tools of any class.
        for class in config.class_queues.keys().filter(|class| !policies.has_function() && !has_class(class)) {
            tracing::warn!(%class, "no tool has this class, so nothing is sent to its queue");
        }
        let queues: BTreeMap<ToolClass, Arc<dyn WorkQueue>> =
            config.class_queues.iter().map(|(class, url)| (class.clone(), self.at(url))).collect();
        let policies = policies.clone();
        move |tool| policies.class_of(tool).and_then(|class| queues.get(&class).cloned())
    }
}

/// Reads the secrets of the tools, by the tools' names for them.
pub async fn tool_secrets(config: &WorkerConfig, world: &World) -> Result<BTreeMap<String, String>, StartError> {
    if config.secret_arns.is_empty() {
        return Ok(BTreeMap::new());
    }
    Ok(read_tool_secrets(&world.aws(), &config.secret_arns, &*world.clock).await?)
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

fn engine(
    config: &Common,
    store: DynamoStore,
    queue: Arc<dyn WorkQueue>,
    world: World,
    metrics: Arc<EmbeddedMetrics>,
) -> Engine {
    let store = Arc::new(store);
    let ports = Ports { store: Arc::<DynamoStore>::clone(&store), queue, clock: world.clock, ids: world.ids };
    Engine::new(ports, config.server.engine).observed_by(metrics).with_permits(store)
}

/// The services that have secrets, as sources name them before the ARN.
const SERVICES: [&str; 2] = ["secretsmanager", "ssm"];

/// The endpoints, for a function that signs nothing.
fn endpoints_without_secrets(config: &WorkerConfig) -> Result<Endpoints, StartError> {
    let Some(text) = &config.webhooks else { return Ok(Endpoints::default()) };
    read_without_secrets(text, config.reach).map(|(endpoints, _)| endpoints).map_err(StartError::Webhooks)
}

/// The runner of a worker: one that sends webhooks if there are any. Their secrets are read now.
async fn webhook_runner(
    config: &WorkerConfig,
    aws: &SdkConfig,
    clock: &dyn Clock,
    tools: Arc<dyn ToolRunner>,
    engine: &Engine,
) -> Result<Arc<dyn ToolRunner>, StartError> {
    let Some(text) = &config.webhooks else { return Ok(tools) };
    let (_, sources) = read_without_secrets(text, config.reach).map_err(StartError::Webhooks)?;
    let secrets = read_tool_secrets(aws, &arns(&sources), clock).await?;
    let endpoints = read(text, &|source| secret(&secrets, source), config.reach).map_err(StartError::Webhooks)?;
    Ok(Arc::new(WebhookDeliveryRunner::new(tools, engine.clone(), endpoints, config.reach)))
}

/// The ARNs of secrets, by the sources that name them.
fn arns(sources: &BTreeSet<String>) -> BTreeMap<String, String> {
    sources.iter().filter_map(|source| Some((source.clone(), arn(source)?.to_owned()))).collect()
}

/// The ARN in a source such as `secretsmanager:arn:aws:secretsmanager:…`.
fn arn(source: &str) -> Option<&str> {
    source.split_once(':').filter(|(service, _)| SERVICES.contains(service)).map(|(_, arn)| arn)
}

/// A secret that was read, by its source.
fn secret(secrets: &BTreeMap<String, String>, source: &str) -> Result<String, String> {
    let text = secrets.get(source).cloned();
    text.ok_or_else(|| "has no source: write `secretsmanager:ARN` or `ssm:ARN`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_named_by_their_service_and_arn() {
        let named = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:hook-AbCdEf";
        assert_eq!(arn(&format!("secretsmanager:{named}")), Some(named));
        assert_eq!(arn("ssm:arn:aws:ssm:eu-west-1:1:parameter/hook"), Some("arn:aws:ssm:eu-west-1:1:parameter/hook"));
        for other in ["env:SECRET", "file:secret", "whsec_abc", named] {
            assert_eq!(arn(other), None, "{other}");
            assert!(secret(&BTreeMap::new(), other).is_err());
        }
    }
}
