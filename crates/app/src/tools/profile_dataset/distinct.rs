//! How many different values a column has: a HyperLogLog, which counts one by one up to some hundred values.

use datasketches::hll::{Coupon, HllSketch, HllType, HllUnion};

use super::error::ProfileError;

/// Counts different values by their hashes.
#[derive(Debug, Clone)]
pub struct Distinct {
    sketch: HllSketch,
    lg: u8,
}

impl Distinct {
    /// With 2^`lg` registers.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if `lg` is not within 4 to 21.
    pub fn new(lg: u8) -> Result<Self, ProfileError> {
        // One byte per register while counting is the fastest; half a byte is enough in a record.
        let sketch = HllSketch::new(lg, HllType::Hll8).map_err(|_range| ProfileError::Internal("HyperLogLog size"))?;
        Ok(Self { sketch, lg })
    }

    /// What was recorded by [`Self::record`].
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] if the record is damaged.
    pub fn restore(record: &[u8]) -> Result<Self, ProfileError> {
        let damaged = |_| ProfileError::Internal("unreadable HyperLogLog");
        let sketch = HllSketch::deserialize(record).map_err(damaged)?;
        let lg = sketch.lg_config_k();
        let sketch = converted(&sketch, lg, HllType::Hll8)?;
        Ok(Self { sketch, lg })
    }

    /// A compact record of all values so far.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] only if the sketch library has a bug.
    pub fn record(&self) -> Result<Vec<u8>, ProfileError> {
        Ok(converted(&self.sketch, self.lg, HllType::Hll4)?.serialize())
    }

    /// Adds a value by its hash.
    pub fn absorb(&mut self, hash: u64) {
        self.sketch.update_with_coupon(Coupon::from_value(hash));
    }

    /// Merges in the values of another one.
    ///
    /// # Errors
    ///
    /// [`ProfileError::Internal`] only if the sketch library has a bug.
    pub fn merge(&mut self, other: &Self) -> Result<(), ProfileError> {
        let mut union = union(self.lg)?;
        union.update(&self.sketch);
        union.update(&other.sketch);
        self.sketch = union.to_sketch(HllType::Hll8);
        Ok(())
    }

    /// The number of different values, never more than `values`.
    #[must_use]
    pub fn estimate(&self, values: u64) -> u64 {
        // The estimate that does not depend on how the input was cut into blocks and chunks.
        let estimate = self.sketch.composite_estimate().round().max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and a float-to-integer cast saturates"
        )]
        let estimate = estimate as u64;
        estimate.max(u64::from(values > 0)).min(values)
    }
}

fn union(lg: u8) -> Result<HllUnion, ProfileError> {
    HllUnion::new(lg).map_err(|_range| ProfileError::Internal("HyperLogLog size"))
}

fn converted(sketch: &HllSketch, lg: u8, form: HllType) -> Result<HllSketch, ProfileError> {
    let mut union = union(lg)?;
    union.update(sketch);
    Ok(union.to_sketch(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(range: std::ops::Range<u64>) -> Distinct {
        let mut distinct = Distinct::new(13).unwrap();
        range.for_each(|number| distinct.absorb(rapidhash::v3::rapidhash_v3(&number.to_le_bytes())));
        distinct
    }

    fn assert_near(estimate: u64, truth: u64) {
        // Four standard errors.
        let error = estimate.abs_diff(truth) as f64 / truth as f64;
        assert!(error < 4.0 * 1.04 / 8192_f64.sqrt(), "{estimate} for {truth}");
    }

    #[test]
    fn small_numbers_are_exact() {
        for truth in [0, 1, 2, 10, 100, 500] {
            assert_eq!(of(0..truth).estimate(u64::MAX), truth.max(1));
        }
        assert_eq!(of(0..0).estimate(0), 0);
    }

    #[test]
    fn large_numbers_are_within_the_error() {
        for truth in [2_000, 20_000, 300_000] {
            assert_near(of(0..truth).estimate(u64::MAX), truth);
        }
    }

    #[test]
    fn records_and_merges_lose_nothing() {
        let mut left = Distinct::restore(&of(0..60_000).record().unwrap()).unwrap();
        left.merge(&of(40_000..100_000)).unwrap();
        let left = Distinct::restore(&left.record().unwrap()).unwrap();
        assert_eq!(left.estimate(u64::MAX), of(0..100_000).estimate(u64::MAX));
        assert_near(left.estimate(u64::MAX), 100_000);
    }
}
