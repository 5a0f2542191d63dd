//! The simulation: many seeds, the seeds that once failed, the proof that one seed is one run, and every planted fault.
//!
//! `LONGHAUL_SIM_SEEDS` says how many seeds are run, and `LONGHAUL_SIM_SEED` replays one and prints its story.

mod planted;
mod stores;

use longhaul_sim::{Plan, StoryMode, run, search, shrink};

/// Seeds of an ordinary run: some seconds without optimization.
const SEEDS_DEFAULT: u64 = 1_500;

fn number(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a test harness is an outermost crate, and a seed is its argument")]
    let text = std::env::var(name).ok()?;
    let number = text.parse().ok();
    assert!(number.is_some(), "{name} is not a number: {text}");
    number
}

/// The story of a failing seed, as short as the shrinker could make it.
fn story(seed: u64) -> String {
    story_of(seed, &Plan::of(seed))
}

fn story_of(seed: u64, plan: &Plan) -> String {
    let shrunk = shrink(plan, None);
    let violation = shrunk.report.violation.expect("a shrunk world still fails");
    let mut text = format!("seed {seed} breaks a promise. The shortest story of {} that were tried:\n\n", shrunk.tried);
    for line in &shrunk.report.story {
        text.push_str(&format!("{line}\n"));
    }
    text.push_str(&format!("\n{:?} was not kept: {}\n\n", violation.promise, violation.what));
    text.push_str(&format!("The world: {}\n\nReplay it: make simulate SEED={seed}\n", shrunk.plan));
    text
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = number("LONGHAUL_SIM_SEED") {
        let report = run(&Plan::of(seed), None, StoryMode::Record);
        if report.violation.is_some() {
            panic!("{}", story(seed));
        }
        for line in &report.story {
            println!("{line}");
        }
        println!("seed {seed} keeps every promise ({} events)", report.events);
        return;
    }
    let seeds = number("LONGHAUL_SIM_SEEDS").unwrap_or(SEEDS_DEFAULT);
    let search = search(0..seeds, |plan| run(plan, None, StoryMode::Skip));
    if let Some((seed, _)) = search.found {
        panic!("{}", story(seed));
    }
    println!("{} seeds keep every promise ({} events)", search.seeds, search.events);
}

/// How one in `one_in` of the seeds ends in the world that `plan_of` makes of it.
///
/// # Errors
/// The story of the first that breaks a promise.
fn search_other_worlds(one_in: u64, plan_of: fn(u64) -> Plan) -> Result<String, String> {
    let seeds = match number("LONGHAUL_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LONGHAUL_SIM_SEEDS").unwrap_or(SEEDS_DEFAULT) / one_in,
    };
    let search = search(seeds, |plan| run(&plan_of(plan.seed), None, StoryMode::Skip));
    match search.found {
        Some((seed, _)) => Err(story_of(seed, &plan_of(seed))),
        None => Ok(format!("{} seeds keep every promise ({} events)", search.seeds, search.events)),
    }
}

/// Tests of other worlds: a name, in how many of the seeds, and how the world of a seed is made.
macro_rules! other_worlds {
    ($($(#[$doc:meta])* $name:ident: $one_in:literal, $plan_of:ident;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            match search_other_worlds($one_in, Plan::$plan_of) {
                Ok(found) => println!("{found}"),
                Err(story) => panic!("{}: {story}", stringify!($plan_of)),
            }
        }
    )*};
}

other_worlds! {
    /// Each seed's world once more, with fewer attempts at a time than it has tasks.
    no_seed_breaks_a_promise_where_the_attempts_of_an_owner_are_limited: 4, with_limited_attempts;
    /// Each seed's world once more, with clients that read filtered lists while all happens.
    no_seed_breaks_a_promise_where_filtered_lists_are_read: 8, with_filtered_lists;
    /// Worlds whose tools wait for signals, while somebody outside records them at any moment.
    no_seed_breaks_a_promise_where_tools_wait_for_signals: 4, with_signals;
    /// Worlds whose tools register compensations, while their tasks fail, are cancelled and miss their deadlines.
    no_seed_breaks_a_promise_where_tools_register_compensations: 4, with_compensations;
    /// Worlds whose tools have races and timeouts, while their tasks fail, are cancelled and miss their deadlines.
    no_seed_breaks_a_promise_where_branches_race: 4, with_races;
    /// Worlds whose tools ask beside sleeps, polls, signals and calls, while clients answer at any moment.
    no_seed_breaks_a_promise_where_tools_ask_beside_other_work: 4, with_questions;
    /// Each seed's world once more, in which most calls are to start later.
    no_seed_breaks_a_promise_where_calls_start_later: 4, with_later_starts;
    /// Each seed's world once more, in which nobody polls, messages are lost, and the server looks after unfinished
    /// tasks.
    no_seed_breaks_a_promise_where_nobody_polls_and_messages_are_lost: 4, with_sweeps;
    /// Each seed's world once more, in which nobody polls, processes die between records and messages, and somebody
    /// hears of each record that waits for a worker.
    no_seed_breaks_a_promise_where_nobody_polls_and_unclaimed_tasks_are_heard_of: 4, with_stream;
    /// Worlds whose tasks fail, while clients resume them.
    no_seed_breaks_a_promise_where_failed_tasks_are_resumed: 4, with_resumptions;
    /// Each seed's world once more, in which ends and questions are published.
    no_seed_breaks_a_promise_where_ends_are_published: 8, with_notifications;
    /// Each seed's world once more, whose store refuses calls because of their rate.
    no_seed_breaks_a_promise_where_the_store_has_few_units: 4, with_partitions;
    /// Each seed's world once more, in which a new task's message is written with its record.
    no_seed_breaks_a_promise_where_store_and_queue_are_one_database: 4, with_one_database;
    /// Each seed's world once more, whose tools wait past their deadlines, while nobody polls and nobody answers.
    no_seed_breaks_a_promise_where_tools_wait_past_their_deadlines: 8, with_long_waits;
    /// Worlds whose tools call each other.
    no_seed_breaks_a_promise_where_tools_call_tools: 16, with_children;
    /// Worlds whose tools fail while those that they called run.
    no_seed_breaks_a_promise_where_children_run_when_their_parent_ends: 32, with_running_children;
}

#[test]
fn seeds_that_once_failed_stay_fixed() {
    for line in include_str!("../corpus.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (world, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (line, plan_of): (&str, fn(u64) -> Plan) = match world {
            "limited" => (rest, Plan::with_limited_attempts),
            "partitions" => (rest, Plan::with_partitions),
            "signals" => (rest, Plan::with_signals),
            "compensations" => (rest, Plan::with_compensations),
            "resumptions" => (rest, Plan::with_resumptions),
            "races" => (rest, Plan::with_races),
            _ => (line, Plan::of),
        };
        let seed =
            line.split_whitespace().next().and_then(|seed| seed.parse().ok()).expect("a line begins with a seed");
        if run(&plan_of(seed), None, StoryMode::Skip).violation.is_some() {
            panic!("{}", story_of(seed, &plan_of(seed)));
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run_event_for_event() {
    for seed in 0..200 {
        let silent = run(&Plan::of(seed), None, StoryMode::Skip);
        let with_story = run(&Plan::of(seed), None, StoryMode::Record);
        let again = run(&Plan::of(seed), None, StoryMode::Record);
        assert_eq!((silent.hash, silent.events), (with_story.hash, with_story.events), "seed {seed}");
        assert_eq!(with_story.story, again.story, "seed {seed}");
    }
}
