//! Running many seeds on all cores until one fails.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use longhaul_testkit::models::Violation;

use super::plan::Plan;
use super::run::Report;

/// The result of a search.
#[derive(Clone, Debug)]
pub struct SeedSearch {
    /// The lowest seed that failed, and how.
    pub found: Option<(u64, Violation)>,
    /// How many seeds were run.
    pub seeds: u64,
    /// How many events there were in all of them.
    pub events: u64,
}

/// Runs `seeds` with `run` on all cores, and stops soon after one has failed.
pub fn search(seeds: Range<u64>, run: impl Fn(&Plan) -> Report + Sync) -> SeedSearch {
    let next = AtomicU64::new(seeds.start);
    let events = AtomicU64::new(0);
    let run_count = AtomicU64::new(0);
    let stop_at = AtomicU64::new(seeds.end);
    let found: Mutex<Option<(u64, Violation)>> = Mutex::new(None);
    let threads = thread::available_parallelism().map_or(2, std::num::NonZero::get);
    let run_seeds = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= stop_at.load(Ordering::Relaxed) {
                return;
            }
            let report = run(&Plan::of(seed));
            events.fetch_add(report.events, Ordering::Relaxed);
            run_count.fetch_add(1, Ordering::Relaxed);
            let Some(violation) = report.violation else { continue };
            stop_at.fetch_min(seed, Ordering::Relaxed);
            let mut found = found.lock().unwrap();
            if found.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                *found = Some((seed, violation));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(run_seeds);
        }
    });
    SeedSearch { found: found.into_inner().unwrap(), seeds: run_count.into_inner(), events: events.into_inner() }
}
