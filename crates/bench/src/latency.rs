//! How long answers took.

use std::time::Duration;

/// How long answers took, each from the moment when its request was due.
#[derive(Debug, Default)]
pub(crate) struct Latencies {
    micros: Vec<u64>,
}

impl Latencies {
    /// Adds one.
    pub(crate) fn add(&mut self, latency: Duration) {
        self.micros.push(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
    }

    /// Adds those of another connection.
    pub(crate) fn merge(&mut self, other: Self) {
        self.micros.extend(other.micros);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.micros.len()
    }

    /// The latency in milliseconds that `percent` of all do not exceed; 0 if there are none.
    pub(crate) fn percentile_ms(&mut self, percent: usize) -> f64 {
        self.micros.sort_unstable();
        let rank = (self.micros.len() * percent).div_ceil(100).max(1);
        self.micros.get(rank - 1).map_or(0.0, |micros| Duration::from_micros(*micros).as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let mut latencies = Latencies::default();
        assert!(latencies.percentile_ms(50).abs() < f64::EPSILON);
        for ms in (1..=100).rev() {
            latencies.add(Duration::from_millis(ms));
        }
        assert!((latencies.percentile_ms(50) - 50.0).abs() < 1e-9);
        assert!((latencies.percentile_ms(99) - 99.0).abs() < 1e-9);
        assert!((latencies.percentile_ms(100) - 100.0).abs() < 1e-9);
    }
}
