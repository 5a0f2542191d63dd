//! Making a failing world smaller while it still breaks the same promise.

use longhaul_testkit::models::{PlantedFault, Promise};

use super::fault_profile::InjectedFault;
use super::plan::{Act, After, ClientPlan, Ending, Op, Plan, Tool};
use super::run::{Report, run};
use super::story::StoryMode;

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
        let mut gained = false;
        for change in changes(&search.best) {
            gained |= search.change(&*change);
        }
        gained |= search.fewer_injected_faults();
        if !gained || search.tried >= TRIES_MAX {
            break;
        }
    }
    let report = run(&search.best, planted, StoryMode::Record);
    Shrunk { plan: search.best, report, tried: search.tried }
}

struct Search {
    best: Plan,
    planted: Option<PlantedFault>,
    promise: Promise,
    tried: u32,
}

impl Search {
    /// Accepts the changed world if it is another one, and fails in the same way.
    fn change(&mut self, change: &dyn Fn(&mut Plan)) -> bool {
        let mut plan = self.best.clone();
        change(&mut plan);
        if format!("{plan:?}") == format!("{:?}", self.best) {
            return false;
        }
        for other in 0..SEEDS_PER_WORLD {
            if self.tried >= TRIES_MAX {
                return false;
            }
            self.tried += 1;
            plan.seed = plan.seed.wrapping_add(other << 40);
            let report = run(&plan, self.planted, StoryMode::Skip);
            if report.violation.is_some_and(|violation| violation.promise == self.promise) {
                self.best = plan;
                return true;
            }
        }
        false
    }

    /// Leaves out halves of the faults that were injected, quarters, and so on.
    fn fewer_injected_faults(&mut self) -> bool {
        let mut gained = false;
        let injected = run(&self.best, self.planted, StoryMode::Skip).injected;
        let mut size = injected.len().div_ceil(2);
        while size > 0 {
            for some in injected.chunks(size) {
                gained |= self.change(&|plan| plan.spared.extend(some.iter().map(|one| one.id)));
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        gained
    }
}

type Change = Box<dyn Fn(&mut Plan)>;

/// The changes that can make a world smaller. Changes that remove much come first. Each also fits a world that other
/// changes have made smaller.
fn changes(plan: &Plan) -> Vec<Change> {
    let mut all: Vec<Change> = Vec::new();
    for call in 0..plan.calls.len() {
        let stop_making = move |client: &mut ClientPlan| client.acts.retain(|act| about(*act) != Some(call));
        all.push(Box::new(move |plan| plan.clients.iter_mut().for_each(stop_making)));
    }
    for client in 0..plan.clients.len() {
        all.push(Box::new(move |plan| plan.clients[client].acts.clear()));
    }
    for workers in (1..plan.workers.len()).rev() {
        all.push(Box::new(move |plan| plan.workers.truncate(workers)));
    }
    all.push(Box::new(|plan| plan.apis.truncate(1)));
    for fault in InjectedFault::ALL {
        all.push(Box::new(|plan| plan.fault_profile.spare(*fault)));
    }
    for call in 0..plan.calls.len() {
        let Tool::Script(ops) = &plan.calls[call].tool else { continue };
        // An operation's position is its name: the operation is replaced by one that does nothing, not removed.
        for position in (0..ops.len()).rev() {
            all.push(Box::new(move |plan| empty(plan, call, position)));
        }
        all.push(Box::new(move |plan| plan.calls[call].not_before_ms = None));
        all.push(Box::new(move |plan| plan.calls[call].request_bytes = plan.calls[call].request_bytes.min(10)));
        all.push(Box::new(move |plan| plan.calls[call].ending = Ending::Result(20)));
    }
    for client in 0..plan.clients.len() {
        for act in (0..plan.clients[client].acts.len()).rev() {
            all.push(Box::new(move |plan| leave_out(plan, client, act)));
        }
    }
    all.push(Box::new(|plan| {
        plan.apis.fill(0);
        plan.workers.iter_mut().for_each(|worker| worker.skew_ms = 0);
    }));
    all.push(Box::new(|plan| plan.workers.iter_mut().for_each(|worker| worker.timeout_ms = None)));
    all.push(Box::new(|plan| plan.after = After::Stop));
    all.push(Box::new(|plan| plan.settings.attempt_ms_max = None));
    all
}

const fn about(act: Act) -> Option<usize> {
    match act {
        Act::Call(call)
        | Act::Poll(call)
        | Act::Watch(call, ..)
        | Act::Answer(call)
        | Act::ThinkAndAnswer(call, ..)
        | Act::Cancel(call)
        | Act::Resume(call, _)
        | Act::ExtendRetention(call, _)
        | Act::Forget(call) => Some(call),
        Act::Think(_) | Act::List => None,
    }
}

fn empty(plan: &mut Plan, call: usize, position: usize) {
    if let Tool::Script(ops) = &mut plan.calls[call].tool {
        ops[position] = Op::Progress;
    }
}

fn leave_out(plan: &mut Plan, client: usize, act: usize) {
    let acts = &mut plan.clients[client].acts;
    if act < acts.len() {
        acts.remove(act);
    }
}
