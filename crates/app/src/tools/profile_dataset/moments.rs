//! Mean and standard deviation in one pass: block by block with two passes over the block, the blocks joined by the
//! rule of Chan, Golub and LeVeque. Exact up to rounding, whatever the offset of the values.

use serde::{Deserialize, Serialize};

/// Count, mean and sum of squared deviations of the numbers so far.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Moments {
    /// Adds numbers, each with how often it occurs.
    pub fn absorb(&mut self, numbers: &[(f64, u64)]) {
        let count: u64 = numbers.iter().map(|(_, times)| times).sum();
        if count == 0 {
            return;
        }
        let total = as_f64(count);
        let sum: f64 = numbers.iter().map(|(number, times)| number * as_f64(*times)).sum();
        let mean = if sum.is_finite() {
            sum / total
        } else {
            // The sum of very large numbers overflows where their mean does not.
            numbers.iter().map(|(number, times)| number * (as_f64(*times) / total)).sum()
        };
        let squares = numbers.iter().map(|(number, times)| (number - mean).powi(2) * as_f64(*times)).sum();
        self.merge(Self { count, mean, squares });
    }

    /// Merges in the numbers of another one.
    pub fn merge(&mut self, other: Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = other;
            return;
        }
        let (left, right) = (as_f64(self.count), as_f64(other.count));
        let total = left + right;
        let delta = other.mean - self.mean;
        self.count += other.count;
        self.mean += delta * (right / total);
        self.squares += other.squares + delta * delta * left * (right / total);
    }

    /// The arithmetic mean; `None` without numbers, or if it is outside the range of a double.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0 && self.mean.is_finite()).then_some(self.mean)
    }

    /// The sample standard deviation (divisor n - 1); `None` for fewer than two numbers.
    #[must_use]
    pub fn standard_deviation(&self) -> Option<f64> {
        let deviation = (self.squares / as_f64(self.count.checked_sub(1).filter(|n| *n > 0)?)).sqrt();
        deviation.is_finite().then_some(deviation)
    }
}

/// A count as a number; exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^53")]
pub(super) const fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn exact(numbers: &[f64]) -> (f64, f64) {
        let n = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        let squares: f64 = numbers.iter().map(|x| (x - mean).powi(2)).sum();
        (mean, (squares / (n - 1.0)).sqrt())
    }

    proptest! {
        #[test]
        fn blocks_give_the_same_as_all_at_once(
            numbers in prop::collection::vec(-1e6_f64..1e6, 2..200),
            offset in prop::sample::select(vec![0.0, 1e9]),
            block in 1_usize..50,
        ) {
            let numbers: Vec<f64> = numbers.iter().map(|x| x + offset).collect();
            let mut moments = Moments::default();
            for part in numbers.chunks(block) {
                let part: Vec<_> = part.iter().map(|x| (*x, 1)).collect();
                moments.absorb(&part);
            }
            let (mean, deviation) = exact(&numbers);
            prop_assert!((moments.mean().unwrap() - mean).abs() <= 1e-9 * mean.abs().max(1.0));
            let error = (moments.standard_deviation().unwrap() - deviation).abs();
            prop_assert!(error <= 1e-6 * deviation.max(1.0), "{error}");
        }
    }

    #[test]
    fn a_weight_is_that_many_values() {
        let (mut weighted, mut single) = (Moments::default(), Moments::default());
        weighted.absorb(&[(1.0, 3), (5.0, 1)]);
        single.absorb(&[(1.0, 1), (1.0, 1), (1.0, 1), (5.0, 1)]);
        assert_eq!(weighted, single);
        assert_eq!(weighted.mean(), Some(2.0));
        assert_eq!(weighted.standard_deviation(), Some(2.0));
    }

    #[test]
    fn no_number_has_no_mean_and_one_has_no_deviation() {
        let mut moments = Moments::default();
        assert_eq!(moments.mean(), None);
        moments.absorb(&[(4.0, 1)]);
        assert_eq!((moments.mean(), moments.standard_deviation()), (Some(4.0), None));
    }

    #[test]
    fn the_mean_of_huge_numbers_does_not_overflow() {
        let mut moments = Moments::default();
        moments.absorb(&[(1e308, 4)]);
        assert_eq!(moments.mean(), Some(1e308));
    }
}
