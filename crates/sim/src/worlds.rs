//! Worlds that are made from a seed's world by changing its subject. They use separate dice, so that no other world
//! changes.

use longhaul_core::{Cleanup, limits};
use longhaul_testkit::models::Randomness;

use super::fault_profile::FaultProfile;
use super::partitions::Throughput;
use super::plan::{
    Act, After, Answers, Beside, CallPlan, Care, ClientPlan, Ending, Op, Plan, Slack, StoreAndQueue, Tool, WorkerPlan,
};
use super::schedule_plan::{Overlaps, SchedulePlan};

/// How many tools may call each other in a chain: some of them too deep.
const CHAIN_MAX: u64 = limits::CHILD_DEPTH_MAX as u64 + 2;

const MINUTE_MS: u64 = 60_000;

/// Longer than it takes until each generation of descendants has found out that it is cancelled.
const LONG_SLEEP_MS: u64 = 4 * limits::CHILD_POLL_MS_MAX;

impl Plan {
    /// The world of `seed`, in which store and queue are one database. In some of these worlds calls start later, tools
    /// call tools, or no client polls and messages are lost.
    #[must_use]
    pub fn with_one_database(seed: u64) -> Self {
        let plan = match Randomness::stream(seed, 11).below(8) {
            0 => Self::with_later_starts(seed),
            1 => Self::with_children(seed),
            2 => Self::with_sweeps(seed),
            _ => Self::of(seed),
        };
        Self { store_and_queue: StoreAndQueue::OneDatabase, ..plan }
    }

    /// The world of `seed`, in which no client polls, and processes die between a record and its message. A record
    /// stream reports each record that waits for a worker. In half of these worlds most calls are to start later.
    #[must_use]
    pub fn with_stream(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 14);
        let mut plan = Self::of(seed);
        plan.care = Care::Stream;
        plan.never_poll();
        if dice.happens(500) {
            plan.start_later(dice);
        }
        plan
    }

    /// The world of `seed`, in which tools wait for longer than they may take: they sleep, poll, or ask a question that
    /// no client answers. No client polls. Their deadlines come when all faults have ended.
    #[must_use]
    pub fn with_long_waits(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 12);
        let mut plan = if dice.happens(500) { Self::with_sweeps(seed) } else { Self::with_stream(seed) };
        let lease_ms = plan.settings.lease_ms;
        for call in &mut plan.calls {
            let far_ms = dice.one_of(&[1 << 34, lease_ms * 10_000]);
            let wait = match dice.below(4) {
                0 => Op::Sleep(far_ms),
                1 => Op::Ask,
                2 => Op::AskOrSleep(far_ms),
                _ => Op::Poll(far_ms, far_ms, far_ms),
            };
            call.tool = Tool::Script(with_a_step(dice, lease_ms, &[wait]));
            call.slack = Slack::Little;
            call.retention_ms = lease_ms * dice.between(20, 40);
            call.run_ms = 0;
        }
        plan.answers = Answers::NeverCome;
        plan.delay_ms_max = dice.one_of(&[u64::MAX / 4, lease_ms * 20]);
        plan.after = After::Stop;
        let run_ms = plan.chaos_ms + plan.settling_ms();
        plan.calls.iter_mut().for_each(|call| call.run_ms = run_ms);
        plan
    }

    /// The world of `seed`, whose store has few capacity units, so that calls are refused again and again. In half of
    /// these worlds nothing else goes wrong.
    #[must_use]
    pub fn with_partitions(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 11);
        let mut plan = if dice.happens(500) { Self::of(seed) } else { Self::with_sweeps(seed) };
        if plan.care == Care::Nobody {
            plan.care = Care::Polls;
        }
        if dice.happens(500) {
            plan.fault_profile = FaultProfile::NONE;
        }
        let [key_write, key_read] = [dice.between(1, 6) as u32, dice.between(1, 12) as u32];
        let [table_write, table_read] = [dice.between(1, 20) as u32, dice.between(2, 40) as u32];
        plan.throughput = Some(Throughput { key_write, key_read, table_write, table_read });
        plan
    }

    /// The world of `seed`, in which one or two endpoints are notified of each end and of each question. No client
    /// polls, and the server recovers unfinished tasks.
    #[must_use]
    pub fn with_notifications(seed: u64) -> Self {
        let mut plan = Self::with_sweeps(seed);
        plan.endpoints = Randomness::stream(seed, 9).between(1, 2) as usize;
        // Webhook deliveries are not held to the limits of their owners, and count among these in the model.
        plan.settings.open_tasks_max = 1_000;
        plan.after = After::Stop;
        plan
    }

    /// The world of `seed`, in which tools ask next to sleeps, polls, signals and calls, and clients answer what they
    /// have read a while ago.
    #[must_use]
    pub fn with_questions(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 12);
        let mut plan = Self::of(seed);
        let lease_ms = plan.settings.lease_ms;
        let roots = plan.calls.len();
        for call in 0..roots {
            let beside = match dice.below(4) {
                0 => Beside::Reminders(dice.between(1, lease_ms), dice.between(2, 8) as u32),
                1 => Beside::Polls(dice.below(lease_ms * 20), dice.one_of(&[lease_ms / 10, lease_ms])),
                2 => Beside::Signal(dice.below(lease_ms * 8)),
                _ => Beside::Call(plan.add_member(dice, Vec::new())),
            };
            plan.calls[call].tool = Tool::Script(with_a_step(dice, lease_ms, &[Op::AskBeside(beside)]));
            plan.calls[call].cleanup = Cleanup::None;
            plan.calls[call].slack = Slack::Plenty;
            plan.calls[call].run_ms = plan.chaos_ms * 4 + lease_ms * 1_000 + 60 * LONG_SLEEP_MS;
        }
        for client in &mut plan.clients {
            let own = |act: &Act| if let Act::Call(call) = act { Some(*call) } else { None };
            let called: Vec<usize> = client.acts.iter().filter_map(own).filter(|call| *call < roots).collect();
            for call in called {
                client.acts.push(Act::ThinkAndAnswer(call, dice.between(1, lease_ms), dice.between(2, 10) as u32));
            }
        }
        if plan.care == Care::Nobody {
            // The message of a child may be lost.
            plan.care = Care::Server;
        }
        plan.settings.open_tasks_max = 1_000;
        plan.delay_ms_max = limits::SIGNAL_POLL_MS_MAX;
        plan.after = After::Stop;
        plan
    }

    /// The world of `seed`, in which tools call tools that call tools. In half of these worlds no fault is injected. No
    /// client polls in any of them.
    #[must_use]
    pub fn with_children(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 8);
        let mut plan = Self::of(seed);
        if dice.happens(500) {
            plan.be_calm();
        } else {
            plan.care = if dice.happens(500) { Care::Server } else { Care::Stream };
        }
        plan.calls.clear();
        let roots: Vec<usize> = (0..dice.between(1, 2)).map(|_| plan.add_family(dice)).collect();
        let (chaos_ms, lease_ms, is_calm) = (plan.chaos_ms, plan.settings.lease_ms, plan.is_calm());
        let client = |root: &usize| {
            let before = Act::Think(dice.below(chaos_ms));
            // A tool that is stopped between the record of its child and the message leaves a task that a client has to
            // poll. In calm worlds no client polls, and all tools have called by then.
            let called_ms = if is_calm { 20 * lease_ms } else { 0 };
            let cancels = [Act::Think(called_ms + dice.below(chaos_ms)), Act::Cancel(*root)];
            let cancels = if dice.happens(500) { &cancels[..] } else { &[] };
            ClientPlan { owner: 0, acts: [&[before, Act::Call(*root)], cancels].concat() }
        };
        plan.clients = roots.iter().map(client).collect();
        plan.settings.open_tasks_max = 1_000;
        plan.settings.inline_sleep_ms_max = plan.settings.inline_sleep_ms_max.min(plan.settings.lease_ms / 10);
        plan.delay_ms_max = limits::SIGNAL_POLL_MS_MAX;
        plan.after = After::Stop;
        plan
    }

    /// The world of `seed`, in which a tool fails or is cancelled in its first attempt. The tools that it called run
    /// longer than the time in which each of them notices that end.
    #[must_use]
    pub fn with_running_children(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 13);
        let mut plan = Self::with_children(seed);
        let lease_ms = plan.settings.lease_ms;
        plan.settings.attempt_ms_max = None;
        plan.workers = vec![WorkerPlan { skew_ms: 0, timeout_ms: None }; 5];
        plan.calls.clear();
        let root = plan.add_member(dice, vec![Op::Progress]);
        let (first, children) = (plan.calls.len(), dice.between(1, 3) as usize);
        for _ in 0..children {
            let runs = vec![Op::Work(limits::CHILD_POLL_MS_MAX + 100 * lease_ms)];
            let ops = if dice.happens(700) { runs } else { Vec::new() };
            plan.add_member(dice, ops);
        }
        let gives_up_ms = dice.one_of(&[lease_ms * 2, lease_ms * 20]);
        plan.calls[root].tool = Tool::Script(vec![Op::CallAndGiveUp(first, children, gives_up_ms)]);
        plan.calls[root].ending = Ending::Error(10);
        let cancel = [Act::Think(dice.below(lease_ms * 20)), Act::Cancel(root)];
        let cancel = if dice.happens(500) { &cancel[..] } else { &[] };
        plan.clients = vec![ClientPlan { owner: 0, acts: [&[Act::Call(root)], cancel].concat() }];
        plan
    }

    /// The world of `seed`, in which no client calls, and several processes poll one schedule, on and off. In half of
    /// these worlds nothing goes wrong. No client polls in any of them. The polling function is an argument of
    /// [`run_scheduled`](super::run_scheduled).
    #[must_use]
    pub fn with_schedule(seed: u64) -> Self {
        let dice = &mut Randomness::stream(seed, 10);
        let mut plan = Self::of(seed);
        if dice.happens(500) {
            plan.be_calm();
        } else {
            plan.care = Care::Server;
        }
        let every_ms = dice.one_of(&[MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS]);
        let skew_ms = plan.skew_ms_max() as i64 / 2;
        plan.calls.clear();
        plan.clients.clear();
        let ops = if dice.happens(500) {
            vec![Op::Sleep(every_ms + dice.below(every_ms))]
        } else {
            vec![Op::Step(dice.below(1_000), 12)]
        };
        let is_long = matches!(ops[..], [Op::Sleep(_)]);
        let call = plan.add_member(dice, ops);
        plan.calls[call].request_bytes = 1;
        plan.calls[call].run_ms = if is_long { 4 * every_ms } else { 2 * MINUTE_MS };
        plan.chaos_ms = every_ms * dice.between(4, 8);
        plan.schedule = Some(SchedulePlan {
            every_ms,
            overlap: if dice.happens(600) { Overlaps::LeftOut } else { Overlaps::Allowed },
            made_up_within_ms: dice.one_of(&[0, 10 * MINUTE_MS, 60 * MINUTE_MS]),
            call,
            lookers: (0..dice.between(1, 3)).map(|number| if number % 2 == 0 { skew_ms } else { -skew_ms }).collect(),
            poll_ms: dice.one_of(&[30_000, MINUTE_MS]),
            away_ms: dice.one_of(&[0, MINUTE_MS, 2 * every_ms]),
        });
        plan.delay_ms_max = limits::SIGNAL_POLL_MS_MAX;
        plan.after = After::Stop;
        plan
    }

    /// Adds a tool and those that it calls. Returns its number.
    fn add_family(&mut self, dice: &mut Randomness) -> usize {
        if dice.happens(150) {
            // A chain: each calls the next.
            let length = dice.between(2, CHAIN_MAX) as usize;
            let first = self.calls.len();
            for next in first + 1..first + length {
                self.add_member(dice, vec![Op::Call(next, 1)]);
            }
            self.add_member(dice, Vec::new());
            return first;
        }
        let root = self.add_member(dice, Vec::new());
        let children = dice.between(1, 3) as usize;
        let first = self.calls.len();
        for _ in 0..children {
            self.add_member(dice, Vec::new());
        }
        for child in first..first + children {
            if dice.happens(300) {
                let grandchild = self.add_member(dice, Vec::new());
                self.calls[child].tool =
                    Tool::Script(with_a_step(dice, self.settings.lease_ms, &[Op::Call(grandchild, 1)]));
            }
        }
        self.calls[root].tool = Tool::Script(with_a_step(dice, self.settings.lease_ms, &[Op::Call(first, children)]));
        if dice.happens(150) {
            self.calls[root].run_ms = self.settings.lease_ms * 6;
        }
        root
    }

    /// Adds one tool, which does something short, or sleeps for very long, if it calls nothing.
    fn add_member(&mut self, dice: &mut Randomness, mut ops: Vec<Op>) -> usize {
        let lease_ms = self.settings.lease_ms;
        if ops.is_empty() {
            ops = match dice.below(10) {
                0..=3 => vec![Op::Sleep(LONG_SLEEP_MS)],
                4 => vec![Op::Crash(1), Op::Step(dice.below(lease_ms / 3), 12)],
                5 => vec![Op::Sleep(dice.below(lease_ms * 3))],
                _ => vec![Op::Step(dice.below(lease_ms / 3), 12)],
            };
        }
        self.calls.push(CallPlan {
            owner: 0,
            key: None,
            request_bytes: 10,
            tool: Tool::Script(ops),
            ending: if dice.happens(100) { Ending::Error(10) } else { Ending::Result(20) },
            run_ms: self.chaos_ms * 4 + lease_ms * 1_000 + 60 * LONG_SLEEP_MS,
            // A child has no more time than its parent has left.
            slack: Slack::Little,
            retention_ms: lease_ms * 20 + LONG_SLEEP_MS,
            consecutive_failures_max: dice.between(2, 4) as u32,
            cleanup: Cleanup::None,
            cleanup_fails: 0,
            not_before_ms: None,
        });
        self.calls.len() - 1
    }

    /// Has nothing go wrong, and no client poll.
    pub(super) fn be_calm(&mut self) {
        self.care = Care::Nobody;
        self.fault_profile = FaultProfile::NONE;
        self.apis.fill(0);
        self.workers.iter_mut().for_each(|worker| *worker = WorkerPlan { skew_ms: 0, timeout_ms: None });
        self.never_poll();
    }

    /// Has no client ask for a task.
    pub(super) fn never_poll(&mut self) {
        for client in &mut self.clients {
            client.acts.retain(|act| matches!(act, Act::Think(_) | Act::Call(_) | Act::Cancel(_)));
        }
    }
}

/// These operations, perhaps after or before a step.
fn with_a_step(dice: &mut Randomness, lease_ms: u64, ops: &[Op]) -> Vec<Op> {
    let step = Op::Step(dice.below(lease_ms / 3), 12);
    match dice.below(3) {
        0 => [&[step], ops].concat(),
        1 => [ops, &[step]].concat(),
        _ => ops.to_vec(),
    }
}
