//! Processes that servers have left behind. Where the gateway is process 1, as in a container, they become its children
//! when their parents end, and nothing else waits for their ends.

use std::collections::BTreeSet;

use longhaul::SystemClock;
use longhaul_core::Clock;
use rustix::process::{Pid, WaitOptions, getpid, waitpid};

use super::process::Groups;
use crate::limits;

/// Waits for the ends of such processes from now on, if they become children of this one.
pub(crate) fn reap(groups: Groups) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    if !getpid().is_init() {
        return;
    }
    runtime.spawn(async move {
        let mut before = BTreeSet::new();
        loop {
            SystemClock.sleep_ms(limits::REAP_MS).await;
            // Servers are waited for elsewhere. Any other process that this one has started is waited for at once, so
            // that only those stay that it has not started.
            let ended: BTreeSet<i32> = ended_children().filter(|id| !groups.has(*id)).collect();
            for id in ended.intersection(&before).filter_map(|id| Pid::from_raw(*id)) {
                // It may have been waited for meanwhile.
                waitpid(Some(id), WaitOptions::NOHANG).unwrap_or_default();
            }
            before = ended;
        }
    });
}

/// The children of process 1 that have ended and are not waited for.
fn ended_children() -> impl Iterator<Item = i32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        is_ended_child(&stat).then_some(id)
    })
}

/// Whether the line of a process says so: its state is after its name, which may have brackets, and then its parent.
fn is_ended_child(stat: &str) -> bool {
    let mut after = stat.rsplit_once(") ").map_or("", |(_, after)| after).split(' ');
    (after.next(), after.next()) == (Some("Z"), Some("1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_says_nothing_of_its_state() {
        assert!(is_ended_child("17 (sh) Z 1 17 17 0 -1"));
        assert!(is_ended_child("17 (a) S 1) Z 1 17 17 0 -1"));
        assert!(!is_ended_child("17 (a) Z 1) S 1 17 17 0 -1"));
        assert!(!is_ended_child("17 (sh) Z 12 17 17 0 -1"));
        assert!(!is_ended_child(""));
    }
}
