//! The ports of an instance of the simulation: delay, mishap, the model, the checkers.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use async_trait::async_trait;
use futures::executor::block_on;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, Delivery, Message, NewTask, Page, QueueError, Recorded, StoreError, TaskStore,
    WorkQueue,
};
use longhaul_core::{Clock, Entry, IdSource, OwnerId, PartsName, Task, TaskEvent, TaskId, TaskKey, Timestamp};
use longhaul_engine::{Engine, Ports};

use super::kernel::Actor;
use super::weather::Mishap;
use super::words;
use super::world::{Fate, FateKind, State, World};

/// An engine of an instance whose clock is off by `skew_ms`.
pub(crate) fn engine(world: &Arc<World>, skew_ms: i64) -> Engine {
    let ports = Ports {
        store: Arc::new(SimStore { world: Arc::clone(world) }),
        queue: Arc::new(SimQueue { world: Arc::clone(world) }),
        clock: Arc::new(SimClock { world: Arc::clone(world), skew_ms }),
        ids: Arc::new(SimIds { world: Arc::clone(world) }),
    };
    Engine::new(ports, world.plan.settings)
}

/// The clock that is right.
pub(crate) fn true_clock(world: &Arc<World>) -> Arc<dyn Clock> {
    Arc::new(SimClock { world: Arc::clone(world), skew_ms: 0 })
}

#[derive(Debug, thiserror::Error)]
#[error("the simulation lets this call fail")]
struct Staged;

struct SimClock {
    world: Arc<World>,
    skew_ms: i64,
}

#[async_trait]
impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        self.world.clock(self.skew_ms)
    }

    async fn sleep_ms(&self, ms: u64) {
        self.world.kernel.sleep(ms).await;
    }
}

struct SimIds {
    world: Arc<World>,
}

impl IdSource for SimIds {
    fn fill(&self, bytes: &mut [u8]) {
        self.world.kernel.draw(|dice| {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&dice.next().to_le_bytes()[..chunk.len()]);
            }
        });
    }
}

struct SimStore {
    world: Arc<World>,
}

impl SimStore {
    /// One call: there, done or not, and back. `act` is what the store does.
    async fn call<T, E>(
        &self,
        verb: &'static str,
        act: impl FnOnce(&World, &mut State) -> Result<T, E> + Send,
    ) -> Result<T, E>
    where
        T: Send,
        E: From<StoreError> + Send,
    {
        let fate = self.world.fate();
        self.carry(verb, fate, act).await
    }

    async fn carry<T, E>(
        &self,
        verb: &'static str,
        fate: Fate,
        act: impl FnOnce(&World, &mut State) -> Result<T, E> + Send,
    ) -> Result<T, E>
    where
        T: Send,
        E: From<StoreError> + Send,
    {
        let kernel = &self.world.kernel;
        kernel.sleep(fate.there_ms).await;
        let result = match fate.kind {
            FateKind::FailsBefore | FateKind::LandsLate(_) => {
                kernel.tell(|| format!("gets no answer from the store to {verb}, which it did not do"));
                Err(unavailable())
            }
            FateKind::FailsAfter => {
                let _lost = act(&self.world, &mut self.world.lock());
                kernel.tell(|| format!("gets no answer from the store to {verb}, although it did it"));
                Err(unavailable())
            }
            FateKind::Well => act(&self.world, &mut self.world.lock()),
        };
        if fate.kind != FateKind::Well {
            self.world.disturb(0);
        }
        if let Some(back_ms) = fate.back_ms {
            kernel.sleep(back_ms).await;
        }
        result
    }
}

fn unavailable<E: From<StoreError>>() -> E {
    StoreError::Unavailable(Box::new(Staged)).into()
}

/// Compares what a real store says with what the model said.
fn same<T: Debug>(world: &World, state: &mut State, verb: &str, model: &T, real: impl FnOnce(&dyn TaskStore) -> T) {
    let Some(store) = state.real_store.clone() else { return };
    let real = format!("{:?}", real(&*store));
    let model = format!("{model:?}");
    if real != model {
        let at_ms = world.kernel.now_ms();
        state.checks.differs(at_ms, &format!("{verb}: the store says {real}, and the model says {model}"));
    }
}

fn apply(
    world: &World,
    state: &mut State,
    actor: Actor,
    key: &TaskKey,
    event: &TaskEvent,
    now: Timestamp,
) -> Result<Task, ApplyError> {
    let at_ms = world.kernel.now_ms();
    let (told, change) = state.store.apply(key, event, now);
    same(world, state, "apply", &told, |store| block_on(store.apply(key, event, now)));
    if let Some(change) = change {
        state.checks.seq += 1;
        let State { checks, store, .. } = state;
        checks.changed(store, actor, &change, event, now, at_ms);
    }
    world.kernel.note(words::mark(&told));
    world.kernel.tell(|| words::applied(&state.name(key), event, &told));
    told
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TaskStore for SimStore {
    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        self.call("the creation", |world, state| {
            let at_ms = world.kernel.now_ms();
            let created = state.store.create(new.clone(), now);
            same(world, state, "create", &created, |store| block_on(store.create(new.clone(), now)));
            if let Ok(Created::New(task)) = &created {
                state.checks.seq += 1;
                let State { checks, store, .. } = state;
                checks.created(store, task, &new, now, at_ms);
            }
            world.kernel.note(u64::from(created.is_ok()));
            world.kernel.tell(|| words::created(&created, |key| state.name(key)));
            created
        })
        .await
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        let stale = self.world.kernel.draw(|dice| dice.happens(500));
        self.call("the read", |world, state| {
            let found = state.store.get(key, now, stale);
            let compared: Result<_, StoreError> = Ok(found);
            same(world, state, "get", &compared, |store| block_on(store.get(key, now)));
            world.kernel.tell(|| words::read(&state.name(key), compared.as_ref().ok().and_then(Option::as_ref)));
            compared
        })
        .await
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        let fate = self.world.fate();
        let actor = self.world.kernel.actor();
        if let FateKind::LandsLate(ms) = fate.kind {
            let (world, key, event) = (Arc::clone(&self.world), *key, event.clone());
            let stream = self.world.late_stream();
            self.world.kernel.spawn(stream, "a late write".to_owned(), async move {
                world.kernel.sleep(ms).await;
                let _nobody_waits = apply(&world, &mut world.lock(), actor, &key, &event, now);
            });
        }
        self.carry("the write", fate, |world, state| apply(world, state, actor, key, event, now)).await
    }

    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        self.call("the list", |world, state| {
            let page = Ok(state.store.list(owner, before, limit, now));
            same(world, state, "list", &page, |store| block_on(store.list(owner, before, limit, now)));
            page
        })
        .await
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        self.call("the record", |world, state| {
            let recorded = Ok(state.store.record(key, entry));
            same(world, state, "record", &recorded, |store| block_on(store.record(key, entry)));
            let at_ms = world.kernel.now_ms();
            state.checks.seq += 1;
            let State { checks, store, .. } = state;
            checks.recorded(store, key, entry, recorded.as_ref().ok(), at_ms);
            world.kernel.tell(|| words::recorded(&state.name(key), entry, recorded.as_ref().ok()));
            recorded
        })
        .await
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        self.call("the reading of the journal", |world, state| {
            let mut journal = state.store.journal(key);
            journal.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
            let journal = Ok(journal);
            same(world, state, "journal", &journal, |store| {
                block_on(store.journal(key)).map(|mut journal| {
                    journal.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
                    journal
                })
            });
            journal
        })
        .await
    }

    async fn put_parts(&self, key: &TaskKey, name: &PartsName, parts: &[&str]) -> Result<(), StoreError> {
        self.call("the writing of parts", |world, state| {
            state.store.put_parts(key, name, parts);
            same(world, state, "put_parts", &Ok(()), |store| block_on(store.put_parts(key, name, parts)));
            world.kernel.tell(|| format!("writes {} part(s) of {} of {}", parts.len(), name, state.name(key)));
            Ok(())
        })
        .await
    }

    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError> {
        self.call("the reading of parts", |world, state| {
            let parts = Ok(state.store.parts(key, name, count));
            same(world, state, "parts", &parts, |store| block_on(store.parts(key, name, count)));
            parts
        })
        .await
    }
}

struct SimQueue {
    world: Arc<World>,
}

impl SimQueue {
    async fn travel(&self) {
        let latency_ms = self.world.plan.latency_ms;
        let ms = self.world.kernel.draw(|dice| dice.below(latency_ms + 1));
        self.world.kernel.sleep(ms).await;
    }

    /// Returns when the queue holds something new, and after `ms` in any case.
    async fn something_new(&self, ms: u64) {
        let seen = self.world.lock().queue.version;
        let mut sleep = pin!(self.world.kernel.sleep(ms));
        poll_fn(|context| {
            let mut state = self.world.lock();
            if state.queue.version != seen {
                return Poll::Ready(());
            }
            state.queue.waiters.push(context.waker().clone());
            drop(state);
            sleep.as_mut().poll(context)
        })
        .await;
    }

    /// Tells the waiting receivers that something is new.
    fn tell_receivers(&self) {
        let waiters = {
            let mut state = self.world.lock();
            state.queue.version += 1;
            std::mem::take(&mut state.queue.waiters)
        };
        waiters.into_iter().for_each(Waker::wake);
    }

    /// The clock of a real queue stands in the world, too; it only ever waits outside.
    fn now_ms(&self) -> u64 {
        self.world.kernel.now_ms()
    }

    fn failed() -> QueueError {
        QueueError(Box::new(Staged))
    }

    fn fails(&self, verb: &str) -> bool {
        let fails = self.world.befalls(Mishap::QueueFails);
        if fails {
            self.world.disturb(0);
            self.world.kernel.tell(|| format!("gets no answer from the queue to {verb}"));
        }
        fails
    }

    fn take(&self, hidden_ms: u64) -> Option<Delivery> {
        let twice = self.world.befalls(Mishap::Double);
        let now_ms = self.now_ms();
        let mut state = self.world.lock();
        let delivery = match state.real_queue.clone() {
            None => self.world.kernel.draw(|dice| state.queue.receive(now_ms, hidden_ms, twice, dice)),
            Some(queue) => {
                let mut taken = block_on(queue.receive(1, hidden_ms, 0)).unwrap_or_default();
                if let (true, Some(delivery)) = (twice, taken.first()) {
                    let _kept = block_on(queue.extend(&delivery.receipt, 0));
                }
                taken.pop()
            }
        };
        if let Some(delivery) = &delivery {
            let name = state.name(&delivery.message.task);
            let doubled = if twice { ", and the queue will hand it over again at once" } else { "" };
            self.world.kernel.tell(|| format!("receives the message for {name} (time {}){doubled}", delivery.receives));
        }
        delivery
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl WorkQueue for SimQueue {
    async fn send(&self, message: &Message, delay_ms: u64) -> Result<(), QueueError> {
        self.travel().await;
        let world = &self.world;
        let now_ms = self.now_ms();
        world.lock().checks.sent(&message.task, now_ms);
        let name = world.lock().name(&message.task);
        if world.befalls(Mishap::SendBefore) {
            world.kernel.tell(|| format!("cannot send a message for {name}"));
            return Err(Self::failed());
        }
        let slow_ms = if world.befalls(Mishap::SendSlow) {
            world.kernel.draw(|dice| dice.between(1, world.plan.settings.lease_ms * 2))
        } else {
            0
        };
        if world.befalls(Mishap::SendLost) {
            world.kernel.tell(|| format!("sends a message for {name}, and the queue loses it"));
            return Ok(());
        }
        world.kernel.tell(|| format!("sends a message for {name}, to be seen in {} ms", delay_ms + slow_ms));
        {
            let mut state = world.lock();
            // An adapter with a longest delay shortens longer ones.
            let delay_ms = delay_ms.min(world.plan.delay_ms_max) + slow_ms;
            match state.real_queue.clone() {
                Some(queue) => block_on(queue.send(message, delay_ms))?,
                None => state.queue.send(message, now_ms + delay_ms),
            }
        }
        self.tell_receivers();
        if world.befalls(Mishap::SendAfter) {
            world.kernel.tell(|| "gets no answer from the queue".to_owned());
            return Err(Self::failed());
        }
        self.travel().await;
        Ok(())
    }

    async fn receive(&self, _max: usize, visibility_ms: u64, wait_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.travel().await;
        if self.fails("the request for messages") {
            return Err(Self::failed());
        }
        let ends_ms = self.now_ms() + wait_ms;
        loop {
            if let Some(delivery) = self.take(visibility_ms) {
                self.travel().await;
                return Ok(vec![delivery]);
            }
            let now_ms = self.now_ms();
            if now_ms >= ends_ms {
                return Ok(Vec::new());
            }
            let next_ms = {
                let state = self.world.lock();
                // A real queue does not say when its next message is due.
                let look_ms = state.real_queue.is_some().then_some(now_ms + self.world.plan.settings.lease_ms / 10);
                look_ms.or_else(|| state.queue.next_at_ms()).unwrap_or(ends_ms).clamp(now_ms + 1, ends_ms)
            };
            self.something_new(next_ms - now_ms).await;
        }
    }

    async fn extend(&self, receipt: &str, visibility_ms: u64) -> Result<(), QueueError> {
        self.travel().await;
        if self.fails("a change of visibility") {
            return Err(Self::failed());
        }
        let visible_at_ms = self.now_ms() + visibility_ms;
        let real = {
            let mut state = self.world.lock();
            state.queue.extend(receipt, visible_at_ms);
            state.real_queue.clone()
        };
        self.tell_receivers();
        real.map_or(Ok(()), |queue| block_on(queue.extend(receipt, visibility_ms)))
    }

    async fn delete(&self, receipt: &str) -> Result<(), QueueError> {
        self.travel().await;
        if self.fails("a deletion") {
            return Err(Self::failed());
        }
        let mut state = self.world.lock();
        state.queue.delete(receipt);
        match state.real_queue.clone() {
            Some(queue) => block_on(queue.delete(receipt)),
            None => Ok(()),
        }
    }

    async fn receive_dead(&self, _max: usize, visibility_ms: u64) -> Result<Vec<Delivery>, QueueError> {
        self.travel().await;
        if self.fails("the request for dead letters") {
            return Err(Self::failed());
        }
        let now_ms = self.now_ms();
        let mut state = self.world.lock();
        let letter = match state.real_queue.clone() {
            Some(queue) => block_on(queue.receive_dead(1, visibility_ms))?.pop(),
            None => state.queue.receive_dead(now_ms, visibility_ms),
        };
        if let Some(letter) = &letter {
            let name = state.name(&letter.message.task);
            self.world.kernel.tell(|| format!("receives a dead letter for {name}"));
        }
        Ok(letter.into_iter().collect())
    }
}
