//! A server with the store and the queue of an application that keeps everything in memory, and callers with tokens.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use longhaul_core::ports::{TaskStore, WorkQueue};
use longhaul_core::{Clock, Identity, OwnerId, Task};
use longhaul_engine::{Disposition, Engine, Ports, Settings, WorkerSignals};
use longhaul_http::{Challenge, HttpFrontend, Identified, Identify, OriginPolicy, Rejection, Sender, WebOrigin};
use longhaul_mcp::{Body, McpServer, McpSettings};
use longhaul_testkit::{ManualClock, SeededIds};

use crate::tools::{Tools, policies};

#[path = "../../longhaul/tests/server/own_backend/queue.rs"]
mod queue;
#[path = "../../longhaul/tests/server/own_backend/store.rs"]
mod store;

/// Deliveries that one poll of the queue handles. A task that continues forever is left for the next poll.
const DELIVERIES_MAX: usize = 16;

/// Tasks of one owner that a list of the store shows.
const TASKS_MAX: usize = 100;

/// The token of a caller: `Bearer token-of-NAME`, for the names that exist.
pub(crate) const TOKEN: &str = "token-of-";

/// A caller without a token.
pub(crate) const NOBODY: &str = "nobody";

/// Callers with tokens. Those with the token `anyone` are the anonymous owner.
const CALLERS: [&str; 4] = ["alice", "bob", "carol", "anyone"];

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) mcp: McpServer,
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn TaskStore>,
    pub(crate) queue: Arc<dyn WorkQueue>,
    frontend: HttpFrontend,
}

/// An answer that was read to its end.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Knows the callers by their tokens.
struct Tokens;

#[async_trait]
impl Identify for Tokens {
    async fn identify(&self, request: &Parts) -> Result<Identified, Rejection> {
        let mut sent = request.headers.get_all(AUTHORIZATION).iter();
        let only = sent.next().filter(|_| sent.next().is_none());
        let token = only.and_then(|header| header.to_str().ok()?.strip_prefix("Bearer "));
        let name = token.and_then(|token| CALLERS.into_iter().find(|name| token.strip_prefix(TOKEN) == Some(name)));
        let refused = || Rejection::Unauthorized {
            reason: "the caller is not known".into(),
            challenge: Challenge::default().unauthorized(None, ""),
        };
        Ok(owner(name.ok_or_else(refused)?).into())
    }
}

/// The owner of a caller's tasks.
pub(crate) fn owner(name: &str) -> OwnerId {
    OwnerId::of(match name {
        "anyone" => Identity::Anonymous,
        subject => Identity::Verified { issuer: "https://issuer.example", subject, tenant: "" },
    })
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// A server that answers these hosts in addition to loopback.
    pub(crate) fn with(origins: &[&str]) -> Self {
        let clock = Arc::new(ManualClock::default());
        let store: Arc<dyn TaskStore> = Arc::new(store::MemoryStore::default());
        let queue: Arc<dyn WorkQueue> = Arc::new(queue::MemoryQueue::new(Arc::clone(&clock) as _));
        let ports = Ports {
            store: Arc::clone(&store),
            queue: Arc::clone(&queue),
            clock: Arc::clone(&clock) as _,
            ids: Arc::new(SeededIds::new(1)),
        };
        let engine = Engine::new(ports, Settings { inline_sleep_ms_max: 0, ..Settings::default() });
        let mcp = McpServer::new(|| Tools, policies(), engine.clone(), McpSettings::new([7; 32]));
        let origins = origins.iter().filter_map(|origin| WebOrigin::of(origin)).collect();
        let frontend = HttpFrontend::new(OriginPolicy::new(Vec::new(), origins)).identified_by(Arc::new(Tokens));
        Self { clock, mcp, engine, store, queue, frontend }
    }

    /// Sends a request through the frontend, and reads the whole answer.
    pub(crate) async fn send(&self, request: Request<Bytes>) -> Answer {
        let mcp = async |request, sender| match sender {
            Sender::Caller(caller) => self.mcp.respond(request, *caller).await,
            Sender::Holder { token } => self.mcp.call_back(&token, request.body()).await,
        };
        read(self.frontend.answer(request.map(Full::new), mcp).await).await
    }

    /// Handles the messages that the queue has now.
    pub(crate) async fn work(&self) {
        let runner = self.mcp.runner();
        for _ in 0..DELIVERIES_MAX {
            let Some(delivery) = self.queue.receive(1, 30_000, 0).await.unwrap().pop() else { return };
            match self.engine.run_delivery(&delivery, &*runner, &WorkerSignals::default()).await {
                Disposition::Acknowledge => self.queue.delete(&delivery.receipt).await.unwrap(),
                Disposition::RetryAfter { after_ms } => self.queue.extend(&delivery.receipt, after_ms).await.unwrap(),
            }
        }
    }

    /// The tasks of all callers.
    pub(crate) async fn tasks(&self) -> Vec<Task> {
        let mut all = Vec::new();
        for name in CALLERS {
            all.extend(self.store.list(&owner(name), None, TASKS_MAX, self.clock.now()).await.unwrap().tasks);
        }
        all
    }
}

pub(crate) async fn read(response: http::Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, body }
}
