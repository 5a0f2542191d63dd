//! The most frequent values of a column: a frequent-items sketch over hashes, and the texts of the values it holds.
//!
//! The sketch makes room by subtracting from all its counts. For a block with more different values than fit, that is
//! done beforehand: the count of the first value that does not fit is subtracted from all, and only what is left
//! is fed. That costs no accuracy (the block's counts are exact, so the loss is the least possible), and a column of
//! unique values costs almost nothing.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use datasketches::frequencies::{ErrorType, FrequentItemsSketch};
use serde::{Deserialize, Serialize};

use super::entries::Entry;
use super::error::ProfileError;

/// Counts values by hash; exact until a column has more different values than the sketch has room for.
#[derive(Debug, Clone)]
pub struct Frequent {
    counts: FrequentItemsSketch<u64>,
    /// What the hashes stand for: all that the sketch holds, and some that it has dropped since the last tidying.
    texts: BTreeMap<u64, Box<[u8]>>,
    /// The most that was subtracted from a value, in total, before it was fed.
    subtracted: u64,
    slots: usize,
    text_bytes_max: usize,
}

/// The recorded form of [`Frequent`]: the values that matter, each with its hash and its lowest possible count.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FrequentRecord {
    values: Vec<(u64, u64, Box<[u8]>)>,
    error_max: u64,
}

/// One value and how often it occurs: at most `count`, at least `count` minus [`Frequent::error_max`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrequentText {
    /// The value as it is written, cut to the length limit.
    pub text: Box<[u8]>,
    /// The estimate.
    pub count: u64,
}

impl Frequent {
    /// With room for three quarters of `slots` values (a power of two) and texts of at most `text_bytes_max` bytes.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if `slots` is not a power of two of at least 8.
    pub fn new(slots: usize, text_bytes_max: usize) -> Result<Self, ProfileError> {
        let counts = FrequentItemsSketch::new(slots).map_err(|_range| ProfileError::Internal("frequent-items size"))?;
        Ok(Self { counts, texts: BTreeMap::new(), subtracted: 0, slots, text_bytes_max })
    }

    /// What was recorded by [`Self::record`].
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn restore(record: FrequentRecord, slots: usize, text_bytes_max: usize) -> Result<Self, ProfileError> {
        let mut frequent = Self::new(slots, text_bytes_max)?;
        frequent.subtracted = record.error_max;
        for (hash, times, text) in record.values {
            frequent.counts.update_with_count(hash, times);
            frequent.texts.insert(hash, text);
        }
        Ok(frequent)
    }

    /// A compact record of the `values_max` most frequent values.
    #[must_use]
    pub fn record(mut self, values_max: usize) -> FrequentRecord {
        let mut rows: Vec<(u64, u64)> = self
            .counts
            .frequent_items(ErrorType::NoFalseNegatives)
            .iter()
            .map(|row| (*row.item(), row.lower_bound()))
            .collect();
        rows.sort_unstable_by_key(|(hash, times)| (Reverse(*times), *hash));
        // Again, the count of what does not fit is subtracted from all.
        let least = rows.get(values_max).map_or(0, |(_, times)| *times);
        let left = rows.into_iter().filter(|(_, times)| *times > least);
        let values = left.filter_map(|(hash, times)| Some((hash, times - least, self.texts.remove(&hash)?)));
        FrequentRecord { values: values.collect(), error_max: self.counts.maximum_error() + self.subtracted + least }
    }

    /// Adds the values of a block, each once; their texts are in `text`.
    pub fn absorb(&mut self, values: &[Entry], text: &[u8]) {
        let least = self.least_that_fits(values);
        self.subtracted += least;
        let fed = || values.iter().filter(|value| value.times > least);
        for value in fed() {
            self.counts.update_with_count(value.hash, value.times - least);
        }
        // Only what the sketch still holds at the end needs its text.
        for value in fed() {
            if self.counts.lower_bound(&value.hash) > 0 && !self.texts.contains_key(&value.hash) {
                let whole = value.span.of(text);
                let stored = whole.get(..self.text_bytes_max).unwrap_or(whole);
                self.texts.insert(value.hash, stored.into());
            }
        }
        if self.texts.len() > 4 * self.slots {
            self.tidy();
        }
    }

    /// How often the most frequent value occurs for which there would be no room; 0 if there is room for all.
    fn least_that_fits(&self, values: &[Entry]) -> u64 {
        let room = self.counts.maximum_map_capacity();
        if values.len() <= room {
            return 0;
        }
        let repeated = values.iter().filter(|value| value.times > 1).map(|value| value.times);
        let mut repeated: Vec<u64> = repeated.collect();
        if repeated.len() <= room {
            return 1;
        }
        let (_, least, _) = repeated.select_nth_unstable_by(room, |left, right| right.cmp(left));
        *least
    }

    /// Merges in the values of another one.
    pub fn merge(&mut self, other: Self) {
        self.counts.merge(&other.counts);
        self.subtracted += other.subtracted;
        self.texts.extend(other.texts);
        self.tidy();
    }

    fn tidy(&mut self) {
        self.texts.retain(|hash, _| self.counts.lower_bound(hash) > 0);
    }

    /// By how much a count may be too high; 0 if all counts are exact.
    #[must_use]
    pub fn error_max(&self) -> u64 {
        self.counts.maximum_error() + self.subtracted
    }

    /// The most frequent values, most frequent first and equal ones by their text. A value is listed only if it is
    /// certain to be more frequent than every value that is not held.
    #[must_use]
    pub fn top(&self, values_max: usize) -> Vec<FrequentText> {
        let rows = self.counts.frequent_items(ErrorType::NoFalsePositives);
        let certain = rows.iter().filter(|row| row.lower_bound() > self.error_max());
        let listed = certain.filter_map(|row| {
            let text = self.texts.get(row.item())?.clone();
            Some(FrequentText { text, count: row.upper_bound() + self.subtracted })
        });
        let mut values: Vec<FrequentText> = listed.collect();
        values.sort_unstable_by(|left, right| right.count.cmp(&left.count).then_with(|| left.text.cmp(&right.text)));
        values.truncate(values_max);
        values
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::entries::Entries;
    use super::super::grid::Span;
    use super::*;

    fn absorb(frequent: &mut Frequent, values: &[String]) {
        let text = values.concat().into_bytes();
        let mut start = 0;
        let spans: Vec<_> = values
            .iter()
            .map(|value| {
                start += value.len();
                Span::new(start - value.len(), start)
            })
            .collect();
        frequent.absorb(Entries::default().gather(&text, &spans), &text);
    }

    fn text(value: &FrequentText) -> String {
        String::from_utf8_lossy(&value.text).into_owned()
    }

    #[test]
    fn few_values_are_counted_exactly_and_sorted() {
        let mut frequent = Frequent::new(64, 100).unwrap();
        absorb(&mut frequent, &["b", "a", "c", "c"].map(str::to_owned));
        let top: Vec<_> = frequent.top(3).iter().map(|v| (text(v), v.count)).collect();
        assert_eq!(top, [("c".to_owned(), 2), ("a".to_owned(), 1), ("b".to_owned(), 1)]);
        assert_eq!(frequent.error_max(), 0);
    }

    #[test]
    fn a_column_of_unique_values_has_no_frequent_value() {
        let mut frequent = Frequent::new(64, 100).unwrap();
        for block in 0..20 {
            let values: Vec<_> = (0..1000).map(|i| format!("id-{block}-{i}")).collect();
            absorb(&mut frequent, &values);
        }
        assert!(frequent.top(10).is_empty());
    }

    #[test]
    fn a_frequent_value_among_unique_ones_is_found_with_its_count() {
        let mut frequent = Frequent::new(64, 100).unwrap();
        for block in 0..20 {
            let values: Vec<_> =
                (0..1000).map(|i| if i % 10 == 0 { "often".to_owned() } else { format!("{block}-{i}") }).collect();
            absorb(&mut frequent, &values);
        }
        let top = frequent.top(10);
        assert_eq!(top.iter().map(|v| (text(v), v.count)).collect::<Vec<_>>(), [("often".to_owned(), 2000)]);
        assert_eq!(frequent.error_max(), 20);
    }

    proptest! {
        #[test]
        fn counts_are_right_within_the_error_across_records_and_merges(
            seeds in prop::collection::vec(0_u32..1_000_000, 1..3000),
        ) {
            // Squaring makes small numbers frequent.
            let values: Vec<String> = seeds.iter().map(|s| (u64::from(*s).pow(2) / 2_000_000_000).to_string()).collect();
            let (first, second) = values.split_at(values.len() / 2);
            let (mut left, mut right) = (Frequent::new(64, 100).unwrap(), Frequent::new(64, 100).unwrap());
            first.chunks(300).for_each(|block| absorb(&mut left, block));
            second.chunks(300).for_each(|block| absorb(&mut right, block));
            let mut left = Frequent::restore(left.record(30), 64, 100).unwrap();
            left.merge(right);
            let error = left.error_max();
            for value in left.top(50) {
                let truth = values.iter().filter(|v| **v == text(&value)).count() as u64;
                prop_assert!(truth <= value.count && value.count <= truth + error);
            }
        }
    }
}
