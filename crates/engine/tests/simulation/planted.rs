//! The proof of the checkers: every planted fault is found within a stated number of seeds, by the checker of the
//! promise that it breaks. Schedules are in `crates/mcp`: its `tests/endpoint/simulation.rs` finds theirs.

use longhaul_sim::{Plan, PlantedFault, ShowsIn, StoryMode, run, search};

/// Seeds within which every fault is found.
const SEEDS_MAX: u64 = 4_000;

#[test]
fn every_planted_fault_is_found_by_the_checker_of_its_promise() {
    let missed: Vec<PlantedFault> = PlantedFault::ALL
        .iter()
        .copied()
        .filter(|fault| fault.shows_in() != ShowsIn::Schedule && first_seed(*fault).is_none())
        .collect();
    assert!(missed.is_empty(), "no checker found {missed:?}");
}

/// The first seed in which the promise of `fault` is seen to be broken.
fn first_seed(fault: PlantedFault) -> Option<u64> {
    let search = search(0..SEEDS_MAX, |plan| {
        let world = match fault.shows_in() {
            ShowsIn::AnyWorld | ShowsIn::Schedule => Plan::of,
            ShowsIn::LimitedAttempts => Plan::with_limited_attempts,
            ShowsIn::Signals => Plan::with_signals,
            ShowsIn::Compensations => Plan::with_compensations,
            ShowsIn::Races => Plan::with_races,
            ShowsIn::Questions => Plan::with_questions,
            ShowsIn::LaterStarts => Plan::with_later_starts,
            ShowsIn::Sweeps => Plan::with_sweeps,
            ShowsIn::Resumptions => Plan::with_resumptions,
            ShowsIn::LongWaits => Plan::with_long_waits,
            ShowsIn::Children => Plan::with_children,
            ShowsIn::RunningChildren => Plan::with_running_children,
            ShowsIn::Notifications => Plan::with_notifications,
            ShowsIn::Stream => Plan::with_stream,
            ShowsIn::OneDatabase => Plan::with_one_database,
            ShowsIn::FilteredLists => Plan::with_filtered_lists,
        };
        let mut report = run(&world(plan.seed), Some(fault), StoryMode::Skip);
        report.violation = report.violation.filter(|violation| violation.promise == fault.breaks());
        report
    });
    let seed = search.found.map(|(seed, _)| seed);
    print(fault, seed);
    seed
}

#[expect(clippy::print_stdout, reason = "the table of what was found is the output of this test")]
fn print(fault: PlantedFault, seed: Option<u64>) {
    let (name, promise) = (format!("{fault:?}"), fault.breaks());
    match seed {
        Some(seed) => println!("{name:<26} found by {promise:?} in seed {seed}"),
        None => println!("{name:<26} NOT FOUND by {promise:?}"),
    }
}
