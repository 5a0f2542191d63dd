//! Making a failing world smaller while it still breaks the same promise.

use super::checks::Promise;
use super::defect::Defect;
use super::plan::{Act, After, Ending, Op, Plan, Tool};
use super::run::{Report, Telling, run};
use super::weather::Mishap;

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

/// Runs a shrinker may take.
const TRIES_MAX: u32 = 20_000;

/// A smaller world draws other chances; so each is tried with some.
const CHANCES: u64 = 6;

/// Makes `plan`, which fails, smaller: fewer calls, clients, workers and mishaps, shorter scripts.
///
/// # Panics
/// Where `plan` does not fail.
#[must_use]
pub fn shrink(plan: &Plan, planted: Option<Defect>) -> Shrunk {
    let promise = run(plan, planted, Telling::Nothing).violation.map(|violation| violation.promise);
    let promise = promise.expect("only a world that fails can be made smaller");
    let mut search = Search { best: plan.clone(), planted, promise, tried: 0 };
    loop {
        let before = search.tried;
        let gained = [
            search.fewer_calls(),
            search.fewer_clients(),
            search.fewer_mishaps(),
            search.shorter_scripts(),
            search.fewer_acts(),
            search.plainer_world(),
        ];
        if !gained.contains(&Gain::Some) || search.tried >= TRIES_MAX || search.tried == before {
            break;
        }
    }
    let report = run(&search.best, planted, Telling::Story);
    Shrunk { plan: search.best, report, tried: search.tried }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gain {
    Some,
    None,
}

struct Search {
    best: Plan,
    planted: Option<Defect>,
    promise: Promise,
    tried: u32,
}

impl Search {
    /// Takes `plan` where it fails in the same way.
    fn attempt(&mut self, mut plan: Plan) -> Gain {
        for chance in 0..CHANCES {
            if self.tried >= TRIES_MAX {
                return Gain::None;
            }
            self.tried += 1;
            plan.seed = plan.seed.wrapping_add(chance << 40);
            let report = run(&plan, self.planted, Telling::Nothing);
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

    /// Nobody makes the call any more.
    fn fewer_calls(&mut self) -> Gain {
        let mut gain = Gain::None;
        for call in 0..self.best.calls.len() {
            let made = |act: &Act| about(*act) == Some(call);
            if self.best.clients.iter().any(|client| client.acts.iter().any(made)) {
                gain = or(
                    gain,
                    self.change(|plan| {
                        plan.clients.iter_mut().for_each(|client| client.acts.retain(|act| !made(act)));
                    }),
                );
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

    fn fewer_mishaps(&mut self) -> Gain {
        let mut gain = Gain::None;
        for mishap in Mishap::ALL {
            if self.best.weather.rate(mishap) > 0 {
                gain = or(gain, self.change(|plan| plan.weather.spare(mishap)));
            }
        }
        let fired = run(&self.best, self.planted, Telling::Nothing).fired;
        let mut size = fired.len().div_ceil(2);
        while size > 0 {
            for some in fired.chunks(size) {
                if some.iter().all(|one| self.best.spared.contains(&one.id)) {
                    continue;
                }
                gain = or(gain, self.change(|plan| plan.spared.extend(some.iter().map(|one| one.id))));
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        gain
    }

    fn shorter_scripts(&mut self) -> Gain {
        let mut gain = Gain::None;
        for call in 0..self.best.calls.len() {
            let Tool::Script(ops) = &self.best.calls[call].tool else { continue };
            for place in (0..ops.len()).rev() {
                let Tool::Script(ops) = &self.best.calls[call].tool else { continue };
                // The place of an operation is its name: it becomes nothing instead of going away.
                let mut shorter = ops.clone();
                if std::mem::replace(&mut shorter[place], Op::Progress) != Op::Progress {
                    gain = or(gain, self.change(|plan| plan.calls[call].tool = Tool::Script(shorter)));
                }
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

    fn fewer_acts(&mut self) -> Gain {
        let mut gain = Gain::None;
        for client in 0..self.best.clients.len() {
            for act in (0..self.best.clients[client].acts.len()).rev() {
                gain = or(
                    gain,
                    self.change(|plan| {
                        plan.clients[client].acts.remove(act);
                    }),
                );
            }
        }
        gain
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
        if self.best.settings.leg_ms_max.is_some() {
            gain = or(gain, self.change(|plan| plan.settings.leg_ms_max = None));
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
        | Act::Prolong(call, _)
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
