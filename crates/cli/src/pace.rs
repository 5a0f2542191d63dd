//! How fast a task is, and how long it takes from now on, from the observed changes of its progress. It is unknown when
//! the work was done that a first poll finds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// So many of the last changes count.
const CHANGES_MAX: usize = 16;

/// A task that is seen before it has done anything is at its beginning for so long. It may sleep before it begins.
const BEGINNING_MAX: Duration = Duration::from_secs(10);

/// A task has stopped, and may sleep, if it has not changed for longer than this, and than so many changes took before.
const STOPPED_AFTER: Duration = Duration::from_secs(10);
const STOPPED_AFTER_CHANGES: u32 = 4;

/// Less time says little about a pace.
const MEASURED_S_MIN: f64 = 0.5;

/// A task that would take longer shows no time.
const LEFT_MAX_S: f64 = 1e9;

/// The pace of a task.
#[derive(Default)]
pub(crate) struct Pace {
    /// How much was done when a change was seen, oldest first.
    changes: VecDeque<(Instant, f64)>,
    /// How much was done when it was seen last.
    done: Option<f64>,
    total: f64,
}

impl Pace {
    /// Notes that nothing is done yet.
    pub(crate) fn begin(&mut self, now: Instant) {
        if self.changes.is_empty() {
            self.changes.push_back((now, 0.0));
            self.done = Some(0.0);
        }
    }

    /// Notes how much is done.
    pub(crate) fn note(&mut self, now: Instant, done: f64, total: f64) {
        self.total = total;
        let before = self.done.replace(done);
        if before == Some(done) {
            return;
        }
        let is_late = match (self.changes.back(), self.changes.len()) {
            (Some((begun, _)), 1) => before == Some(0.0) && now.duration_since(*begun) > BEGINNING_MAX,
            _ => self.has_stopped(now),
        };
        if is_late || before.is_none_or(|before| before > done) {
            self.changes.clear();
        }
        // It is unknown when the work was done that is seen first, unless it is nothing.
        if before.is_some() || done == 0.0 {
            self.changes.push_back((now, done));
        }
        if self.changes.len() > CHANGES_MAX {
            self.changes.pop_front();
        }
    }

    /// How much is done in a second, and how long the rest takes; `None` if that is not known.
    pub(crate) fn at(&self, now: Instant) -> Option<(f64, Duration)> {
        let (&(first, from), &(last, to)) = (self.changes.front()?, self.changes.back()?);
        let seconds = last.duration_since(first).as_secs_f64();
        if seconds < MEASURED_S_MIN || to <= from || self.has_stopped(now) {
            return None;
        }
        let rate = (to - from) / seconds;
        let left = (self.total - to).max(0.0) / rate - now.duration_since(last).as_secs_f64();
        // Less than nothing is not left before it is done.
        let left = if to < self.total { left.max(1.0) } else { 0.0 };
        (left < LEFT_MAX_S).then(|| (rate, Duration::from_secs_f64(left)))
    }

    fn has_stopped(&self, now: Instant) -> bool {
        let (Some((first, _)), Some((last, _))) = (self.changes.front(), self.changes.back()) else { return false };
        let gaps = u32::try_from(self.changes.len()).unwrap_or(u32::MAX).saturating_sub(1);
        let usual = last.duration_since(*first).checked_div(gaps).unwrap_or(Duration::MAX);
        now.duration_since(*last) > usual.saturating_mul(STOPPED_AFTER_CHANGES).max(STOPPED_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    /// The pace after these sights, each with its second and with how much of 120 was done.
    fn pace(begun: Instant, seen: &[(f64, f64)]) -> Pace {
        let mut pace = Pace::default();
        for (second, done) in seen {
            pace.note(begun + Duration::from_secs_f64(*second), *done, 120.0);
        }
        pace
    }

    fn shown(seen: &[(f64, f64)], second: f64) -> Option<(f64, u64)> {
        let begun = clock::instant();
        let shown = pace(begun, seen).at(begun + Duration::from_secs_f64(second));
        shown.map(|(rate, left)| (rate, left.as_secs()))
    }

    #[test]
    fn what_was_done_before_it_was_first_seen_does_not_count() {
        assert_eq!(shown(&[(0.0, 40.0)], 0.1), None);
        assert_eq!(shown(&[(0.0, 40.0), (3.0, 46.0)], 3.1), None, "the first change may have come at any time");
        assert_eq!(shown(&[(0.0, 40.0), (3.0, 46.0), (3.5, 46.0), (6.0, 52.0)], 6.0), Some((2.0, 34)));
    }

    #[test]
    fn a_task_that_is_seen_from_its_beginning_has_a_pace_with_its_first_change() {
        assert_eq!(shown(&[(0.0, 0.0), (2.0, 4.0)], 2.0), Some((2.0, 58)));
        let begun = clock::instant();
        let mut pace = Pace::default();
        pace.begin(begun);
        pace.note(begun + Duration::from_secs(2), 4.0, 8.0);
        assert_eq!(pace.at(begun + Duration::from_secs(3)), Some((2.0, Duration::from_secs(1))));
    }

    #[test]
    fn a_task_that_sleeps_has_no_pace_and_one_that_wakes_has_a_new_one() {
        assert_eq!(shown(&[(0.0, 0.0)], 3_600.0), None);
        assert_eq!(shown(&[(0.0, 0.0), (1.0, 2.0), (2.0, 4.0)], 60.0), None);
        let slept = [(0.0, 0.0), (1.0, 2.0), (2.0, 4.0), (3_600.0, 5.0), (3_601.0, 8.0)];
        assert_eq!(shown(&slept, 3_601.0), Some((3.0, 37)));
        assert_eq!(shown(&[(0.0, 0.0), (7_200.0, 1.0), (7_201.0, 3.0)], 7_201.0), Some((2.0, 58)));
    }

    #[test]
    fn a_slow_task_is_slow_and_not_asleep() {
        let slow = [(0.0, 5.0), (60.0, 6.0), (120.0, 7.0), (180.0, 8.0)];
        assert_eq!(shown(&slow, 230.0).map(|(rate, _)| (rate * 60.0).round()), Some(1.0));
    }

    #[test]
    fn a_task_that_begins_again_is_measured_again() {
        assert_eq!(shown(&[(0.0, 0.0), (1.0, 60.0), (2.0, 1.0)], 2.0), None);
        assert_eq!(shown(&[(0.0, 0.0), (1.0, 60.0), (2.0, 1.0), (3.0, 3.0)], 3.0), Some((2.0, 58)));
    }
}
