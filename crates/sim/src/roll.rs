//! Rolling a world from a seed.

use std::collections::BTreeSet;

use longhaul_core::{Cleanup, limits};
use longhaul_engine::Settings;
use longhaul_testkit::models::Randomness;

use super::fault_profile::FaultProfile;
use super::plan::{
    Act, After, Answers, CallPlan, Care, ClientPlan, Ending, Op, Plan, Slack, StoreAndQueue, Tool, WorkerPlan,
};

const LARGE: usize = 3_600;

impl Plan {
    /// The world of `seed`.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut randomness = Randomness::stream(seed, 1);
        let dice = &mut randomness;
        let settings = settings(dice);
        let lease_ms = settings.lease_ms;
        let care = if dice.happens(300) { Care::Nobody } else { Care::Polls };
        let mut fault_profile = FaultProfile::roll(dice);
        if care == Care::Nobody {
            fault_profile = fault_profile.without_losses();
        }
        let skew_ms = if fault_profile.clocks_differ { lease_ms / 5 } else { 0 };
        let apis = (0..dice.between(1, 2)).map(|_| skew(dice, skew_ms)).collect();
        let workers = (0..dice.between(1, 3)).map(|_| worker(dice, skew_ms, lease_ms)).collect();
        let owners = dice.between(1, 2) as usize;
        let chaos_ms = lease_ms * dice.between(2, 12);
        let calls: Vec<_> = (0..dice.between(1, 4)).map(|_| call(dice, &settings, owners, chaos_ms)).collect();
        let clients = (0..dice.between(1, 3)).map(|_| client(dice, &calls, owners, lease_ms, care)).collect();
        let mut plan = Self {
            seed,
            settings,
            apis,
            workers,
            fault_profile,
            chaos_ms,
            owner_attempts: None,
            tool_attempts: None,
            store_and_queue: StoreAndQueue::Apart,
            filtered_lists_ms: None,
            latency_ms: dice.one_of(&[1, 5, lease_ms / 50]),
            calls,
            clients,
            care,
            answers: Answers::Come,
            receives_max: dice.one_of(&[2, 3, 10]),
            delay_ms_max: dice.one_of(&[u64::MAX / 4, lease_ms / 2, lease_ms * 2]),
            visibility_ms: dice.one_of(&[lease_ms, lease_ms, lease_ms * 6]),
            after: if dice.happens(250) { After::Expiry } else { After::Stop },
            endpoints: 0,
            schedule: None,
            throughput: None,
            spared: BTreeSet::new(),
        };
        plan.ensure_every_call_is_made();
        plan.add_retention_and_forget_requests();
        plan.add_polls();
        plan.add_tries();
        plan.add_cleanup();
        plan
    }

    /// The world of `seed`, in which one attempt may run at a time, or two: of an owner, or of all of them.
    #[must_use]
    pub fn with_limited_attempts(seed: u64) -> Self {
        let attempts_max = Some(Randomness::stream(seed, 4).between(1, 2) as u32);
        let plan = Self::of(seed);
        if seed.is_multiple_of(2) {
            Self { owner_attempts: attempts_max, ..plan }
        } else {
            Self { tool_attempts: attempts_max, ..plan }
        }
    }

    /// The world of `seed`, in which two more clients read filtered lists again and again.
    #[must_use]
    pub fn with_filtered_lists(seed: u64) -> Self {
        let plan = Self::of(seed);
        let every_ms = plan.settings.lease_ms / 4;
        Self { filtered_lists_ms: Some(every_ms), ..plan }
    }

    /// The world of `seed`, in which tools wait for signals that an outside system records. In half of these worlds no
    /// fault is injected and no client polls.
    #[must_use]
    pub fn with_signals(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 7);
        let mut plan = Self::of(seed);
        let lease_ms = plan.settings.lease_ms;
        if dice.happens(500) {
            plan.be_calm();
        }
        for call in &mut plan.calls {
            let ops = (0..dice.between(1, 3)).flat_map(|_| told_and_awaited(dice, lease_ms, plan.latency_ms)).collect();
            call.tool = Tool::Script(ops);
            call.cleanup = Cleanup::None;
            call.slack = Slack::Plenty;
            call.run_ms = plan.chaos_ms * 4 + lease_ms * 1_000 + 40 * limits::SIGNAL_POLL_MS_MAX;
        }
        plan.delay_ms_max = limits::SIGNAL_POLL_MS_MAX;
        // Long waits have long runs, and nothing would happen until they have ended.
        plan.after = After::Stop;
        plan
    }

    /// The world of `seed`, in which most calls are to start later. Their start times are before the faults stop, after
    /// that, or have passed when the call is made.
    #[must_use]
    pub fn with_later_starts(seed: u64) -> Self {
        let mut plan = Self::of(seed);
        plan.start_later(&mut Randomness::stream(seed, 8));
        plan
    }

    /// Has most calls ask to start later.
    pub(super) fn start_later(&mut self, dice: &mut Randomness) {
        let (lease_ms, chaos_ms) = (self.settings.lease_ms, self.chaos_ms);
        for call in &mut self.calls {
            if dice.happens(750) {
                let longest_ms = dice.one_of(&[lease_ms, chaos_ms, chaos_ms + lease_ms * 20]);
                call.not_before_ms = Some(dice.below(longest_ms));
            }
        }
    }

    /// The world of `seed`, in which no client polls, and the server recovers unfinished tasks.
    #[must_use]
    pub fn with_sweeps(seed: u64) -> Self {
        let mut plan = Self::of(seed);
        plan.care = Care::Server;
        // The server does not recover a cleanup whose message is lost: it needs polls.
        plan.calls.iter_mut().for_each(|call| call.cleanup = Cleanup::None);
        plan.never_poll();
        plan
    }

    /// From separate dice, so that the seeds of the corpus still give the same worlds.
    fn add_retention_and_forget_requests(&mut self) {
        let dice = &mut Randomness::stream(self.seed, 3);
        if self.care == Care::Nobody || !dice.happens(200) {
            return;
        }
        let calls = self.calls.len() as u64;
        let act_of = |keeps, call, retention_ms| {
            if keeps { Act::ExtendRetention(call, retention_ms) } else { Act::Forget(call) }
        };
        for client in &mut self.clients {
            for _ in 0..dice.between(1, 3) {
                let call = dice.below(calls) as usize;
                let retention_ms = dice.below(self.settings.lease_ms * 40);
                let act = act_of(dice.happens(600), call, retention_ms);
                let position = dice.below(client.acts.len() as u64 + 1) as usize;
                client.acts.insert(position, act);
            }
        }
    }

    /// From separate dice too, at the ends of scripts.
    fn add_polls(&mut self) {
        let dice = &mut Randomness::stream(self.seed, 5);
        let lease_ms = self.settings.lease_ms;
        for call in &mut self.calls {
            let Tool::Script(ops) = &mut call.tool else { continue };
            if !ops.contains(&Op::Hang) && dice.happens(250) {
                let first_ms = dice.one_of(&[lease_ms / 10, lease_ms / 3]);
                let longest_ms = dice.one_of(&[first_ms, lease_ms, lease_ms * 2]);
                ops.push(Op::Poll(dice.below(lease_ms * 4), first_ms, longest_ms));
            }
        }
    }

    /// From separate dice too, at the ends of scripts.
    fn add_tries(&mut self) {
        let dice = &mut Randomness::stream(self.seed, 15);
        let lease_ms = self.settings.lease_ms;
        for call in &mut self.calls {
            let Tool::Script(ops) = &mut call.tool else { continue };
            if !ops.contains(&Op::Hang) && dice.happens(200) {
                ops.push(Op::Tries(dice.between(1, 3) as u32, dice.one_of(&[lease_ms / 10, lease_ms * 2])));
            }
        }
    }

    /// From separate dice too.
    fn add_cleanup(&mut self) {
        let dice = &mut Randomness::stream(self.seed, 6);
        let lease_ms = self.settings.lease_ms;
        for call in &mut self.calls {
            if dice.happens(300) {
                call.cleanup = Cleanup::ARMED;
                // While it waits, its message comes again and again until its deadline: at most 125 times.
                call.run_ms = call.run_ms.min(lease_ms * 250);
                self.delay_ms_max = self.delay_ms_max.max(lease_ms * 2);
                call.cleanup_fails = dice.one_of(&[0, 0, 1, 2]) as u32;
            }
        }
    }

    fn ensure_every_call_is_made(&mut self) {
        for (number, call) in self.calls.iter().enumerate() {
            let made = |client: &ClientPlan| client.acts.contains(&Act::Call(number));
            if !self.clients.iter().any(made) {
                self.clients.push(ClientPlan { owner: call.owner, acts: vec![Act::Call(number)] });
            }
        }
    }
}

/// A signal that a tool waits for, perhaps after a step.
fn told_and_awaited(dice: &mut Randomness, lease_ms: u64, latency_ms: u64) -> Vec<Op> {
    let step = dice.happens(600).then(|| Op::Step(dice.below(lease_ms / 3), 12));
    let signal = Op::Signal(dice.one_of(&[0, 1, latency_ms * 4, lease_ms / 3, lease_ms * 2]));
    step.into_iter().chain([signal]).collect()
}

fn settings(dice: &mut Randomness) -> Settings {
    let lease_ms = dice.one_of(&[1_000, 3_000, 30_000]);
    Settings {
        lease_ms,
        heartbeat_ms: lease_ms / 3,
        progress_ms: lease_ms / 15,
        resend_ms: lease_ms,
        resend_ms_max: lease_ms * 4,
        attempt_ms_max: if dice.happens(350) { Some(lease_ms * dice.between(1, 4)) } else { None },
        attempt_margin_ms: lease_ms / 5,
        stop_grace_ms: lease_ms / 10,
        inline_sleep_ms_max: dice.one_of(&[0, lease_ms / 10, lease_ms]),
        retry_ms: lease_ms / 30,
        retry_ms_max: lease_ms,
        cleanup_ms: lease_ms * 2,
        write_tries_max: 4,
        end_tries_max: 4,
        write_retry_ms: lease_ms / 200,
        open_tasks_max: dice.one_of(&[1, 2, 100, 100]) as u32,
        // Large payloads are few here; what this limit promises is in the contract of the stores.
        stored_bytes_max: u64::MAX,
        new_tasks_max: None,
    }
}

const fn skew(dice: &mut Randomness, skew_ms: u64) -> i64 {
    dice.between(0, 2 * skew_ms) as i64 - skew_ms as i64
}

fn worker(dice: &mut Randomness, skew_ms: u64, lease_ms: u64) -> WorkerPlan {
    let timeout_ms = if dice.happens(300) { Some(lease_ms * dice.between(3, 6)) } else { None };
    WorkerPlan { skew_ms: skew(dice, skew_ms), timeout_ms }
}

fn call(dice: &mut Randomness, settings: &Settings, owners: usize, chaos_ms: u64) -> CallPlan {
    let lease_ms = settings.lease_ms;
    let tool = match dice.below(10) {
        0 => Tool::Plain(dice.below(lease_ms * 2)),
        1 => Tool::Rounds(dice.between(1, 2) as u32),
        _ => Tool::Script((0..dice.between(1, 6)).map(|_| op(dice, lease_ms)).collect()),
    };
    let hangs = matches!(&tool, Tool::Script(ops) if ops.contains(&Op::Hang));
    let (run_ms, slack) = if hangs || dice.happens(150) {
        (lease_ms * dice.between(1, 6) + dice.below(lease_ms), Slack::Little)
    } else {
        (chaos_ms * 4 + lease_ms * 1_000, Slack::Plenty)
    };
    let ending = match dice.below(10) {
        0 => Ending::ToolError,
        1 => Ending::Error(dice.one_of(&[10, LARGE])),
        2 | 3 => Ending::Result(LARGE),
        _ => Ending::Result(20),
    };
    CallPlan {
        owner: dice.below(owners as u64) as usize,
        key: if dice.happens(500) { Some(dice.below(3) as u8) } else { None },
        request_bytes: if dice.happens(200) { LARGE } else { 10 },
        tool,
        ending,
        run_ms,
        slack,
        retention_ms: lease_ms * dice.between(1, 20),
        consecutive_failures_max: dice.between(1, 4) as u32,
        cleanup: Cleanup::None,
        cleanup_fails: 0,
        not_before_ms: None,
    }
}

fn op(dice: &mut Randomness, lease_ms: u64) -> Op {
    match dice.below(40) {
        0..=4 => Op::Work(dice.below(lease_ms)),
        5..=15 => Op::Step(short(dice, lease_ms), if dice.happens(80) { 33_000 } else { 12 }),
        16..=17 => Op::TwoSteps(dice.below(lease_ms / 2), dice.below(lease_ms / 2)),
        18..=22 => Op::Sleep(dice.below(lease_ms * 3)),
        23..=26 => Op::Ask,
        27 => Op::TwoAsks,
        28..=29 => Op::AskOrSleep(dice.below(lease_ms * 2)),
        30..=32 => Op::Progress,
        33..=35 => Op::Variable(if dice.happens(300) { LARGE } else { 8 }),
        36..=38 => Op::Crash(dice.between(1, 4) as u32),
        _ => Op::Hang,
    }
}

const fn short(dice: &mut Randomness, lease_ms: u64) -> u64 {
    let end = if dice.happens(200) { lease_ms * 2 } else { lease_ms / 3 };
    dice.below(end)
}

fn client(dice: &mut Randomness, calls: &[CallPlan], owners: usize, lease_ms: u64, care: Care) -> ClientPlan {
    let owner = dice.below(owners as u64) as usize;
    let own: Vec<usize> = (0..calls.len()).filter(|number| calls[*number].owner == owner).collect();
    let any = |dice: &mut Randomness| dice.below(calls.len() as u64) as usize;
    let mut acts = vec![Act::Think(dice.below(lease_ms))];
    for number in &own {
        acts.push(Act::Call(*number));
        for _ in 0..dice.below(4) {
            // Mostly its own tasks, sometimes another client's.
            let target = if dice.happens(850) { *number } else { any(dice) };
            acts.push(act(dice, target, lease_ms));
            if dice.happens(500) {
                acts.push(Act::Think(dice.below(lease_ms * 3)));
            }
        }
    }
    if care == Care::Nobody {
        acts.retain(|act| matches!(act, Act::Think(_) | Act::Call(_) | Act::Cancel(_)));
    }
    ClientPlan { owner, acts }
}

fn act(dice: &mut Randomness, target: usize, lease_ms: u64) -> Act {
    match dice.below(20) {
        0..=4 => Act::Poll(target),
        5..=9 => Act::Watch(target, dice.between(2, 6) as u32, dice.between(1, lease_ms)),
        10..=13 => Act::Answer(target),
        14..=15 => Act::Cancel(target),
        16..=17 => Act::Call(target),
        18 => Act::List,
        _ => Act::Think(dice.below(lease_ms * 8)),
    }
}
