//! Prints the table of `docs/scale.md`: `cargo run --profile sim -p longhaul-testkit --example load`.
//!
//! With arguments, one row: owners, calls a second, seconds, and any of the words `keys`, `steps`, `new` (a new table),
//! `ramp` (workers as a new queue starts them), `limit` (10,000 unfinished tasks for each owner).

use longhaul_testkit::sim::{Legs, LoadPlan, LoadReport, Throughput, run_load};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("{}", LoadReport::HEAD);
    if let [owners, rate, seconds, words @ ..] = &words[..] {
        return show(&plan_of([owners, rate, seconds], words));
    }
    LoadPlan::of_the_page().iter().for_each(show);
}

fn plan_of(numbers: [&String; 3], words: &[String]) -> LoadPlan {
    let [owners, rate, seconds] = numbers.map(|number| number.parse().unwrap_or_else(|error| panic!("{number}: {error}")));
    let has = |word: &str| words.iter().any(|held| held == word);
    let plan = LoadPlan::new(owners, rate, seconds, if has("new") { Throughput::NEW_TABLE } else { Throughput::BY_QUOTA });
    LoadPlan {
        keys: has("keys"),
        steps: if has("steps") { 10 } else { 0 },
        open_tasks_max: if has("limit") { 10_000 } else { plan.open_tasks_max },
        legs: if has("ramp") { Legs::OF_A_NEW_QUEUE } else { plan.legs },
        ..plan
    }
}

fn show(plan: &LoadPlan) {
    let report = run_load(plan);
    println!("{report}");
    if let Some(broken) = &report.broken {
        eprintln!("{plan:?}: {broken}");
        std::process::exit(1);
    }
}
