//! Quantiles: exact while a column has few different numbers, a t-digest from then on.

use datasketches::tdigest::TDigestMut;
use serde::{Deserialize, Serialize};

use super::error::ProfileError;
use super::moments::as_f64;

/// A number that occurs more often than this in one batch goes into the digest by doubling, not one by one.
const REPEAT_MAX: u64 = 8;

/// The distribution of the numbers of one column.
#[derive(Debug, Clone)]
pub struct Quantiles {
    distribution: Distribution,
    exact_max: usize,
    digest_k: u16,
}

#[derive(Debug, Clone)]
enum Distribution {
    /// Every different number, ascending, with how often it occurs.
    Exact(Vec<(f64, u64)>),
    Digest(Box<TDigestMut>),
}

/// How quantiles were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuantileMethod {
    /// From all values, linear between neighbours.
    Exact,
    /// From a t-digest; the rank is off by at most about one percent, less at both ends.
    Approximate,
}

/// The recorded form of [`Quantiles`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum QuantilesRecord {
    /// See `Distribution::Exact`.
    Exact(Vec<(f64, u64)>),
    /// The serialised t-digest.
    Digest(Vec<u8>),
}

impl Quantiles {
    /// Without numbers yet: exact for up to `exact_max` different ones, then a digest of compression `digest_k`.
    #[must_use]
    pub const fn new(exact_max: usize, digest_k: u16) -> Self {
        Self { distribution: Distribution::Exact(Vec::new()), exact_max, digest_k }
    }

    /// What was recorded by [`Self::record`].
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if the record is damaged.
    pub fn restore(record: QuantilesRecord, exact_max: usize, digest_k: u16) -> Result<Self, ProfileError> {
        let distribution = match record {
            QuantilesRecord::Exact(numbers) => Distribution::Exact(numbers),
            QuantilesRecord::Digest(bytes) => Distribution::Digest(Box::new(
                TDigestMut::deserialize(&bytes).map_err(|_damaged| ProfileError::Internal("unreadable t-digest"))?,
            )),
        };
        Ok(Self { distribution, exact_max, digest_k })
    }

    /// The same form without values.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if the digest cannot be created.
    pub fn without_values(&self) -> Result<Self, ProfileError> {
        let distribution = match &self.distribution {
            Distribution::Exact(_) => Distribution::Exact(Vec::new()),
            Distribution::Digest(_) => Distribution::Digest(Box::new(new_digest(self.digest_k)?)),
        };
        Ok(Self { distribution, exact_max: self.exact_max, digest_k: self.digest_k })
    }

    /// A compact record of all numbers so far, exact for up to `exact_max` different numbers.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if the digest cannot be created.
    pub fn record(mut self, exact_max: usize) -> Result<QuantilesRecord, ProfileError> {
        self.exact_max = self.exact_max.min(exact_max);
        if let Distribution::Exact(numbers) = &mut self.distribution {
            let numbers = std::mem::take(numbers);
            self.take_exact(numbers)?;
        }
        Ok(match self.distribution {
            Distribution::Exact(numbers) => QuantilesRecord::Exact(numbers),
            Distribution::Digest(mut digest) => QuantilesRecord::Digest(digest.serialize()),
        })
    }

    /// Adds finite numbers, each with how often it occurs. Leaves `numbers` sorted.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if the digest cannot be created.
    pub fn absorb(&mut self, numbers: &mut [(f64, u64)]) -> Result<(), ProfileError> {
        if numbers.is_empty() {
            return Ok(());
        }
        // A sorted batch is one run to the digest's own sort, which then costs almost nothing.
        numbers.sort_unstable_by(|left, right| left.0.total_cmp(&right.0));
        match &mut self.distribution {
            Distribution::Digest(digest) => add(digest, numbers),
            Distribution::Exact(known) => {
                let merged = merge_sorted(known, numbers);
                self.take_exact(merged)
            }
        }
    }

    /// Merges in the numbers of another one.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if the digest cannot be created.
    pub fn merge(&mut self, other: Self) -> Result<(), ProfileError> {
        match (&mut self.distribution, other.distribution) {
            (Distribution::Exact(known), Distribution::Exact(more)) => {
                let merged = merge_sorted(known, &more);
                self.take_exact(merged)
            }
            (Distribution::Digest(digest), Distribution::Exact(more)) => add(digest, &more),
            (Distribution::Exact(known), Distribution::Digest(mut more)) => {
                add(&mut more, known)?;
                self.distribution = Distribution::Digest(more);
                Ok(())
            }
            (Distribution::Digest(digest), Distribution::Digest(more)) => {
                digest.merge(&more);
                Ok(())
            }
        }
    }

    fn take_exact(&mut self, merged: Vec<(f64, u64)>) -> Result<(), ProfileError> {
        if merged.len() <= self.exact_max {
            self.distribution = Distribution::Exact(merged);
            return Ok(());
        }
        let mut digest = new_digest(self.digest_k)?;
        add(&mut digest, &merged)?;
        self.distribution = Distribution::Digest(Box::new(digest));
        Ok(())
    }

    /// The values at `ranks` (each from 0 to 1), and how they were found; `None` without numbers.
    pub fn at(&mut self, ranks: &[f64]) -> Option<(Vec<f64>, QuantileMethod)> {
        match &mut self.distribution {
            Distribution::Exact(numbers) => {
                let values = ranks.iter().map(|rank| exact_quantile(numbers, *rank));
                Some((values.collect::<Option<_>>()?, QuantileMethod::Exact))
            }
            Distribution::Digest(digest) => {
                let values = digest.quantiles(ranks).ok().flatten()?;
                Some((values, QuantileMethod::Approximate))
            }
        }
    }
}

fn new_digest(k: u16) -> Result<TDigestMut, ProfileError> {
    TDigestMut::new(k).map_err(|_small| ProfileError::Internal("t-digest of too small a compression"))
}

fn add(digest: &mut TDigestMut, numbers: &[(f64, u64)]) -> Result<(), ProfileError> {
    let mut times_max = 0;
    for (number, times) in numbers {
        if *times <= REPEAT_MAX {
            (0..*times).for_each(|_| digest.update(*number));
        } else {
            times_max = times_max.max(*times);
        }
    }
    if times_max == 0 {
        return Ok(());
    }
    // Horner's rule over the bits of all counts at once: double what is there, then add the numbers with that bit.
    let mut repeated = new_digest(digest.k())?;
    for bit in (0..u64::BITS - times_max.leading_zeros()).rev() {
        let same = repeated.clone();
        repeated.merge(&same);
        let with_bit = numbers.iter().filter(|(_, times)| *times > REPEAT_MAX && (times >> bit) & 1 == 1);
        with_bit.for_each(|(number, _)| repeated.update(*number));
    }
    digest.merge(&repeated);
    Ok(())
}

fn merge_sorted(left: &[(f64, u64)], right: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let mut merged: Vec<(f64, u64)> = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let next = match (left.peek(), right.peek()) {
            (Some(l), Some(r)) if l.0.total_cmp(&r.0).is_le() => left.next(),
            (_, Some(_)) => right.next(),
            (_, None) => left.next(),
        };
        let Some((number, times)) = next else {
            return merged;
        };
        match merged.last_mut() {
            Some((last, count)) if last.total_cmp(number).is_eq() => *count += times,
            Some(_) | None => merged.push((*number, *times)),
        }
    }
}

/// Linear interpolation between the two neighbours of the rank among all values, as most statistics packages do.
fn exact_quantile(numbers: &[(f64, u64)], rank: f64) -> Option<f64> {
    let total: u64 = numbers.iter().map(|(_, times)| times).sum();
    let position = as_f64(total.checked_sub(1)?) * rank.clamp(0.0, 1.0);
    let lower = value_at(numbers, position.floor())?;
    let upper = value_at(numbers, position.ceil())?;
    let part = position - position.floor();
    Some(lower * (1.0 - part) + upper * part)
}

fn value_at(numbers: &[(f64, u64)], position: f64) -> Option<f64> {
    let mut seen = 0;
    for (number, times) in numbers {
        seen += times;
        if position < as_f64(seen) {
            return Some(*number);
        }
    }
    numbers.last().map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(numbers: &[f64], batch: usize) -> Quantiles {
        let mut quantiles = Quantiles::new(256, 200);
        for part in numbers.chunks(batch) {
            let mut part: Vec<_> = part.iter().map(|x| (*x, 1)).collect();
            quantiles.absorb(&mut part).unwrap();
        }
        quantiles
    }

    fn check_rank_error(numbers: &mut [f64], quantiles: &mut Quantiles, error_max: f64) {
        numbers.sort_unstable_by(f64::total_cmp);
        for rank in [0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99] {
            let (values, _) = quantiles.at(&[rank]).unwrap();
            let below = numbers.partition_point(|x| *x < values[0]) as f64 / numbers.len() as f64;
            let to = numbers.partition_point(|x| *x <= values[0]) as f64 / numbers.len() as f64;
            assert!(
                below - error_max <= rank && rank <= to + error_max,
                "rank {rank} gave {}, whose ranks are {below} to {to}",
                values[0]
            );
        }
    }

    #[test]
    fn few_values_give_what_a_statistics_package_gives() {
        let numbers: Vec<f64> = (1..=10).map(f64::from).collect();
        let (values, method) = of(&numbers, 3).at(&[0.0, 0.25, 0.5, 1.0]).unwrap();
        assert_eq!(values, [1.0, 3.25, 5.5, 10.0]);
        assert_eq!(method, QuantileMethod::Exact);
        assert!(Quantiles::new(4, 200).at(&[0.5]).is_none());
    }

    #[test]
    fn few_different_values_stay_exact_however_often_they_occur() {
        let mut quantiles = Quantiles::new(256, 200);
        quantiles.absorb(&mut [(5.0, 10_000_000), (1.0, 30_000_000)]).unwrap();
        assert_eq!(quantiles.at(&[0.5, 0.74, 0.76]).unwrap().0, [1.0, 1.0, 5.0]);
    }

    #[test]
    fn many_values_stay_within_the_rank_error() {
        // A skewed distribution without randomness: the golden-ratio sequence is evenly spread.
        let mut numbers: Vec<f64> =
            (0..200_000).map(|i| (f64::from(i) * 0.618_033_988_749_894_9).fract().powi(4) * 1e6).collect();
        let mut quantiles = of(&numbers, 3_000);
        check_rank_error(&mut numbers, &mut quantiles, 0.005);
    }

    #[test]
    fn a_record_and_a_merge_change_no_quantile_by_more_than_the_error() {
        let mut numbers: Vec<f64> = (0..50_000).map(|i| f64::from(i % 7_919)).collect();
        let (left, right) = numbers.split_at(20_000);
        let all = of(left, 1000);
        let record = all.record(64).unwrap();
        let mut all = Quantiles::restore(record, 256, 200).unwrap();
        all.merge(of(right, 1000)).unwrap();
        check_rank_error(&mut numbers, &mut all, 0.01);
    }

    proptest! {
        #[test]
        fn exact_and_approximate_agree_within_the_error(
            mut numbers in prop::collection::vec(-1000_i32..1000, 1..2000),
            repeat in 1_u64..200,
        ) {
            let mut quantiles = Quantiles::new(20, 200);
            let mut batch: Vec<_> = numbers.iter().map(|x| (f64::from(*x), repeat)).collect();
            quantiles.absorb(&mut batch).unwrap();
            numbers.sort_unstable();
            let mut floats: Vec<f64> = numbers.iter().map(|x| f64::from(*x)).collect();
            // Few numbers that occur often are more than a digest keeps apart: what is between two of its means is off by two.
            let of_two = 2.0 / floats.len() as f64;
            check_rank_error(&mut floats, &mut quantiles, 0.01 + of_two);
        }
    }
}
