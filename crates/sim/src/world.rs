//! The state that all actors of a run share.

use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use longhaul_core::ports::{TaskStore, WorkQueue};
use longhaul_core::{Policy, RequestedTerms, Task, TaskKey, Terms, Timestamp};
use longhaul_testkit::models::{PermitsModel, PlantedFault, QueueModel, StoreModel};

use super::checks::Checks;
use super::fault_profile::InjectedFault;
use super::kernel::{EPOCH_MS, Kernel};
use super::partitions::Partitions;
use super::plan::{Care, Plan};

/// Random streams, by role: the hundreds say which, the rest which one of them.
pub(crate) mod stream {
    pub(crate) const DIRECTOR: u64 = 2;
    pub(crate) const CLIENT: u64 = 100;
    pub(crate) const WORKER: u64 = 200;
    pub(crate) const DEAD_LETTERS: u64 = 300;
    pub(crate) const SWEEPER: u64 = 301;
    pub(crate) const STREAM: u64 = 302;
    pub(crate) const PUBLISHER: u64 = 303;
    pub(crate) const LATE: u64 = 1_000;
}

/// The state that all actors of a run share.
pub(crate) struct World {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) plan: Plan,
    /// The one planted fault of this world, which the checkers should find.
    pub(crate) planted: Option<PlantedFault>,
    /// The units for calls to the store, if they are limited.
    pub(crate) partitions: Option<Arc<Partitions>>,
    state: Mutex<State>,
}

/// A signal that a tool waits for, as the outside system knows it.
#[derive(Clone, Debug)]
pub(crate) struct HandedOut {
    pub(crate) key: TaskKey,
    pub(crate) name: String,
    /// When it is recorded.
    pub(crate) due_ms: u64,
}

/// The changing state.
pub(crate) struct State {
    pub(crate) store: StoreModel,
    pub(crate) queue: QueueModel,
    pub(crate) permits: PermitsModel,
    pub(crate) checks: Checks,
    /// Real adapters to compare with the models, if any.
    pub(crate) real_store: Option<Arc<dyn TaskStore>>,
    pub(crate) real_queue: Option<Arc<dyn WorkQueue>>,
    /// Since when no more faults are injected.
    pub(crate) quiescent_since_ms: Option<u64>,
    /// The task of each call, as soon as a client knows it.
    pub(crate) known: Vec<Option<TaskKey>>,
    /// How often each call's tool crashed.
    pub(crate) crashes: Vec<Vec<u32>>,
    pub(crate) injected: Vec<Injected>,
    /// The signals that the outside system is to record.
    pub(crate) handed_out: Vec<HandedOut>,
    /// The outside system, while it waits for the first request.
    pub(crate) listener: Option<std::task::Waker>,
    /// The tasks whose records the record stream is to report.
    pub(crate) heard_of: Vec<TaskKey>,
    /// The signals that tools have requested, ever.
    told: Vec<(TaskKey, String)>,
    /// Clients that have not finished their plans.
    pub(crate) clients_busy: usize,
    hits: Vec<u64>,
    late_writes: u64,
}

/// A fault that was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Identifies the occasion, for the list of those to leave out.
    pub id: u64,
    /// Its kind.
    pub fault: InjectedFault,
}

/// The outcome of a call to a port.
pub(crate) struct CallOutcome {
    pub(crate) there_ms: u64,
    pub(crate) back_ms: Option<u64>,
    pub(crate) kind: OutcomeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutcomeKind {
    Succeeds,
    FailsBefore,
    FailsAfter,
    LandsLate(u64),
}

/// The error of a call that fails because of an injected fault.
#[derive(Debug, thiserror::Error)]
#[error("the simulation made this call fail")]
pub(crate) struct InjectedError;

impl World {
    pub(crate) fn new(kernel: Arc<Kernel>, plan: Plan, planted: Option<PlantedFault>) -> Arc<Self> {
        let state = Mutex::new(State::new(&kernel, &plan, planted));
        let partitions = plan.throughput.map(|throughput| Arc::new(Partitions::with(Some(throughput))));
        Arc::new(Self { kernel, plan, planted, partitions, state })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time on a clock that is off by `skew_ms`.
    pub(crate) fn clock(&self, skew_ms: i64) -> Timestamp {
        Timestamp::from_ms((EPOCH_MS + self.kernel.now_ms()).saturating_add_signed(skew_ms))
    }

    /// Whether `fault` is injected now, for the actor whose turn it is.
    pub(crate) fn injects(&self, fault: InjectedFault) -> bool {
        let rate = self.plan.fault_profile.rate(fault);
        if rate == 0 || !self.kernel.draw(|dice| dice.happens(rate)) {
            return false;
        }
        let stream = self.kernel.stream();
        let client = (stream::CLIENT..stream::WORKER).contains(&stream) || stream == stream::DIRECTOR;
        let spared = match self.plan.care {
            Care::Polls | Care::Server => false,
            Care::Nobody => client,
            // A worker deletes a message when the queue has its next one. The queue does not lose the messages that it
            // has.
            Care::Stream => fault == InjectedFault::SendLost && !client,
        };
        if spared {
            return false;
        }
        let actor = self.kernel.actor();
        let mut state = self.lock();
        if state.quiescent_since_ms.is_some() {
            return false;
        }
        if state.hits.len() <= actor {
            state.hits.resize(actor + 1, 0);
        }
        state.hits[actor] += 1;
        let id = stream * 1_000_000 + state.hits[actor];
        if self.plan.spared.contains(&id) {
            return false;
        }
        state.injected.push(Injected { id, fault });
        true
    }

    /// The outcome of a call to the store.
    pub(crate) fn outcome(&self) -> CallOutcome {
        let latency_ms = self.plan.latency_ms;
        let (there_ms, back_ms) = self.kernel.draw(|dice| {
            (dice.below(latency_ms + 1), if dice.happens(500) { Some(dice.below(latency_ms + 1)) } else { None })
        });
        let mut outcome = CallOutcome { there_ms, back_ms, kind: OutcomeKind::Succeeds };
        let lease_ms = self.plan.settings.lease_ms;
        if self.injects(InjectedFault::StoreStall) {
            outcome.there_ms += self.kernel.draw(|dice| dice.between(lease_ms / 4, lease_ms * 3 / 2));
            self.disturb(outcome.there_ms);
            let ms = outcome.there_ms;
            self.kernel.tell(|| format!("waits {ms} ms for the store, which stalls"));
        }
        if self.injects(InjectedFault::StoreBefore) {
            outcome.kind = OutcomeKind::FailsBefore;
        } else if self.injects(InjectedFault::StoreAfter) {
            outcome.kind = OutcomeKind::FailsAfter;
        } else if self.injects(InjectedFault::StoreLate) {
            outcome.kind = OutcomeKind::LandsLate(self.kernel.draw(|dice| dice.between(1, lease_ms)));
        }
        if outcome.kind != OutcomeKind::Succeeds {
            self.disturb(0);
        }
        outcome
    }

    /// Notes that the actor whose turn it is has trouble until `ms` from now.
    pub(crate) fn disturb(&self, ms: u64) {
        let (actor, now_ms) = (self.kernel.actor(), self.kernel.now_ms());
        self.lock().checks.disturb(actor, now_ms + ms);
    }

    /// Notes when the actor whose turn it is will be killed, if it will.
    pub(crate) fn will_be_killed(&self, ends_ms: Option<u64>) {
        if let Some(ends_ms) = ends_ms {
            self.lock().checks.is_killed_at(self.kernel.actor(), ends_ms);
        }
    }

    /// Runs `play` as a worker or an API instance runs it. It may be killed at any await, and may freeze for a while
    /// and continue. `None` if it was killed.
    pub(crate) async fn killable<F: Future>(&self, killable: &Killable<'_>, play: F) -> Option<F::Output> {
        let mut play = Box::pin(play);
        let mut frozen_until_ms: Option<u64> = None;
        poll_fn(|context| {
            let now_ms = self.kernel.now_ms();
            if frozen_until_ms.is_some_and(|until_ms| now_ms < until_ms) {
                return Poll::Pending;
            }
            if frozen_until_ms.take().is_some() {
                self.kernel.tell(|| "continues as if nothing had happened".to_owned());
            }
            if let Poll::Ready(output) = play.as_mut().poll(context) {
                return Poll::Ready(Some(output));
            }
            if self.injects(killable.killed_by) {
                self.kernel.tell(|| "is killed".to_owned());
                return Poll::Ready(None);
            }
            let Some(stop) = killable.stop else { return Poll::Pending };
            if self.injects(InjectedFault::Freeze) {
                let lease_ms = self.plan.settings.lease_ms;
                let ms = self.kernel.draw(|dice| dice.between(lease_ms / 4, lease_ms * 4));
                self.kernel.tell(|| format!("freezes for {ms} ms"));
                self.disturb(ms);
                frozen_until_ms = Some(now_ms + ms);
                self.kernel.wake_in(ms, context);
            } else if !stop.is_cancelled() && self.injects(InjectedFault::Stop) {
                self.kernel.tell(|| "is asked to stop".to_owned());
                stop.cancel();
            }
            Poll::Pending
        })
        .await
    }

    /// Runs `play`, and kills it at `ends_ms`.
    pub(crate) async fn killable_until<F: Future>(&self, ends_ms: Option<u64>, play: F) -> Option<F::Output> {
        let Some(ends_ms) = ends_ms else { return Some(play.await) };
        let sleep = std::pin::pin!(self.kernel.sleep(ends_ms.saturating_sub(self.kernel.now_ms())));
        match futures::future::select(std::pin::pin!(play), sleep).await {
            futures::future::Either::Left((output, _)) => Some(output),
            futures::future::Either::Right(_) => {
                self.kernel.tell(|| "is killed: it reached its timeout".to_owned());
                None
            }
        }
    }

    /// The terms of a task that notifies an endpoint. No client polls its outcome.
    pub(crate) fn webhook_delivery_terms(&self) -> Terms {
        let lease_ms = self.plan.settings.lease_ms;
        let policy = Policy {
            run_ms_max: self.plan.chaos_ms * 4 + lease_ms * 1_000,
            retention_ms: lease_ms,
            ttl_ms: 1,
            ttl_ms_max: u64::MAX / 4,
            poll_ms: None,
            consecutive_failures_max: 100,
        };
        Terms::negotiate(&policy, RequestedTerms::default())
    }

    /// A random stream for a write that lands late.
    pub(crate) fn late_stream(&self) -> u64 {
        let mut state = self.lock();
        state.late_writes += 1;
        stream::LATE + state.late_writes
    }
}

/// How an actor may be killed.
pub(crate) struct Killable<'a> {
    pub(crate) killed_by: InjectedFault,
    /// For workers: they can also freeze, and be asked to stop.
    pub(crate) stop: Option<&'a tokio_util::sync::CancellationToken>,
}

impl State {
    fn new(kernel: &Arc<Kernel>, plan: &Plan, planted: Option<PlantedFault>) -> Self {
        let calls = plan.calls.len();
        Self {
            store: StoreModel::with(planted),
            queue: QueueModel::new(plan.receives_max, planted),
            permits: PermitsModel::with(planted),
            checks: Checks::new(Arc::clone(kernel), plan),
            real_store: None,
            real_queue: None,
            quiescent_since_ms: None,
            known: vec![None; calls],
            crashes: vec![Vec::new(); calls],
            injected: Vec::new(),
            handed_out: Vec::new(),
            listener: None,
            heard_of: Vec::new(),
            told: Vec::new(),
            clients_busy: plan.clients.len(),
            hits: Vec::new(),
            late_writes: 0,
        }
    }

    /// Passes this record to the record stream, if it waits for a worker.
    pub(crate) fn note_record(&mut self, after: &Task) {
        if is_heard_of(after) {
            self.heard_of.push(after.key());
        }
    }

    /// The same for a new record, which may also wait for its later start.
    pub(crate) fn note_new_record(&mut self, new: &Task, planted: Option<PlantedFault>) {
        let is_heard_of_later = planted != Some(PlantedFault::LaterStartNotHeardOf);
        if is_heard_of(new) || (new.awaited_start().is_some() && is_heard_of_later) {
            self.heard_of.push(new.key());
        }
    }

    /// Gives the outside system the signal that a tool waits for, once only.
    pub(crate) fn hand_out(&mut self, handed_out: HandedOut) {
        let told = (handed_out.key, handed_out.name.clone());
        if !self.told.contains(&told) {
            self.told.push(told);
            self.handed_out.push(handed_out);
            self.listener.take().into_iter().for_each(std::task::Waker::wake);
        }
    }

    /// The name of the task in the story.
    pub(crate) fn name(&self, key: &TaskKey) -> String {
        self.checks.name(key)
    }
}

/// Whether the record stream reports a record that has become this one.
fn is_heard_of(after: &Task) -> bool {
    let waits = after.state == longhaul_core::State::Queued || after.needs_cleanup();
    waits && after.resends == 0
}
