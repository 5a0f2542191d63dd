//! The proof of the checkers: every planted fault is found within a stated number of seeds, by the checker of the
//! promise that it breaks. Schedules are in `crates/mcp`: its `tests/endpoint/simulation.rs` finds theirs.

use longhaul_sim::{Plan, PlantedFault, StoryMode, run, search};

/// Seeds within which every fault is found.
const SEEDS_MAX: u64 = 4_000;

#[test]
fn every_planted_fault_is_found_by_the_checker_of_its_promise() {
    let missed: Vec<PlantedFault> = PlantedFault::ALL
        .iter()
        .copied()
        .filter(|fault| !fault.is_of_schedules() && first_seed(*fault).is_none())
        .collect();
    assert!(missed.is_empty(), "no checker found {missed:?}");
}

/// The first seed in which the promise of `fault` is seen to be broken.
fn first_seed(fault: PlantedFault) -> Option<u64> {
    let search = search(0..SEEDS_MAX, |plan| {
        let other = match fault {
            _ if fault.is_of_permits() => Some(Plan::with_limited_attempts(plan.seed)),
            _ if fault.is_of_signals() => Some(Plan::with_signals(plan.seed)),
            _ if fault.is_of_later_starts() => Some(Plan::with_later_starts(plan.seed)),
            _ if fault.is_of_sweeps() => Some(Plan::with_sweeps(plan.seed)),
            _ if fault.is_of_children() => Some(Plan::with_children(plan.seed)),
            _ if fault.is_of_notifications() => Some(Plan::with_notifications(plan.seed)),
            _ if fault.is_of_stream() => Some(Plan::with_stream(plan.seed)),
            _ if fault.is_of_one_database() => Some(Plan::with_one_database(plan.seed)),
            _ if fault.is_of_filtered_lists() => Some(Plan::with_filtered_lists(plan.seed)),
            _ => None,
        };
        let mut report = run(other.as_ref().unwrap_or(plan), Some(fault), StoryMode::Skip);
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
