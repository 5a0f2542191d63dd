//! When a client should ask again, where it is not [`Task::poll_interval_ms`] with each answer.

use longhaul_core::{Task, Timestamp, limits};
use serde_json::Value;

/// When to ask for a job again, by its age: (younger than, in milliseconds; interval, in seconds).
const JOB_CADENCE: [(u64, u64); 2] = [(10_000, 1), (60_000, 5)];

/// The same for older jobs.
const JOB_CADENCE_LAST_S: u64 = 30;

/// How long to wait before each poll, in seconds, for a protocol version that says it once: the interval of a young
/// task would be much too short for the rest of a long one. Whole seconds are integers on the wire: some decoders take
/// nothing else.
pub(crate) fn poll_interval_once_s(task: &Task, now: Timestamp) -> Value {
    let settled_ms = task.terms.poll_interval_ms(age_ms(task, now).max(limits::POLL_SETTLED_MS));
    let ms = settled_ms.max(task.poll_interval_ms(now));
    if ms.is_multiple_of(1_000) {
        return (ms / 1_000).into();
    }
    let seconds = std::time::Duration::from_millis(ms).as_secs_f64();
    seconds.into()
}

/// When a model should ask for a job again, in seconds. The request for its status waits for the end by itself, so this
/// is how long to do something else after it waited in vain. Before a later start there is nothing to ask for.
pub(crate) fn job_poll_after_s(task: &Task, now: Timestamp) -> u64 {
    let left_ms = task.awaited_start().map_or(0, |start| start.since_ms(now));
    job_cadence_s(age_ms(task, now)).max(left_ms.div_ceil(1_000))
}

fn job_cadence_s(age_ms: u64) -> u64 {
    JOB_CADENCE.iter().find(|(below_ms, _)| age_ms < *below_ms).map_or(JOB_CADENCE_LAST_S, |(_, poll_s)| *poll_s)
}

const fn age_ms(task: &Task, now: Timestamp) -> u64 {
    now.since_ms(task.due_at())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cadence_is_every_second_then_every_five_then_every_thirty() {
        let asked = [0, 9_999, 10_000, 59_999, 60_000, 3_600_000].map(job_cadence_s);
        assert_eq!(asked, [1, 1, 5, 5, 30, 30]);
    }
}
