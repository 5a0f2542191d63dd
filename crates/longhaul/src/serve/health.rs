//! Health for load balancers and orchestrators: whether the process is alive (`/healthz`), and whether it can do its
//! work (`/readyz`). Both are answered for any host name, and to everyone.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Method, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use longhaul_core::ports::{StoreError, TaskStore};
use longhaul_core::{Clock, IdSource, OwnerId, TaskKey, Timestamp};
use longhaul_http::{Body, HEALTH_PATH};
use longhaul_sqlite::{Backlog, Database};
use tokio::sync::Mutex;

use crate::serve::limits::{HEALTH_REMEMBERED_MS, PROBE_WAIT};
use crate::{Degraded, OsIds, SystemClock};

/// The path of the question whether the server is ready.
pub(super) const READY_PATH: &str = "/readyz";

/// Why a server is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unready {
    /// It has not been able to use its store and its queue yet.
    Starting,
    /// It was asked to stop.
    Draining,
    /// Its store does not answer.
    Store,
    /// The file of its store was removed, moved or replaced.
    Lost,
    /// Its queue does not answer.
    #[cfg(feature = "aws")]
    Queue,
    /// Store or queue take too long.
    Slow,
}

impl Unready {
    pub(super) fn store(error: &StoreError) -> Self {
        tracing::warn!(error = error as &dyn Error, "not ready: the store does not answer");
        Self::Store
    }

    #[cfg(feature = "aws")]
    pub(super) fn queue(error: &longhaul_core::ports::QueueError) -> Self {
        tracing::warn!(error = error as &dyn Error, "not ready: the queue does not answer");
        Self::Queue
    }

    const fn answer(self) -> &'static str {
        match self {
            Self::Starting => {
                "{\"status\":\"starting\",\"why\":\"the store or the queue cannot be used yet: see the log\"}\n"
            }
            Self::Draining => "{\"status\":\"draining\",\"why\":\"the process was asked to stop\"}\n",
            Self::Store => "{\"status\":\"unavailable\",\"why\":\"the store does not answer: see the log\"}\n",
            Self::Lost => {
                "{\"status\":\"unavailable\",\"why\":\"the database was removed, moved or replaced: put it back and \
                 start the server again\"}\n"
            }
            #[cfg(feature = "aws")]
            Self::Queue => "{\"status\":\"unavailable\",\"why\":\"the queue does not answer: see the log\"}\n",
            Self::Slow => "{\"status\":\"unavailable\",\"why\":\"the store or the queue took too long\"}\n",
        }
    }
}

/// Finds out whether what the server needs answers.
#[async_trait]
pub(super) trait Probe: Send + Sync {
    async fn probe(&self) -> Result<(), Unready>;

    /// How many tasks this process could not read, because their records are damaged. The
    /// server is ready all the same: other tasks are not affected.
    fn unreadable_tasks(&self) -> usize {
        0
    }

    /// The messages that wait for a worker, if they can be counted here. SQS has them in CloudWatch.
    async fn backlog(&self) -> Option<Backlog> {
        None
    }
}

/// A store, whose queue is in the same file, or is not known here.
pub(super) struct StoreAlone {
    pub(super) store: Arc<dyn TaskStore>,
    /// The file, if this process has one.
    pub(super) database: Option<Database>,
}

#[async_trait]
impl Probe for StoreAlone {
    /// Reads a task that is not there. Reads are answered from a file that is lost, too.
    async fn probe(&self) -> Result<(), Unready> {
        if self.database.as_ref().is_some_and(Database::is_lost) {
            return Err(Unready::Lost);
        }
        let now = SystemClock.now();
        let nobody = TaskKey::new(OwnerId::from_bytes([0; 32]), OsIds.task_id(now));
        self.store.get(&nobody, now).await.map(drop).map_err(|error| Unready::store(&error))
    }

    fn unreadable_tasks(&self) -> usize {
        self.database.as_ref().map_or(0, Database::unreadable_tasks)
    }

    async fn backlog(&self) -> Option<Backlog> {
        let backlog = self.database.as_ref()?.backlog().await;
        let failed = |error: &_| tracing::warn!(error = error as &dyn Error, "the queue cannot be counted for metrics");
        backlog.inspect_err(failed).ok()
    }
}

/// An answer that is given again for a while, so that frequent requests cost nothing.
struct Recent<T>(Mutex<Option<(Timestamp, T)>>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Copy> Recent<T> {
    /// The last answer, or a new one if it is too old. Requests at the same time wait for the same answer.
    async fn or(&self, new: impl Future<Output = T>) -> T {
        let mut last = self.0.lock().await;
        if let Some((at, answer)) = *last
            && SystemClock.now().since_ms(at) < HEALTH_REMEMBERED_MS
        {
            return answer;
        }
        let answer = new.await;
        *last = Some((SystemClock.now(), answer));
        answer
    }
}

/// Names the parts of a server that cannot be used now.
pub(super) type DegradedParts = Arc<dyn Fn() -> Vec<Degraded> + Send + Sync>;

/// The health of one process.
#[derive(Default)]
pub(super) struct Health {
    is_draining: AtomicBool,
    probe: OnceLock<Arc<dyn Probe>>,
    degraded: Option<DegradedParts>,
    last: Recent<Result<(), Unready>>,
    last_backlog: Recent<Option<Backlog>>,
}

impl Health {
    /// The server can work from now on, as long as `probe` finds what it needs.
    pub(super) fn started(&self, probe: Arc<dyn Probe>) {
        // A server starts once.
        drop(self.probe.set(probe));
    }

    /// A server is ready although parts of it cannot be used: `parts` says which.
    pub(super) fn counting(parts: DegradedParts) -> Self {
        Self { degraded: Some(parts), ..Self::default() }
    }

    /// The server was asked to stop.
    pub(super) fn drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// The answer to a request for `path`, if it asks for the server's health.
    pub(super) async fn answer(&self, method: &Method, path: &str) -> Option<Response<Body>> {
        if path != HEALTH_PATH && path != READY_PATH {
            return None;
        }
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Some(not_read());
        }
        if path == HEALTH_PATH {
            return Some(json(StatusCode::OK, "{\"status\":\"ok\"}\n"));
        }
        Some(match self.ready().await {
            Ok(()) => json(StatusCode::OK, self.ready_answer()),
            Err(unready) => json(StatusCode::SERVICE_UNAVAILABLE, unready.answer()),
        })
    }

    /// That the server is ready, and how much of it is not. Everyone may ask, so there are no names.
    fn ready_answer(&self) -> String {
        let unreadable = self.probe.get().map_or(0, |probe| probe.unreadable_tasks());
        let degraded = self.degraded.as_ref().map_or(0, |parts| parts().len());
        let answer = serde_json::json!({"status": "ready", "degradedParts": degraded, "unreadableTasks": unreadable});
        format!("{answer}\n")
    }

    async fn ready(&self) -> Result<(), Unready> {
        if self.is_draining.load(Ordering::Relaxed) {
            return Err(Unready::Draining);
        }
        let probe = self.probe.get().ok_or(Unready::Starting)?;
        let ready = tokio::time::timeout(PROBE_WAIT, probe.probe());
        self.last.or(async { ready.await.unwrap_or(Err(Unready::Slow)) }).await
    }

    /// The messages that wait for a worker; `None` if they cannot be counted, or not in time.
    pub(super) async fn backlog(&self) -> Option<Backlog> {
        let backlog = tokio::time::timeout(PROBE_WAIT, self.probe.get()?.backlog());
        let counted = async {
            backlog.await.unwrap_or_else(|_late| {
                tracing::warn!("the queue took too long to be counted for metrics");
                None
            })
        };
        self.last_backlog.or(counted).await
    }
}

/// The answer to clients before the server has found its store and its queue.
pub(super) fn starting() -> Response<Body> {
    let mut answer = json(StatusCode::SERVICE_UNAVAILABLE, "{\"error\":\"the server is starting: try again\"}\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}

/// The answer to clients of a process that answers health checks only.
pub(super) fn nothing_else() -> Response<Body> {
    json(StatusCode::NOT_FOUND, "{\"error\":\"this process runs tasks: it answers /healthz and /readyz only\"}\n")
}

/// The answer to a request with another method than GET or HEAD.
pub(super) fn not_read() -> Response<Body> {
    let mut answer = json(StatusCode::METHOD_NOT_ALLOWED, "{\"error\":\"this path is read with GET\"}\n");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    answer
}

fn json(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let mut answer = Response::new(Full::new(text.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Counted {
        asked: AtomicUsize,
    }

    #[async_trait]
    impl Probe for Counted {
        async fn probe(&self) -> Result<(), Unready> {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Err(Unready::Store)
        }
    }

    async fn status(health: &Health, method: Method, path: &str) -> Option<StatusCode> {
        health.answer(&method, path).await.map(|answer| answer.status())
    }

    #[tokio::test]
    async fn a_process_is_alive_before_it_is_ready_and_while_it_drains() {
        let health = Health::default();
        assert_eq!(status(&health, Method::GET, "/healthz").await, Some(StatusCode::OK));
        assert_eq!(health.ready().await, Err(Unready::Starting));
        health.started(Arc::new(Counted::default()));
        assert_eq!(status(&health, Method::HEAD, "/readyz").await, Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(health.ready().await, Err(Unready::Store));
        health.drain();
        assert_eq!(health.ready().await, Err(Unready::Draining));
        assert_eq!(status(&health, Method::GET, "/healthz").await, Some(StatusCode::OK));
        assert_eq!(status(&health, Method::POST, "/readyz").await, Some(StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(status(&health, Method::GET, "/mcp").await, None);
    }

    #[tokio::test]
    async fn those_who_ask_at_the_same_time_cost_one_probe() {
        let (health, probe) = (Health::default(), Arc::new(Counted::default()));
        health.started(Arc::clone(&probe) as Arc<dyn Probe>);
        let answers: [Result<(), Unready>; 3] = tokio::join!(health.ready(), health.ready(), health.ready()).into();
        assert_eq!(answers, [Err(Unready::Store); 3]);
        assert_eq!(probe.asked.load(Ordering::Relaxed), 1);
    }
}
