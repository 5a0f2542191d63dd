//! The simulation: many seeds, the seeds that once failed, and the proof that one seed is one run.
//!
//! `LONGHAUL_SIM_SEEDS` says how many seeds are run, and `LONGHAUL_SIM_SEED` replays one and prints its story.

mod stores;

use longhaul_testkit::sim::{Plan, StoryMode, run, search, shrink};

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

/// Each seed's world once more, with fewer legs at a time than it has tasks.
#[test]
fn no_seed_breaks_a_promise_where_the_legs_of_an_owner_are_limited() {
    let seeds = match number("LONGHAUL_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("LONGHAUL_SIM_SEEDS").unwrap_or(SEEDS_DEFAULT) / 2,
    };
    let search = search(seeds, |plan| run(&Plan::with_limited_legs(plan.seed), None, StoryMode::Skip));
    if let Some((seed, _)) = search.found {
        panic!("with limited legs: {}", story_of(seed, &Plan::with_limited_legs(seed)));
    }
    println!("{} seeds keep every promise ({} events)", search.seeds, search.events);
}

#[test]
fn seeds_that_once_failed_stay_fixed() {
    for line in include_str!("../corpus.txt").lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (line, plan_of): (&str, fn(u64) -> Plan) = match line.strip_prefix("limited ") {
            Some(line) => (line, Plan::with_limited_legs),
            None => (line, Plan::of),
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
