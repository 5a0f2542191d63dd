//! Schedules in the simulation: the code that looks at them is the product's, and everything around it is simulated.
//!
//! `LONGHAUL_SIM_SEEDS` says how many seeds are run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use longhaul_engine::Engine;
use longhaul_mcp::{McpServer, McpSettings, Overlap, Schedule, TaskPolicy};
use longhaul_sim::{
    MakePolls, Overlaps, Plan, PlantedFault, Polls, Report, SCHEDULED_TOOL, ShowsIn, StoryMode, run_scheduled, search,
};
use rmcp::ServerHandler;
use serde_json::json;

/// Seeds of an ordinary run.
const SEEDS_DEFAULT: u64 = 200;

/// Seeds within which every planted fault is found.
const SEEDS_MAX: u64 = 1_000;

/// A handler: its tools are run by the simulation.
#[derive(Clone)]
struct Nothing;

impl ServerHandler for Nothing {}

/// One process of a server.
struct Process(McpServer);

#[async_trait]
impl Polls for Process {
    async fn poll(&self) -> bool {
        self.0.look_at_schedules().await.failed == 0
    }
}

fn process(plan: &Plan, engine: Engine) -> Box<dyn Polls> {
    let (Some(schedule), Some(call)) = (&plan.schedule, plan.scheduled_call()) else {
        panic!("the world has no schedule");
    };
    let policy = TaskPolicy::required()
        .run_at_most(Duration::from_millis(call.run_ms))
        .retention(Duration::from_secs(60))
        .ttl(Duration::from_secs(1));
    let overlap = match schedule.overlap {
        Overlaps::LeftOut => Overlap::Skip,
        Overlaps::Allowed => Overlap::Allow,
    };
    let cron = format!("*/{} * * * *", schedule.every_ms / 60_000);
    let of = Schedule::new("simulated", cron, SCHEDULED_TOOL, json!({}))
        .overlap(overlap)
        .catch_up_within(Duration::from_millis(schedule.made_up_within_ms))
        .owner(Plan::schedule_owner());
    let policies = BTreeMap::from([(SCHEDULED_TOOL.to_owned(), policy)]);
    let server = McpServer::new(|| Nothing, policies, engine, McpSettings::new([7; 32])).with_schedules(&[of]);
    Box::new(Process(server))
}

fn seeds() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "a test harness is an outermost crate")]
    let seeds = std::env::var("LONGHAUL_SIM_SEEDS").ok().and_then(|seeds| seeds.parse::<u64>().ok());
    seeds.map_or(SEEDS_DEFAULT, |seeds| seeds / 8)
}

fn run_seed(seed: u64, planted: Option<PlantedFault>, story_mode: StoryMode) -> Report {
    let make: Arc<MakePolls> = Arc::new(process);
    run_scheduled(&Plan::with_schedule(seed), planted, story_mode, &make)
}

#[test]
fn no_seed_breaks_a_promise_where_there_is_a_schedule() {
    let found = search(0..seeds(), |plan| run_seed(plan.seed, None, StoryMode::Skip));
    let Some((seed, violation)) = found.found else {
        println!("{} seeds keep every promise ({} events)", found.seeds, found.events);
        return;
    };
    for line in run_seed(seed, None, StoryMode::Record).story {
        println!("{line}");
    }
    panic!("seed {seed} with a schedule: {:?} was not kept: {}", violation.promise, violation.what);
}

#[test]
fn every_planted_fault_of_schedules_is_found_by_the_checker_of_its_promise() {
    let missed: Vec<PlantedFault> = PlantedFault::ALL
        .iter()
        .copied()
        .filter(|fault| fault.shows_in() == ShowsIn::Schedule)
        .filter(|fault| first_seed(*fault).is_none())
        .collect();
    assert!(missed.is_empty(), "no checker found {missed:?}");
}

/// The first seed in which the promise of `fault` is seen to be broken.
fn first_seed(fault: PlantedFault) -> Option<u64> {
    let found = search(0..SEEDS_MAX, |plan| {
        let mut report = run_seed(plan.seed, Some(fault), StoryMode::Skip);
        report.violation = report.violation.filter(|violation| violation.promise == fault.breaks());
        report
    });
    found.found.map(|(seed, _)| seed)
}

#[test]
fn the_same_seed_is_the_same_run_event_for_event() {
    for seed in 0..8 {
        let once = run_seed(seed, None, StoryMode::Skip);
        let again = run_seed(seed, None, StoryMode::Record);
        assert_eq!((once.hash, once.events), (again.hash, again.events), "seed {seed}");
    }
}
