//! The metrics of one process. Prometheus reads them at `/metrics` on a port of their own; a collector of OpenTelemetry
//! is sent the same text in its own form.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use longhaul_core::Task;
use longhaul_engine::{IsRecorded, Observer};
use longhaul_http::{Body, OriginPolicy};
use longhaul_sqlite::Backlog;
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio_util::sync::CancellationToken;

use super::health::{self, Health};
use super::options::Config;
use crate::serve::limits::METRICS_LABELS_MAX;
use crate::telemetry::MetricsExporter;
use crate::{Processes, Server};

/// Where the metrics are.
const METRICS_PATH: &str = "/metrics";

/// The type of the text format of Prometheus.
const TEXT: HeaderValue = HeaderValue::from_static(prometheus_text::CONTENT_TYPE);

/// The first word of each name.
const PREFIX: &str = "longhaul";

/// The label that all further tools share.
const OTHER: &str = "other";

/// From a hundredth of a second to an hour.
const BUCKETS_S: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfTool {
    tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfToolAndStatus {
    tool: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfStatus {
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfServer {
    server: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfServerAndState {
    server: String,
    state: &'static str,
}

/// Counts the processes that tools start.
type CountedProcesses = Arc<dyn Fn() -> Vec<Processes> + Send + Sync>;

/// Counts and times of the tasks that this process accepts and runs.
pub(super) struct Metrics {
    registry: Registry,
    /// Which web pages and hosts may read them.
    pages: OriginPolicy,
    processes: CountedProcesses,
    /// The tools that have a label of their own.
    tools: Mutex<HashSet<String>>,
    accepted: Family<OfTool, Counter>,
    ended: Family<OfToolAndStatus, Counter>,
    webhook_deliveries: Family<OfStatus, Counter>,
    attempts_running: Gauge,
    attempt_time: Histogram,
    queue_time: Histogram,
    recoveries: Counter,
    cleanups_given_up: Counter,
    store_errors: Counter,
}

impl Metrics {
    pub(super) fn of(server: &Server, config: &Config) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            pages: config.metrics_policy(),
            processes: server.counted_processes(),
            tools: Mutex::default(),
            accepted: Family::default(),
            ended: Family::default(),
            webhook_deliveries: Family::default(),
            attempts_running: Gauge::default(),
            attempt_time: Histogram::new(BUCKETS_S),
            queue_time: Histogram::new(BUCKETS_S),
            recoveries: Counter::default(),
            cleanups_given_up: Counter::default(),
            store_errors: Counter::default(),
        };
        let registry = &mut metrics.registry;
        registry.register("tasks_accepted", "Calls that were accepted as tasks", metrics.accepted.clone());
        registry.register("tasks_ended", "Tasks that ended", metrics.ended.clone());
        registry.register(
            "webhook_deliveries",
            "Webhook deliveries that ended: completed or failed",
            metrics.webhook_deliveries.clone(),
        );
        registry.register("attempts_running", "Attempts that run now", metrics.attempts_running.clone());
        registry.register_with_unit(
            "attempt_duration",
            "Time that an attempt ran",
            Unit::Seconds,
            metrics.attempt_time.clone(),
        );
        registry.register_with_unit(
            "queue_wait",
            "Time from acceptance to the first attempt",
            Unit::Seconds,
            metrics.queue_time.clone(),
        );
        registry.register("recoveries", "Recoveries from dead workers and lost messages", metrics.recoveries.clone());
        registry.register("cleanups_given_up", "Cleanups that failed too often", metrics.cleanups_given_up.clone());
        registry.register("store_errors", "Operations that the store did not answer", metrics.store_errors.clone());
        metrics
    }

    /// The answer to a request on the port of the metrics.
    pub(super) async fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap, of: &Health) -> Response<Body> {
        let allowed = self.pages.check_host(uri, headers).and_then(|()| self.pages.check_origin(headers));
        if let Err(rejection) = allowed {
            return rejection.into_response();
        }
        let (status, text) = match (uri.path(), method) {
            (METRICS_PATH, &Method::GET | &Method::HEAD) => match self.text(of.backlog().await) {
                Some(text) => (StatusCode::OK, text),
                None => (StatusCode::INTERNAL_SERVER_ERROR, String::new()),
            },
            (METRICS_PATH, _) => return health::not_read(),
            _ => (StatusCode::NOT_FOUND, "the metrics are on /metrics\n".to_owned()),
        };
        let mut answer = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
        *answer.status_mut() = status;
        answer.headers_mut().insert(CONTENT_TYPE, TEXT);
        answer
    }

    /// Sends all values to a collector again and again, and once more when the server stops.
    pub(super) async fn export(self: Arc<Self>, exporter: MetricsExporter, of: Arc<Health>, stop: CancellationToken) {
        loop {
            let is_stopping = stop.run_until_cancelled(exporter.pause()).await.is_none();
            if is_stopping && exporter.has_failed_lately() {
                return;
            }
            if let Some(text) = self.text(of.backlog().await) {
                exporter.send(&text).await;
            }
            if is_stopping {
                return;
            }
        }
    }

    fn text(&self, backlog: Option<Backlog>) -> Option<String> {
        let mut text = String::new();
        prometheus_text::encode(&mut text, &self.registry).ok()?;
        prometheus_text::encode(&mut text, &read_now(backlog, (self.processes)())).ok()?;
        Some(text)
    }

    /// The label of a tool. Each value is a time series for as long as the process runs, so their number has a limit.
    fn label(&self, tool: &str) -> String {
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if !tools.contains(tool) {
            if tools.len() >= METRICS_LABELS_MAX {
                return OTHER.to_owned();
            }
            tools.insert(tool.to_owned());
        }
        tool.to_owned()
    }
}

/// The values that are read for one scrape, in a registry of their own. A server that was removed from the
/// configuration leaves no series behind, and a queue that cannot be read has no old value.
fn read_now(backlog: Option<Backlog>, processes: Vec<Processes>) -> Registry {
    let mut registry = Registry::with_prefix(PREFIX);
    if let Some(Backlog { messages, oldest_age_ms }) = backlog {
        let (waiting, oldest) = (Gauge::<i64>::default(), Gauge::<f64, AtomicU64>::default());
        waiting.set(gauge(u64::try_from(messages).unwrap_or(u64::MAX)));
        oldest.set(seconds(oldest_age_ms));
        registry.register("queue_messages", "Messages that wait for a worker", waiting);
        let help = "Time that the oldest waiting message has waited";
        registry.register_with_unit("queue_oldest_age", help, Unit::Seconds, oldest);
    }
    if !processes.is_empty() {
        let (now, restarts) = (Family::<OfServerAndState, Gauge>::default(), Family::<OfServer, Counter>::default());
        for Processes { server, starting, running, restarts: count } in processes.into_iter().take(METRICS_LABELS_MAX) {
            for (state, count) in [("starting", starting), ("running", running)] {
                now.get_or_create(&OfServerAndState { server: server.clone(), state }).set(gauge(count));
            }
            restarts.get_or_create(&OfServer { server }).inc_by(count);
        }
        registry.register("gateway_processes", "Processes of the servers behind the gateway", now);
        let help = "Processes that were started after one of the same server had failed";
        registry.register("gateway_process_restarts", help, restarts);
    }
    registry
}

fn gauge(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

#[deny(clippy::missing_trait_methods)]
impl Observer for Metrics {
    fn accepted(&self, task: &Task) {
        if !task.is_webhook_delivery() {
            self.accepted.get_or_create(&OfTool { tool: self.label(&task.tool) }).inc();
        }
    }

    fn attempt_began(&self, _task: &Task, waited_ms: Option<u64>) {
        self.attempts_running.inc();
        if let Some(waited_ms) = waited_ms {
            self.queue_time.observe(seconds(waited_ms));
        }
    }

    fn attempt_ended(&self, _task: &Task, ran_ms: u64) {
        self.attempts_running.dec();
        self.attempt_time.observe(seconds(ran_ms));
    }

    /// Not counted: the names of steps have no limit.
    fn came_to_step(&self, _task: &Task, _name: &str, _recorded: IsRecorded) {}

    fn ended(&self, task: &Task) {
        let status = task.status().as_str();
        if task.is_webhook_delivery() {
            self.webhook_deliveries.get_or_create(&OfStatus { status }).inc();
        } else {
            self.ended.get_or_create(&OfToolAndStatus { tool: self.label(&task.tool), status }).inc();
        }
    }

    fn cleanup_given_up(&self, _task: &Task) {
        self.cleanups_given_up.inc();
    }

    /// Not counted: the log has a warning.
    fn replay_differs(&self, _task: &Task) {}

    fn recovered(&self, _task: &Task) {
        self.recoveries.inc();
    }

    fn unavailable(&self) {
        self.store_errors.inc();
    }
}
