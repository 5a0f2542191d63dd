//! A server, its store and its queue in memory, and a clock that moves when the test says so.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use longhaul_core::ports::{Delivery, TaskStore, WorkQueue};
use longhaul_core::{Admission, Clock, Entry, Principal, Suspension, TaskEvent, TaskKey, Timestamp};
use longhaul_engine::{
    Attempt, AttemptEnd, Cleaned, Disposition, Ended, Engine, Ports, Settings, ToolRunner, WorkerSignals,
};
use longhaul_mcp::{AnonymousCallers, McpServer, McpSettings};
use longhaul_testkit::{FakePermits, FakeQueue, FakeStore, FaultyStore, ManualClock, SeededIds};
use tokio::sync::Notify;

use super::TestError;
use super::client::Client;
use super::crash::{AtACrash, Processes};
use super::error::unexpected;
use super::script::Script;
use crate::Server;

/// Deliveries of a message before it is a dead letter, as in a deployment.
const RECEIVES_MAX: u32 = 10;

/// How long an attempt may take in real time.
const ATTEMPT_SECONDS_MAX: u64 = 60;

/// When every run begins: the same time in each run.
const BEGIN: Timestamp = Timestamp::from_ms(1_900_000_000_000);

/// How often each message is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deliveries {
    Once,
    Twice,
}

/// Everything that a run needs.
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) client: Client,
    pub(super) clock: Arc<ManualClock>,
    pub(super) script: Arc<Script>,
    /// The store, without its faults.
    records: Arc<FakeStore>,
    queue: Arc<FakeQueue>,
    deaths: Arc<Notify>,
    runner: Cleanups,
    deliveries: Deliveries,
    processes: Processes,
    /// Whether the process that ran has ended.
    has_ended: AtomicBool,
}

impl World {
    pub(super) fn new(
        server: &Server,
        caller: Principal,
        script: Arc<Script>,
        (deliveries, processes): (Deliveries, Processes),
    ) -> Self {
        let clock = Arc::new(ManualClock::at(BEGIN));
        let time: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
        let follow = Arc::clone(&script);
        let records = Arc::<FakeStore>::default();
        let store = FaultyStore::new(Arc::<FakeStore>::clone(&records), move |call| follow.store_call(call));
        let deaths = store.deaths();
        script.tell_deaths(Arc::clone(&deaths));
        let queue = Arc::new(FakeQueue::new(Arc::clone(&time), RECEIVES_MAX));
        let ports = Ports {
            store: Arc::new(store),
            queue: Arc::<FakeQueue>::clone(&queue),
            clock: time,
            ids: Arc::new(SeededIds::new(1)),
        };
        // The clock stands still while an attempt runs, so that it could not wait for a sleep.
        let settings = Settings { inline_sleep_ms_max: 0, ..Settings::default() };
        let engine = Engine::new(ports, settings)
            .observed_by(Arc::<Script>::clone(&script))
            .with_permits(Arc::<FakePermits>::default());
        let mcp = built(server, &engine);
        let runner = Cleanups { runner: mcp.runner(), script: Arc::clone(&script), seen: Mutex::default() };
        let (client, has_ended) = (Client { mcp, caller }, AtomicBool::new(false));
        Self { engine, client, clock, script, records, queue, deaths, runner, deliveries, processes, has_ended }
    }

    /// Starts the next process, if the last one has ended and processes have servers of their own.
    fn start_anew(&mut self) {
        let Processes::Of { make_server, .. } = &self.processes else { return };
        if std::mem::take(self.has_ended.get_mut()) {
            let mcp = built(&make_server(), &self.engine);
            self.runner.runner = mcp.runner();
            self.client.mcp = mcp;
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        Duration::from_millis(self.clock.now().since_ms(BEGIN))
    }

    /// The result of each run of the server's `clean_up`.
    pub(super) fn cleanups(&self) -> Vec<Result<(), String>> {
        self.runner.seen()
    }

    /// When something is to be done next, if nothing else happens.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.queue.next_at()
    }

    pub(super) fn store(&self) -> &dyn TaskStore {
        &*self.engine.ports().store
    }

    /// Records what an attempt has left that gave the task back.
    pub(super) async fn seed(&self, key: &TaskKey, entries: &[Entry]) -> Result<(), TestError> {
        let now = self.clock.now();
        let lease_until = now.plus_ms(self.engine.settings().lease_ms);
        let admission = Admission::Permitted;
        let claim = TaskEvent::Claim { token: self.engine.ports().ids.lease_token(), lease_until, admission };
        let claimed = self.records.apply(key, &claim, now).await.map_err(unexpected)?;
        let give_back = TaskEvent::Suspend {
            attempt: claimed.attempt,
            suspension: Suspension::Yield,
            progress: None,
            labels: None,
        };
        self.records.apply(key, &give_back, now).await.map_err(unexpected)?;
        for entry in entries {
            self.records.record(key, entry).await.map_err(unexpected)?;
        }
        Ok(())
    }

    /// Handles the next message that is visible now; false if there is none.
    pub(super) async fn work_once(&mut self, key: &TaskKey) -> Result<bool, TestError> {
        self.start_anew();
        let lease_ms = self.engine.settings().lease_ms;
        if let Some(delivery) = received(self.queue.receive(1, lease_ms, 0).await)? {
            self.deliver(&delivery, key).await?;
            return Ok(true);
        }
        if let Some(letter) = received(self.queue.receive_dead(1, lease_ms).await)? {
            let disposition = self.engine.run_dead_letter(&letter).await;
            self.dispose(&letter, disposition).await?;
            return Ok(true);
        }
        Ok(false)
    }

    async fn deliver(&self, delivery: &Delivery, key: &TaskKey) -> Result<(), TestError> {
        let is_alive = match self.deliveries {
            Deliveries::Once => self.attempt(delivery, key).await?,
            Deliveries::Twice => {
                let (first, second) = tokio::join!(self.attempt(delivery, key), self.attempt(delivery, key));
                first? && second?
            }
        };
        if is_alive && self.deliveries == Deliveries::Twice {
            self.attempt(delivery, key).await?;
            self.queue.merge_copies();
        }
        Ok(())
    }

    /// Runs one delivery; false if its process died.
    async fn attempt(&self, delivery: &Delivery, key: &TaskKey) -> Result<bool, TestError> {
        let signals = WorkerSignals::default();
        self.script.stop_by(signals.stop.clone());
        let limit = Duration::from_secs(ATTEMPT_SECONDS_MAX);
        let mut attempt =
            Box::pin(tokio::time::timeout(limit, self.engine.run_delivery(delivery, &self.runner, &signals)));
        loop {
            tokio::select! {
                biased;
                () = self.deaths.notified() => {
                    self.has_ended.store(true, Ordering::Relaxed);
                    if matches!(self.processes, Processes::Of { at_a_crash: AtACrash::Killed, .. }) {
                        std::mem::forget(attempt);
                    }
                    return Ok(false);
                }
                () = self.script.cancel.notified() => self.cancel_during_an_attempt(key).await?,
                disposition = &mut attempt => {
                    let disposition = disposition.map_err(|_elapsed| self.stuck())?;
                    self.dispose(delivery, disposition).await?;
                    self.has_ended.fetch_or(signals.stop.is_cancelled(), Ordering::Relaxed);
                    return Ok(true);
                }
            }
        }
    }

    /// The worker learns of it with its next heartbeat.
    async fn cancel_during_an_attempt(&self, key: &TaskKey) -> Result<(), TestError> {
        let cancelled = self.engine.cancel(key).await;
        cancelled.map_err(unexpected)?;
        self.clock.advance_ms(self.engine.settings().heartbeat_ms);
        Ok(())
    }

    async fn dispose(&self, delivery: &Delivery, disposition: Disposition) -> Result<(), TestError> {
        let disposed = match disposition {
            Disposition::Acknowledge => self.queue.delete(&delivery.receipt).await,
            Disposition::RetryAfter { after_ms } => self.queue.extend(&delivery.receipt, after_ms).await,
        };
        disposed.map_err(unexpected)
    }

    fn stuck(&self) -> TestError {
        let seen = self.script.attempts().pop().and_then(|attempt| attempt.into_iter().next_back());
        let step = seen.map_or_else(|| "none".to_owned(), |seen| format!("`{}`", seen.step()));
        TestError::Stuck { seconds: ATTEMPT_SECONDS_MAX, step }
    }
}

fn built(server: &Server, engine: &Engine) -> McpServer {
    let settings = McpSettings { anonymous_callers: AnonymousCallers::OneUser, ..McpSettings::new([1; 32]) };
    server.build(engine.clone(), settings)
}

fn received<E: std::error::Error>(deliveries: Result<Vec<Delivery>, E>) -> Result<Option<Delivery>, TestError> {
    let deliveries = deliveries.map_err(unexpected)?;
    Ok(deliveries.into_iter().next())
}

/// A runner that notes what the server's code that cleans up returned.
pub(super) struct Cleanups {
    runner: Arc<dyn ToolRunner>,
    script: Arc<Script>,
    seen: Mutex<Vec<Result<(), String>>>,
}

impl Cleanups {
    /// The result of each of them.
    pub(super) fn seen(&self) -> Vec<Result<(), String>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Result<(), String>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ToolRunner for Cleanups {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        self.runner.run(attempt).await
    }

    async fn clean(&self, ended: &Ended) -> Cleaned {
        let _earlier = self.script.takes_death();
        let cleaned = self.runner.clean(ended).await;
        if self.script.takes_death() {
            // The process died in a compensation: nothing of it is written, and the delivery is dropped.
            return std::future::pending().await;
        }
        match &cleaned {
            Cleaned::Done => self.lock().push(Ok(())),
            Cleaned::Failed { reason } | Cleaned::Unfinished { reason } | Cleaned::GivenUp { reason } => {
                self.lock().push(Err(reason.clone()));
            }
            Cleaned::Waits { .. } | Cleaned::NoSuchTool | Cleaned::NoMemory => {}
        }
        cleaned
    }
}
