//! The clients: they call, poll, answer, cancel, retry, disappear and return.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use longhaul_core::ports::{StoreError, UnfinishedTasks};
use longhaul_core::{Identity, Labels, OwnerId, State, Task, TaskKey, Timestamp};
use longhaul_engine::{AcceptError, AnswerError, Call, Engine, Idempotency, PollError};
use longhaul_testkit::models::Randomness;
use sha2::{Digest, Sha256};

use super::checks::{Checks, Observation};
use super::fault_profile::InjectedFault;
use super::kernel::EPOCH_MS;
use super::lying::Instance;
use super::plan::{Act, Answers, Care, ClientPlan, request_of};
use super::ports::engine;
use super::world::{Killable, State as WorldState, World, stream};

/// A client and the API instances that it reaches.
pub(crate) struct Client {
    pub(super) world: Arc<World>,
    number: usize,
    pub(super) owner: OwnerId,
    apis: Vec<(Engine, i64)>,
}

/// The owner `number`.
pub(crate) fn owner(number: usize) -> OwnerId {
    let subject = match number {
        0 => "ann",
        1 => "bob",
        other => &format!("owner {other}"),
    };
    OwnerId::of(Identity::Verified { issuer: "sim", subject, tenant: "" })
}

impl Client {
    pub(crate) fn new(world: &Arc<World>, number: usize, owner: OwnerId) -> Self {
        let apis = world.plan.apis.iter().map(|skew_ms| (engine(world, Instance::Api, *skew_ms), *skew_ms)).collect();
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
                Act::ThinkAndAnswer(call, ms, times) => self.think_and_answer(call, ms, times).await,
                Act::Cancel(call) => self.of(call, async |key| self.cancel(key).await).await,
                Act::ExtendRetention(call, ms) => self.of(call, async |key| self.extend_retention(key, ms).await).await,
                Act::Forget(call) => self.of(call, async |key| self.forget(key).await).await,
                Act::Resume(call, from) => self.resume_when_failed(call, from).await,
                Act::Watch(call, times, every_ms) => self.watch(call, times, every_ms).await,
            }
        }
        self.world.lock().clients_busy -= 1;
    }

    async fn watch(&self, call: usize, times: u32, every_ms: u64) {
        for _ in 0..times {
            self.of(call, async |key| drop(self.poll(key).await)).await;
            self.world.kernel.sleep(every_ms).await;
        }
    }

    /// Does something with the task of `call` if its id is known, as if it were its own.
    async fn of<F: Future<Output = ()>>(&self, call: usize, act: impl FnOnce(TaskKey) -> F) {
        let known = self.world.lock().known[call];
        if let Some(key) = known {
            act(TaskKey::new(self.owner, key.id)).await;
        }
    }

    /// One request to one API instance, which may die during the request.
    pub(super) async fn request<'a, T, F>(&'a self, request: impl FnOnce(&'a Engine) -> F) -> Option<(Observation, T)>
    where
        F: Future<Output = T> + 'a,
    {
        let pick = self.world.kernel.draw(|dice| dice.below(self.apis.len() as u64)) as usize;
        let (engine, skew_ms) = &self.apis[pick];
        let (begun_ms, begun) = (self.world.kernel.now_ms(), self.world.clock(*skew_ms));
        let life = Killable { killed_by: InjectedFault::ApiDies, stop: None };
        let answer = self.world.killable(&life, request(engine)).await?;
        let observed =
            Observation { client: self.number, owner: self.owner, begun_ms, begun, at_ms: self.world.kernel.now_ms() };
        Some((observed, answer))
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

    /// Makes the call, and returns whether there was an answer.
    async fn call(&self, number: usize) -> bool {
        let plan = &self.world.plan.calls[number];
        let request = request_of(number, plan.request_bytes);
        let idempotency =
            plan.key.map(|key| Idempotency { key: format!("key {key}"), fingerprint: Sha256::digest(&request).into() });
        let call = Call {
            owner: self.owner,
            tool: "tool".to_owned(),
            request,
            terms: plan.terms(),
            idempotency: idempotency.clone(),
            trace: None,
            cleanup: plan.cleanup,
            not_before: plan.not_before_ms.map(|ms| Timestamp::from_ms(EPOCH_MS + ms)),
            flow: self.world.plan.flow(),
            labels: Labels::default(),
        };
        self.world.kernel.tell(|| format!("makes call {number}"));
        let Some((observed, answer)) = self.request(|engine| engine.accept(call)).await else { return false };
        match answer {
            Ok(accepted) => {
                self.world.lock().checks.observed_accepted(observed, &accepted, number, plan.key);
                let key = accepted.into_task().key();
                self.world.kernel.tell(|| format!("gets {} for its call", self.world.lock().name(&key)));
                self.world.lock().known[number] = Some(key);
                true
            }
            Err(AcceptError::Unavailable(_)) => {
                self.unavailable(observed);
                false
            }
            Err(error) => {
                self.world.kernel.tell(|| format!("gets an error: {error}"));
                let key = idempotency.map_or([0; 32], |idempotency| Sha256::digest(idempotency.key).into());
                self.world.lock().checks.observed_refused(observed, &error, key);
                true
            }
        }
    }

    pub(super) fn unavailable(&self, observed: Observation) {
        let plan = &self.world.plan;
        let no_fault = InjectedFault::ALL.iter().all(|fault| plan.fault_profile.rate(*fault) == 0);
        let nothing_goes_wrong = no_fault && plan.throughput.is_none();
        let mut state = self.world.lock();
        let quiescent_since_ms = state.quiescent_since_ms;
        state.checks.observed_unavailable(observed, quiescent_since_ms, nothing_goes_wrong);
        drop(state);
        self.world.kernel.tell(|| "gets an error: not available".to_owned());
    }

    /// Polls once.
    pub(crate) async fn poll(&self, key: TaskKey) -> Option<Task> {
        let answer = self.request(|engine| async move { engine.poll(&key).await }).await?;
        let task = self.told(&key, answer, Checks::observed_task)?;
        let name = self.world.lock().name(&key);
        self.world.kernel.tell(|| format!("sees that {name} is {}", task.status().as_str()));
        Some(task)
    }

    /// Notes the reply about a task.
    fn told(
        &self,
        key: &TaskKey,
        (observed, answer): (Observation, Result<Task, PollError>),
        note: impl FnOnce(&mut Checks, Observation, &Task),
    ) -> Option<Task> {
        match &answer {
            Ok(task) => note(&mut self.world.lock().checks, observed, task),
            Err(PollError::NotFound) => self.not_found(observed, key),
            Err(PollError::Unavailable(_)) => self.unavailable(observed),
        }
        answer.ok()
    }

    fn not_found(&self, observed: Observation, key: &TaskKey) {
        self.world.lock().checks.observed_not_found(observed, key);
        self.world.kernel.tell(|| "gets an error: the task does not exist".to_owned());
    }

    /// Reads the whole result of a task that has ended.
    pub(crate) async fn fetch(&self, task: &Task) {
        let State::Completed { result, .. } = &task.state else { return };
        let key = task.key();
        let Some((observed, text)) = self.request(|engine| async move { engine.load(&key, result).await }).await else {
            return;
        };
        let mut state = self.world.lock();
        let WorldState { checks, store, .. } = &mut *state;
        if let Some(held) = store.peek(&key).filter(|held| !held.has_expired(observed.begun)) {
            let held = Task::clone(held);
            checks.observed_result(store, &held, text.ok().as_deref());
        }
    }

    async fn poll_and_fetch(&self, key: TaskKey) {
        if let Some(task) = self.poll(key).await {
            self.fetch(&task).await;
        }
    }

    async fn think_and_answer(&self, call: usize, ms: u64, times: u32) {
        for _ in 0..times {
            self.of(call, async |key| self.answer_after(key, ms).await).await;
            self.world.kernel.sleep(ms).await;
        }
    }

    /// Reads the open questions, and answers some or all of them.
    pub(crate) async fn answer(&self, key: TaskKey) {
        self.answer_after(key, 0).await;
    }

    async fn answer_after(&self, key: TaskKey, ms: u64) {
        let Some(task) = self.poll(key).await else { return };
        let State::InputRequired { asks, .. } = &task.state else { return };
        let mut answers = BTreeMap::new();
        for ask in asks {
            if answers.is_empty() || self.world.kernel.draw(|dice| dice.happens(700)) {
                answers.insert(ask.key.clone(), self.answer_to(&ask.key));
            }
        }
        if ms > 0 {
            self.world.kernel.sleep(ms).await;
        }
        self.send_answers(key, &answers).await;
    }

    /// Every answer is different, so that the checkers can distinguish the first from the second.
    fn answer_to(&self, question: &str) -> String {
        let number = self.world.kernel.draw(Randomness::next);
        let bytes = if number.is_multiple_of(8) { 33_000 } else { 0 };
        format!("\"{question}:{number}{}\"", "a".repeat(bytes))
    }

    /// Sends the answers once, and returns whether they were accepted.
    pub(crate) async fn send_answers(&self, key: TaskKey, answers: &BTreeMap<String, String>) -> bool {
        let names: Vec<String> = answers.keys().cloned().collect();
        self.world.kernel.tell(|| format!("answers {}", names.join(" and ")));
        let Some((observed, taken)) = self.request(|engine| engine.answer(&key, answers)).await else { return false };
        match taken {
            Ok(()) => {
                self.world.lock().checks.observed_answered(observed, &key, &names);
                true
            }
            Err(AnswerError::NotFound) => {
                self.not_found(observed, &key);
                true
            }
            Err(AnswerError::Unavailable(_) | AnswerError::TooLarge { .. }) => {
                self.unavailable(observed);
                false
            }
        }
    }

    /// Cancels once.
    pub(crate) async fn cancel(&self, key: TaskKey) {
        self.world.kernel.tell(|| format!("asks to cancel {}", self.world.lock().name(&key)));
        if let Some(answer) = self.request(|engine| async move { engine.cancel(&key).await }).await {
            self.told(&key, answer, Checks::observed_cancelled);
        }
    }

    async fn extend_retention(&self, key: TaskKey, retention_ms: u64) {
        self.world.kernel.tell(|| format!("asks to retain {} for {retention_ms} ms", self.world.lock().name(&key)));
        let answer = self.request(|engine| async move { engine.extend_retention(&key, retention_ms).await }).await;
        if let Some(answer) = answer {
            self.told(&key, answer, |checks, observed, task| checks.observed_extended(observed, task, retention_ms));
        }
    }

    async fn forget(&self, key: TaskKey) {
        self.world.kernel.tell(|| format!("asks to forget {}", self.world.lock().name(&key)));
        let answer = self.request(|engine| async move { engine.forget(&key).await }).await;
        if let Some((observed, Err(_))) = answer {
            self.unavailable(observed);
        }
    }

    /// Lists once.
    pub(crate) async fn list(&self) {
        let owner = self.owner;
        let listed = self.request(|engine| async move { engine.list(&owner, None, 50).await }).await;
        if let Some((observed, Ok(page))) = listed {
            self.world.lock().checks.observed_page(observed, &page, 50);
        }
    }
}

/// Attends to all accepted calls: answers questions, and polls if the plan says so.
pub(crate) async fn care(world: &Arc<World>, carers: &[Client]) {
    if world.plan.care == Care::Server {
        let sweeper = Sweeper(world);
        for carer in carers.iter().take(1) {
            // The next scan reads the tasks that this one could not read.
            let _swept = carer.request(|engine| engine.sweep(&sweeper)).await;
        }
    }
    for (number, carer) in carers.iter().enumerate() {
        let keys: Vec<TaskKey> = cared_for(world).into_iter().filter(|key| key.owner == owner(number)).collect();
        for key in keys {
            match world.plan.care {
                Care::Polls => carer.poll_and_fetch(key).await,
                Care::Nobody | Care::Server | Care::Stream => {}
            }
            carer.answer_all(key).await;
        }
    }
}

/// The tasks that a client knows; all tasks if no client polls.
pub(crate) fn cared_for(world: &World) -> Vec<TaskKey> {
    let state = world.lock();
    match world.plan.care {
        Care::Polls => state.known.iter().flatten().copied().collect(),
        Care::Nobody | Care::Server | Care::Stream => state.store.tasks().map(|task| task.key()).collect(),
    }
}

impl Client {
    /// Answers the stored questions, without a poll, until the answers are accepted.
    async fn answer_all(&self, key: TaskKey) {
        let Some(task) = self.world.lock().store.peek(&key).cloned() else { return };
        let State::InputRequired { asks, until } = task.state.clone() else { return };
        // A task with a timer alongside its question continues on its own, and has to. One with cleanup has its
        // deadline there.
        let waits_for_answers = until.is_none_or(|until| until >= task.deadline());
        if self.world.plan.answers == Answers::NeverCome {
            return;
        }
        if !waits_for_answers && self.world.plan.care != Care::Polls {
            return;
        }
        let answers = asks.into_iter().map(|ask| (ask.key.clone(), format!("\"{}:all\"", ask.key))).collect();
        for _ in 0..8 {
            if self.send_answers(key, &answers).await {
                return;
            }
        }
    }
}

/// The tasks that the server reads when it scans for unfinished ones.
struct Sweeper<'a>(&'a Arc<World>);

#[async_trait]
impl UnfinishedTasks for Sweeper<'_> {
    async fn unfinished(&self, after: Option<TaskKey>, max: usize, now: Timestamp) -> Result<Vec<Task>, StoreError> {
        let state = self.0.lock();
        Ok(state.store.unfinished(after, max, now, |key| state.queue.has_message(key)))
    }
}

/// The random stream of `client`.
pub(crate) const fn stream_of(client: usize) -> u64 {
    stream::CLIENT + client as u64
}
