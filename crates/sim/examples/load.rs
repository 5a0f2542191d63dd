//! Prints the table of `docs/scale.md`: `make scale`.
//!
//! With arguments, it prints one row: owners, calls a second, seconds, and any of these words:
//!
//! - `keys`: idempotency keys
//! - `steps`: ten steps
//! - `new`: a new table
//! - `ramp`: workers as a new queue starts them
//! - `limit`: 10,000 unfinished tasks for each owner
//!
//! Ends with 1 if a promise is not kept, or if the page does not have a row.
#![expect(clippy::print_stdout, clippy::print_stderr, clippy::panic, reason = "a program that prints a table")]

use std::path::Path;
use std::process::ExitCode;

use longhaul_sim::{Attempts, LoadPlan, LoadReport, Throughput, run_load};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("{}", LoadReport::HEAD);
    let is_right = match &words[..] {
        [owners, rate, seconds, words @ ..] => shown(&plan_of([owners, rate, seconds], words)).is_some(),
        _ => is_as_on_the_page(),
    };
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the rows of the page, and says which of them it does not have.
fn is_as_on_the_page() -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/scale.md");
    let page = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let is_there = |plan: &LoadPlan| {
        let row = shown(plan);
        let is_there = row.as_ref().is_some_and(|row| page.lines().any(|line| line == row));
        if row.is_some() && !is_there {
            eprintln!("docs/scale.md does not have this row");
        }
        is_there
    };
    LoadPlan::of_the_page().iter().filter(|plan| !is_there(plan)).count() == 0
}

fn plan_of(numbers: [&String; 3], words: &[String]) -> LoadPlan {
    let [owners, rate, seconds] =
        numbers.map(|number| number.parse().unwrap_or_else(|error| panic!("{number}: {error}")));
    let has = |word: &str| words.iter().any(|held| held == word);
    let throughput = if has("new") { Throughput::NEW_TABLE } else { Throughput::BY_QUOTA };
    let plan = LoadPlan::new(owners, rate, seconds, throughput);
    LoadPlan {
        keys: has("keys"),
        steps: if has("steps") { 10 } else { 0 },
        open_tasks_max: if has("limit") { 10_000 } else { plan.open_tasks_max },
        attempts: if has("ramp") { Attempts::OF_A_NEW_QUEUE } else { plan.attempts },
        ..plan
    }
}

/// The row of a load, which is printed; `None` if a promise was not kept.
fn shown(plan: &LoadPlan) -> Option<String> {
    let report = run_load(plan);
    let row = report.to_string();
    println!("{row}");
    if let Some(broken) = &report.broken {
        eprintln!("{plan:?}: {broken}");
        return None;
    }
    Some(row)
}
