//! Tools whose steps fail, clients that resume their tasks, and worlds that are full of them.

use futures::future::join;
use longhaul_core::{Cleanup, EntryKind, Task, TaskKey};
use longhaul_engine::{AttemptEnd, Idempotency, LoadError, PollError, ResumeError, Resumption, Retry, Tried};
use longhaul_testkit::models::Randomness;
use sha2::{Digest, Sha256};

use super::checks::Observation;
use super::clients::Client;
use super::plan::{Act, Care, Ending, Op, Plan, Tool};
use super::tools::Running;

/// The first idempotency key of requests to resume a task; those of calls are below.
const FIRST_KEY: u8 = 100;

/// How often a client asks whether a task has ended before it sends its request regardless.
const POLLS_MAX: u32 = 60;

impl Plan {
    /// The world of `seed`, in which tasks fail in a step, at their end, or at their deadline. Clients resume them, and
    /// sometimes the tasks that continue them, and sometimes those of other owners.
    #[must_use]
    pub fn with_resumptions(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 18);
        let mut plan = Self::of(seed);
        let lease_ms = plan.settings.lease_ms;
        if plan.care == Care::Nobody {
            plan.care = Care::Polls;
        }
        for call in &mut plan.calls {
            let ops = (0..dice.between(1, 3)).flat_map(|_| failing_and(dice, lease_ms)).collect();
            call.tool = Tool::Script(ops);
            call.cleanup = if dice.happens(100) { Cleanup::ARMED } else { Cleanup::None };
            call.ending = if dice.happens(300) { Ending::Error(10) } else { Ending::Result(20) };
            call.retention_ms += lease_ms * 40;
        }
        let calls = plan.calls.len() as u64;
        for client in &mut plan.clients {
            let made = |act: &Act| if let Act::Call(call) = act { Some(*call) } else { None };
            let made: Vec<usize> = client.acts.iter().filter_map(made).collect();
            for own in made {
                let times = dice.between(1, 2);
                client.acts.extend((0..times).map(|_| resumption(dice, own, calls)));
            }
        }
        plan
    }
}

/// A request to resume this call of a client, or rarely any of all calls.
fn resumption(dice: &mut Randomness, own: usize, calls: u64) -> Act {
    let call = if dice.happens(900) { own } else { dice.below(calls) as usize };
    Act::Resume(call, dice.happens(400).then(|| dice.below(4) as usize))
}

/// A step that fails, perhaps after another operation.
fn failing_and(dice: &mut Randomness, lease_ms: u64) -> Vec<Op> {
    let before = match dice.below(8) {
        0 | 1 => Some(Op::Step(dice.below(lease_ms / 3), if dice.happens(80) { 33_000 } else { 12 })),
        2 => Some(Op::TwoSteps(dice.below(lease_ms / 2), dice.below(lease_ms / 2))),
        3 => Some(Op::Sleep(dice.below(lease_ms * 3))),
        4 => Some(Op::Tries(dice.between(1, 3) as u32, dice.one_of(&[lease_ms / 10, lease_ms * 2]))),
        5 => Some(Op::Crash(dice.between(1, 4) as u32)),
        6 => Some(Op::Ask),
        _ => None,
    };
    before.into_iter().chain([Op::Fails(dice.below(lease_ms / 3), dice.below(lease_ms / 2))]).collect()
}

impl Running<'_> {
    pub(super) async fn fails(&self, position: usize, ms: u64, other_ms: u64) -> Option<AttemptEnd> {
        let name = format!("x{position}");
        let is_repaired = self.attempt.task().resumes.is_some();
        let work = async |_try: u32| {
            self.world.lock().checks.step_runs(&self.key, self.number, &name);
            self.world
                .kernel
                .tell(|| format!("runs step `{name}`, which {}", if is_repaired { "succeeds" } else { "fails" }));
            self.world.kernel.sleep(ms).await;
            let text = format!("{}.{}", self.number, self.world.kernel.events());
            if is_repaired { Tried::Value(text) } else { Tried::FailedForGood(text) }
        };
        let failing = async {
            let outcome = self.attempt.step_with_tries(&name, Retry::never(), work).await;
            let text = outcome.clone().unwrap_or_else(|error| format!(r#"{{"dev.longhaul/failed":{error}}}"#));
            self.got(EntryKind::Step, &name, &text);
            outcome
        };
        let (outcome, ()) = join(failing, self.step(format!("s{position}"), other_ms, 12)).await;
        self.step(format!("y{position}"), ms, 12).await;
        outcome.err().map(|_error| AttemptEnd::Failed { message: "no".to_owned(), detail: "null".to_owned() })
    }
}

impl Client {
    /// Waits until the task of this call has ended, and resumes it.
    pub(super) async fn resume_when_failed(&self, call: usize, from: Option<usize>) {
        let known = self.world.lock().known[call];
        let Some(key) = known.map(|key| TaskKey::new(self.owner, key.id)) else { return };
        for _ in 0..POLLS_MAX {
            match self.poll(key).await {
                Some(task) if task.has_ended() => break,
                _ => self.world.kernel.sleep(self.world.plan.settings.lease_ms / 2).await,
            }
        }
        let number = self.world.kernel.draw(|dice| dice.happens(700).then(|| FIRST_KEY + dice.below(3) as u8));
        // The same request may be sent again although it was answered.
        let mut left = if number.is_some() { 4 } else { 1 };
        while left > 0 {
            left -= 1;
            let Some(task) = self.poll(key).await else { continue };
            if self.resume(&task, call, from, number).await {
                left = left.min(self.world.kernel.draw(|dice| dice.below(2)) as u32);
            }
        }
        self.poll(key).await;
    }

    /// Asks to resume `task`, and returns whether there was an answer.
    async fn resume(&self, task: &Task, call: usize, from: Option<usize>, number: Option<u8>) -> bool {
        let key = task.key();
        let from = from.map(|position| format!("s{position}"));
        let fingerprint = Sha256::digest(format!("{} {from:?}", key.id)).into();
        let idempotency = number.map(|number| Idempotency { key: format!("key {number}"), fingerprint });
        let by = Some(format!("client {call}"));
        let resumption = Resumption { from: from.clone(), by, idempotency, cleanup: Cleanup::None };
        self.world.kernel.tell(|| format!("asks to resume {} from {from:?}", self.world.lock().name(&key)));
        self.world.lock().checks.resumption_begins(&key, from.as_deref());
        let answer = self.request(|engine| engine.resume(task, resumption)).await;
        self.world.lock().checks.resumption_ends();
        let Some((observed, answer)) = answer else { return false };
        match answer {
            Ok(accepted) => {
                self.world.lock().checks.observed_accepted(observed, &accepted, call, number);
                let new = accepted.into_task();
                self.world.lock().checks.observed_resumed(&key, &new);
                self.world.kernel.tell(|| format!("gets {}", self.world.lock().name(&new.key())));
                self.world.lock().known[call] = Some(new.key());
                true
            }
            Err(error) => self.not_resumed(observed, task, from.as_deref(), (&error, number)),
        }
    }

    /// Notes why a task was not resumed, and returns whether there was an answer.
    fn not_resumed(
        &self,
        observed: Observation,
        task: &Task,
        from: Option<&str>,
        (error, number): (&ResumeError, Option<u8>),
    ) -> bool {
        self.world.kernel.tell(|| format!("gets an error: {error}"));
        match error {
            ResumeError::NotAccepted(longhaul_engine::AcceptError::Unavailable(_))
            | ResumeError::NotRead(PollError::Unavailable(_))
            | ResumeError::NotLoaded(LoadError::Unavailable(_)) => {
                self.unavailable(observed);
                false
            }
            ResumeError::NotRead(PollError::NotFound) => {
                self.world.lock().checks.observed_not_found(observed, &task.key());
                true
            }
            ResumeError::NotAccepted(error) => {
                let key = number.map_or([0; 32], |number| Sha256::digest(format!("key {number}")).into());
                self.world.lock().checks.observed_refused(observed, error, key);
                true
            }
            refused => {
                self.world.lock().checks.observed_not_resumed(task, from, refused);
                true
            }
        }
    }
}
