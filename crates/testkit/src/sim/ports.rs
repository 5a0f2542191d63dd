//! The ports of an instance of the simulation: delay, mishap, the model, the checkers.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use futures::executor::block_on;
use longhaul_core::ports::{ApplyError, CreateError, Created, Left, NewTask, Page, Recorded, StoreError, TaskStore};
use longhaul_core::{
    Clock, Entry, IdSource, MailboxId, OwnerId, PartsName, Task, TaskEvent, TaskId, TaskKey, Timestamp,
};
use longhaul_engine::{Engine, Ports};

use super::kernel::Actor;
use super::queue_port::queue_port;
use super::words;
use super::world::{Fate, FateKind, State, World};

/// An engine of an instance whose clock is off by `skew_ms`.
pub(crate) fn engine(world: &Arc<World>, skew_ms: i64) -> Engine {
    let ports = Ports {
        store: Arc::new(SimStore { world: Arc::clone(world) }),
        queue: queue_port(world),
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
pub(crate) struct Staged;

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

    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        self.call("the leaving of a text in a mailbox", |world, state| {
            let left = Ok(state.store.leave(owner, mailbox, text, expires_at, now));
            same(world, state, "leave", &left, |store| block_on(store.leave(owner, mailbox, text, expires_at, now)));
            left
        })
        .await
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        self.call("the reading of a mailbox", |world, state| {
            let text = Ok(state.store.collect(owner, mailbox, now));
            same(world, state, "collect", &text, |store| block_on(store.collect(owner, mailbox, now)));
            text
        })
        .await
    }
}
