//! A server, a store in memory, a clock that is set by hand, and a worker that works when a test says so.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use longhaul_core::ports::{TaskStore, WorkQueue};
use longhaul_core::{Clock, Identity, OwnerId};
use longhaul_engine::{Disposition, Engine, Ports, Settings, ToolRunner, WorkerSignals};
use longhaul_mcp::{Body, McpServer, McpSettings, Policies, TaskPolicy};
use longhaul_sqlite::Database;
use longhaul_testkit::{
    FakeQueue, FakeStore, Fault, FaultyQueue, FaultyStore, ManualClock, QueueCall, SeededIds, StoreCall,
};
use serde_json::{Value, json};

use crate::schema;
use crate::tools::{Observed, Tools, policies};

pub(crate) const VERSION: &str = "2026-07-28";

/// In real time, and generous: nothing is measured here.
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker that still finds deliveries after this many is in a loop.
const DELIVERIES_MAX: usize = 200;

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) mcp: McpServer,
    pub(crate) engine: Engine,
    pub(crate) observed: Arc<Observed>,
    pub(crate) policies: BTreeMap<String, TaskPolicy>,
    /// What the server and the worker asked of the store and the queue.
    pub(crate) calls: Calls,
    pub(crate) queue: Arc<dyn WorkQueue>,
    store: Arc<FaultyStore>,
}

/// What was asked of the store and the queue, in its order.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    /// The calls since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn note(&self, call: &str) -> Fault {
        self.0.lock().unwrap().push(call.to_owned());
        Fault::None
    }

    fn note_of_store(&self, call: StoreCall<'_>) -> Fault {
        match call {
            StoreCall::Create(_) => self.note("create"),
            StoreCall::Get(_) => self.note("get"),
            StoreCall::Apply(_, event) => {
                let event = format!("{event:?}");
                self.note(&format!("apply {}", event.split([' ', '(']).next().unwrap()))
            }
            StoreCall::List(_) => self.note("list"),
            StoreCall::Record(..) => self.note("record"),
            StoreCall::Journal(_) => self.note("journal"),
            StoreCall::PutParts(..) => self.note("put parts"),
            StoreCall::Parts(..) => self.note("parts"),
            StoreCall::Leave(..) => self.note("leave"),
            StoreCall::Collect(..) => self.note("collect"),
        }
    }
}

/// An answer that was read to its end.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?} {}", self.status, self.text))
    }

    pub(crate) fn result(&self) -> Value {
        let json = self.json();
        assert!(json.get("error").is_none(), "{json}");
        json["result"].clone()
    }

    /// Status, code, message.
    pub(crate) fn error(&self) -> (u16, i64, String) {
        let json = self.json();
        schema::is("2026-07-28", "JSONRPCErrorResponse", &json);
        let error = &json["error"];
        (self.status.as_u16(), error["code"].as_i64().unwrap(), error["message"].as_str().unwrap().to_owned())
    }

    /// The messages of a stream, in their order.
    pub(crate) fn events(&self) -> Vec<Value> {
        let lines = self.text.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.filter(|data| !data.trim().is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
    }
}

/// What a client says that it can do.
pub(crate) fn everything() -> Value {
    json!({
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "elicitation": {"form": {}}, "sampling": {}, "roots": {},
    })
}

/// The same without tasks.
pub(crate) fn no_tasks() -> Value {
    json!({"elicitation": {}, "roots": {}, "sampling": {}})
}

pub(crate) fn alice() -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "tests", subject: "alice", tenant: "" })
}

pub(crate) fn bob() -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "tests", subject: "bob", tenant: "" })
}

/// The same subject at the same issuer as [`alice`], on behalf of somebody else.
pub(crate) fn other_tenant() -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "tests", subject: "alice", tenant: "team-7" })
}

/// A request as a client of `2026-07-28` sends it; change what should be wrong with it.
#[derive(Clone)]
pub(crate) struct Sent {
    pub(crate) owner: OwnerId,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Value,
}

impl Sent {
    pub(crate) fn new(method: &str, mut params: Value) -> Self {
        let mut headers = vec![
            ("host", "localhost".to_owned()),
            ("content-type", "application/json".to_owned()),
            ("accept", "application/json, text/event-stream".to_owned()),
            ("mcp-protocol-version", VERSION.to_owned()),
            ("mcp-method", method.to_owned()),
        ];
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params.get(key)?.as_str());
        if let Some(name) = name {
            headers.push(("mcp-name", name.to_owned()));
        }
        let fields = params.as_object_mut().unwrap();
        let meta = fields.entry("_meta").or_insert_with(|| json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = VERSION.into();
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "tests", "version": "1"});
        meta["io.modelcontextprotocol/clientCapabilities"] = everything();
        Self { owner: alice(), headers, body: json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}) }
    }

    pub(crate) fn call(tool: &str, arguments: Value) -> Self {
        Self::new("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    pub(crate) fn of(mut self, owner: OwnerId) -> Self {
        self.owner = owner;
        self
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self = self.without_header(name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn without_header(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self
    }

    pub(crate) fn declaring(mut self, capabilities: Value) -> Self {
        self.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        self
    }

    pub(crate) fn with_param(mut self, name: &str, value: Value) -> Self {
        self.body["params"][name] = value;
        self
    }

    pub(crate) fn with_meta(mut self, name: &str, value: Value) -> Self {
        self.body["params"]["_meta"][name] = value;
        self
    }

    /// The same request in an older revision.
    pub(crate) fn legacy(mut self, version: &str) -> Self {
        self =
            self.with_header("mcp-protocol-version", version).without_header("mcp-method").without_header("mcp-name");
        self.body["params"].as_object_mut().unwrap().remove("_meta");
        self
    }

    pub(crate) fn request(&self) -> Request<Bytes> {
        let mut request = Request::post("/mcp").body(Bytes::from(self.body.to_string())).unwrap();
        for (name, value) in &self.headers {
            request.headers_mut().append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        request
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Settings { inline_sleep_ms_max: 0, ..Settings::default() })
    }

    /// A server that makes no tasks: all calls are plain.
    pub(crate) fn plain() -> Self {
        Self::of(Settings::default(), BTreeMap::new())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        Self::of(settings, policies())
    }

    /// A server each of whose policies is changed like this.
    pub(crate) fn with_policies(change: impl Fn(TaskPolicy) -> TaskPolicy) -> Self {
        let policies = policies().into_iter().map(|(tool, policy)| (tool, change(policy))).collect();
        Self::of(Settings { inline_sleep_ms_max: 0, ..Settings::default() }, policies)
    }

    /// The usual server, whose policies come from a function.
    pub(crate) fn by_function() -> Self {
        Self::by_function_with(|_policies| ())
    }

    /// The same, after a change that is no policy.
    pub(crate) fn by_function_with(change: impl FnOnce(&mut Policies)) -> Self {
        let mut world = Self::new();
        let mut by_function = Policies::default();
        let known = std::mem::take(&mut world.policies);
        by_function.decide_by(move |tool| known.get(tool).cloned());
        change(&mut by_function);
        let handler = Tools::new(Arc::clone(&world.observed));
        let settings = McpSettings::new([7; 32]);
        world.mcp = McpServer::new(move || handler.clone(), by_function, world.engine.clone(), settings);
        world
    }

    fn of(settings: Settings, policies: BTreeMap<String, TaskPolicy>) -> Self {
        let clock = Arc::new(ManualClock::default());
        let database =
            Database::in_memory(Arc::<ManualClock>::clone(&clock), longhaul_sqlite::Settings::default()).unwrap();
        Self::over(Arc::new(database.store()), Arc::new(database.queue()), clock, settings, policies)
    }

    /// A world whose records can be damaged, and its store.
    pub(crate) fn with_fake_store() -> (Self, Arc<FakeStore>) {
        let (clock, store) = (Arc::new(ManualClock::default()), Arc::<FakeStore>::default());
        let queue = Arc::new(FakeQueue::new(Arc::<ManualClock>::clone(&clock), 10));
        let world = Self::over(Arc::clone(&store) as _, queue, clock, Settings::default(), policies());
        (world, store)
    }

    fn over(
        store: Arc<dyn TaskStore>,
        queue: Arc<dyn WorkQueue>,
        clock: Arc<ManualClock>,
        settings: Settings,
        policies: BTreeMap<String, TaskPolicy>,
    ) -> Self {
        let calls = Calls::default();
        let (of_store, of_queue) = (calls.clone(), calls.clone());
        // Without faults: it knows whether a call is waiting for its answer, and which calls there were.
        let store = FaultyStore::new(store, move |call| of_store.note_of_store(call));
        let store = Arc::new(store);
        let ports = Ports {
            store: Arc::<FaultyStore>::clone(&store),
            queue: Arc::new(FaultyQueue::new(Arc::clone(&queue), move |call| match call {
                QueueCall::Send(_) => of_queue.note("send"),
                _ => Fault::None,
            })),
            clock: Arc::<ManualClock>::clone(&clock),
            ids: Arc::new(SeededIds::new(1)),
        };
        let engine = Engine::new(ports, settings);
        let observed = Arc::new(Observed::default());
        let handler = Tools::new(Arc::clone(&observed));
        let make = move || handler.clone();
        let mcp = McpServer::new(make, policies.clone(), engine.clone(), McpSettings::new([7; 32]));
        Self { clock, mcp, engine, observed, policies, calls, queue, store }
    }

    pub(crate) async fn send(&self, sent: &Sent) -> Answer {
        read(self.mcp.respond(sent.request(), sent.owner).await).await
    }

    pub(crate) async fn result(&self, sent: &Sent) -> Value {
        self.send(sent).await.result()
    }

    /// Calls a tool that becomes a task, and returns the task's id.
    pub(crate) async fn start(&self, tool: &str, arguments: Value) -> String {
        let created = self.result(&Sent::call(tool, arguments)).await;
        schema::is("tasks-extension", "CreateTaskResult", &created);
        assert_eq!(created["resultType"], "task", "{created}");
        created["taskId"].as_str().unwrap().to_owned()
    }

    /// A world in which this tool was called without arguments, and the task's id.
    pub(crate) async fn with_task(tool: &str) -> (Self, String) {
        let world = Self::new();
        let id = world.start(tool, json!({})).await;
        (world, id)
    }

    /// The same, until the task asks its client something.
    pub(crate) async fn asked_by(tool: &str) -> (Self, String, Value) {
        let (world, id) = Self::with_task(tool).await;
        let task = world.work_until(&id, "input_required").await;
        (world, id, task)
    }

    pub(crate) async fn get(&self, id: &str) -> Value {
        let task = self.result(&Sent::new("tasks/get", json!({"taskId": id}))).await;
        schema::is("tasks-extension", "GetTaskResult", &task);
        assert_eq!(task["resultType"], "complete");
        task
    }

    pub(crate) async fn update(&self, id: &str, answers: Value) {
        let ack = self.result(&Sent::new("tasks/update", json!({"taskId": id, "inputResponses": answers}))).await;
        assert_eq!(ack, json!({"resultType": "complete"}));
    }

    pub(crate) async fn cancel(&self, id: &str) {
        let ack = self.result(&Sent::new("tasks/cancel", json!({"taskId": id}))).await;
        assert_eq!(ack, json!({"resultType": "complete"}));
    }

    /// The answer to a request that waits for its task, while a worker works and time passes.
    pub(crate) async fn served(&self, sent: &Sent) -> Answer {
        self.while_working(self.send(sent)).await
    }

    /// Runs `work` while time passes and a worker works.
    pub(crate) async fn while_working<T>(&self, work: impl Future<Output = T>) -> T {
        let worker = async {
            loop {
                self.work().await;
                tokio::task::yield_now().await;
            }
        };
        self.while_time_passes(async {
            tokio::select! {
                done = work => done,
                never = worker => never,
            }
        })
        .await
    }

    /// Works on everything that the queue has now.
    pub(crate) async fn work(&self) {
        self.work_with(&*self.mcp.runner()).await;
    }

    /// The same, with another runner than the server's.
    pub(crate) async fn work_with(&self, runner: &dyn ToolRunner) {
        for _ in 0..DELIVERIES_MAX {
            let Some(delivery) = self.queue.receive(1, 30_000, 0).await.unwrap().pop() else { return };
            let attempt = async { self.engine.run_delivery(&delivery, runner, &WorkerSignals::default()).await };
            match tokio::time::timeout(PATIENCE, attempt).await.expect("the attempt ends") {
                Disposition::Acknowledge => self.queue.delete(&delivery.receipt).await.unwrap(),
                Disposition::RetryAfter { after_ms } => self.queue.extend(&delivery.receipt, after_ms).await.unwrap(),
            }
        }
        panic!("there are always more deliveries");
    }

    /// Takes a delivery, begins its attempt, and dies.
    pub(crate) async fn kill_a_worker_in_the_middle(&self) {
        let delivery = self.queue.receive(1, 1_000, 0).await.unwrap().pop().expect("a delivery");
        let (runner, signals) = (self.mcp.runner(), WorkerSignals::default());
        let mut attempt = Box::pin(self.engine.run_delivery(&delivery, &*runner, &signals));
        while self.observed.calls_begun.load(Ordering::SeqCst) == 0 {
            assert!((&mut attempt).now_or_never().is_none(), "the tool never ends");
            tokio::task::yield_now().await;
        }
    }

    /// Works, letting time pass between deliveries, until the task has this status.
    pub(crate) async fn work_until(&self, id: &str, status: &str) -> Value {
        for _ in 0..DELIVERIES_MAX {
            self.work().await;
            let task = self.get(id).await;
            if task["status"] == status {
                return task;
            }
            self.clock.advance_ms(500);
        }
        panic!("the task never became {status}: {}", self.get(id).await);
    }

    /// Lets time pass quickly while `work` runs: sleepers are woken at once, in the right order. Time stands still
    /// while the store answers: otherwise a slow machine would let a deadline pass while what was due before it is
    /// being read.
    pub(crate) async fn while_time_passes<T>(&self, work: impl Future<Output = T>) -> T {
        let advance = async {
            loop {
                // Everything that does not sleep makes progress meanwhile; how much makes no difference.
                #[expect(clippy::disallowed_methods, reason = "lets the store's threads run; measures nothing")]
                tokio::time::sleep(Duration::from_millis(1)).await;
                let next = self.clock.next_wake().filter(|_| self.store.is_idle());
                next.into_iter().for_each(|moment| self.clock.advance_to(moment));
            }
        };
        tokio::select! {
            done = work => done,
            never = advance => never,
        }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now().as_ms()
    }
}

pub(crate) async fn read(response: Response<Body>) -> Answer {
    let (parts, body) = response.into_parts();
    let text = tokio::time::timeout(PATIENCE, body.collect()).await.expect("the answer ends").unwrap().to_bytes();
    Answer { status: parts.status, headers: parts.headers, text: String::from_utf8(text.to_vec()).unwrap() }
}
