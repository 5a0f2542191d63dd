//! Counting identical lines of callers who get nowhere, so that a flood of denied requests is not a flood of lines.
//!
//! In every minute, the first of them is written at once, then the second, the fourth, the eighth and so on. Each line
//! has the number of requests since the line before. The next request, or the end of the process, writes the rest of a
//! minute. So the counts of all lines add up to the number of requests. A process that is killed before that loses less
//! than half of its last minute's.

use std::collections::BTreeMap;
use std::fmt::Debug;

use crate::Timestamp;
use crate::audit::{FIELDS, Outcome};
use tracing::field::{Field, Visit};

/// How long identical lines are counted together.
const WINDOW_MS: u64 = 60_000;

/// How many different lines are counted at a time. All further ones are counted by their reason alone: an attacker may
/// have any number of addresses.
const DIFFERENT_MAX: usize = 64;

/// Two lines with the same values of these fields are identical.
const SAME: [&str; 7] = ["event", "outcome", "reason", "scopes", "owner", "tool", "address"];

/// The same, once there are too many different lines.
const SAME_REASON: [&str; 3] = ["event", "outcome", "reason"];

/// The fields of a line, or of a span that is around one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields {
    pub(super) values: BTreeMap<&'static str, String>,
    /// This is not a line: the counts are written now.
    pub(super) is_flush: bool,
}

impl Fields {
    fn get(&self, name: &str) -> &str {
        self.values.get(name).map(String::as_str).unwrap_or_default()
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Only what is documented is written.
        if let Some(known) = FIELDS.iter().find(|known| known.name == field.name()) {
            self.values.insert(known.name, value.to_owned());
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.is_flush |= value && field.name() == "flush";
    }
}

/// A line, and how many requests it stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) fields: Fields,
    pub(super) count: u64,
}

/// The counts of the current minute.
#[derive(Debug, Default)]
pub(super) struct Tally {
    ends_at: Option<Timestamp>,
    lines: BTreeMap<Vec<String>, Line>,
}

#[derive(Debug)]
struct Line {
    latest: Fields,
    count: u64,
    written: u64,
}

impl Line {
    /// The count that is not written yet.
    fn rest(&mut self) -> Option<Counted> {
        let count = self.count - self.written;
        self.written = self.count;
        (count > 0).then(|| Counted { fields: self.latest.clone(), count })
    }
}

impl Tally {
    /// The lines to be written now that there is another one.
    pub(super) fn take(&mut self, line: Fields, now: Timestamp) -> Vec<Counted> {
        let mut due = self.over(now);
        if !Outcome::is_counted(line.get("outcome")) {
            due.push(Counted { fields: line, count: 1 });
            return due;
        }
        self.ends_at.get_or_insert_with(|| now.plus_ms(WINDOW_MS));
        let (key, line) = self.key_of(line);
        let counted = self.lines.entry(key).or_insert_with(|| Line { latest: line.clone(), count: 0, written: 0 });
        counted.latest = line;
        counted.count += 1;
        if counted.count.is_power_of_two() {
            due.extend(counted.rest());
        }
        due
    }

    /// The rest of a minute that has ended.
    pub(super) fn over(&mut self, now: Timestamp) -> Vec<Counted> {
        if self.ends_at.is_none_or(|ends_at| now < ends_at) {
            return Vec::new();
        }
        self.flush()
    }

    pub(super) fn flush(&mut self) -> Vec<Counted> {
        self.ends_at = None;
        std::mem::take(&mut self.lines).into_values().filter_map(|mut line| line.rest()).collect()
    }

    fn key_of(&self, mut line: Fields) -> (Vec<String>, Fields) {
        let key = |line: &Fields, names: &[&str]| names.iter().map(|name| line.get(name).to_owned()).collect();
        let whole: Vec<String> = key(&line, &SAME);
        if self.lines.len() < DIFFERENT_MAX || self.lines.contains_key(&whole) {
            return (whole, line);
        }
        line.values.retain(|name, _| SAME_REASON.contains(name));
        (key(&line, &SAME_REASON), line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denied(address: &str) -> Fields {
        let values = [("event", "login"), ("outcome", "denied"), ("reason", "send a token"), ("address", address)];
        Fields { values: values.map(|(name, value)| (name, value.to_owned())).into(), is_flush: false }
    }

    fn counts(lines: &[Counted]) -> Vec<u64> {
        lines.iter().map(|line| line.count).collect()
    }

    const NOW: Timestamp = Timestamp::from_ms(1_000_000);

    #[test]
    fn a_flood_of_one_line_becomes_a_few_whose_counts_add_up() {
        let mut tally = Tally::default();
        let mut lines: Vec<Counted> = (0..1_000_000).flat_map(|_| tally.take(denied("a"), NOW)).collect();
        assert_eq!(counts(&lines[..5]), [1, 1, 2, 4, 8]);
        assert_eq!(tally.over(NOW.plus_ms(WINDOW_MS - 1)), []);
        lines.extend(tally.over(NOW.plus_ms(WINDOW_MS)));
        assert_eq!((lines.len(), counts(&lines).iter().sum()), (21, 1_000_000));
        assert_eq!(tally.flush(), []);
        assert_eq!(counts(&tally.take(denied("a"), NOW.plus_ms(WINDOW_MS))), [1], "the next minute begins anew");
    }

    #[test]
    fn a_flood_from_many_addresses_is_bounded_too_and_nothing_is_lost() {
        let mut tally = Tally::default();
        let flood = |tally: &mut Tally, number: u32| tally.take(denied(&format!("address {number}")), NOW);
        let mut lines: Vec<Counted> = (0..100_000).flat_map(|number| flood(&mut tally, number)).collect();
        lines.extend(tally.flush());
        assert!(lines.len() < 100, "{}", lines.len());
        assert_eq!(counts(&lines).iter().sum::<u64>(), 100_000);
        let last = lines.last().unwrap();
        assert_eq!((last.fields.get("reason"), last.fields.get("address")), ("send a token", ""));
    }

    #[test]
    fn what_was_done_is_never_counted_together() {
        let mut tally = Tally::default();
        let mut done = denied("a");
        done.values.insert("outcome", "done".to_owned());
        for _ in 0..9 {
            assert_eq!(tally.take(done.clone(), NOW), [Counted { fields: done.clone(), count: 1 }]);
        }
    }
}
