//! Making a failing world smaller while it still breaks the same promise.

use longhaul_testkit::models::{PlantedFault, Promise};

use super::fault_profile::InjectedFault;
use super::plan::{Act, After, ClientPlan, Ending, Op, Plan, Tool};
use super::run::{Report, run};
use super::story::StoryMode;
use super::world::Injected;

/// The smallest failing world that was found.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The world.
    pub plan: Plan,
    /// Its run, with its story.
    pub report: Report,
    /// How many worlds were tried.
    pub tried: u32,
}

/// How many runs the shrinker may use.
const TRIES_MAX: u32 = 20_000;

/// A smaller world draws other numbers, so each is tried with several seeds.
const SEEDS_PER_WORLD: u64 = 6;

/// Makes `plan`, which fails, smaller: fewer calls, clients, workers and injected faults, and shorter scripts.
///
/// # Panics
/// If `plan` does not fail.
#[must_use]
pub fn shrink(plan: &Plan, planted: Option<PlantedFault>) -> Shrunk {
    let promise = run(plan, planted, StoryMode::Skip).violation.map(|violation| violation.promise);
    let promise = promise.expect("only a world that fails can be made smaller");
    let mut search = Search { best: plan.clone(), planted, promise, tried: 0 };
    loop {
        let before = search.tried;
        let gained = [
            search.fewer_calls(),
            search.fewer_clients(),
            search.fewer_injected_faults(),
            search.shorter_scripts(),
            search.fewer_acts(),
            search.plainer_world(),
        ];
        if !gained.contains(&Gain::Some) || search.tried >= TRIES_MAX || search.tried == before {
            break;
        }
    }
    let report = run(&search.best, planted, StoryMode::Record);
    Shrunk { plan: search.best, report, tried: search.tried }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gain {
    Some,
    None,
}

struct Search {
    best: Plan,
    planted: Option<PlantedFault>,
    promise: Promise,
    tried: u32,
}

impl Search {
    /// Accepts `plan` if it fails in the same way.
    fn attempt(&mut self, mut plan: Plan) -> Gain {
        for other in 0..SEEDS_PER_WORLD {
            if self.tried >= TRIES_MAX {
                return Gain::None;
            }
            self.tried += 1;
            plan.seed = plan.seed.wrapping_add(other << 40);
            let report = run(&plan, self.planted, StoryMode::Skip);
            if report.violation.is_some_and(|violation| violation.promise == self.promise) {
                self.best = plan;
                return Gain::Some;
            }
        }
        Gain::None
    }

    fn change(&mut self, change: impl FnOnce(&mut Plan)) -> Gain {
        let mut plan = self.best.clone();
        change(&mut plan);
        self.attempt(plan)
    }

    /// Removes calls: no client makes them any more.
    fn fewer_calls(&mut self) -> Gain {
        let mut gain = Gain::None;
        for call in 0..self.best.calls.len() {
            let made = |act: &Act| about(*act) == Some(call);
            if self.best.clients.iter().any(|client| client.acts.iter().any(made)) {
                let stop_making = |client: &mut ClientPlan| client.acts.retain(|act| !made(act));
                gain = or(gain, self.change(|plan| plan.clients.iter_mut().for_each(stop_making)));
            }
        }
        gain
    }

    fn fewer_clients(&mut self) -> Gain {
        let mut gain = Gain::None;
        for client in 0..self.best.clients.len() {
            if !self.best.clients[client].acts.is_empty() {
                gain = or(gain, self.change(|plan| plan.clients[client].acts.clear()));
            }
        }
        for workers in (1..self.best.workers.len()).rev() {
            gain = or(gain, self.change(|plan| plan.workers.truncate(workers)));
        }
        if self.best.apis.len() > 1 {
            gain = or(gain, self.change(|plan| plan.apis.truncate(1)));
        }
        gain
    }

    fn fewer_injected_faults(&mut self) -> Gain {
        let mut gain = Gain::None;
        for fault in InjectedFault::ALL {
            if self.best.fault_profile.rate(fault) > 0 {
                gain = or(gain, self.change(|plan| plan.fault_profile.spare(fault)));
            }
        }
        let injected = run(&self.best, self.planted, StoryMode::Skip).injected;
        let mut size = injected.len().div_ceil(2);
        while size > 0 {
            for some in injected.chunks(size) {
                gain = or(gain, self.spare(some));
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        gain
    }

    fn spare(&mut self, some: &[Injected]) -> Gain {
        if some.iter().all(|one| self.best.spared.contains(&one.id)) {
            return Gain::None;
        }
        self.change(|plan| plan.spared.extend(some.iter().map(|one| one.id)))
    }

    fn shorter_scripts(&mut self) -> Gain {
        let mut gain = Gain::None;
        for call in 0..self.best.calls.len() {
            let Tool::Script(ops) = &self.best.calls[call].tool else { continue };
            for position in (0..ops.len()).rev() {
                gain = or(gain, self.without_op(call, position));
            }
            if self.best.calls[call].not_before_ms.is_some() {
                gain = or(gain, self.change(|plan| plan.calls[call].not_before_ms = None));
            }
            if self.best.calls[call].request_bytes > 10 {
                gain = or(gain, self.change(|plan| plan.calls[call].request_bytes = 10));
            }
            if self.best.calls[call].ending != Ending::Result(20) {
                gain = or(gain, self.change(|plan| plan.calls[call].ending = Ending::Result(20)));
            }
        }
        gain
    }

    /// An operation's position is its name: the operation is replaced by one that does nothing, not removed.
    fn without_op(&mut self, call: usize, position: usize) -> Gain {
        let Tool::Script(ops) = &self.best.calls[call].tool else { return Gain::None };
        let mut shorter = ops.clone();
        if std::mem::replace(&mut shorter[position], Op::Progress) == Op::Progress {
            return Gain::None;
        }
        self.change(|plan| plan.calls[call].tool = Tool::Script(shorter))
    }

    fn fewer_acts(&mut self) -> Gain {
        let mut gain = Gain::None;
        for client in 0..self.best.clients.len() {
            for act in (0..self.best.clients[client].acts.len()).rev() {
                gain = or(gain, self.without_act(client, act));
            }
        }
        gain
    }

    fn without_act(&mut self, client: usize, act: usize) -> Gain {
        self.change(|plan| {
            plan.clients[client].acts.remove(act);
        })
    }

    fn plainer_world(&mut self) -> Gain {
        let mut gain = Gain::None;
        if self.best.skew_ms_max() > 0 {
            gain = or(
                gain,
                self.change(|plan| {
                    plan.apis.iter_mut().for_each(|skew_ms| *skew_ms = 0);
                    plan.workers.iter_mut().for_each(|worker| worker.skew_ms = 0);
                }),
            );
        }
        if self.best.workers.iter().any(|worker| worker.timeout_ms.is_some()) {
            gain = or(gain, self.change(|plan| plan.workers.iter_mut().for_each(|worker| worker.timeout_ms = None)));
        }
        if self.best.after != After::Stop {
            gain = or(gain, self.change(|plan| plan.after = After::Stop));
        }
        if self.best.settings.attempt_ms_max.is_some() {
            gain = or(gain, self.change(|plan| plan.settings.attempt_ms_max = None));
        }
        gain
    }
}

const fn about(act: Act) -> Option<usize> {
    match act {
        Act::Call(call)
        | Act::Poll(call)
        | Act::Watch(call, ..)
        | Act::Answer(call)
        | Act::Cancel(call)
        | Act::ExtendRetention(call, _)
        | Act::Forget(call) => Some(call),
        Act::Think(_) | Act::List => None,
    }
}

const fn or(one: Gain, other: Gain) -> Gain {
    match one {
        Gain::Some => Gain::Some,
        Gain::None => other,
    }
}
