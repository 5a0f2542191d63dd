//! The store of an instance of the simulation: delay, injected fault, the model, the checkers.

use std::fmt::Debug;
use std::sync::Arc;
use std::task::Waker;

use async_trait::async_trait;
use futures::executor::block_on;
use longhaul_core::ports::{
    ApplyError, CreateError, Created, Left, Message, NewTask, Page, Recorded, StoreError, TaskStore,
};
use longhaul_core::{Entry, MailboxId, OwnerId, PartsName, Task, TaskEvent, TaskFilter, TaskId, TaskKey, Timestamp};
use longhaul_testkit::models::PlantedFault;

use super::kernel::Actor;
use super::plan::StoreAndQueue;
use super::sentences;
use super::world::{CallOutcome, InjectedError, OutcomeKind, State, World};

/// The store, as the actors of `world` reach it.
pub(crate) fn store_port(world: &Arc<World>) -> Arc<dyn TaskStore> {
    Arc::new(SimStore { world: Arc::clone(world) })
}

struct SimStore {
    world: Arc<World>,
}

impl SimStore {
    /// One call: the request travels, is applied or not, and the answer travels back. `act` is the store's part of it.
    async fn call<T, E>(
        &self,
        verb: &'static str,
        act: impl FnOnce(&World, &mut State) -> Result<T, E> + Send,
    ) -> Result<T, E>
    where
        T: Send,
        E: From<StoreError> + Send,
    {
        let outcome = self.world.outcome();
        self.carry(verb, outcome, act).await
    }

    async fn carry<T, E>(
        &self,
        verb: &'static str,
        outcome: CallOutcome,
        act: impl FnOnce(&World, &mut State) -> Result<T, E> + Send,
    ) -> Result<T, E>
    where
        T: Send,
        E: From<StoreError> + Send,
    {
        let kernel = &self.world.kernel;
        kernel.sleep(outcome.there_ms).await;
        let result = match outcome.kind {
            OutcomeKind::FailsBefore | OutcomeKind::LandsLate(_) => {
                kernel.tell(|| format!("gets no answer from the store to {verb}, which it did not do"));
                Err(unavailable())
            }
            OutcomeKind::FailsAfter => {
                let _lost = act(&self.world, &mut self.world.lock());
                kernel.tell(|| format!("gets no answer from the store to {verb}, although it did it"));
                Err(unavailable())
            }
            OutcomeKind::Succeeds => act(&self.world, &mut self.world.lock()),
        };
        if outcome.kind != OutcomeKind::Succeeds {
            self.world.disturb(0);
        }
        if let Some(back_ms) = outcome.back_ms {
            kernel.sleep(back_ms).await;
        }
        result
    }
}

fn unavailable<E: From<StoreError>>() -> E {
    StoreError::Unavailable(Box::new(InjectedError)).into()
}

/// Compares the answer of a real store with the model's.
fn same<T: Debug>(state: &mut State, verb: &str, model: &T, real: impl FnOnce(&dyn TaskStore) -> T) {
    let Some(store) = state.real_store.clone() else { return };
    let real = format!("{:?}", real(&*store));
    let model = format!("{model:?}");
    if real != model {
        state.checks.differs(&format!("{verb}: the store answers {real}, and the model answers {model}"));
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
    let (answer, change) = state.store.apply(key, event, now, world.kernel.now_ms());
    same(state, "apply", &answer, |store| block_on(store.apply(key, event, now)));
    if let Some(change) = change {
        state.note_record(&change.after);
        state.checks.seq += 1;
        let State { checks, store, .. } = state;
        checks.changed(store, actor, &change, event, now);
    }
    world.kernel.note(sentences::mark(&answer));
    world.kernel.tell(|| sentences::applied(&state.name(key), event, &answer));
    answer
}

/// The answer to a creation of a store that is one database with the queue, and the message that it sends.
fn in_one_database(
    world: &World,
    new: &NewTask,
    created: Result<Created, CreateError>,
) -> (Result<Created, CreateError>, Option<Message>) {
    let is_one = world.plan.store_and_queue == StoreAndQueue::OneDatabase && new.send_in_ms.is_some();
    match created {
        Ok(Created::New(task)) if is_one => {
            let is_sent = world.planted != Some(PlantedFault::SentWithoutMessage);
            let message = is_sent.then(|| Message::about(&task));
            (Ok(Created::NewAndSent(task)), message)
        }
        Err(refused) if is_one && world.planted == Some(PlantedFault::MessageWithoutRecord) => {
            (Err(refused), Some(Message::about(&new.task)))
        }
        other => (other, None),
    }
}

/// Puts the message of a new task into the queue. A real store has put it there already.
fn put_message(world: &World, state: &mut State, message: &Message, send_in_ms: u64) {
    state.checks.sent(&message.task);
    if state.real_queue.is_none() {
        state.queue.send(message, world.kernel.now_ms() + send_in_ms.min(world.plan.delay_ms_max));
    }
    state.queue.version += 1;
    std::mem::take(&mut state.queue.waiters).into_iter().for_each(Waker::wake);
}

/// A call of which the checkers need not hear.
macro_rules! plain {
    ($port:ident, $verb:literal, $name:ident($($argument:ident),*)) => {
        $port.call($verb, |_world, state| {
            let answer = Ok(state.store.$name($($argument),*));
            same(state, stringify!($name), &answer, |store| block_on(store.$name($($argument),*)));
            answer
        })
        .await
    };
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl TaskStore for SimStore {
    async fn create(&self, new: NewTask, now: Timestamp) -> Result<Created, CreateError> {
        self.call("the creation", |world, state| {
            let created = state.store.create(new.clone(), now);
            let (created, message) = in_one_database(world, &new, created);
            same(state, "create", &created, |store| block_on(store.create(new.clone(), now)));
            if let Ok(Created::New(task) | Created::NewAndSent(task)) = &created {
                state.note_new_record(task, world.planted);
                state.checks.seq += 1;
                let State { checks, store, .. } = state;
                checks.created(store, task, &new, now);
            }
            if let Some(message) = message {
                put_message(world, state, &message, new.send_in_ms.unwrap_or(0));
            }
            world.kernel.note(u64::from(created.is_ok()));
            world.kernel.tell(|| sentences::created(&created, |key| state.name(key)));
            created
        })
        .await
    }

    async fn get(&self, key: &TaskKey, now: Timestamp) -> Result<Option<Task>, StoreError> {
        let stale = self.world.kernel.draw(|dice| dice.happens(500));
        let begun_ms = self.world.kernel.now_ms();
        self.call("the read", |world, state| {
            let found = state.store.get(key, now, stale, begun_ms);
            let compared: Result<_, StoreError> = Ok(found);
            same(state, "get", &compared, |store| block_on(store.get(key, now)));
            world.kernel.tell(|| sentences::read(&state.name(key), compared.as_ref().ok().and_then(Option::as_ref)));
            compared
        })
        .await
    }

    async fn apply(&self, key: &TaskKey, event: &TaskEvent, now: Timestamp) -> Result<Task, ApplyError> {
        let outcome = self.world.outcome();
        let actor = self.world.kernel.actor();
        if let OutcomeKind::LandsLate(ms) = outcome.kind {
            let (world, key, event) = (Arc::clone(&self.world), *key, event.clone());
            let stream = self.world.late_stream();
            self.world.kernel.spawn(stream, "a late write".to_owned(), async move {
                world.kernel.sleep(ms).await;
                let mut state = world.lock();
                if state.store.comes_too_late(&key, &event, now) {
                    world.kernel.tell(|| "comes too late".to_owned());
                } else {
                    let _nobody_waits = apply(&world, &mut state, actor, &key, &event, now);
                }
            });
        }
        self.carry("the write", outcome, |world, state| apply(world, state, actor, key, event, now)).await
    }

    async fn list(
        &self,
        owner: &OwnerId,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        plain!(self, "the list", list(owner, before, limit, now))
    }

    async fn list_filtered(
        &self,
        owner: &OwnerId,
        filter: &TaskFilter,
        before: Option<TaskId>,
        limit: usize,
        now: Timestamp,
    ) -> Result<Page, StoreError> {
        plain!(self, "the filtered list", list_filtered(owner, filter, before, limit, now))
    }

    /// No actor is an operator.
    async fn list_of_all_owners(
        &self,
        _filter: &TaskFilter,
        _before: Option<TaskId>,
        _limit: usize,
        _now: Timestamp,
    ) -> Result<Option<Page>, StoreError> {
        Ok(None)
    }

    async fn record(&self, key: &TaskKey, entry: &Entry) -> Result<Recorded, StoreError> {
        self.call("the record", |world, state| {
            let recorded = Ok(state.store.record(key, entry));
            same(state, "record", &recorded, |store| block_on(store.record(key, entry)));
            state.checks.seq += 1;
            let State { checks, store, .. } = state;
            checks.recorded(store, key, entry, recorded.as_ref().ok());
            world.kernel.tell(|| sentences::recorded(&state.name(key), entry, recorded.as_ref().ok()));
            recorded
        })
        .await
    }

    async fn journal(&self, key: &TaskKey) -> Result<Vec<Entry>, StoreError> {
        self.call("the read of the journal", |_world, state| {
            let mut journal = state.store.journal(key);
            journal.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
            let journal = Ok(journal);
            same(state, "journal", &journal, |store| {
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
        self.call("the write of parts", |world, state| {
            state.store.put_parts(key, name, parts);
            same(state, "put_parts", &Ok(()), |store| block_on(store.put_parts(key, name, parts)));
            world.kernel.tell(|| format!("writes {} part(s) of {} of {}", parts.len(), name, state.name(key)));
            Ok(())
        })
        .await
    }

    async fn parts(&self, key: &TaskKey, name: &PartsName, count: u32) -> Result<Option<String>, StoreError> {
        plain!(self, "the read of parts", parts(key, name, count))
    }
    async fn leave(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        text: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<Left, StoreError> {
        plain!(self, "the write to a mailbox", leave(owner, mailbox, text, expires_at, now))
    }

    async fn collect(
        &self,
        owner: &OwnerId,
        mailbox: &MailboxId,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        plain!(self, "the read of a mailbox", collect(owner, mailbox, now))
    }
}
