//! The tools of the simulation: they follow their scripts, and report to the checkers what they see.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::{Either, join, select};
use longhaul_core::{Ask, EntryKind, Progress, ResultKind, TaskKey};
use longhaul_engine::{Attempt, AttemptEnd, Cleaned, Driven, Ended, Every, Retry, Round, ToolRunner, Tried};
use longhaul_testkit::models::{PlantedFault, Promise, SCHEDULED_TOOL};
use serde_json::Value;

use super::plan::{CallPlan, Ending, Op, Tool, call_of};
use super::publishing::read_webhook_delivery;
use super::world::{HandedOut, World};

/// Runs all tools.
pub(crate) struct SimTools {
    pub(crate) world: Arc<World>,
}

/// One tool, running.
pub(super) struct Running<'a> {
    pub(super) world: &'a Arc<World>,
    pub(super) attempt: &'a Attempt,
    pub(super) key: TaskKey,
    pub(super) number: u32,
    call: usize,
    plan: &'a CallPlan,
    received: std::sync::Mutex<Vec<(String, String)>>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_replay() {
            return;
        }
        self.world.lock().checks.tool_stops(&self.key, self.number);
    }
}

#[async_trait]
impl ToolRunner for SimTools {
    async fn run(&self, attempt: Attempt) -> AttemptEnd {
        let world = &self.world;
        let scheduled = world.plan.schedule.as_ref().filter(|_| attempt.task().tool == SCHEDULED_TOOL);
        let call = scheduled.map(|schedule| schedule.call).or_else(|| call_of(attempt.request()));
        world.lock().checks.tool_begins(attempt.task(), call, attempt.request());
        if attempt.task().is_webhook_delivery() {
            return self.tell(&attempt);
        }
        let Some((call, plan)) = call.and_then(|call| Some((call, world.plan.calls.get(call)?))) else {
            return AttemptEnd::Crashed { reason: "the call does not exist".to_owned() };
        };
        let running = Running::new(world, &attempt, (call, plan));
        let name = world.lock().name(&running.key);
        world.kernel.tell(|| format!("runs the tool of {name} as attempt {}", running.number));
        match &plan.tool {
            Tool::Rounds(rounds) => running.rounds(*rounds).await,
            Tool::Script(ops) => match attempt.drive(running.script(ops)).await {
                Driven::Ended(end) => end,
                Driven::Suspended(suspended) => AttemptEnd::Suspended(suspended),
            },
            Tool::Plain(ms) => {
                world.kernel.sleep(*ms).await;
                running.end()
            }
        }
    }

    async fn clean(&self, ended: &Ended) -> Cleaned {
        let world = &*self.world;
        let key = ended.task().key();
        let call = call_of(ended.request());
        let Some((call, plan)) = call.and_then(|call| Some((call, world.plan.calls.get(call)?))) else {
            return Cleaned::Failed { reason: "the call does not exist".to_owned() };
        };
        world.kernel.tell(|| format!("runs the cleanup of {}", world.lock().name(&key)));
        let tries = world.lock().checks.cleanup_begins(&key);
        world.kernel.sleep(world.plan.latency_ms * 4).await;
        if tries <= plan.cleanup_fails {
            return Cleaned::Failed { reason: "it is still in use".to_owned() };
        }
        let undone = self.undo(ended, (call, plan)).await;
        if undone != Cleaned::Done {
            return undone;
        }
        world.lock().checks.cleanup_ends(&key);
        Cleaned::Done
    }
}

impl SimTools {
    /// Tells an endpoint of a notification.
    fn tell(&self, attempt: &Attempt) -> AttemptEnd {
        let world = &*self.world;
        let mut state = world.lock();
        if let Some((notification, endpoint)) = read_webhook_delivery(attempt.request()) {
            world.kernel.tell(|| format!("tells endpoint {endpoint} of {notification}"));
            state.checks.told(notification, endpoint);
        }
        let (task, result) = (attempt.task(), "{}".to_owned());
        state.checks.tool_gave(&task.key(), task.attempt, &result);
        state.checks.tool_stops(&task.key(), task.attempt);
        AttemptEnd::Completed { result, kind: ResultKind::Success }
    }
}

impl<'a> Running<'a> {
    pub(super) fn new(world: &'a Arc<World>, attempt: &'a Attempt, (call, plan): (usize, &'a CallPlan)) -> Self {
        let (key, number) = (attempt.task().key(), attempt.task().attempt);
        Self { world, attempt, key, number, call, plan, received: std::sync::Mutex::default() }
    }
}

impl Running<'_> {
    /// Whether the tool is replayed after the end of its task, and does nothing.
    pub(super) fn is_replay(&self) -> bool {
        self.attempt.task().has_ended()
    }

    pub(super) fn now_ms(&self) -> u64 {
        self.world.kernel.now_ms()
    }

    pub(super) async fn script(&self, ops: &[Op]) -> AttemptEnd {
        if ops.iter().any(|op| matches!(op, Op::Variable(_))) {
            let value = self.attempt.variable("v").await.as_ref().and_then(number);
            self.world.lock().checks.variable_is(&self.key, self.number, value);
        }
        for (position, op) in ops.iter().enumerate() {
            if let Some(end) = self.play(position, *op).await {
                return end;
            }
        }
        self.end()
    }

    async fn play(&self, position: usize, op: Op) -> Option<AttemptEnd> {
        match op {
            Op::Work(ms) => self.world.kernel.sleep(ms).await,
            Op::Step(ms, bytes) => self.step(format!("s{position}"), ms, bytes).await,
            Op::TwoSteps(one_ms, other_ms) => {
                let one = self.step(format!("s{position}a"), one_ms, 5);
                join(one, self.step(format!("s{position}b"), other_ms, 5)).await;
            }
            Op::Sleep(ms) => self.sleep(position, ms).await,
            Op::Ask => drop(self.ask(format!("q{position}")).await),
            Op::TwoAsks => {
                let one = self.ask(format!("q{position}a"));
                join(one, self.ask(format!("q{position}b"))).await;
            }
            Op::AskOrSleep(ms) => self.ask_or_sleep(position, ms).await,
            Op::AskBeside(beside) => return self.ask_beside(position, beside).await,
            Op::Poll(there_ms, first_ms, longest_ms) => {
                let growing = Every::growing(Duration::from_millis(first_ms), Duration::from_millis(longest_ms));
                self.poll(position, there_ms, growing).await;
            }
            Op::Race(racers) => self.race(position, racers).await,
            Op::Undoable(ms) => self.undoable(position, ms).await,
            Op::Fails(ms, other_ms) => return self.fails(position, ms, other_ms).await,
            Op::Tries(fails, pause_ms) => self.tries(position, fails, pause_ms).await,
            Op::Signal(after_ms) => self.signal(position, after_ms).await,
            Op::Call(first, count) => return self.call_all(first, count).await,
            Op::CallAndGiveUp(first, count, ms) => {
                self.call_and_give_up(position, first..first + count, ms).await;
                return Some(self.end());
            }
            Op::Progress => self.attempt.progress(Progress { done: position as f64, total: None, message: None }),
            Op::Variable(bytes) => return self.variable(position, bytes).await,
            Op::Crash(times) => return self.crash(position, times),
            Op::Hang => std::future::pending().await,
        }
        None
    }

    pub(super) async fn step(&self, name: String, ms: u64, bytes: usize) {
        let body = || async {
            self.world.lock().checks.step_begins(&self.key, &name, self.is_replay());
            self.world.lock().checks.step_runs(&self.key, self.number, &name);
            self.world.kernel.tell(|| format!("runs step `{name}`, which takes {ms} ms"));
            self.world.kernel.sleep(ms).await;
            // Every run returns a different text, which distinguishes a replay from a second run.
            let mut text = format!("{}.{}", self.number, self.world.kernel.events());
            text.extend(std::iter::repeat_n('y', bytes.saturating_sub(text.len())));
            Ok::<_, Infallible>(text)
        };
        let Ok(text) = self.attempt.step(&name, body).await;
        self.got(EntryKind::Step, &name, &text);
    }

    async fn tries(&self, position: usize, fails: u32, pause_ms: u64) {
        let name = format!("t{position}");
        let work = async |number: u32| {
            self.world.lock().checks.try_runs(&self.key, self.number, &name, number);
            self.world.kernel.tell(|| format!("runs try {number} of step `{name}`"));
            self.world.kernel.sleep(self.world.plan.latency_ms).await;
            // Every run returns a different text, which distinguishes a replay from a second run.
            let text = format!("{}.{}", self.number, self.world.kernel.events());
            if number <= fails { Tried::Failed(text) } else { Tried::Value(text) }
        };
        let retry = Retry::fixed(Duration::from_millis(pause_ms)).tries(fails + 1);
        let text = match self.attempt.step_with_tries(&name, retry, work).await {
            Ok(text) => text,
            // The deadline left no time for another try.
            Err(error) => format!(r#"{{"dev.longhaul/failed":{error}}}"#),
        };
        self.got(EntryKind::Step, &name, &text);
    }

    pub(super) async fn ask(&self, name: String) -> String {
        let answer = self.attempt.ask(&name, "{}".to_owned()).await;
        self.got(EntryKind::Answer, &name, &answer);
        answer
    }

    pub(super) fn got(&self, kind: EntryKind, name: &str, text: &str) {
        self.world.lock().checks.tool_got(&self.key, self.number, kind, name, text);
        let mut received = self.received.lock().unwrap();
        received.push((name.to_owned(), text.chars().take(20).collect()));
    }

    async fn sleep(&self, position: usize, ms: u64) {
        self.world.lock().checks.sleep_begins(&self.key, position);
        self.attempt.sleep_ms(ms).await;
        self.world.lock().checks.sleep_ends(&self.key, position, ms);
    }

    /// Which came first is recorded as a step: the next attempt may find both.
    async fn ask_or_sleep(&self, position: usize, ms: u64) {
        let name = format!("q{position}");
        let first = {
            let ask = std::pin::pin!(self.attempt.ask(&name, "{}".to_owned()));
            let sleep = std::pin::pin!(self.attempt.sleep_ms(ms));
            match select(ask, sleep).await {
                Either::Left(_) => "answer",
                Either::Right(_) => "moment",
            }
        };
        let Ok(first) =
            self.attempt.step(&format!("w{position}"), || async { Ok::<_, Infallible>(first.to_owned()) }).await;
        self.got(EntryKind::Step, &format!("w{position}"), &first);
    }

    pub(super) async fn poll(&self, position: usize, there_ms: u64, every: Every) {
        let name = format!("l{position}");
        let poll = async || {
            let first_ms = self.world.lock().checks.poll_begins(&self.key, self.number, position, every);
            self.world.kernel.sleep(self.world.plan.latency_ms).await;
            let is_there = self.now_ms() >= first_ms + there_ms;
            self.world
                .kernel
                .tell(|| format!("looks for `{name}`: {}", if is_there { "it is there" } else { "not yet" }));
            self.world.lock().checks.poll_ends(&self.key, self.number);
            // Every poll finds a different text, which distinguishes a replay from another poll.
            Ok::<_, Infallible>(is_there.then(|| format!("{}.{}", self.number, self.world.kernel.events())))
        };
        let Ok(text) = self.attempt.poll_until(&name, every, poll).await;
        self.world.lock().checks.polls_end(&self.key, self.number);
        self.got(EntryKind::Step, &name, &text);
    }

    /// Asks the outside system to record the signal later. The request is not recorded, so every attempt repeats it.
    pub(super) async fn signal(&self, position: usize, after_ms: u64) {
        let name = format!("f{position}");
        let due_ms = self.now_ms() + after_ms;
        {
            let mut state = self.world.lock();
            state.checks.signal_begins(&self.key, &name);
            state.hand_out(HandedOut { key: self.key, name: name.clone(), due_ms });
        }
        let text = self.attempt.signal(&name, self.attempt.task().created_at, None).await.unwrap_or_default();
        self.got(EntryKind::Signal, &name, &text);
    }

    async fn variable(&self, position: usize, bytes: usize) -> Option<AttemptEnd> {
        let value = position as u64 + 1;
        let text = format!("{value}|{}", "z".repeat(bytes));
        self.world.lock().checks.variable_sets(&self.key, value);
        if let Err(error) = self.attempt.set_variable("v", Value::String(text)).await {
            return Some(AttemptEnd::Failed { message: error.to_string(), detail: "{}".to_owned() });
        }
        self.world.lock().checks.variable_is_set(&self.key, self.number, value);
        None
    }

    fn crash(&self, position: usize, times: u32) -> Option<AttemptEnd> {
        let mut state = self.world.lock();
        let crashes = &mut state.crashes[self.call];
        crashes.resize(crashes.len().max(position + 1), 0);
        if crashes[position] >= times {
            return None;
        }
        crashes[position] += 1;
        drop(state);
        self.world.kernel.tell(|| "panics in the tool".to_owned());
        Some(AttemptEnd::Crashed { reason: "the tool panicked".to_owned() })
    }

    async fn rounds(&self, rounds: u32) -> AttemptEnd {
        let before = if self.world.planted == Some(PlantedFault::RoundForgotten) {
            Driven::Ended(None)
        } else {
            self.attempt.drive(self.attempt.last_round()).await
        };
        let done = match before {
            Driven::Suspended(suspended) => return AttemptEnd::Suspended(suspended),
            Driven::Ended(None) => 0,
            Driven::Ended(Some((carry, answers))) => {
                let done: u32 = carry.parse().unwrap_or(0);
                if answers.len() != 1 {
                    let what = format!("a tool asked one question, and got {} answers", answers.len());
                    self.world.lock().checks.fail(Promise::AnswersAreFinal, what);
                }
                done
            }
        };
        if done >= rounds {
            return self.end();
        }
        let asks = vec![Ask { key: "round".to_owned(), request: "{}".to_owned() }];
        self.attempt.ask_round(Round { asks, carry: (done + 1).to_string() }).await
    }

    fn end(&self) -> AttemptEnd {
        let received = self.received.lock().unwrap().clone();
        match self.plan.ending {
            Ending::Result(bytes) => {
                let mut result = format!("{received:?}");
                // Each attempt has its own text, so that parts of another attempt are noticed.
                let mark = char::from(b'a' + (self.number % 26) as u8);
                result.extend(std::iter::repeat_n(mark, bytes.saturating_sub(result.len())));
                self.completed(result, ResultKind::Success)
            }
            Ending::ToolError => self.completed("no".to_owned(), ResultKind::ToolError),
            Ending::Error(bytes) => AttemptEnd::Failed { message: "no".to_owned(), detail: "e".repeat(bytes) },
        }
    }

    fn completed(&self, result: String, kind: ResultKind) -> AttemptEnd {
        if self.is_replay() {
            return AttemptEnd::Completed { result, kind };
        }
        self.world.lock().checks.tool_gave(&self.key, self.number, &result);
        self.world.kernel.tell(|| "reaches the end of the tool".to_owned());
        AttemptEnd::Completed { result, kind }
    }
}

fn number(value: &Value) -> Option<u64> {
    value.as_str()?.split_once('|')?.0.parse().ok()
}
