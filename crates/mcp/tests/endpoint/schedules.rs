//! Calls that the server makes by itself, at the times of a cron line.

use std::sync::Arc;
use std::time::Duration;

use longhaul_core::{Identity, OwnerId, Status, Task, Timestamp};
use longhaul_engine::{Engine, Ports, Settings};
use longhaul_mcp::{AnonymousCallers, McpServer, McpSettings, Overlap, Schedule};
use longhaul_testkit::ManualClock;
use serde_json::json;

use crate::tools::Tools;
use crate::world::{World, alice, bob};

/// Half a minute after noon.
const START: Timestamp = Timestamp::from_ms(2_000_030_430_000);

const MINUTE_MS: u64 = 60_000;

const HOUR_MS: u64 = 3_600_000;

/// A server with these schedules, which has seen them at 12:00:30 for the first time.
struct Scheduled {
    world: World,
    schedules: Vec<Schedule>,
    mcp: McpServer,
}

impl Scheduled {
    async fn with(schedules: Vec<Schedule>) -> Self {
        let world = World::with_policies(|policy| policy.run_at_most(Duration::from_millis(12 * HOUR_MS)));
        world.clock.advance_to(START);
        let mcp = server(&world, &schedules);
        let looked = mcp.look_at_schedules().await;
        assert_eq!((looked.accepted, looked.failed), (0, 0), "nothing begins in the past");
        Self { world, schedules, mcp }
    }

    /// One of `sleeps`, which sleeps for an hour.
    async fn hourly(change: impl FnOnce(Schedule) -> Schedule) -> Self {
        let schedule = Schedule::new("hourly", "0 * * * *", "sleeps", json!({"ms": HOUR_MS + 5 * MINUTE_MS}));
        Self::with(vec![change(schedule.owner(alice()))]).await
    }

    /// Another process of the same server.
    fn another(&self) -> McpServer {
        server(&self.world, &self.schedules)
    }

    async fn look_after(&self, ms: u64) -> (usize, usize) {
        self.world.clock.advance_ms(ms);
        let looked = self.mcp.look_at_schedules().await;
        assert_eq!(looked.failed, 0);
        (looked.accepted, looked.skipped)
    }

    async fn tasks(&self) -> Vec<Task> {
        let mut tasks = self.world.engine.list(&alice(), None, 100).await.unwrap().tasks;
        tasks.reverse();
        tasks
    }

    async fn times(&self) -> Vec<u64> {
        let since = START.minus_ms(30_000);
        self.tasks().await.iter().map(|task| task.id.begins_at().since_ms(since) / MINUTE_MS).collect()
    }
}

fn server(world: &World, schedules: &[Schedule]) -> McpServer {
    server_on(world.engine.clone(), world, schedules)
}

fn server_on(engine: Engine, world: &World, schedules: &[Schedule]) -> McpServer {
    let handler = Tools::new(Arc::clone(&world.observed));
    let make = move || handler.clone();
    McpServer::new(make, world.policies.clone(), engine, McpSettings::new([7; 32])).with_schedules(schedules)
}

#[tokio::test]
async fn each_time_is_one_task_that_runs() {
    let schedule = Schedule::new("a", "*/10 * * * *", "add", json!({"a": 1, "b": 2})).owner(alice());
    let scheduled = Scheduled::with(vec![schedule]).await;
    let looked = scheduled.mcp.look_at_schedules().await;
    assert_eq!(looked.next_at, Some(START.plus_ms(9 * MINUTE_MS + 30_000)));
    for _ in 0..30 {
        scheduled.look_after(MINUTE_MS).await;
        scheduled.world.work().await;
    }
    assert_eq!(scheduled.times().await, [10, 20, 30]);
    assert!(scheduled.tasks().await.iter().all(|task| task.status() == Status::Completed && task.tool == "add"));
}

#[tokio::test]
async fn many_processes_and_a_clock_that_is_set_back_make_one_task_of_a_time() {
    let scheduled = Scheduled::hourly(|schedule| schedule.overlap(Overlap::Allow)).await;
    scheduled.world.clock.advance_ms(HOUR_MS);
    let servers: Vec<McpServer> = (0..4).map(|_| scheduled.another()).collect();
    let looked = futures::future::join_all(servers.iter().map(McpServer::look_at_schedules)).await;
    assert!(looked.iter().any(|looked| looked.accepted == 1), "{looked:?}");
    assert_eq!(scheduled.times().await, [60]);
    assert_eq!(scheduled.look_after(HOUR_MS).await, (1, 0));
    scheduled.world.clock.advance_ms(HOUR_MS);
    scheduled.another().look_at_schedules().await;
    assert_eq!(scheduled.times().await, [60, 120, 180]);
    for hours in [1, 2] {
        let clock = Arc::new(ManualClock::at(START.plus_ms((3 - hours) * HOUR_MS)));
        let engine = Engine::new(Ports { clock, ..scheduled.world.engine.ports().clone() }, Settings::default());
        let looked = server_on(engine, &scheduled.world, &scheduled.schedules).look_at_schedules().await;
        assert_eq!((looked.accepted, looked.failed), (0, 0));
    }
    assert_eq!(scheduled.times().await, [60, 120, 180]);
}

/// A run once was made again when its task had expired within the time in which missed runs are made up for.
#[tokio::test]
async fn a_task_that_is_forgotten_is_not_made_again() {
    let schedule = Schedule::new("a", "0 * * * *", "add", json!({"a": 1, "b": 2})).owner(alice());
    let scheduled = Scheduled::with(vec![schedule.catch_up_within(Duration::from_secs(86_400))]).await;
    assert_eq!(scheduled.look_after(HOUR_MS).await, (1, 0));
    scheduled.world.work().await;
    let key = scheduled.tasks().await[0].key();
    scheduled.world.engine.forget(&key).await.unwrap();
    scheduled.world.clock.advance_ms(MINUTE_MS);
    assert_eq!(scheduled.another().look_at_schedules().await.accepted, 0);
    assert!(scheduled.tasks().await.is_empty());
}

#[tokio::test]
async fn a_run_is_left_out_while_the_last_task_has_not_ended() {
    let scheduled = Scheduled::hourly(|schedule| schedule).await;
    assert_eq!(scheduled.look_after(HOUR_MS).await, (1, 0));
    scheduled.world.work().await;
    assert_eq!(scheduled.look_after(HOUR_MS).await, (0, 1), "it sleeps for more than an hour");
    assert_eq!(scheduled.look_after(MINUTE_MS).await, (0, 0), "it is said once");
    assert_eq!(scheduled.another().look_at_schedules().await.skipped, 0, "and by one process");
    scheduled.world.clock.advance_ms(10 * MINUTE_MS);
    scheduled.world.work().await;
    assert_eq!(scheduled.tasks().await[0].status(), Status::Completed);
    assert_eq!(scheduled.look_after(HOUR_MS).await, (1, 0));
    assert_eq!(scheduled.times().await, [60, 180]);
}

/// Nobody noted what became of the times in between, so the task is found in the list.
#[tokio::test]
async fn a_task_that_runs_since_before_the_server_was_away_is_seen() {
    let sleeps = |ms: u64| Schedule::new("hourly", "0 * * * *", "sleeps", json!({"ms": ms})).owner(alice());
    for (ms, seen) in [(8 * HOUR_MS, (0, 1)), (HOUR_MS, (1, 0))] {
        let scheduled = Scheduled::with(vec![sleeps(ms)]).await;
        assert_eq!(scheduled.look_after(HOUR_MS).await, (1, 0));
        // Somebody's calls of the tool are none of the schedule's.
        scheduled.world.start("sleeps", json!({"ms": 8 * HOUR_MS})).await;
        for _ in 0..3 {
            scheduled.world.work().await;
            scheduled.world.clock.advance_ms(HOUR_MS);
        }
        let looked = scheduled.another().look_at_schedules().await;
        assert_eq!((looked.accepted, looked.skipped), seen);
    }
}

#[tokio::test]
async fn of_missed_runs_the_latest_is_made_up_for_within_the_window() {
    let schedule = Schedule::new("a", "*/10 * * * *", "add", json!({"a": 1, "b": 2})).owner(alice());
    let scheduled = Scheduled::with(vec![schedule]).await;
    scheduled.world.clock.advance_ms(5 * HOUR_MS + MINUTE_MS);
    assert_eq!(scheduled.another().look_at_schedules().await.accepted, 1);
    assert_eq!(scheduled.times().await, [300]);

    let daily = Schedule::new("a", "30 12 * * *", "add", json!({"a": 1, "b": 2})).owner(alice());
    for (window_s, late_ms, accepted) in
        [(3_600, HOUR_MS, 1), (3_600, HOUR_MS + MINUTE_MS, 0), (0, 90_000, 1), (0, 3 * MINUTE_MS, 0)]
    {
        let scheduled = Scheduled::with(vec![daily.clone().catch_up_within(Duration::from_secs(window_s))]).await;
        scheduled.world.clock.advance_ms(30 * MINUTE_MS - 30_000 + late_ms);
        let looked = scheduled.another().look_at_schedules().await;
        assert_eq!(looked.accepted, accepted, "{looked:?}: {late_ms} ms late, {window_s} s allowed");
    }
}

#[tokio::test]
async fn a_schedule_that_is_new_or_changed_does_not_begin_in_the_past() {
    let scheduled = Scheduled::hourly(|schedule| schedule).await;
    scheduled.world.clock.advance_ms(HOUR_MS);
    let changed = Schedule::new("hourly", "59 * * * *", "sleeps", json!({"ms": 1})).owner(alice());
    assert_eq!(server(&scheduled.world, &[changed]).look_at_schedules().await.accepted, 0);
    assert_eq!(scheduled.mcp.look_at_schedules().await.accepted, 1, "that of the line that was there before");
}

#[tokio::test]
async fn a_refused_call_is_tried_again_within_the_window() {
    let schedule = Schedule::new("a", "10 * * * *", "add", json!({"a": 1, "b": 2})).owner(alice());
    let world = World::with(Settings { open_tasks_max: 1, inline_sleep_ms_max: 0, ..Settings::default() });
    world.clock.advance_to(START);
    let mcp = server(&world, &[schedule]);
    mcp.look_at_schedules().await;
    let other = world.start("sleeps", json!({"ms": 10})).await;
    world.clock.advance_ms(10 * MINUTE_MS);
    assert_eq!(mcp.look_at_schedules().await.failed, 1);
    world.cancel(&other).await;
    assert_eq!(mcp.look_at_schedules().await.accepted, 1);
}

#[tokio::test]
async fn tasks_without_an_owner_are_the_one_users_or_nobodys() {
    let schedule = Schedule::new("a", "0 * * * *", "add", json!({"a": 1, "b": 2}));
    for (callers, anonymous) in [(AnonymousCallers::OneUser, 1), (AnonymousCallers::AnonymousCallers, 0)] {
        let world = World::new();
        world.clock.advance_to(START);
        let handler = Tools::new(Arc::clone(&world.observed));
        let settings = McpSettings { anonymous_callers: callers, ..McpSettings::new([7; 32]) };
        let mcp = McpServer::new(move || handler.clone(), world.policies.clone(), world.engine.clone(), settings)
            .with_schedules(std::slice::from_ref(&schedule));
        mcp.look_at_schedules().await;
        world.clock.advance_ms(HOUR_MS);
        assert_eq!(mcp.look_at_schedules().await.accepted, 1);
        for (owner, tasks) in [(OwnerId::of(Identity::Anonymous), anonymous), (alice(), 0), (bob(), 0)] {
            assert_eq!(world.engine.list(&owner, None, 10).await.unwrap().tasks.len(), tasks);
        }
    }
}

/// What a run costs, and what a look costs when nothing is due: nothing at all.
#[tokio::test]
async fn a_run_costs_its_task_two_reads_and_one_note() {
    let scheduled = Scheduled::hourly(|schedule| schedule).await;
    assert_eq!(scheduled.look_after(HOUR_MS).await, (1, 0));
    scheduled.world.work().await;
    scheduled.world.calls.take();
    for _ in 0..5 {
        scheduled.look_after(MINUTE_MS).await;
    }
    assert!(scheduled.world.calls.take().is_empty());
    scheduled.world.clock.advance_ms(HOUR_MS - 5 * MINUTE_MS);
    scheduled.mcp.look_at_schedules().await;
    assert_eq!(scheduled.world.calls.take(), ["collect", "collect", "get", "leave"], "left out");
    let fresh = Scheduled::hourly(|schedule| schedule.overlap(Overlap::Allow)).await;
    fresh.world.calls.take();
    fresh.look_after(HOUR_MS).await;
    assert_eq!(fresh.world.calls.take(), ["collect", "create", "send", "leave"]);
}
