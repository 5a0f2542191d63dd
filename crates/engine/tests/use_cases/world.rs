//! What every use case starts from: an engine over a store in memory, a clock that is set by hand, and a list of the
//! calls that left the engine.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, Message, QueueError, TaskStore, WorkQueue};
use longhaul_core::{OwnerId, RequestedTerms, State, Task, TaskEvent, TaskKey, Terms, Timestamp};
use longhaul_engine::{
    Accepted, AttemptEnd, Call, Cleaned, Disposition, Engine, Idempotency, Ports, Settings, ToolRunner, WorkerSignals,
};
use longhaul_testkit::{
    FakeQueue, FakeStore, FakeUnfinished, Fault, FaultyQueue, FaultyStore, ManualClock, QueueCall, SeededIds,
    StoreCall, given,
};

pub(crate) use super::tool::{Tool, asks, completed, crashing, hangs, quick, sleeps, tool};

/// An engine and its fakes.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<FaultyStore>,
    /// What `store` fails around.
    pub(crate) fake: Arc<FakeStore>,
    pub(crate) queue: Arc<FaultyQueue>,
    /// What a sweep reads.
    pub(crate) unfinished: FakeUnfinished,
    pub(crate) calls: Arc<Mutex<Vec<String>>>,
    delays: Arc<Mutex<Vec<u64>>>,
    extensions: Arc<Mutex<Vec<u64>>>,
}

impl World {
    /// A world with the engine's usual settings.
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let clock = Arc::new(ManualClock::at(given::NOW));
        let time: Arc<dyn longhaul_core::Clock> = Arc::clone(&clock) as _;
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (kept, sent) = (Arc::clone(&calls), Arc::clone(&calls));
        let (fake, messages) = (Arc::<FakeStore>::default(), Arc::new(FakeQueue::new(time, 10)));
        let unfinished = FakeUnfinished::of(Arc::clone(&fake), Arc::clone(&messages));
        let store = Arc::new(FaultyStore::new(Arc::clone(&fake) as _, move |call| {
            kept.lock().unwrap().push(verb(call).to_owned());
            Fault::None
        }));
        let (delays, extensions) = (Arc::default(), Arc::default());
        let (kept_delays, kept_extensions) = (Arc::clone(&delays), Arc::clone(&extensions));
        let logged = LoggedQueue { inner: messages, delays: kept_delays, extensions: kept_extensions };
        let queue = Arc::new(FaultyQueue::new(Arc::new(logged), move |call| {
            if let QueueCall::Send(_) = call {
                sent.lock().unwrap().push("send".to_owned());
            }
            Fault::None
        }));
        let ports = Ports {
            store: Arc::clone(&store) as Arc<dyn TaskStore>,
            queue: Arc::clone(&queue) as Arc<dyn WorkQueue>,
            clock: Arc::clone(&clock) as _,
            ids: Arc::new(SeededIds::new(7)),
        };
        Self { engine: Engine::new(ports, settings), clock, store, fake, queue, unfinished, calls, delays, extensions }
    }

    /// The delays in milliseconds of the messages that were sent since this was last asked.
    pub(crate) fn delays(&self) -> Vec<u64> {
        std::mem::take(&mut *self.delays.lock().unwrap())
    }

    /// For how many milliseconds deliveries were extended since this was last asked.
    pub(crate) fn extensions(&self) -> Vec<u64> {
        std::mem::take(&mut *self.extensions.lock().unwrap())
    }

    /// The time now.
    pub(crate) fn now(&self) -> Timestamp {
        longhaul_core::Clock::now(&*self.clock)
    }

    /// Makes the store fail, before it applies anything, whenever `fails` returns true.
    pub(crate) fn store_fails(&self, mut fails: impl FnMut(StoreCall<'_>) -> bool + Send + 'static) {
        let calls = Arc::clone(&self.calls);
        self.store.follow(move |call| {
            calls.lock().unwrap().push(verb(call).to_owned());
            if fails(call) { Fault::Before } else { Fault::None }
        });
    }

    /// The calls that left the engine since this was last asked.
    pub(crate) fn took(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }

    /// Makes the queue's next `count` sends fail before anything is sent.
    pub(crate) fn sends_fail(&self, count: usize) {
        let mut left = count;
        self.queue.follow(move |call| match call {
            QueueCall::Send(_) if left > 0 => {
                left -= 1;
                Fault::Before
            }
            _ => Fault::None,
        });
    }

    /// A world with an accepted call.
    pub(crate) async fn with_task() -> (Self, Task) {
        let world = Self::new();
        let task = world.accepted().await;
        (world, task)
    }

    /// The same, of which only the key is wanted.
    pub(crate) async fn with_key() -> (Self, TaskKey) {
        let (world, task) = Self::with_task().await;
        (world, task.key())
    }

    /// The same, whose message was received.
    pub(crate) async fn with_delivery() -> (Self, Task, Delivery) {
        let (world, task) = Self::with_task().await;
        let delivery = world.receive().await.unwrap();
        (world, task, delivery)
    }

    pub(crate) async fn with_key_and_delivery() -> (Self, TaskKey, Delivery) {
        let (world, task, delivery) = Self::with_delivery().await;
        (world, task.key(), delivery)
    }

    /// A world with a task whose first attempt failed, and the message for the next one.
    pub(crate) async fn after_a_crash() -> (Self, TaskKey, Delivery) {
        let (world, key) = Self::with_key().await;
        world.work(&crashing()).await;
        world.clock.advance_ms(1_000);
        let delivery = world.receive().await.unwrap();
        (world, key, delivery)
    }

    pub(crate) async fn accept(&self, call: Call) -> Task {
        self.engine.accept(call).await.unwrap().into_task()
    }

    /// An accepted call of the tool.
    pub(crate) async fn accepted(&self) -> Task {
        self.accept(call()).await
    }

    /// The next visible message, hidden for a lease.
    pub(crate) async fn receive(&self) -> Option<Delivery> {
        self.queue.receive(1, self.engine.settings().lease_ms, 0).await.unwrap().pop()
    }

    /// Runs one delivery with `tool`, and handles its message as the engine says.
    pub(crate) async fn deliver(&self, delivery: &Delivery, tool: &dyn ToolRunner) -> Disposition {
        let disposition = self.engine.run_delivery(delivery, tool, &WorkerSignals::default()).await;
        match disposition {
            Disposition::Acknowledge => self.queue.delete(&delivery.receipt).await.unwrap(),
            Disposition::RetryAfter { after_ms } => self.queue.extend(&delivery.receipt, after_ms).await.unwrap(),
        }
        disposition
    }

    /// Works until no message is visible.
    pub(crate) async fn work(&self, tool: &dyn ToolRunner) {
        while let Some(delivery) = self.receive().await {
            self.deliver(&delivery, tool).await;
        }
    }

    /// Works, and lets time pass in steps of `step_ms`, until the task has ended or `steps` have passed.
    pub(crate) async fn work_until_ended(
        &self,
        key: &TaskKey,
        tool: &dyn ToolRunner,
        step_ms: u64,
        steps: u32,
    ) -> Task {
        for _ in 0..steps {
            self.work(tool).await;
            if self.on_record(key).await.has_ended() {
                break;
            }
            self.clock.advance_ms(step_ms);
        }
        self.on_record(key).await
    }

    /// Runs `play` to its end; whenever everything waits, time passes in steps of `step_ms`.
    pub(crate) async fn while_time_passes<T>(&self, step_ms: u64, play: impl Future<Output = T>) -> T {
        let mut play = std::pin::pin!(play);
        poll_fn(|context| {
            let polled = play.as_mut().poll(context);
            if polled.is_pending() {
                self.clock.advance_ms(step_ms);
                context.waker().wake_by_ref();
            }
            polled
        })
        .await
    }

    pub(crate) async fn on_record(&self, key: &TaskKey) -> Task {
        let found = self.store.get(key, longhaul_core::Clock::now(&*self.clock)).await.unwrap();
        found.expect("the task is on record")
    }

    /// A delivery in a worker whose tool waits for something.
    pub(crate) fn begun<'a>(&'a self, delivery: &'a Delivery, tool: &'a dyn ToolRunner) -> Begun<'a> {
        let attempt = async move { self.engine.run_delivery(delivery, tool, &WorkerSignals::default()).await };
        waiting(Box::pin(attempt))
    }

    /// The same in a worker that hears these signals.
    pub(crate) fn begun_with<'a>(
        &'a self,
        delivery: &'a Delivery,
        tool: &'a dyn ToolRunner,
        signals: &'a WorkerSignals,
    ) -> Begun<'a> {
        waiting(Box::pin(self.engine.run_delivery(delivery, tool, signals)))
    }

    /// A worker that claimed the task and was killed at once.
    pub(crate) async fn killed_in_the_tool(&self, delivery: &Delivery) {
        drop(self.begun(delivery, &hangs()));
        assert!(matches!(self.on_record(&delivery.message.task).await.state, State::Running { .. }));
    }
}

/// A queue that logs for how long its messages are hidden.
struct LoggedQueue {
    inner: Arc<FakeQueue>,
    delays: Arc<Mutex<Vec<u64>>>,
    extensions: Arc<Mutex<Vec<u64>>>,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkQueue for LoggedQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        self.delays.lock().unwrap().push(delay_ms);
        self.inner.send(message, delay_ms).await
    }

    async fn receive(&self, max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.inner.receive(max, visibility_ms, wait_ms).await
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        self.extensions.lock().unwrap().push(visibility_ms);
        self.inner.extend(receipt, visibility_ms).await
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        self.inner.delete(receipt).await
    }

    async fn receive_dead(&self, max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.inner.receive_dead(max, visibility_ms).await
    }
}

/// A delivery that is worked on.
pub(crate) type Begun<'a> = Pin<Box<dyn Future<Output = Disposition> + Send + 'a>>;

/// The fakes answer at once: when an attempt waits, it waits for its tool.
fn waiting(mut attempt: Begun<'_>) -> Begun<'_> {
    assert!(futures::FutureExt::now_or_never(attempt.as_mut()).is_none());
    attempt
}

/// A call of Ann's, without a key.
pub(crate) fn call() -> Call {
    Call {
        owner: ann(),
        tool: "tool".to_owned(),
        request: "{}".to_owned(),
        terms: Terms::negotiate(&given::policy(), RequestedTerms::default()),
        idempotency: None,
        trace: None,
        cleanup: longhaul_core::Cleanup::None,
        not_before: None,
        flow: None,
        labels: longhaul_core::Labels::default(),
    }
}

/// The same call with an idempotency key, for a request with this fingerprint.
pub(crate) fn call_with_key(key: &str, fingerprint: u8) -> Call {
    Call { idempotency: Some(Idempotency { key: key.to_owned(), fingerprint: [fingerprint; 32] }), ..call() }
}

pub(crate) fn ann() -> OwnerId {
    given::owner("ann")
}

pub(crate) fn is_new(accepted: &Accepted) -> bool {
    matches!(accepted, Accepted::New(_))
}

pub(super) type Play = Pin<Box<dyn Future<Output = AttemptEnd> + Send>>;

pub(super) type Clean = Pin<Box<dyn Future<Output = Cleaned> + Send>>;

/// One answer, as a client sends it.
pub(crate) fn answers(key: &str, answer: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(key.to_owned(), answer.to_owned())])
}

fn verb(call: StoreCall<'_>) -> &'static str {
    match call {
        StoreCall::Create(_) => "create",
        StoreCall::Get(_) => "get",
        StoreCall::Apply(_, event) => match event {
            TaskEvent::Claim { .. } => "claim",
            TaskEvent::Heartbeat { .. } => "heartbeat",
            TaskEvent::SetVariables { .. } => "set variables",
            TaskEvent::Suspend { .. } => "suspend",
            TaskEvent::Retry { .. } => "retry",
            TaskEvent::Finish { .. } => "finish",
            TaskEvent::Answer { .. } => "answer",
            TaskEvent::Wake { .. } => "wake",
            TaskEvent::Cancel => "cancel",
            TaskEvent::Resend { .. } => "resend",
            TaskEvent::RetriesExhausted => "retries exhausted",
            TaskEvent::TimeOut => "time out",
            TaskEvent::ExtendRetention { .. } => "extend retention",
            TaskEvent::Forget => "forget",
            TaskEvent::BeginCleanup { .. } => "begin cleanup",
            TaskEvent::EndCleanup { .. } => "end cleanup",
        },
        StoreCall::List(_) => "list",
        StoreCall::Record(..) => "record",
        StoreCall::Journal(_) => "journal",
        StoreCall::PutParts(..) => "put parts",
        StoreCall::Parts(..) => "parts",
        StoreCall::Leave(..) => "leave",
        StoreCall::Collect(..) => "collect",
    }
}
