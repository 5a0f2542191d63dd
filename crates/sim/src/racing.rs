//! Tools whose branches race, and worlds that are full of them.

use futures::FutureExt;
use longhaul_testkit::models::Randomness;

use super::call_plan::Racers;
use super::plan::{Op, Plan, Tool};
use super::tools::Running;

impl Plan {
    /// The world of `seed`, whose tools have races and timeouts between other operations. Many of their tasks fail, or
    /// are cancelled, and then what any branch has done is undone.
    #[must_use]
    pub fn with_races(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 17);
        let mut plan = Self::with_compensations(seed);
        let lease_ms = plan.settings.lease_ms;
        for call in &mut plan.calls {
            call.tool = Tool::Script((0..dice.between(1, 3)).flat_map(|_| race_and(dice, lease_ms)).collect());
        }
        plan
    }
}

/// A race, and perhaps something before the next one.
fn race_and(dice: &mut Randomness, lease_ms: u64) -> Vec<Op> {
    let (step_ms, wait_ms) = (dice.below(lease_ms), dice.one_of(&[0, lease_ms / 4, lease_ms * 2]));
    let racers = match dice.below(6) {
        0 => Racers::StepOrSleep(step_ms, wait_ms),
        1 => Racers::UndoableOrSleep(step_ms, wait_ms),
        2 => Racers::AskWithReminder(wait_ms),
        3 => Racers::Nested(step_ms, wait_ms),
        4 => Racers::StepThenAsk(step_ms, wait_ms),
        _ => Racers::InTime(step_ms, wait_ms),
    };
    let next = match dice.below(5) {
        0 => Some(Op::Sleep(dice.below(lease_ms * 3))),
        1 => Some(Op::Crash(dice.between(1, 4) as u32)),
        2 => Some(Op::Undoable(dice.below(lease_ms / 3))),
        _ => None,
    };
    [Op::Race(racers)].into_iter().chain(next).collect()
}

impl Running<'_> {
    pub(super) async fn race(&self, position: usize, racers: Racers) {
        match racers {
            Racers::StepOrSleep(step_ms, sleep_ms) => {
                let step = self.step(format!("s{position}"), step_ms, 5);
                self.first_of(format!("r{position}"), [step.boxed(), self.attempt.sleep_ms(sleep_ms).boxed()]).await;
            }
            Racers::UndoableOrSleep(step_ms, sleep_ms) => {
                let step = self.undoable(position, step_ms);
                self.first_of(format!("r{position}"), [step.boxed(), self.attempt.sleep_ms(sleep_ms).boxed()]).await;
            }
            Racers::StepThenAsk(step_ms, sleep_ms) => self.step_then_ask(position, step_ms, sleep_ms).await,
            Racers::AskWithReminder(sleep_ms) => self.ask_with_reminder(position, sleep_ms).await,
            Racers::Nested(step_ms, sleep_ms) => {
                let inner = async {
                    let step = self.step(format!("s{position}"), step_ms, 5);
                    let ask = self.ask(format!("q{position}")).map(drop);
                    self.first_of(format!("i{position}"), [step.boxed(), ask.boxed()]).await;
                };
                self.first_of(format!("r{position}"), [inner.boxed(), self.attempt.sleep_ms(sleep_ms).boxed()]).await;
            }
            Racers::InTime(step_ms, timeout_ms) => self.in_time(position, step_ms, timeout_ms).await,
        }
    }

    /// Races these, and reports the number of the one that came first.
    async fn first_of<B: Future<Output = ()> + Send>(&self, name: String, branches: impl IntoIterator<Item = B>) {
        let numbered = branches.into_iter().enumerate().map(|(number, branch)| branch.map(move |()| number));
        let won = self.attempt.race(&name, numbered).await;
        self.world.lock().checks.race_is_won(&self.key, &name, won);
    }

    /// Waits for the answer, reminds once of the question, and waits for the same answer again.
    async fn ask_with_reminder(&self, position: usize, sleep_ms: u64) {
        let ask = self.ask(format!("q{position}")).map(drop).boxed().shared();
        let sleep = self.attempt.sleep_ms(sleep_ms);
        self.first_of(format!("r{position}"), [ask.clone().boxed(), sleep.boxed()]).await;
        if ask.peek().is_none() {
            self.step(format!("s{position}"), 1, 5).await;
            ask.await;
        }
    }

    async fn step_then_ask(&self, position: usize, step_ms: u64, sleep_ms: u64) {
        let step = self.step(format!("s{position}"), step_ms, 5).boxed().shared();
        let sleep = self.attempt.sleep_ms(sleep_ms);
        self.first_of(format!("r{position}"), [step.clone().boxed(), sleep.boxed()]).await;
        if step.peek().is_none() {
            self.ask(format!("q{position}")).await;
            step.await;
        }
    }

    /// Two steps with a pause, of which the second is undone if the task fails, before their time ends.
    async fn in_time(&self, position: usize, step_ms: u64, timeout_ms: u64) {
        let name = format!("r{position}");
        let steps = async {
            self.step(format!("t{position}"), step_ms, 5).await;
            self.attempt.sleep_ms(step_ms).await;
            self.undoable(position, step_ms).await;
        };
        self.world.lock().checks.sleep_begins(&self.key, position);
        let is_late = self.attempt.timeout(&name, timeout_ms, steps).await.is_none();
        let mut state = self.world.lock();
        state.checks.race_is_won(&self.key, &name, usize::from(is_late));
        if is_late {
            state.checks.sleep_ends(&self.key, position, timeout_ms);
        }
    }
}
