//! The same worlds on real stores: their answers are compared with the model's, and every promise is checked.

use std::sync::Arc;

use longhaul_sim::{Plan, PlantedFault, Promise, Real, StoreAndQueue, StoryMode, run, run_with};
use longhaul_sqlite::{Database, Settings};

/// A real store is much slower than the model; a large run gives it more seeds.
fn seeds() -> u64 {
    super::number("LONGHAUL_SIM_SEEDS").map_or(40, |seeds| (seeds / 500).max(40))
}

#[test]
fn sqlite_does_what_the_model_does() {
    for seed in 0..seeds() {
        // Some of them read filtered lists, too, in some calls start later, and in some it writes messages with
        // records.
        let plan_of = [Plan::of, Plan::with_filtered_lists, Plan::with_one_database, Plan::with_later_starts]
            [(seed % 4) as usize];
        let plan = plan_of(seed);
        let report = run_with(&plan, None, StoryMode::Record, |clock| {
            let settings = Settings { receives_max: plan.receives_max, ..Settings::default() };
            let database = Database::in_memory(clock, settings).expect("a database in memory always opens");
            let store = match plan.store_and_queue {
                StoreAndQueue::Apart => database.store(),
                StoreAndQueue::OneDatabase => database.store_with_queue(),
            };
            Some(Real { store: Arc::new(store), queue: Arc::new(database.queue()) })
        });
        if let Some(violation) = report.violation {
            for line in &report.story {
                println!("{line}");
            }
            panic!("seed {seed} on SQLite: {:?} was not kept: {}", violation.promise, violation.what);
        }
    }
}

#[test]
fn a_store_that_differs_from_the_model_is_found() {
    // SQLite is right and the model lies: the comparison finds a difference either way.
    let found = (0..seeds()).find_map(|seed| {
        let plan = Plan::of(seed);
        let report = run_with(&plan, Some(PlantedFault::CounterKeptOnCancel), StoryMode::Skip, |clock| {
            let database = Database::in_memory(clock, Settings::default()).expect("a database in memory always opens");
            Some(Real { store: Arc::new(database.store()), queue: Arc::new(database.queue()) })
        });
        report.violation
    });
    assert_eq!(found.map(|violation| violation.promise), Some(Promise::EqualsTheModel));
    assert!(run(&Plan::of(0), None, StoryMode::Skip).violation.is_none());
}
