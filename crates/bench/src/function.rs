//! A Lambda function in its own process, on a host that provides the Runtime API.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use harness::runtime_host::{Idle, Sandbox};
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};

use crate::proc;
use crate::wire::Call;

/// How long an invocation may take.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A variable in each process's environment, by which the process is found.
const MARK: &str = "BENCH_SANDBOX";

/// The separator of the head of a streamed answer from its body.
const HEAD_ENDS: [u8; 8] = [0; 8];

/// A running function. Killed when dropped.
pub(crate) struct Function {
    /// Its host.
    pub(crate) sandbox: Sandbox,
    pid: u32,
    ready: Duration,
}

impl Function {
    /// Starts `program`, and returns once it asks for work.
    pub(crate) async fn start(program: &Path, env: &[(String, String)]) -> anyhow::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mark = format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut env = env.to_vec();
        env.push((MARK.to_owned(), mark.clone()));
        let begun = Instant::now();
        let sandbox = Sandbox::launch(program, &env, Idle::Running).await;
        let is_ready = sandbox.is_ready().await;
        let ready = begun.elapsed();
        ensure!(is_ready, "{} ended before it asked for work", program.display());
        Ok(Self { sandbox, pid: proc::with_variable(MARK, &mark)?, ready })
    }

    /// From its start to the time when it asked for work.
    pub(crate) const fn ready(&self) -> Duration {
        self.ready
    }

    /// Invokes the function with an event, and returns its answer.
    pub(crate) async fn answer(&self, event: &Value) -> anyhow::Result<Vec<u8>> {
        let answer = self.sandbox.invoke(event, TIMEOUT).await.whole().await;
        answer.map_err(|error| anyhow!("an invocation failed: {error}"))
    }

    /// Sends a request to a function that streams, and returns the body of its answer.
    pub(crate) async fn send(&self, request: Call) -> anyhow::Result<Vec<u8>> {
        body_of(self.answer(&event_of(request).await?).await?)
    }

    /// The processor time that it has used so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        proc::cpu(self.pid)
    }

    /// Its peak memory, in MiB.
    pub(crate) fn memory_peak_mib(&self) -> anyhow::Result<f64> {
        proc::memory_peak_mib(self.pid)
    }
}

/// The event that a function URL makes of a request.
pub(crate) async fn event_of(request: Call) -> anyhow::Result<Value> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut headers = Map::new();
    for (name, value) in &head.headers {
        headers.insert(name.as_str().to_owned(), value.to_str()?.into());
    }
    Ok(json!({
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": head.uri.path(),
        "rawQueryString": "",
        "headers": headers,
        "requestContext": {
            "accountId": "anonymous",
            "apiId": "bench",
            "domainName": "bench.lambda-url.us-east-1.on.aws",
            "domainPrefix": "bench",
            "http": {"method": head.method.as_str(), "path": head.uri.path(), "protocol": "HTTP/1.1",
                     "sourceIp": "127.0.0.1", "userAgent": "bench"},
            "requestId": "bench",
            "routeKey": "$default",
            "stage": "$default",
            "time": "12/Mar/2026:19:03:58 +0000",
            "timeEpoch": 1_773_342_238_000_u64,
        },
        "body": std::str::from_utf8(&body)?,
        "isBase64Encoded": false,
    }))
}

/// The body of a streamed answer, without its head.
fn body_of(mut answer: Vec<u8>) -> anyhow::Result<Vec<u8>> {
    let ends_at = answer.windows(HEAD_ENDS.len()).position(|bytes| bytes == HEAD_ENDS).context("no head")?;
    let body = answer.split_off(ends_at + HEAD_ENDS.len());
    let head: Value = serde_json::from_slice(answer.get(..ends_at).unwrap_or_default())?;
    let status = head.get("statusCode").and_then(Value::as_u64);
    ensure!(status == Some(200), "{status:?}: {}", String::from_utf8_lossy(&body));
    Ok(body)
}
