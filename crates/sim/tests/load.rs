//! Load on a store with partitions: it matches the page, is the same each time, and keeps its promises.
#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::Path;

use longhaul_sim::{LoadPlan, LoadReport, Plan, PlantedFault, StoryMode, Throughput, run, run_load};

/// So few units that most calls are refused at first.
const FEW_UNITS: Throughput = Throughput { key_write: 20, key_read: 40, table_write: 150, table_read: 300 };

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md")).unwrap()
}

#[test]
fn a_load_beyond_the_units_of_a_store_loses_no_call_and_has_one_end_for_each() {
    for owners in [1, 40] {
        let plan = LoadPlan::new(owners, 60, 5, FEW_UNITS);
        let report = run_load(&plan);
        assert_eq!(report.broken, None, "{plan:?}");
        let refused: u64 = report.usage.refused.values().sum();
        assert!(refused > 300, "{refused} calls were refused");
        assert!(report.latency_ms.1 > 1_500, "{:?}", report.latency_ms);
        assert_eq!(report, run_load(&plan), "the same seed is the same run");
    }
}

#[test]
fn a_load_within_the_units_uses_what_the_page_says_of_a_task() {
    let report = run_load(&LoadPlan::new(1, 40, 20, Throughput::BY_QUOTA));
    assert_eq!((report.broken, report.usage.refused.len(), report.unavailable), (None, 0, 0));
    let tasks = f64::from(u32::try_from(report.tasks).unwrap());
    let [write, read] =
        [report.usage.write, report.usage.read].map(|units| f64::from(u32::try_from(units).unwrap()) / tasks);
    // The figures of costs.md for a task: 6.5 and 3.75. A sample of the tasks is counted, and not exactly a quarter.
    assert!((write - 6.5).abs() < 0.1 && (read - 3.75).abs() < 0.1, "{write} write units, {read} read units");
}

#[test]
fn the_page_has_the_rows_of_the_program_and_those_of_few_calls_are_right() {
    let page = page();
    assert!(page.contains(LoadReport::HEAD), "the page has not the head of the table");
    let rows = page.split(LoadReport::HEAD).nth(1).unwrap().lines().skip(1).take_while(|line| line.starts_with('|'));
    let (rows, plans): (Vec<&str>, _) = (rows.collect(), LoadPlan::of_the_page());
    assert_eq!(rows.len(), plans.len());
    for (row, plan) in rows.iter().zip(&plans) {
        assert!(row.starts_with(&format!("| {} | {}", plan.owners, plan.rate)), "{row}");
        if plan.rate * plan.seconds <= 200 {
            assert_eq!(*row, run_load(plan).to_string());
        }
    }
}

#[test]
fn worlds_with_few_units_refuse_calls_and_their_checkers_find_mistakes() {
    let refuses = |seed| {
        let report = run(&Plan::with_partitions(seed), None, StoryMode::Record);
        report.story.iter().any(|line| line.what.contains("units of the"))
    };
    let worlds = (0..60).filter(|seed| refuses(*seed)).count();
    assert!(worlds > 40, "{worlds} of 60 worlds refuse a call");
    for planted in [PlantedFault::AttemptNotRaised, PlantedFault::LeaseNeverChecked] {
        let finds = |seed| run(&Plan::with_partitions(seed), Some(planted), StoryMode::Skip).violation.is_some();
        assert!((0..400).any(finds), "{planted:?} is not found");
    }
}
