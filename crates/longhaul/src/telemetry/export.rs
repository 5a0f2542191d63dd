//! The export of spans by OTLP over HTTP. Its thread sends them with a runtime of its own: a busy server and an absent
//! collector do not delay each other.

use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::settings::{EnvSource, Place};
use longhaul_core::{Clock, spans, with_causes};
use opentelemetry::global;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::{Builder, Runtime};

use crate::SystemClock;
use crate::settings::ProcessEnv;

/// How often the log says that spans or metrics are not taken. Nothing waits for a flush meanwhile.
const AWAY_MS: u64 = 60_000;

/// How long a server tries to send a batch. Its calls do not wait for that.
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a function tries: its answer waits for that.
const FUNCTION_TIMEOUT: Duration = Duration::from_secs(1);

/// Gives the global tracer provider an exporter to `endpoint`. A process has one exporter, even with several servers.
pub(super) fn to(endpoint: &str, place: Place) -> Result<(), Box<dyn Error + Send + Sync>> {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    let away = Arc::<Away>::default();
    let (timeout, retry) = match place {
        Place::Local => (SERVER_TIMEOUT, RetryPolicy::recommended()),
        Place::Api | Place::Worker => (FUNCTION_TIMEOUT, RetryPolicy::disabled()),
    };
    let http = reqwest::Client::builder().user_agent(concat!("longhaul/", env!("CARGO_PKG_VERSION"))).timeout(timeout);
    let client = Client { http: http.build()?, runtime: OnceLock::new(), away: Arc::clone(&away) };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .with_timeout(timeout)
        .with_retry_policy(retry)
        .build()?;
    if IS_STARTED.swap(true, Ordering::Relaxed) {
        return Ok(());
    }
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
    global::set_tracer_provider(provider.clone());
    spans::start(move || {
        if !away.was_lately()
            && let Err(error) = provider.force_flush()
        {
            away.warn("spans", &error);
        }
    });
    Ok(())
}

/// The attributes of this process, as the environment says them.
pub(super) fn resource() -> Resource {
    let resource = Resource::builder();
    let is_named = ["OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"].iter().any(|name| ProcessEnv.get(name).is_some());
    if is_named { resource.build() } else { resource.with_service_name("longhaul").build() }
}

/// When the log said last that the collector takes nothing.
#[derive(Debug, Default)]
pub(super) struct Away(AtomicU64);

impl Away {
    pub(super) fn was_lately(&self) -> bool {
        SystemClock.now().as_ms() < self.0.load(Ordering::Relaxed).saturating_add(AWAY_MS)
    }

    pub(super) fn warn(&self, signal: &str, error: &(dyn Error + 'static)) {
        if !self.was_lately() {
            self.0.store(SystemClock.now().as_ms(), Ordering::Relaxed);
            tracing::warn!(
                error = with_causes(error),
                "the OpenTelemetry collector does not take {signal}: some are lost"
            );
        }
    }
}

#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    /// Built by the thread of the exporter: a thread of the server must not drop it.
    runtime: OnceLock<Runtime>,
    away: Arc<Away>,
}

#[async_trait]
impl HttpClient for Client {
    /// Blocks: the thread of the exporter does nothing else.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let runtime = match self.runtime.get() {
            Some(runtime) => runtime,
            None => {
                let built = Builder::new_current_thread().enable_all().build()?;
                self.runtime.get_or_init(|| built)
            }
        };
        let sent = runtime.block_on(async {
            let response = self.http.execute(request.try_into()?).await?.error_for_status()?;
            let mut taken = Response::new(Bytes::new());
            *taken.status_mut() = response.status();
            *taken.body_mut() = response.bytes().await?;
            Ok::<_, reqwest::Error>(taken)
        });
        Ok(sent.inspect_err(|error| self.away.warn("spans", error))?)
    }
}
