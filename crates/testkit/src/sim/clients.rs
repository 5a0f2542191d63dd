//! The clients: they call, poll, answer, cancel, retry, disappear and come back.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use longhaul_core::{Identity, OwnerId, Policy, State, Task, TaskKey, Terms, Wish};
use longhaul_engine::{AcceptError, AnswerError, Call, Engine, Idempotency, PollError};
use sha2::{Digest, Sha256};

use super::checks::Told;
use super::plan::{Act, Care, ClientPlan};
use super::ports::engine;
use super::tools::request_of;
use super::weather::Mishap;
use super::world::{Mortal, World, stream};

/// A client, and the API instances that it reaches.
pub(crate) struct Client {
    world: Arc<World>,
    number: usize,
    owner: OwnerId,
    apis: Vec<(Engine, i64)>,
}

/// The owner `number`.
pub(crate) fn owner(number: usize) -> OwnerId {
    OwnerId::of(Identity::Verified { issuer: "sim", subject: if number == 0 { "ann" } else { "bob" }, tenant: "" })
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, number: usize, owner: OwnerId) -> Self {
        let apis = world.plan.apis.iter().map(|skew_ms| (engine(world, *skew_ms), *skew_ms)).collect();
        Self { world: Arc::clone(world), number, owner, apis }
    }

    /// Does what the plan says.
    pub(crate) async fn play(self, plan: ClientPlan) {
        for act in plan.acts {
            match act {
                Act::Think(ms) => self.world.kernel.sleep(ms).await,
                Act::Call(call) => self.call_until_answered(call).await,
                Act::List => self.list().await,
                Act::Poll(call) => self.of(call, async |key| drop(self.poll(key).await)).await,
                Act::Answer(call) => self.of(call, async |key| self.answer(key).await).await,
                Act::Cancel(call) => self.of(call, async |key| self.cancel(key).await).await,
                Act::Prolong(call, ms) => self.of(call, async |key| self.prolong(key, ms).await).await,
                Act::Forget(call) => self.of(call, async |key| self.forget(key).await).await,
                Act::Watch(call, times, every_ms) => {
                    for _ in 0..times {
                        self.of(call, async |key| drop(self.poll(key).await)).await;
                        self.world.kernel.sleep(every_ms).await;
                    }
                }
            }
        }
        self.world.lock().clients_busy -= 1;
    }

    /// Does something with the task of `call`, where its name is known; as if it were one's own.
    async fn of<F: Future<Output = ()>>(&self, call: usize, act: impl FnOnce(TaskKey) -> F) {
        let known = self.world.lock().known[call];
        if let Some(key) = known {
            act(TaskKey::new(self.owner, key.id)).await;
        }
    }

    /// One request to one API instance, which may die over it.
    async fn request<'a, T, F>(&'a self, request: impl FnOnce(&'a Engine) -> F) -> Option<(Told, T)>
    where
        F: Future<Output = T> + 'a,
    {
        let pick = self.world.kernel.draw(|dice| dice.below(self.apis.len() as u64)) as usize;
        let (engine, skew_ms) = &self.apis[pick];
        let (begun_ms, begun) = (self.world.kernel.now_ms(), self.world.clock(*skew_ms));
        let life = Mortal { dies_of: Mishap::ApiDies, stop: None };
        let answer = self.world.mortal(&life, request(engine)).await?;
        let told = Told { client: self.number, owner: self.owner, begun_ms, begun, at_ms: self.world.kernel.now_ms() };
        Some((told, answer))
    }

    async fn call_until_answered(&self, call: usize) {
        let plan = &self.world.plan.calls[call];
        for _ in 0..4 {
            if self.call(call).await || plan.key.is_none() {
                return;
            }
            let pause_ms = self.world.kernel.draw(|dice| dice.below(self.world.plan.settings.lease_ms));
            self.world.kernel.sleep(pause_ms).await;
        }
    }

    /// Makes the call; whether there was an answer.
    async fn call(&self, number: usize) -> bool {
        let plan = &self.world.plan.calls[number];
        let policy = Policy {
            run_ms_max: plan.run_ms,
            keep_ms: plan.keep_ms,
            ttl_ms: 1,
            ttl_ms_max: plan.run_ms + plan.keep_ms,
            poll_ms: None,
            tries_max: plan.tries_max,
        };
        let request = request_of(number, plan.request_bytes);
        let idempotency =
            plan.key.map(|key| Idempotency { key: format!("key {key}"), fingerprint: Sha256::digest(&request).into() });
        let call = Call {
            owner: self.owner,
            tool: "tool".to_owned(),
            request,
            terms: Terms::grant(&policy, Wish::default()),
            idempotency: idempotency.clone(),
            trace: None,
        };
        self.world.kernel.tell(|| format!("makes call {number}"));
        let Some((told, answer)) = self.request(|engine| engine.accept(call)).await else { return false };
        match answer {
            Ok(accepted) => {
                self.world.lock().checks.told_accepted(told, &accepted, number, plan.key);
                let key = accepted.into_task().key();
                self.world.kernel.tell(|| format!("is told that it became {}", self.world.lock().name(&key)));
                self.world.lock().known[number] = Some(key);
                true
            }
            Err(AcceptError::Unavailable(_)) => {
                self.unavailable(told);
                false
            }
            Err(error) => {
                self.world.kernel.tell(|| format!("is told: {error}"));
                let key = idempotency.map_or([0; 32], |idempotency| Sha256::digest(idempotency.key).into());
                self.world.lock().checks.told_refused(told, &error, key);
                true
            }
        }
    }

    fn unavailable(&self, told: Told) {
        let fine = Mishap::ALL.iter().all(|mishap| self.world.plan.weather.rate(*mishap) == 0);
        let mut state = self.world.lock();
        let calm_since_ms = state.calm_since_ms;
        state.checks.told_unavailable(told, calm_since_ms, fine);
        drop(state);
        self.world.kernel.tell(|| "is told that it is not available".to_owned());
    }

    /// Polls once.
    pub(crate) async fn poll(&self, key: TaskKey) -> Option<Task> {
        let (told, answer) = self.request(|engine| async move { engine.poll(&key).await }).await?;
        match answer {
            Ok(task) => {
                self.world.lock().checks.told_task(told, &task);
                let name = self.world.lock().name(&key);
                self.world.kernel.tell(|| format!("is told that {name} is {}", task.status().as_str()));
                Some(task)
            }
            Err(PollError::NotFound) => {
                self.not_found(told, &key);
                None
            }
            Err(PollError::Unavailable(_)) => {
                self.unavailable(told);
                None
            }
        }
    }

    fn not_found(&self, told: Told, key: &TaskKey) {
        self.world.lock().checks.told_not_found(told, key);
        self.world.kernel.tell(|| "is told that there is no such task".to_owned());
    }

    /// Reads the whole result of a task that has ended.
    pub(crate) async fn fetch(&self, task: &Task) {
        let State::Completed { result, .. } = &task.state else { return };
        let key = task.key();
        let Some((told, text)) = self.request(|engine| async move { engine.load(&key, result).await }).await else {
            return;
        };
        let mut state = self.world.lock();
        let super::world::State { checks, store, .. } = &mut *state;
        if let Some(held) = store.peek(&key).filter(|held| !held.has_expired(told.begun)) {
            let held = Task::clone(held);
            checks.told_result(told, store, &held, text.ok().as_deref());
        }
    }

    /// Looks what is asked, and answers all or some of it.
    pub(crate) async fn answer(&self, key: TaskKey) {
        let Some(task) = self.poll(key).await else { return };
        let State::InputRequired { asks, .. } = &task.state else { return };
        let mut answers = BTreeMap::new();
        for ask in asks {
            if answers.is_empty() || self.world.kernel.draw(|dice| dice.happens(700)) {
                // Every answer is another one, so that the first is told from the second.
                let number = self.world.kernel.draw(super::chance::Chance::next);
                let bytes = if number.is_multiple_of(8) { 33_000 } else { 0 };
                answers.insert(ask.key.clone(), format!("\"{}:{number}{}\"", ask.key, "a".repeat(bytes)));
            }
        }
        self.tell_answers(key, &answers).await;
    }

    /// Gives the answers once; whether they were taken.
    pub(crate) async fn tell_answers(&self, key: TaskKey, answers: &BTreeMap<String, String>) -> bool {
        let names: Vec<String> = answers.keys().cloned().collect();
        self.world.kernel.tell(|| format!("answers {}", names.join(" and ")));
        let Some((told, taken)) = self.request(|engine| engine.answer(&key, answers)).await else { return false };
        match taken {
            Ok(()) => {
                self.world.lock().checks.told_answered(told, &key, &names);
                true
            }
            Err(AnswerError::NotFound) => {
                self.not_found(told, &key);
                true
            }
            Err(AnswerError::Unavailable(_) | AnswerError::TooLarge { .. }) => {
                self.unavailable(told);
                false
            }
        }
    }

    /// Cancels once.
    pub(crate) async fn cancel(&self, key: TaskKey) {
        self.world.kernel.tell(|| format!("cancels {}", self.world.lock().name(&key)));
        let Some((told, answer)) = self.request(|engine| async move { engine.cancel(&key).await }).await else {
            return;
        };
        match answer {
            Ok(task) => self.world.lock().checks.told_cancelled(told, &task),
            Err(PollError::NotFound) => self.not_found(told, &key),
            Err(PollError::Unavailable(_)) => self.unavailable(told),
        }
    }

    async fn prolong(&self, key: TaskKey, keep_ms: u64) {
        self.world.kernel.tell(|| format!("wants {} kept for {keep_ms} ms", self.world.lock().name(&key)));
        let answer = self.request(|engine| async move { engine.prolong(&key, keep_ms).await }).await;
        let Some((told, answer)) = answer else { return };
        match answer {
            Ok(task) => self.world.lock().checks.told_prolonged(told, &task, keep_ms),
            Err(PollError::NotFound) => self.not_found(told, &key),
            Err(PollError::Unavailable(_)) => self.unavailable(told),
        }
    }

    async fn forget(&self, key: TaskKey) {
        self.world.kernel.tell(|| format!("wants {} forgotten", self.world.lock().name(&key)));
        let answer = self.request(|engine| async move { engine.forget(&key).await }).await;
        if let Some((told, Err(_))) = answer {
            self.unavailable(told);
        }
    }

    /// Lists once.
    pub(crate) async fn list(&self) {
        let owner = self.owner;
        let listed = self.request(|engine| async move { engine.list(&owner, None, 50).await }).await;
        if let Some((told, Ok(page))) = listed {
            self.world.lock().checks.told_page(told, &page, 50);
        }
    }
}

/// Looks after everything that was accepted: answers what is asked, and polls where the plan has somebody polling.
pub(crate) async fn care(world: &Arc<World>, carers: &[Client]) {
    for (number, carer) in carers.iter().enumerate() {
        let keys: Vec<TaskKey> = cared_for(world).into_iter().filter(|key| key.owner == owner(number)).collect();
        for key in keys {
            match world.plan.care {
                Care::Polls => {
                    if let Some(task) = carer.poll(key).await {
                        carer.fetch(&task).await;
                    }
                    carer.answer_all(key).await;
                }
                Care::Nobody => carer.answer_all(key).await,
            }
        }
    }
}

/// The tasks that somebody was told of; where nobody polls, all of them.
pub(crate) fn cared_for(world: &World) -> Vec<TaskKey> {
    let state = world.lock();
    match world.plan.care {
        Care::Polls => state.known.iter().flatten().copied().collect(),
        Care::Nobody => state.store.tasks().map(|task| task.key()).collect(),
    }
}

impl Client {
    /// Answers what the record asks, without a poll, until the answers are taken.
    async fn answer_all(&self, key: TaskKey) {
        let asks = match self.world.lock().store.peek(&key).map(|task| task.state.clone()) {
            // A question with a timer beside it goes on by itself, and has to.
            Some(State::InputRequired { asks, until }) if until.is_none() || self.world.plan.care == Care::Polls => {
                asks
            }
            _ => return,
        };
        let answers = asks.into_iter().map(|ask| (ask.key.clone(), format!("\"{}:all\"", ask.key))).collect();
        for _ in 0..8 {
            if self.tell_answers(key, &answers).await {
                return;
            }
        }
    }
}

/// Every client and its stream of chance.
pub(crate) const fn stream_of(client: usize) -> u64 {
    stream::CLIENT + client as u64
}
