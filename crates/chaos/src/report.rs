//! The report: the calls, the ends of tasks, and their times.

use std::collections::BTreeMap;
use std::time::Instant;

use longhaul_chaos::TICKS;

use crate::faults::{Fault, Form, Sort};
use crate::stage::Stage;
use crate::verdict::{self, Noted};
use crate::visits::Visit;

/// A fault that happened.
pub(crate) struct Happened {
    pub(crate) at: Instant,
    pub(crate) fault: Fault,
    /// How many processes it has killed: none if there was none to kill.
    pub(crate) killed: usize,
}

/// Prints all of it.
pub(crate) fn print(stage: &Stage, faults: &[Happened], visits: &[Visit]) {
    let mut kinds: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for visit in visits {
        let end = visit.end.as_ref().map_or("no end", |end| end.status.name());
        *kinds.entry(visit.kind.name()).or_default().entry(end).or_default() += 1;
    }
    let twice: usize = visits.iter().map(|visit| verdict::repeated(&Noted::of(stage, visit).own)).sum();
    let ticks = stage.noted(TICKS);
    let runs = verdict::tasks(&ticks).len();
    println!(
        "  {} faults, {} tasks, {twice} steps begun twice, {runs} runs of the schedule",
        faults.len(),
        visits.len()
    );
    for (kind, ends) in kinds {
        let ends: Vec<String> = ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
        println!("  {kind:>21}: {}", ends.join(", "));
    }
    println!("  From a fault to the next end of a task that it hit:");
    let mut kinds_of_faults: BTreeMap<&str, Vec<&Happened>> = BTreeMap::new();
    for happened in faults {
        kinds_of_faults.entry(happened.fault.name()).or_default().push(happened);
    }
    for (kind, all) in &kinds_of_faults {
        let times: Vec<Instant> = all.iter().map(|happened| happened.at).collect();
        let killed = match all.iter().map(|happened| happened.killed).sum() {
            0_usize => String::new(),
            killed => format!(" ({killed} processes)"),
        };
        let recoveries = verdict::summary(&verdict::recoveries(&times, visits));
        println!("  {kind:>21}: {:>3} times{killed}, {recoveries}", all.len());
    }
    verdict::histogram(&verdict::recoveries(&times(faults), visits)).iter().for_each(|line| println!("  {line}"));
}

fn times(faults: &[Happened]) -> Vec<Instant> {
    faults.iter().map(|happened| happened.at).collect()
}

/// One row of a table of results: form, seed, seconds, tasks, the counts of each sort of fault, times, and broken
/// promises. The faults are processes killed, standstills, cuts, slow connections, losses of answers and full disks.
/// The times are the middle and the longest one from a fault to the next end.
pub(crate) fn row(form: Form, seed: u64, seconds: u64, faults: &[Happened], visits: &[Visit], broken: usize) -> String {
    let count = |sort| faults.iter().filter(|happened| happened.fault.sort() == sort).count().to_string();
    let killed: usize = faults.iter().map(|happened| happened.killed).sum();
    let (middle, longest) =
        verdict::middle_and_longest(&verdict::recoveries(&times(faults), visits)).unwrap_or_default();
    let cells = [
        form.name().to_owned(),
        seed.to_string(),
        seconds.to_string(),
        visits.len().to_string(),
        killed.to_string(),
        count(Sort::Standstill),
        count(Sort::Cut),
        count(Sort::Slow),
        count(Sort::Loss),
        count(Sort::Disk),
        format!("{middle:.1} s"),
        format!("{longest:.1} s"),
        broken.to_string(),
    ];
    format!("| {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_row_says_what_was_done() {
        let happened = |fault, killed| Happened { at: Instant::now(), fault, killed };
        let faults = [
            happened(Fault::KillChild { child: 3 }, 0),
            happened(Fault::Kill { server: 0, down: Duration::ZERO }, 1),
            happened(Fault::FreezeJobs(Duration::ZERO), 0),
            happened(Fault::StartOnFullDisk(Duration::ZERO), 1),
        ];
        assert_eq!(
            row(Form::Local, 7, 60, &faults, &[], 2),
            "| local | 7 | 60 | 0 | 2 | 1 | 0 | 0 | 0 | 1 | 0.0 s | 0.0 s | 2 |"
        );
    }
}
